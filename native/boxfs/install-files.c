// File access of OP_INSTALL: reads what is at a path, copies the new content, saves the old content
// for undo, and removes the temporary files that an interrupted run left behind.
#include "install.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define COPY_BYTES 65536

bool make_temp_name(const struct install *job, char temp[TEMP_NAME_BYTES]) {
  uint64_t random;
  if (getrandom(&random, sizeof random, 0) != sizeof random) return false;
  snprintf(temp, TEMP_NAME_BYTES, "%.40s%016llx", job->prefix, (unsigned long long)random);
  return true;
}

// Makes the directories of a path, each opened from the one before, so that no link is followed.
static int make_directories(const struct target *place, const char *path) {
  struct target root = {.root = place->root};
  int dir = open_strictly(&root, "", O_RDONLY | O_DIRECTORY);
  const char *slash;
  for (; dir >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
    char name[PATH_BYTES];
    memcpy(name, path, (size_t)(slash - path));
    name[slash - path] = 0;
    int next = -1;
    if (mkdirat(dir, name, 0700) == 0 || errno == EEXIST)
      next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    close(dir);
    errno = error;
    dir = next;
  }
  return dir;
}

int open_step_parent(const struct target *place, const char *path, struct target *full,
                     const char **name, bool make) {
  full->root = place->root;
  int size = snprintf(full->path, sizeof full->path, "%s%s%s", place->path,
                      *place->path ? "/" : "", path);
  if (size < 0 || (size_t)size >= sizeof full->path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  int dir = open_parent_strictly(full, O_RDONLY, name);
  return dir < 0 && errno == ENOENT && make ? make_directories(full, full->path) : dir;
}

int find_current(int dir, const char *name, struct found *found) {
  *found = (struct found){0};
  if (fstatat(dir, name, &found->st, AT_SYMLINK_NOFOLLOW) == 0) {
    found->kind = file_kind(found->st.st_mode);
    return 0;
  }
  return errno == ENOENT ? 0 : -1;
}

static int hash_found(int dir, const char *name, struct found *found) {
  if (found->is_hashed) return 0;
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  int failed = fstat(fd, &st);
  // Another file came to this name: its content is not what was found.
  if (!failed && (st.st_ino != found->st.st_ino || !S_ISREG(st.st_mode))) {
    errno = EAGAIN;
    failed = -1;
  }
  failed = failed || hash_file(fd, CHANGE_HASH_MAX, found->hash);
  int error = errno;
  close(fd);
  errno = error;
  found->is_hashed = !failed;
  return failed ? -1 : 0;
}

int is_side(int dir, const char *name, struct found *found, const struct side *side) {
  if (found->kind != side->kind) return 0;
  if (found->kind == KIND_LINK) {
    char target[PATH_BYTES];
    ssize_t size = readlinkat(dir, name, target, sizeof target);
    if (size < 0) return -1;
    return (size_t)size == strlen(side->link) && memcmp(target, side->link, (size_t)size) == 0;
  }
  if (found->kind == 0) return 1;
  if (side->mode != ANY_MODE && (found->st.st_mode & 0777) != side->mode) return 0;
  if (found->kind == KIND_DIRECTORY) return 1;
  if (hash_found(dir, name, found)) return -1;
  return memcmp(found->hash, side->hash, 32) == 0;
}

// With no fd to write to, only compares.
static int copy_hashed(int from, int to, const uint8_t hash[32]) {
  static uint8_t bytes[COPY_BYTES];
  uint8_t digest[32];
  struct sha256 sum;
  sha256_init(&sum);
  off_t at = 0;
  ssize_t got;
  while ((got = read_full(from, bytes, sizeof bytes, at)) > 0) {
    sha256_update(&sum, bytes, (size_t)got);
    if (to >= 0 && write_full(to, bytes, (size_t)got)) return -1;
    at += got;
    if ((uint64_t)at > CHANGE_HASH_MAX) return 1;
  }
  if (got < 0) return -1;
  sha256_final(&sum, digest);
  return memcmp(digest, hash, 32) != 0;
}

// Copies the file to a new name in a root: 0, 1 if it does not have this hash, -1 with errno.
static int copy_verified(int fd, unsigned root, int dir, const char *temp, mode_t mode,
                         const uint8_t hash[32]) {
  int to = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (to < 0) return -1;
  int result = copy_hashed(fd, to, hash);
  // In this order: the owner's mode may keep this user out.
  if (result == 0 && (give_file(root, to) || fchmod(to, mode))) result = -1;
  int error = errno;
  if (close(to) && result == 0) {
    error = errno;
    result = -1;
  }
  if (result != 0) unlinkat(dir, temp, 0);
  errno = error;
  return result;
}

static int open_source(const struct install *job, const char *path) {
  struct target full;
  const char *name;
  struct stat st;
  int dir = open_step_parent(&job->from, path, &full, &name, false);
  if (dir < 0) return -1;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int error = errno;
  close(dir);
  if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
    close(fd);
    fd = -1;
    error = ENOENT;
  }
  errno = error;
  return fd;
}

