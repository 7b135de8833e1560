// Removes the directories of killed runtimes. A state directory that is started again reuses its
// own; without this sweep, those of the others would stay forever. A live keeper holds its lock, so
// its directories are never touched.
#include "keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME_LENGTH 8
#define OPEN_DIRS_MAX 16
#define SWEEP_S 5

// Matches the directory names of runtimeDirOf in src/platform/state-dir.ts.
static bool is_runtime_name(const char *name) {
  return strlen(name) == NAME_LENGTH && strspn(name, "0123456789abcdef") == NAME_LENGTH;
}

// Locks a dead keeper's lock file, so that no keeper starts there meanwhile; -1 if one is alive.
static int lock_stale(const char *path) {
  struct stat locked, current;
  int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &locked) && !lstat(path, &current) &&
      locked.st_ino == current.st_ino)
    return fd;
  close(fd);
  return -1;
}

// True while the janitor of a killed warden is still at work.
static bool is_locked(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno != ENOENT;
  bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return locked;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw) {
  (void)st, (void)kind, (void)ftw;
  remove(path);
  return 0;
}

// Runs as the daemons' user: root removes nothing inside their directories, only the directory.
static void empty_as_user(const struct launch_spec *spec, const char *dir) {
  pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, NULL) || setgid(spec->gid) || setuid(spec->uid)) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(SWEEP_S);
    nftw(dir, remove_entry, OPEN_DIRS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

static bool join_path(char *out, const char *first, const char *between, const char *last) {
  int length = snprintf(out, PATH_MAX, "%s%s%s", first, between, last);
  return length > 0 && length < PATH_MAX;
}

static void sweep_runtime(const struct launch_spec *spec, const char *parent, const char *name) {
  char dir[PATH_MAX], warden_dir[PATH_MAX], keeper_lock[PATH_MAX], warden_lock[PATH_MAX];
  struct stat st;
  if (!join_path(dir, parent, "/", name) || !join_path(warden_dir, dir, ".", "warden") ||
      !join_path(keeper_lock, warden_dir, ".", "lock") ||
      !join_path(warden_lock, warden_dir, "/", "lock"))
    return;
  if (!strcmp(dir, spec->runtime_dir) || lstat(dir, &st)) return;
  if (!S_ISDIR(st.st_mode) || st.st_uid != spec->uid) return;
  int lock = lock_stale(keeper_lock);
  if (lock < 0) return;
  if (!is_locked(warden_lock)) {
    empty_as_user(spec, dir);
    struct launch_spec stale = *spec;
    stale.warden_dir = warden_dir;
    stale.runtime_dir = dir;
    runtime_dirs_remove(&stale);
  }
  close(lock);
}

void runtime_dirs_sweep(const struct launch_spec *spec) {
  char parent[PATH_MAX];
  if (!join_path(parent, spec->runtime_dir, "", "")) return;
  char *slash = strrchr(parent, '/');
  if (!slash || slash == parent) return;
  *slash = 0;
  DIR *entries = opendir(parent);
  if (!entries) return;
  for (struct dirent *entry; (entry = readdir(entries));)
    if (is_runtime_name(entry->d_name)) sweep_runtime(spec, parent, entry->d_name);
  closedir(entries);
}
