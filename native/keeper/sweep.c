// What runtimes that were killed have left beside ours. A state that is started again takes its own
// up; one that is not, or is gone, would leave its directories for ever. Whose keeper lives holds
// its lock, and is never touched.
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

// The name of a runtime's directory: see runtimeDirOf in src/platform/state-dir.ts.
static bool is_runtime(const char *name) {
  return strlen(name) == NAME_LENGTH && strspn(name, "0123456789abcdef") == NAME_LENGTH;
}

// Holds the lock of a dead keeper, so that none begins there meanwhile; -1 when one lives.
static int lock_dead(const char *path) {
  struct stat held, named;
  int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  if (!flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &held) && !lstat(path, &named) &&
      held.st_ino == named.st_ino)
    return fd;
  close(fd);
  return -1;
}

// The janitor of a killed warden is still at work.
static bool is_held(const char *path) {
  int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno != ENOENT;
  bool held = flock(fd, LOCK_EX | LOCK_NB) != 0;
  close(fd);
  return held;
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *walk) {
  (void)about, (void)kind, (void)walk;
  remove(path);
  return 0;
}

// As its user: in their directories root removes nothing. The directory itself is root's to remove.
static void empty(const struct orders *orders, const char *dir) {
  pid_t child = fork();
  if (child == 0) {
    if (setgroups(0, NULL) || setgid(orders->gid) || setuid(orders->uid)) _exit(1);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    alarm(SWEEP_S);
    nftw(dir, remove_one, OPEN_DIRS_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    _exit(0);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

static bool path_of(char *out, const char *first, const char *between, const char *last) {
  int length = snprintf(out, PATH_MAX, "%s%s%s", first, between, last);
  return length > 0 && length < PATH_MAX;
}

static void sweep_one(const struct orders *orders, const char *base, const char *name) {
  char dir[PATH_MAX], warden[PATH_MAX], keepers[PATH_MAX], wardens[PATH_MAX];
  struct stat about;
  if (!path_of(dir, base, "/", name) || !path_of(warden, dir, ".", "warden") ||
      !path_of(keepers, warden, ".", "lock") || !path_of(wardens, warden, "/", "lock"))
    return;
  if (!strcmp(dir, orders->runtime) || lstat(dir, &about)) return;
  if (!S_ISDIR(about.st_mode) || about.st_uid != orders->uid) return;
  int lock = lock_dead(keepers);
  if (lock < 0) return;
  if (!is_held(wardens)) {
    empty(orders, dir);
    struct orders left = *orders;
    left.dir = warden;
    left.runtime = dir;
    places_leave(&left);
  }
  close(lock);
}

void places_sweep(const struct orders *orders) {
  char base[PATH_MAX];
  if (!path_of(base, orders->runtime, "", "")) return;
  char *slash = strrchr(base, '/');
  if (!slash || slash == base) return;
  *slash = 0;
  DIR *all = opendir(base);
  if (!all) return;
  for (struct dirent *one; (one = readdir(all));)
    if (is_runtime(one->d_name)) sweep_one(orders, base, one->d_name);
  closedir(all);
}
