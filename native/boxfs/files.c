// One file: look at it, read it, write it. A write is whole or not at all, and can be bound to what
// the writer last saw.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

static void put_stat(struct out *out, const struct stat *st, int fd) {
  put_u8(out, kind_of(st->st_mode));
  put_u32(out, st->st_mode & 07777);
  put_u64(out, (uint64_t)st->st_size);
  put_u64(out, mtime_ns(st));
  put_real_path(out, fd);
}

void do_stat(struct in *in, struct out *out) {
  struct place place;
  struct stat st;
  if (!get_place(in, &place, out) || !all_read(in)) return;
  int fd = open_place(&place, place.path, O_PATH);
  if (fd < 0 || fstat(fd, &st)) refuse_errno(out, errno);
  else put_stat(out, &st, fd);
  if (fd >= 0) close(fd);
}

// A pipe or a device is never read: O_NONBLOCK keeps the open from waiting for a writer.
static int open_regular(int fd, struct stat *st, struct out *out) {
  if (fd < 0 || fstat(fd, st)) refuse_errno(out, errno);
  else if (S_ISDIR(st->st_mode)) refuse(out, IS_DIRECTORY, "is a directory");
  else if (!S_ISREG(st->st_mode)) refuse(out, NOT_REGULAR, "is no regular file");
  else return fd;
  if (fd >= 0) close(fd);
  return -1;
}

