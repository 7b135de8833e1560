// The directories beside the runtime's that only root can change: one keeper at a time, the bounds
// of its warden, and nothing left of either afterwards.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void in(char *out, const char *dir, const char *name) {
  snprintf(out, PATH_MAX, "%s%s", dir, name);
}

static void make(const struct orders *orders, const char *dir, mode_t mode) {
  struct stat about;
  if (mkdir(dir, mode) && errno != EEXIST)
    refuse(orders->ready_fd, "bad_config", "", "%s cannot be made: %s", dir, strerror(errno));
  if (lstat(dir, &about) || !S_ISDIR(about.st_mode) ||
      (about.st_uid != 0 && about.st_uid != orders->uid))
    refuse(orders->ready_fd, "bad_config", "Remove it and start again.",
           "%s is not a directory of root or %s", dir, orders->user);
  // Whatever the umask was.
  if (chmod(dir, mode))
    refuse(orders->ready_fd, "bad_config", "", "%s: %s", dir, strerror(errno));
}

// A lock whose file was removed meanwhile locks nothing: then it is taken anew.
static void lock(const struct orders *orders) {
  char path[PATH_MAX];
  in(path, orders->dir, ".lock");
  struct stat held, named;
  do {
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) refuse(orders->ready_fd, "bad_config", "", "%s: %s", path, strerror(errno));
    int taken = -1;
    for (int tries = 0; tries < 20 && taken; tries++) {
      taken = flock(fd, LOCK_EX | LOCK_NB);
      if (taken) usleep(10000);
    }
    if (taken) refuse_with(orders->ready_fd, orders->held);
    if (fstat(fd, &held) || stat(path, &named)) {
      close(fd);
      named.st_ino = 0;
    }
  } while (held.st_ino != named.st_ino);
}

static void write_bounds(const struct orders *orders) {
  char path[PATH_MAX], fresh[PATH_MAX];
  in(path, orders->dir, "/bounds");
  in(fresh, orders->dir, "/bounds.new");
  unlink(fresh);
  int fd = open(fresh, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  ssize_t size = (ssize_t)strlen(orders->bounds);
  if (fd < 0 || write(fd, orders->bounds, (size_t)size) != size || close(fd) ||
      rename(fresh, path))
    refuse(orders->ready_fd, "storage_full", "", "%s cannot be written: %s", path,
           strerror(errno));
}

void places_take(const struct orders *orders) {
  lock(orders);
  make(orders, orders->dir, 0711);
  make(orders, orders->runtime, 0700);
  char secrets[PATH_MAX];
  in(secrets, orders->dir, SECRETS);
  make(orders, secrets, 0700);
  if (lchown(orders->runtime, orders->uid, orders->gid))
    refuse(orders->ready_fd, "bad_config", "", "%s: %s", orders->runtime, strerror(errno));
  write_bounds(orders);
}

// A killed warden's janitor holds the warden's lock until it has taken away what is named in the
// journal there.
static void wait_for_janitor(const struct orders *orders) {
  char path[PATH_MAX];
  in(path, orders->dir, "/lock");
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  for (int tries = 0; fd >= 0 && tries < 300 && flock(fd, LOCK_EX | LOCK_NB); tries++)
    usleep(10000);
  if (fd >= 0) close(fd);
}

// By name, and only what the warden makes there; the lock last.
void places_leave(const struct orders *orders) {
  const char *names[] = {"/bounds", "/warden.sock", "/stubs", "/stubs.new", "/probe/file",
                         "/lock",   "/probe",       "/root",  "/dev",       SECRETS, ""};
  char path[PATH_MAX];
  wait_for_janitor(orders);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    in(path, orders->dir, names[i]);
    if (unlink(path)) rmdir(path);
  }
  // Never what is in it: that is the runtime's own to remove, and not for root to walk through.
  rmdir(orders->runtime);
  in(path, orders->dir, ".lock");
  unlink(path);
}
