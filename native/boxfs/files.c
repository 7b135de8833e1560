// Operations on one file: stat, read, write, mkdir. A write is atomic, and can require that the
// file still has the hash the writer last read.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

static void put_stat(struct reply *reply, const struct stat *st, int fd) {
  put_u8(reply, file_kind(st->st_mode));
  put_u32(reply, st->st_mode & 07777);
  put_u64(reply, (uint64_t)st->st_size);
  put_u64(reply, mtime_ns(st));
  put_real_path(reply, fd);
}

void do_stat(struct request *req, struct reply *reply) {
  struct target target;
  struct stat st;
  if (!get_target(req, &target, reply) || !is_fully_read(req)) return;
  int fd = open_target(&target, target.path, O_PATH);
  if (fd < 0 || fstat(fd, &st)) reply_errno(reply, errno);
  else {
    put_stat(reply, &st, fd);
    put_u64(reply, st.st_dev);
    put_u64(reply, st.st_ino);
  }
  if (fd >= 0) close(fd);
}

// Rejects pipes and devices. They are opened with O_NONBLOCK, so open does not wait for a writer.
static int require_regular(int fd, struct stat *st, struct reply *reply) {
  if (fd < 0 || fstat(fd, st)) reply_errno(reply, errno);
  else if (S_ISDIR(st->st_mode)) reply_error(reply, IS_DIRECTORY, "is a directory");
  else if (!S_ISREG(st->st_mode)) reply_error(reply, NOT_REGULAR, "is not a regular file");
  else return fd;
  if (fd >= 0) close(fd);
  return -1;
}

ssize_t read_full(int fd, uint8_t *bytes, size_t count, off_t offset) {
  size_t have = 0;
  while (have < count) {
    ssize_t got = pread(fd, bytes + have, count - have, offset + (off_t)have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    have += (size_t)got;
  }
  return (ssize_t)have;
}

int hash_file(int fd, uint64_t bytes_max, uint8_t digest[32]) {
  uint8_t *bytes = malloc(65536);
  struct sha256 hash;
  off_t at = 0;
  ssize_t got = -1;
  sha256_init(&hash);
  while (bytes && (got = read_full(fd, bytes, 65536, at)) > 0) {
    sha256_update(&hash, bytes, (size_t)got);
    at += got;
    if ((uint64_t)at > bytes_max) {
      errno = EFBIG;
      got = -1;
      break;
    }
  }
  free(bytes);
  sha256_final(&hash, digest);
  return got == 0 ? 0 : -1;
}

void do_read(struct request *req, struct reply *reply) {
  struct target target;
  struct stat st;
  if (!get_target(req, &target, reply)) return;
  uint8_t flags = get_u8(req), digest[32] = {0};
  uint64_t offset = get_u64(req);
  uint32_t length = get_u32(req);
  if (!is_fully_read(req)) return;
  if (length > DATA_MAX || offset > INT64_MAX) {
    reply_error(reply, BAD_REQUEST, "offset or length is too large");
    return;
  }
  int fd = open_target(&target, target.path, O_RDONLY | O_NONBLOCK);
  if ((fd = require_regular(fd, &st, reply)) < 0) return;
  uint64_t size = (uint64_t)st.st_size;
  if (flags & READ_FROM_END) offset = offset < size ? size - offset : 0;
  // Files in /proc report a size of 0.
  uint64_t to_come = offset < size ? size - offset : 0;
  if (size > 0 && length > to_come) length = (uint32_t)to_come;
  put_stat(reply, &st, fd);
  bool hashed = (flags & READ_HASH) && size <= HASH_MAX && hash_file(fd, HASH_MAX, digest) == 0;
  put_u8(reply, hashed);
  put_bytes(reply, digest, sizeof digest);
  put_u64(reply, offset);
  size_t at = reply->size;
  put_u32(reply, 0);
  uint8_t *data = reply_reserve(reply, length);
  ssize_t got = data ? read_full(fd, data, length, (off_t)offset) : -1;
  if (got < 0) reply_errno(reply, data ? errno : ENOMEM);
  else reply->size -= length - (size_t)got;
  if (got >= 0) patch_u32(reply, at, (uint32_t)got);
  close(fd);
}

// Serializes writers of one directory, in this box and in every box that shares it, so that no
// other writer comes between the check of a file and its replacement. A program that holds the lock
// delays writers only until the timeout.
int lock_directory(int dir) {
  uint64_t deadline = now_ms() + REQUEST_TIMEOUT_MS;
  while (flock(dir, LOCK_EX | LOCK_NB)) {
    if (errno != EWOULDBLOCK && errno != EINTR) return -1;
    if (now_ms() > deadline) {
      errno = ETIMEDOUT;
      return -1;
    }
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  }
  return 0;
}

bool check_hash(int dir, const char *name, const uint8_t expected[32], struct reply *reply) {
  uint8_t found[32];
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) reply_error(reply, CONFLICT, "is now a symbolic link");
  else fd = require_regular(fd, &st, reply);
  if (reply->status != DONE) return false;
  if (hash_file(fd, HASH_MAX, found)) reply_errno(reply, errno);
  else if (memcmp(found, expected, 32) != 0) reply_error(reply, CONFLICT, "has changed");
  close(fd);
  return reply->status == DONE;
}

