// How much is in a directory, by walking it: agents can make directories that nobody else can look
// into, deep ones and many, and change them meanwhile. Runs in a child of the warden.
#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// An empty file takes an inode, and those run out too.
#define ENTRY_BYTES 4096
#define PART_BYTES 4000
#define WAITING_MAX (256u << 20)

// Directories still to be looked into, by their path from the top, one after the other with a NUL.
// The last comes first, so that few wait; no descriptor is held for them, however deep they are.
struct waiting {
  char *text;
  size_t used, room;
};

static int push(struct waiting *waiting, const char *parent, const char *name) {
  size_t before = strlen(parent), length = strlen(name), need = before + length + 2;
  if (waiting->used + need > waiting->room) {
    size_t room = waiting->room ? waiting->room * 2 : 64 * 1024;
    while (room < waiting->used + need) room *= 2;
    char *more = room > WAITING_MAX ? NULL : realloc(waiting->text, room);
    if (!more) {
      errno = ENOMEM;
      return -1;
    }
    waiting->text = more;
    waiting->room = room;
  }
  char *at = waiting->text + waiting->used;
  memcpy(at, parent, before);
  if (before) at[before++] = '/';
  memcpy(at + before, name, length + 1);
  waiting->used += before + length + 1;
  return 0;
}

// Gives a copy, or NULL when none is left.
static char *pop(struct waiting *waiting) {
  if (!waiting->used) return NULL;
  size_t start = waiting->used - 1;
  while (start && waiting->text[start - 1]) start--;
  waiting->used = start;
  return strdup(waiting->text + start);
}

// A path can be longer than the kernel takes at once.
static int open_below(int top, char *path) {
  int dir = fcntl(top, F_DUPFD_CLOEXEC, 3);
  while (dir >= 0 && *path) {
    char *end = path + strlen(path), *rest = end;
    if (end - path > PART_BYTES) {
      end = path + PART_BYTES;
      while (*end != '/') end--;
      *end = 0;
      rest = end + 1;
    }
    int next = k_openat2(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                         RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    int error = errno;
    close(dir);
    errno = error;
    dir = next;
    path = rest;
  }
  return dir;
}

static void count(const struct stat *about, struct amount *amount) {
  uint64_t bytes = (uint64_t)about->st_blocks * 512;
  // Each of its names has its part.
  if (!S_ISDIR(about->st_mode) && about->st_nlink > 1) bytes /= about->st_nlink;
  amount->bytes += bytes < ENTRY_BYTES ? ENTRY_BYTES : bytes;
  amount->entries++;
}

static int look_into(int fd, const char *path, dev_t device, struct waiting *waiting,
                     struct amount *amount) {
  DIR *list = fdopendir(fd);
  if (!list) {
    close(fd);
    return -1;
  }
  int bad = 0;
  struct dirent *entry;
  while (!bad && (errno = 0, entry = readdir(list))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    struct stat about;
    if (fstatat(dirfd(list), entry->d_name, &about, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT)) {
      bad = errno != ENOENT;
      continue;
    }
    if (about.st_dev != device) continue;
    count(&about, amount);
    if (S_ISDIR(about.st_mode)) bad = push(waiting, path, entry->d_name);
  }
  bad = bad || errno;
  int error = errno;
  closedir(list);
  errno = error;
  return bad ? -1 : 0;
}

int measure_tree(int top, struct amount *amount) {
  struct waiting waiting = {0};
  struct stat about;
  *amount = (struct amount){0};
  if (fstat(top, &about)) return -1;
  if (!S_ISDIR(about.st_mode)) {
    count(&about, amount);
    return 0;
  }
  if (push(&waiting, "", "")) return -1;
  char *path;
  int bad = 0;
  while (!bad && (path = pop(&waiting))) {
    char *copy = strdup(path);
    int fd = !copy    ? -1
             : *copy ? open_below(top, copy)
                     : openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Gone or moved meanwhile, or a file system of its own.
    bool skip = fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV);
    if (!skip) bad = fd < 0 || look_into(fd, path, about.st_dev, &waiting, amount);
    int error = errno;
    free(copy);
    free(path);
    errno = error;
  }
  free(waiting.text);
  return bad ? -1 : 0;
}