// A source that is gone, or is no file any more, is not the expected one.
static bool is_gone(int error) { return error == ENOENT || error == ENOTDIR || error == ELOOP; }

static int with_source(const struct install *job, const struct step *step, int dir,
                       const char *temp) {
  int fd = open_source(job, step->path);
  if (fd < 0) return is_gone(errno) ? 1 : -1;
  mode_t mode = step->new.mode == ANY_MODE ? 0600 : step->new.mode;
  int result = temp ? copy_verified(fd, job->to.root, dir, temp, mode, step->new.hash)
                    : copy_hashed(fd, -1, step->new.hash);
  int error = errno;
  close(fd);
  errno = error;
  return result;
}

int verify_source(const struct install *job, const struct step *step) {
  return with_source(job, step, -1, NULL);
}

int copy_source(const struct install *job, const struct step *step, int dir, const char *temp) {
  return with_source(job, step, dir, temp);
}

int save_old(const struct install *job, const struct step *step, int dir, const char *name) {
  struct target full;
  const char *saved_name;
  struct found saved;
  char temp[TEMP_NAME_BYTES];
  int undo = open_step_parent(&job->undo, step->path, &full, &saved_name, true);
  if (undo < 0) return -1;
  const struct side content = {.kind = KIND_FILE, .mode = ANY_MODE, .hash = step->old.hash};
  int result = -1, fd = -1;
  // An earlier run saved it.
  if (find_current(undo, saved_name, &saved) == 0 &&
      is_side(undo, saved_name, &saved, &content) == 1)
    result = 0;
  else if ((fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) >= 0 &&
           make_temp_name(job, temp) &&
           (result = copy_verified(fd, job->undo.root, undo, temp, 0600, step->old.hash)) == 0)
    result = renameat(undo, temp, undo, saved_name);
  int error = errno;
  if (fd >= 0) close(fd);
  close(undo);
  errno = error;
  return result;
}

static void remove_from(const struct install *job, const struct target *place, const char *path) {
  struct target full;
  const char *name;
  int fd = open_step_parent(place, path, &full, &name, false);
  DIR *dir = fd < 0 ? NULL : fdopendir(fd);
  if (!dir) {
    if (fd >= 0) close(fd);
    return;
  }
  size_t length = strlen(job->prefix);
  for (struct dirent *entry; (entry = readdir(dir));)
    // A directory is removed only if it is empty.
    if (strncmp(entry->d_name, job->prefix, length) == 0 && unlinkat(fd, entry->d_name, 0))
      unlinkat(fd, entry->d_name, AT_REMOVEDIR);
  closedir(dir);
}

void remove_leftovers(const struct install *job, const char *path) {
  remove_from(job, &job->to, path);
  if (job->saves) remove_from(job, &job->undo, path);
}