static ssize_t read_full(int fd, uint8_t *bytes, size_t count, off_t offset) {
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

// The hash of everything in it; 0, or -1 with errno.
static int hash_file(int fd, uint8_t digest[32]) {
  uint8_t *bytes = malloc(65536);
  struct sha256 hash;
  off_t at = 0;
  ssize_t got = -1;
  sha256_init(&hash);
  while (bytes && (got = read_full(fd, bytes, 65536, at)) > 0) {
    sha256_add(&hash, bytes, (size_t)got);
    at += got;
    if ((uint64_t)at > HASH_MAX) {
      errno = EFBIG;
      got = -1;
      break;
    }
  }
  free(bytes);
  sha256_end(&hash, digest);
  return got == 0 ? 0 : -1;
}

void do_read(struct in *in, struct out *out) {
  struct place place;
  struct stat st;
  if (!get_place(in, &place, out)) return;
  uint8_t flags = get_u8(in), digest[32] = {0};
  uint64_t offset = get_u64(in);
  uint32_t length = get_u32(in);
  if (!all_read(in)) return;
  if (length > DATA_MAX || offset > INT64_MAX) {
    refuse(out, BAD_REQUEST, "more than one answer can hold");
    return;
  }
  int fd = open_place(&place, place.path, O_RDONLY | O_NONBLOCK);
  if ((fd = open_regular(fd, &st, out)) < 0) return;
  uint64_t size = (uint64_t)st.st_size;
  if (flags & READ_FROM_END) offset = offset < size ? size - offset : 0;
  // Some files say they are empty and are not (/proc).
  uint64_t to_come = offset < size ? size - offset : 0;
  if (size > 0 && length > to_come) length = (uint32_t)to_come;
  put_stat(out, &st, fd);
  bool hashed = (flags & READ_HASH) && size <= HASH_MAX && hash_file(fd, digest) == 0;
  put_u8(out, hashed);
  put_bytes(out, digest, sizeof digest);
  put_u64(out, offset);
  size_t at = out->size;
  put_u32(out, 0);
  uint8_t *room = put_room(out, length);
  ssize_t got = room ? read_full(fd, room, length, (off_t)offset) : -1;
  if (got < 0) refuse_errno(out, room ? errno : ENOMEM);
  else out->size -= length - (size_t)got;
  if (got >= 0) set_u32(out, at, (uint32_t)got);
  close(fd);
}

// Writers of one directory take turns, in this box and in every other that shares it, so that
// between looking at a file and replacing it no other writer comes in. A program that holds the
// lock itself only makes others wait, and not for long.
int lock_directory(int dir) {
  uint64_t deadline = now_ms() + QUICK_MS;
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

bool holds(int dir, const char *name, const uint8_t expected[32], struct out *out) {
  uint8_t found[32];
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0 && errno == ELOOP) refuse(out, CONFLICT, "it is a link now");
  else fd = open_regular(fd, &st, out);
  if (out->status != DONE) return false;
  if (hash_file(fd, found)) refuse_errno(out, errno);
  else if (memcmp(found, expected, 32) != 0) refuse(out, CONFLICT, "it has changed");
  close(fd);
  return out->status == DONE;
}

struct writing {
  int dir;
  const char *name;
  uint8_t flags;
  const uint8_t *expected, *data;
  uint32_t size;
  uint8_t digest[32];
};

enum verdict { WRITE, SAME, REFUSED };

// What is there now, and whether that is what the writer thinks.
static enum verdict judge(const struct writing *w, struct stat *st, struct out *out) {
  if (fstatat(w->dir, w->name, st, AT_SYMLINK_NOFOLLOW)) {
    if (errno == ENOENT && !(w->flags & WRITE_EXPECT)) {
      st->st_mode = 0;
      return WRITE;
    }
    if (errno == ENOENT) refuse(out, CONFLICT, "it is gone");
    else refuse_errno(out, errno);
    return REFUSED;
  }
  if (S_ISLNK(st->st_mode)) refuse(out, IS_LINK, "is a symbolic link");
  else if (S_ISDIR(st->st_mode)) refuse(out, IS_DIRECTORY, "is a directory");
  else if (!S_ISREG(st->st_mode)) refuse(out, NOT_REGULAR, "is no regular file");
  if (out->status != DONE) return REFUSED;
  if (!(w->flags & (WRITE_EXPECT | WRITE_NEW))) return WRITE;
  uint8_t found[32];
  struct stat now;
  int fd = openat(w->dir, w->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if ((fd = open_regular(fd, &now, out)) < 0) return REFUSED;
  int hashed = hash_file(fd, found);
  close(fd);
  if (hashed) {
    refuse_errno(out, errno);
    return REFUSED;
  }
  // Asked twice, the second time finds its own work: that is no conflict.
  if (memcmp(found, w->digest, 32) == 0) return SAME;
  if (w->flags & WRITE_NEW) refuse(out, EXISTS, "it is there already");
  else if (memcmp(found, w->expected, 32) != 0) refuse(out, CONFLICT, "it has changed");
  return out->status == DONE ? WRITE : REFUSED;
}

static int write_full(int fd, const uint8_t *bytes, size_t count) {
  while (count > 0) {
    ssize_t put = write(fd, bytes, count);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return -1;
    bytes += put;
    count -= (size_t)put;
  }
  return 0;
}

static int replace(const struct writing *w, const char *part, bool is_new) {
  if (!is_new) return renameat(w->dir, part, w->dir, w->name);
  // Somebody who does not take turns may have made it meanwhile: then they were first.
  if (renameat2(w->dir, part, w->dir, w->name, RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (linkat(w->dir, part, w->dir, w->name, 0)) return -1;
  return unlinkat(w->dir, part, 0);
}

// Not synced: what a lost machine loses is the same as for any program in the box.
static int write_beside(const struct writing *w, const struct stat *before) {
  char part[64];
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return -1;
  snprintf(part, sizeof part, ".boxfs-%016llx.part", (unsigned long long)random);
  mode_t mode = w->flags & WRITE_EXECUTABLE ? 0777 : 0666;
  int fd = openat(w->dir, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (fd < 0) return -1;
  mode_t kept = before->st_mode & 0777;
  int failed = write_full(fd, w->data, w->size);
  if (!failed && before->st_mode && w->flags & WRITE_EXECUTABLE) kept |= (kept & 0444) >> 2;
  if (!failed && before->st_mode) failed = fchmod(fd, kept);
  failed = close(fd) || failed;
  if (!failed) failed = replace(w, part, (w->flags & WRITE_NEW) || before->st_mode == 0);
  int error = errno;
  if (failed) unlinkat(w->dir, part, 0);
  errno = error;
  return failed ? -1 : 0;
}

static int make_parents(const struct place *place) {
  struct place parent = *place;
  char *slash = strrchr(parent.path, '/');
  if (!slash) return 0;
  for (char *at = parent.path; at; at = at == slash ? NULL : at + 1) {
    at = strchr(at, '/');
    *at = 0;
    int fd = open_place(&parent, parent.path, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ENOENT) {
      const char *name;
      int dir = open_parent(&parent, O_PATH, &name);
      int made = dir < 0 ? -1 : mkdirat(dir, name, 0777);
      int error = errno;
      if (dir >= 0) close(dir);
      errno = error;
      if (made == 0 || errno == EEXIST) fd = open_place(&parent, parent.path, O_PATH | O_DIRECTORY);
    }
    if (fd < 0) return -1;
    close(fd);
    *at = '/';
  }
  return 0;
}

static void write_locked(struct writing *w, struct out *out) {
  struct stat before, after;
  struct sha256 hash;
  sha256_init(&hash);
  sha256_add(&hash, w->data, w->size);
  sha256_end(&hash, w->digest);
  enum verdict verdict = judge(w, &before, out);
  if (verdict == REFUSED) return;
  if (verdict == WRITE && write_beside(w, &before)) {
    refuse_errno(out, errno);
    return;
  }
  if (fstatat(w->dir, w->name, &after, AT_SYMLINK_NOFOLLOW)) {
    refuse_errno(out, errno);
    return;
  }
  put_u8(out, verdict == WRITE && before.st_mode == 0);
  put_u8(out, verdict == SAME);
  put_u64(out, w->size);
  put_u64(out, mtime_ns(&after));
  put_bytes(out, w->digest, sizeof w->digest);
}

void do_write(struct in *in, struct out *out) {
  struct place place;
  struct writing w;
  if (!get_place(in, &place, out)) return;
  w.flags = get_u8(in);
  w.expected = get_bytes(in, 32);
  w.data = get_data(in, &w.size);
  if (!all_read(in)) return;
  if (!root_is_writable(place.root)) {
    refuse(out, READ_ONLY, "may be read only");
    return;
  }
  if (w.flags & WRITE_PARENTS && make_parents(&place)) {
    refuse_errno(out, errno);
    return;
  }
  w.dir = open_parent(&place, O_RDONLY, &w.name);
  if (w.dir < 0 && !w.name) refuse(out, IS_DIRECTORY, "is a directory");
  else if (w.dir < 0 || lock_directory(w.dir)) refuse_errno(out, errno);
  else write_locked(&w, out);
  if (w.dir >= 0) close(w.dir);
}

void do_mkdir(struct in *in, struct out *out) {
  struct place place;
  struct stat st;
  const char *name;
  if (!get_place(in, &place, out)) return;
  uint8_t flags = get_u8(in);
  if (!all_read(in)) return;
  if (!root_is_writable(place.root)) {
    refuse(out, READ_ONLY, "may be read only");
    return;
  }
  if (flags & MKDIR_PARENTS && make_parents(&place)) {
    refuse_errno(out, errno);
    return;
  }
  int dir = open_parent(&place, O_PATH, &name);
  if (dir < 0 && !name) put_u8(out, 0);
  else if (dir < 0) refuse_errno(out, errno);
  else if (mkdirat(dir, name, 0777) == 0) put_u8(out, 1);
  else if (errno != EEXIST) refuse_errno(out, errno);
  else if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) refuse_errno(out, errno);
  else if (!S_ISDIR(st.st_mode)) refuse(out, EXISTS, "something else has this name");
  else put_u8(out, 0);
  if (dir >= 0) close(dir);
}