struct write_request {
  int dir;
  const char *name;
  uint8_t flags;
  const uint8_t *expected, *data;
  uint32_t size;
  uint8_t digest[32];
};

enum write_check { PROCEED, UNCHANGED, FAILED };

// Compares the current file with what the writer expects.
static enum write_check check_precondition(const struct write_request *w, struct stat *st,
                                           struct reply *reply) {
  if (fstatat(w->dir, w->name, st, AT_SYMLINK_NOFOLLOW)) {
    if (errno == ENOENT && !(w->flags & WRITE_EXPECT)) {
      st->st_mode = 0;
      return PROCEED;
    }
    if (errno == ENOENT) reply_error(reply, CONFLICT, "no longer exists");
    else reply_errno(reply, errno);
    return FAILED;
  }
  if (S_ISLNK(st->st_mode)) reply_error(reply, IS_LINK, "is a symbolic link");
  else if (S_ISDIR(st->st_mode)) reply_error(reply, IS_DIRECTORY, "is a directory");
  else if (!S_ISREG(st->st_mode)) reply_error(reply, NOT_REGULAR, "is not a regular file");
  if (reply->status != DONE) return FAILED;
  if (!(w->flags & (WRITE_EXPECT | WRITE_NEW))) return PROCEED;
  uint8_t found[32];
  struct stat now;
  int fd = openat(w->dir, w->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if ((fd = require_regular(fd, &now, reply)) < 0) return FAILED;
  int hashed = hash_file(fd, HASH_MAX, found);
  close(fd);
  if (hashed) {
    reply_errno(reply, errno);
    return FAILED;
  }
  // A repeated write finds its own result, which is not a conflict.
  if (memcmp(found, w->digest, 32) == 0) return UNCHANGED;
  if (w->flags & WRITE_NEW) reply_error(reply, EXISTS, "already exists");
  else if (memcmp(found, w->expected, 32) != 0) reply_error(reply, CONFLICT, "has changed");
  return reply->status == DONE ? PROCEED : FAILED;
}

int write_full(int fd, const uint8_t *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return -1;
    bytes += written;
    count -= (size_t)written;
  }
  return 0;
}

