// The code, Node or the state may lie below a directory that the runtime's user cannot enter, as
// root's home is. In a mount namespace of the runtime's own such a directory shows nothing but what
// is needed of it; where nothing is closed, nothing is changed. A key that only root can read is
// there as a copy that only the runtime can read.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define TREE_CLONE 1
#define TREE_RECURSIVE 0x8000
#define FROM_EMPTY 4
#define COVERS_MAX 64
#define SECRET_BYTES (64 * 1024)

static dev_t covers[COVERS_MAX];  // the empty directories made here
static unsigned cover_count;

static int broken(char *why, size_t size, const char *step, const char *path) {
  snprintf(why, size, "showing %s: %s: %s", path, step, strerror(errno));
  return -1;
}

static bool may_enter(const struct stat *about, const struct orders *orders) {
  if (!S_ISDIR(about->st_mode)) return true;  // a link: what it leads to is needed by its own name
  if (about->st_uid == orders->uid) return about->st_mode & S_IXUSR;
  if (about->st_gid == orders->gid) return about->st_mode & S_IXGRP;
  return about->st_mode & S_IXOTH;
}

static bool is_cover(const struct stat *about) {
  for (unsigned i = 0; i < cover_count; i++)
    if (covers[i] == about->st_dev) return true;
  return false;
}

// Calls `at` with every directory above the path, the outermost first.
static int above(const char *path, int (*at)(const char *dir, const struct orders *orders),
                 const struct orders *orders) {
  char dir[PATH_MAX];
  for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
    snprintf(dir, sizeof dir, "%.*s", (int)(end - path), path);
    int result = at(dir, orders);
    if (result) return result;
  }
  return 0;
}

static int is_closed(const char *dir, const struct orders *orders) {
  struct stat about;
  return lstat(dir, &about) == 0 && !may_enter(&about, orders);
}

static int open_up(const char *dir, const struct orders *orders) {
  struct stat about, parent;
  if (lstat(dir, &about)) {
    char up[PATH_MAX];
    snprintf(up, sizeof up, "%s", dir);
    char *last = strrchr(up, '/');
    *last = 0;
    // It was there before: only what is covered can be missing, and only there something is made.
    if (errno != ENOENT || stat(*up ? up : "/", &parent) || !is_cover(&parent)) return -1;
    return mkdir(dir, 0755);
  }
  if (may_enter(&about, orders)) return 0;
  if (cover_count == COVERS_MAX) {
    errno = E2BIG;
    return -1;
  }
  if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=64k"))
    return -1;
  if (stat(dir, &about)) return -1;
  covers[cover_count++] = about.st_dev;
  return 0;
}

static int show(const char *path, int tree, const struct orders *orders) {
  struct stat wanted, there;
  if (fstat(tree, &wanted) || above(path, open_up, orders)) return -1;
  bool missing = stat(path, &there);
  if (!missing && there.st_dev == wanted.st_dev && there.st_ino == wanted.st_ino) return 0;
  if (missing && S_ISDIR(wanted.st_mode) && mkdir(path, 0755)) return -1;
  if (missing && !S_ISDIR(wanted.st_mode)) {
    int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0444);
    if (fd < 0) return -1;
    close(fd);
  }
  return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path, FROM_EMPTY);
}

// What root alone may read and the configuration names, as a file of the runtime's own.
static int copy_secret(const struct need *need, unsigned number, const struct orders *orders) {
  static char bytes[SECRET_BYTES];
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s/%u", orders->dir, SECRETS, number);
  struct stat about;
  int from = open(need->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int to = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0400);
  ssize_t size = -1;
  // Still what was seen to be root's own when it was chosen.
  if (from >= 0 && to >= 0 && !fstat(from, &about) && S_ISREG(about.st_mode) &&
      about.st_uid == 0 && !(about.st_mode & 077) && about.st_size < SECRET_BYTES)
    size = read(from, bytes, sizeof bytes);
  bool bad = size < 0 || write(to, bytes, (size_t)size) != size ||
             fchown(to, orders->uid, orders->gid);
  if (from >= 0) close(from);
  if (to >= 0) close(to);
  memset(bytes, 0, sizeof bytes);
  return bad ? -1 : (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | O_CLOEXEC);
}

static int tree_of(const struct need *need, unsigned number, const struct orders *orders) {
  if (need->kind == NEED_SECRET) return copy_secret(need, number, orders);
  return (int)syscall(SYS_open_tree, AT_FDCWD, need->path,
                      TREE_CLONE | TREE_RECURSIVE | O_CLOEXEC);
}

static int mount_secrets(const struct orders *orders) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s", orders->dir, SECRETS);
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=16m");
}

int view_make(const struct orders *orders, char *why, size_t size) {
  bool closed[NEEDS_MAX], any = false;
  for (unsigned i = 0; i < orders->need_count; i++) {
    closed[i] = orders->needs[i].kind == NEED_SECRET ||
                above(orders->needs[i].path, is_closed, orders);
    any |= closed[i];
  }
  if (!any) return 0;
  umask(022);
  if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) ||
      mount_secrets(orders))
    return broken(why, size, "a mount namespace", orders->program[0]);
  int trees[NEEDS_MAX];
  for (unsigned i = 0; i < orders->need_count; i++) {
    if (!closed[i]) continue;
    trees[i] = tree_of(&orders->needs[i], i, orders);
    if (trees[i] < 0) return broken(why, size, "opening it", orders->needs[i].path);
  }
  // The shorter first, so that what lies in one that is shown already stays as it is.
  for (unsigned length = 1; length < PATH_MAX; length++)
    for (unsigned i = 0; i < orders->need_count; i++) {
      if (!closed[i] || strlen(orders->needs[i].path) != length) continue;
      if (show(orders->needs[i].path, trees[i], orders))
        return broken(why, size, "mount", orders->needs[i].path);
      close(trees[i]);
    }
  return 0;
}
