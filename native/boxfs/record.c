// Writes and reads the record of a copy.
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC "BXCOPY1\n"
#define MAGIC_BYTES 8
#define FIXED_BYTES (1 + 4 + 4 + 8 + 8 + 8 + 32 + 2 + 2)
#define END_BYTES 4  // a size of 0

// ── writing ──

FILE *record_open(const struct target *place, bool is_new) {
  struct target top = {.root = place->root};
  int dir = open_strictly(&top, place->path, O_RDONLY | O_DIRECTORY);
  if (dir < 0) return NULL;
  int flags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC | (is_new ? O_CREAT | O_TRUNC : 0);
  int fd = openat(dir, RECORD_NAME, flags, 0600);
  int error = errno;
  close(dir);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "a");
  if (fd >= 0 && !file) close(fd);
  if (file && is_new) fwrite(MAGIC, 1, MAGIC_BYTES, file);
  if (!file) errno = error;
  return file;
}

static void write_number(FILE *file, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) putc((int)(value >> (8 * i) & 0xff), file);
}

int record_put(FILE *file, const struct record_entry *entry) {
  size_t path_size = strlen(entry->path);
  write_number(file, FIXED_BYTES + entry->link_size + path_size, 4);
  write_number(file, entry->kind, 1);
  write_number(file, entry->base_mode, 4);
  write_number(file, entry->mode, 4);
  write_number(file, entry->inode, 8);
  write_number(file, entry->ctime_ns, 8);
  write_number(file, entry->size, 8);
  fwrite(entry->hash, 1, 32, file);
  write_number(file, entry->link_size, 2);
  fwrite(entry->link, 1, entry->link_size, file);
  write_number(file, path_size, 2);
  fwrite(entry->path, 1, path_size, file);
  return ferror(file) ? -1 : 0;
}

int record_end(FILE *file) {
  write_number(file, 0, END_BYTES);
  return ferror(file) ? -1 : 0;
}

// ── reading ──

static uint64_t read_number(const uint8_t *bytes, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; i++) value |= (uint64_t)bytes[i] << (8 * i);
  return value;
}

int record_read(const struct target *place, struct record *record) {
  struct stat st;
  struct target top = {.root = place->root};
  *record = (struct record){0};
  int fd = open_strictly(&top, RECORD_NAME, O_RDONLY);
  if (fd < 0) return -1;
  int failed = fstat(fd, &st);
  size_t size = failed ? 0 : (size_t)st.st_size;
  void *bytes = MAP_FAILED;
  if (!failed && size >= MAGIC_BYTES + END_BYTES)
    bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  else errno = EBADMSG;
  int error = errno;
  close(fd);
  errno = error;
  if (bytes == MAP_FAILED) return -1;
  *record = (struct record){.bytes = bytes, .size = size};
  if (memcmp(bytes, MAGIC, MAGIC_BYTES) ||
      read_number(record->bytes + size - END_BYTES, END_BYTES)) {
    record_close(record);
    errno = EBADMSG;
    return -1;
  }
  record_return(record, MAGIC_BYTES);
  return 0;
}

void record_close(struct record *record) {
  if (record->bytes) munmap((void *)record->bytes, record->size);
  record->bytes = NULL;
}

// Decodes the entry at `next`; a malformed one ends the record, like the end itself.
static void read_next(struct record *record) {
  record->has_entry = false;
  const uint8_t *at = record->bytes + record->next;
  size_t left = record->size - record->next;
  if (left < 4 + FIXED_BYTES) return;
  size_t size = read_number(at, 4);
  struct record_entry *entry = &record->entry;
  if (size < FIXED_BYTES || size > left - 4) return;
  at += 4;
  entry->kind = at[0];
  entry->base_mode = (uint32_t)read_number(at + 1, 4);
  entry->mode = (uint32_t)read_number(at + 5, 4);
  entry->inode = read_number(at + 9, 8);
  entry->ctime_ns = read_number(at + 17, 8);
  entry->size = read_number(at + 25, 8);
  memcpy(entry->hash, at + 33, 32);
  entry->link_size = (uint32_t)read_number(at + 65, 2);
  if (entry->link_size >= PATH_BYTES || FIXED_BYTES + entry->link_size > size) return;
  memcpy(entry->link, at + 67, entry->link_size);
  size_t path_size = size - FIXED_BYTES - entry->link_size;
  if (path_size >= PATH_BYTES) return;
  memcpy(entry->path, at + 69 + entry->link_size, path_size);
  entry->path[path_size] = 0;
  record->has_entry = true;
}

size_t record_mark(const struct record *record) { return record->next; }

void record_return(struct record *record, size_t mark) {
  record->next = mark;
  read_next(record);
}

const struct record_entry *record_find(struct record *record, const char *path) {
  while (record->has_entry && compare_paths(record->entry.path, path) < 0) {
    record->next += 4 + read_number(record->bytes + record->next, 4);
    read_next(record);
  }
  return record->has_entry && strcmp(record->entry.path, path) == 0 ? &record->entry : NULL;
}

// ── comparing ──

// A file system that counts in whole seconds does not tell a change apart from the copy.
static bool is_certain(uint64_t ctime_ns) { return ctime_ns % 1000000000u != 0; }

static int is_file_changed(int dir, const char *name, const struct stat *st,
                           const struct record_entry *entry) {
  if ((uint64_t)st->st_size != entry->size || (uint32_t)st->st_mode != entry->mode) return 1;
  if (st->st_ino == entry->inode && ctime_ns(st) == entry->ctime_ns && is_certain(entry->ctime_ns))
    return 0;
  // It was touched, or restored from a backup: the content decides.
  uint8_t hash[32];
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return 1;
  int failed = hash_file(fd, UINT64_MAX, hash);
  close(fd);
  return failed ? -1 : memcmp(hash, entry->hash, 32) != 0;
}

int is_copy_changed(int dir, const char *name, const struct stat *st,
                    const struct record_entry *entry) {
  if (!entry || entry->kind != RECORD_COPIED) return 1;
  if ((st->st_mode & S_IFMT) != (entry->mode & S_IFMT)) return 1;
  if (S_ISDIR(st->st_mode)) return (uint32_t)st->st_mode != entry->mode;
  if (S_ISREG(st->st_mode)) return is_file_changed(dir, name, st, entry);
  char link[PATH_BYTES];
  ssize_t size = readlinkat(dir, name, link, sizeof link);
  return size < 0 || (size_t)size != entry->link_size || memcmp(link, entry->link, (size_t)size);
}
