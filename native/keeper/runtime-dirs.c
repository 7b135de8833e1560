// Creates and removes the directories beside the runtime's that only root can change: a lock for
// one keeper at a time, the warden's directory and its bounds file.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static void join_path(char *out, const char *dir, const char *name) {
  snprintf(out, PATH_MAX, "%s%s", dir, name);
}

static void make_dir(const struct launch_spec *spec, const char *dir, mode_t mode) {
  struct stat st;
  if (mkdir(dir, mode) && errno != EEXIST)
    refuse(spec->ready_fd, "bad_config", "", "creating %s failed: %s", dir, strerror(errno));
  if (lstat(dir, &st) || !S_ISDIR(st.st_mode) || (st.st_uid != 0 && st.st_uid != spec->uid))
    refuse(spec->ready_fd, "bad_config", "Remove it and start again.",
           "%s is not a directory owned by root or %s", dir, spec->user);
  // Independent of the umask.
  if (chmod(dir, mode)) refuse(spec->ready_fd, "bad_config", "", "%s: %s", dir, strerror(errno));
}

// If the lock file was removed between open and flock, the lock is worthless: lock the new file.
static void acquire_lock(const struct launch_spec *spec) {
  char path[PATH_MAX];
  join_path(path, spec->warden_dir, ".lock");
  struct stat locked, current;
  do {
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) refuse(spec->ready_fd, "bad_config", "", "%s: %s", path, strerror(errno));
    int failed = -1;
    for (int tries = 0; tries < 20 && failed; tries++) {
      failed = flock(fd, LOCK_EX | LOCK_NB);
      if (failed) usleep(10000);
    }
    if (failed) refuse_with_line(spec->ready_fd, spec->in_use_error);
    if (fstat(fd, &locked) || stat(path, &current)) {
      close(fd);
      current.st_ino = 0;
    }
  } while (locked.st_ino != current.st_ino);
}

static void write_bounds(const struct launch_spec *spec) {
  char path[PATH_MAX], temp[PATH_MAX];
  join_path(path, spec->warden_dir, "/bounds");
  join_path(temp, spec->warden_dir, "/bounds.new");
  unlink(temp);
  int fd = open(temp, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600);
  ssize_t size = (ssize_t)strlen(spec->bounds);
  if (fd < 0 || write(fd, spec->bounds, (size_t)size) != size || close(fd) || rename(temp, path))
    refuse(spec->ready_fd, "storage_full", "", "writing %s failed: %s", path, strerror(errno));
}

void runtime_dirs_create(const struct launch_spec *spec) {
  acquire_lock(spec);
  make_dir(spec, spec->warden_dir, 0711);
  make_dir(spec, spec->runtime_dir, 0700);
  char mount_point[PATH_MAX];
  join_path(mount_point, spec->warden_dir, SECRETS);
  make_dir(spec, mount_point, 0700);
  join_path(mount_point, spec->warden_dir, MAILBOXES);
  make_dir(spec, mount_point, 0755);
  if (lchown(spec->runtime_dir, spec->uid, spec->gid))
    refuse(spec->ready_fd, "bad_config", "", "%s: %s", spec->runtime_dir, strerror(errno));
  write_bounds(spec);
  // The warden reads the grants where they are kept.
  char grants[PATH_MAX];
  join_path(grants, spec->warden_dir, "/grants");
  unlink(grants);
  if (spec->grants_dir && symlink(spec->grants_dir, grants))
    refuse(spec->ready_fd, "bad_config", "", "%s: %s", grants, strerror(errno));
}

// A killed warden's janitor holds the warden's lock until it has cleaned up what the journal in
// that directory lists.
static void wait_for_janitor(const struct launch_spec *spec) {
  char path[PATH_MAX];
  join_path(path, spec->warden_dir, "/lock");
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  for (int tries = 0; fd >= 0 && tries < 300 && flock(fd, LOCK_EX | LOCK_NB); tries++)
    usleep(10000);
  if (fd >= 0) close(fd);
}

// Removes by name only what the warden creates there; the lock file goes last.
void runtime_dirs_remove(const struct launch_spec *spec) {
  const char *names[] = {"/bounds",     "/warden.sock", "/stubs", "/stubs.new",
                         "/probe/file", "/lock",        "/probe", "/root",
                         "/dev",        "/layers",      SECRETS,  "/grants",
                         "/terminals",  GRANT_SOCKET,   MAILBOXES, ""};
  char path[PATH_MAX];
  wait_for_janitor(spec);
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    join_path(path, spec->warden_dir, names[i]);
    if (unlink(path)) rmdir(path);
  }
  // The contents belong to the runtime; root does not walk them. This succeeds only if it is empty.
  rmdir(spec->runtime_dir);
  join_path(path, spec->warden_dir, ".lock");
  unlink(path);
}