static int rename_into_place(const struct write_request *w, const char *temp_name, bool is_new) {
  if (!is_new) return renameat(w->dir, temp_name, w->dir, w->name);
  // A process that does not take the lock may have created the file since the check; it wins.
  if (renameat2(w->dir, temp_name, w->dir, w->name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (linkat(w->dir, temp_name, w->dir, w->name, 0)) return -1;
  return unlinkat(w->dir, temp_name, 0);
}

// Not synced: after a power loss this write is no safer than one of any program in the box.
static int write_and_rename(const struct write_request *w, const struct stat *before) {
  char temp_name[64];
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
  snprintf(temp_name, sizeof temp_name, ".boxfs-%016llx.part", (unsigned long long)random);
  mode_t mode = w->flags & WRITE_EXECUTABLE ? 0777 : 0666;
  int fd = openat(w->dir, temp_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) return -1;
  mode_t mode_bits = before->st_mode & 0777;
  int failed = write_full(fd, w->data, w->size);
  if (!failed && before->st_mode && w->flags & WRITE_EXECUTABLE)
    mode_bits |= (mode_bits & 0444) >> 2;
  if (!failed && before->st_mode) failed = fchmod(fd, mode_bits);
  failed = close(fd) || failed;
  if (!failed)
    failed = rename_into_place(w, temp_name, (w->flags & WRITE_NEW) || before->st_mode == 0);
  int error = errno;
  if (failed) unlinkat(w->dir, temp_name, 0);
  errno = error;
  return failed ? -1 : 0;
}

static int make_parents(const struct target *target) {
  struct target parent = *target;
  char *slash = strrchr(parent.path, '/');
  if (!slash) return 0;
  for (char *at = parent.path; at; at = at == slash ? NULL : at + 1) {
    at = strchr(at, '/');
    *at = 0;
    int fd = open_target(&parent, parent.path, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT) {
      const char *name;
      int dir = open_parent(&parent, O_PATH, &name);
      int made = dir < 0 ? -1 : mkdirat(dir, name, 0777);
      int error = errno;
      if (dir >= 0) close(dir);
      errno = error;
      if (made == 0 || errno == EEXIST)
        fd = open_target(&parent, parent.path, O_PATH | O_DIRECTORY);
    }
    if (fd < 0) return -1;
    close(fd);
    *at = '/';
  }
  return 0;
}

static void write_locked(struct write_request *w, struct reply *reply) {
  struct stat before, after;
  struct sha256 hash;
  sha256_init(&hash);
  sha256_update(&hash, w->data, w->size);
  sha256_final(&hash, w->digest);
  enum write_check check = check_precondition(w, &before, reply);
  if (check == FAILED) return;
  if (check == PROCEED && write_and_rename(w, &before)) {
    reply_errno(reply, errno);
    return;
  }
  if (fstatat(w->dir, w->name, &after, AT_SYMLINK_NOFOLLOW)) {
    reply_errno(reply, errno);
    return;
  }
  put_u8(reply, check == PROCEED && before.st_mode == 0);
  put_u8(reply, check == UNCHANGED);
  put_u64(reply, w->size);
  put_u64(reply, mtime_ns(&after));
  put_bytes(reply, w->digest, sizeof w->digest);
}

void do_write(struct request *req, struct reply *reply) {
  struct target target;
  struct write_request w;
  if (!get_target(req, &target, reply)) return;
  w.flags = get_u8(req);
  w.expected = get_bytes(req, 32);
  w.data = get_data(req, &w.size);
  const uint8_t *parent = w.flags & WRITE_PARENT ? get_bytes(req, FILE_ID_BYTES) : NULL;
  if (!is_fully_read(req)) return;
  if (!root_is_writable(target.root)) {
    reply_error(reply, READ_ONLY, "is read-only");
    return;
  }
  if (w.flags & WRITE_PARENTS && make_parents(&target)) {
    reply_errno(reply, errno);
    return;
  }
  w.dir = open_parent(&target, O_RDONLY, &w.name);
  if (w.dir < 0 && !w.name) reply_error(reply, IS_DIRECTORY, "is a directory");
  else if (w.dir < 0 || lock_directory(w.dir)) reply_errno(reply, errno);
  else if (!parent || check_parent(w.dir, parent, reply)) write_locked(&w, reply);
  if (w.dir >= 0) close(w.dir);
}

void do_mkdir(struct request *req, struct reply *reply) {
  struct target target;
  struct stat st;
  const char *name;
  if (!get_target(req, &target, reply)) return;
  uint8_t flags = get_u8(req);
  if (!is_fully_read(req)) return;
  if (!root_is_writable(target.root)) {
    reply_error(reply, READ_ONLY, "is read-only");
    return;
  }
  if (flags & MKDIR_PARENTS && make_parents(&target)) {
    reply_errno(reply, errno);
    return;
  }
  int dir = open_parent(&target, O_PATH, &name);
  if (dir < 0 && !name) put_u8(reply, 0);
  else if (dir < 0) reply_errno(reply, errno);
  else if (mkdirat(dir, name, 0777) == 0) put_u8(reply, 1);
  else if (errno != EEXIST) reply_errno(reply, errno);
  else if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) reply_errno(reply, errno);
  else if (!S_ISDIR(st.st_mode)) reply_error(reply, EXISTS, "exists and is not a directory");
  else put_u8(reply, 0);
  if (dir >= 0) close(dir);
}
