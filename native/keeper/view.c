// The runtime's view of the file system. Programs, Node or the state may be below a directory that
// the runtime's user cannot enter, such as root's home. The runtime's mount namespace shows such a
// directory with nothing but the required paths in it; without such a directory it changes nothing.
// A key that only root can read appears as a copy that only the runtime can read.
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

static dev_t covers[COVERS_MAX];  // tmpfs mounts made here
static unsigned cover_count;

static int set_error(char *err, size_t size, const char *step, const char *path) {
  snprintf(err, size, "showing %s: %s: %s", path, step, strerror(errno));
  return -1;
}

static bool can_enter(const struct stat *st, const struct launch_spec *spec) {
  if (!S_ISDIR(st->st_mode)) return true;  // a link: its target is listed as well
  if (st->st_uid == spec->uid) return st->st_mode & S_IXUSR;
  if (st->st_gid == spec->gid) return st->st_mode & S_IXGRP;
  return st->st_mode & S_IXOTH;
}

static bool is_cover(const struct stat *st) {
  for (unsigned i = 0; i < cover_count; i++)
    if (covers[i] == st->st_dev) return true;
  return false;
}

// Calls `visit` for every directory above the path, outermost first.
static int for_each_parent(const char *path,
                           int (*visit)(const char *dir, const struct launch_spec *spec),
                           const struct launch_spec *spec) {
  char dir[PATH_MAX];
  for (const char *end = strchr(path + 1, '/'); end; end = strchr(end + 1, '/')) {
    snprintf(dir, sizeof dir, "%.*s", (int)(end - path), path);
    int result = visit(dir, spec);
    if (result) return result;
  }
  return 0;
}

static int is_inaccessible(const char *dir, const struct launch_spec *spec) {
  struct stat st;
  return lstat(dir, &st) == 0 && !can_enter(&st, spec);
}

static int make_accessible(const char *dir, const struct launch_spec *spec) {
  struct stat st, parent;
  if (lstat(dir, &st)) {
    char parent_path[PATH_MAX];
    snprintf(parent_path, sizeof parent_path, "%s", dir);
    char *slash = strrchr(parent_path, '/');
    *slash = 0;
    // The path existed before, so it can be missing only below a cover, where it may be created.
    if (errno != ENOENT || stat(*parent_path ? parent_path : "/", &parent) || !is_cover(&parent))
      return -1;
    return mkdir(dir, 0755);
  }
  if (can_enter(&st, spec)) return 0;
  if (cover_count == COVERS_MAX) {
    errno = E2BIG;
    return -1;
  }
  // src/platform/free-bytes.ts knows the size.
  if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=64k"))
    return -1;
  if (stat(dir, &st)) return -1;
  covers[cover_count++] = st.st_dev;
  return 0;
}

static int expose(const char *path, int tree, const struct launch_spec *spec) {
  struct stat source, existing;
  if (fstat(tree, &source) || for_each_parent(path, make_accessible, spec)) return -1;
  bool missing = stat(path, &existing);
  if (!missing && existing.st_dev == source.st_dev && existing.st_ino == source.st_ino) return 0;
  if (missing && S_ISDIR(source.st_mode) && mkdir(path, 0755)) return -1;
  if (missing && !S_ISDIR(source.st_mode)) {
    int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC | O_WRONLY, 0444);
    if (fd < 0) return -1;
    close(fd);
  }
  return (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, path, FROM_EMPTY);
}

// Copies a secret that only root can read into a file that only the runtime's user can read.
static int copy_secret(const struct needed_path *needed, unsigned number,
                       const struct launch_spec *spec) {
  static char bytes[SECRET_BYTES];
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s/%u", spec->warden_dir, SECRETS, number);
  struct stat st;
  int from = open(needed->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  int to = open(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, 0400);
  ssize_t size = -1;
  // It must still be a file that only root can read, as when as-root selected it.
  if (from >= 0 && to >= 0 && !fstat(from, &st) && S_ISREG(st.st_mode) && st.st_uid == 0 &&
      !(st.st_mode & 077) && st.st_size < SECRET_BYTES)
    size = read(from, bytes, sizeof bytes);
  bool bad = size < 0 || write(to, bytes, (size_t)size) != size || fchown(to, spec->uid, spec->gid);
  if (from >= 0) close(from);
  if (to >= 0) close(to);
  memset(bytes, 0, sizeof bytes);
  return bad ? -1 : (int)syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | O_CLOEXEC);
}

static int open_tree_of(const struct needed_path *needed, unsigned number,
                        const struct launch_spec *spec) {
  if (needed->kind == PATH_SECRET) return copy_secret(needed, number, spec);
  return (int)syscall(SYS_open_tree, AT_FDCWD, needed->path,
                      TREE_CLONE | TREE_RECURSIVE | O_CLOEXEC);
}

static int mount_secrets(const struct launch_spec *spec) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s%s", spec->warden_dir, SECRETS);
  return mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700,size=16m");
}

int view_create(const struct launch_spec *spec, char *err, size_t size) {
  bool hidden[PATHS_MAX], any_hidden = false;
  for (unsigned i = 0; i < spec->path_count; i++) {
    hidden[i] = spec->paths[i].kind == PATH_SECRET ||
                for_each_parent(spec->paths[i].path, is_inaccessible, spec);
    any_hidden |= hidden[i];
  }
  if (!any_hidden && !spec->mailbox_count) return 0;
  umask(022);
  if (unshare(CLONE_NEWNS) || mount("", "/", NULL, MS_REC | MS_SLAVE, NULL) || mount_secrets(spec))
    return set_error(err, size, "a mount namespace", spec->argv[0]);
  if (spec->mailbox_count && mailboxes_mount(spec))
    return set_error(err, size, "mounting mailboxes", spec->warden_dir);
  int trees[PATHS_MAX];
  for (unsigned i = 0; i < spec->path_count; i++) {
    if (!hidden[i]) continue;
    trees[i] = open_tree_of(&spec->paths[i], i, spec);
    if (trees[i] < 0) return set_error(err, size, "opening it", spec->paths[i].path);
  }
  // Shorter paths first, so that a path below one already exposed needs no mount of its own.
  for (unsigned length = 1; length < PATH_MAX; length++)
    for (unsigned i = 0; i < spec->path_count; i++) {
      if (!hidden[i] || strlen(spec->paths[i].path) != length) continue;
      if (expose(spec->paths[i].path, trees[i], spec))
        return set_error(err, size, "mount", spec->paths[i].path);
      close(trees[i]);
    }
  return 0;
}
