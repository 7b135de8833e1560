// Denied paths below read-only binds. A mask on a host's file disappears if that file is replaced
// on the host, and a path that does not exist cannot be covered. So each read-only directory above
// a denied path is replaced by a copy of its current entries on a tmpfs of the box: what appears on
// the host later is not in the box. Runs in the box's init.
#include "init.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

// Each entry is a mount, and a client waits for the box to open.
#define ENTRIES_MAX 4096
#define ACL_XATTR "system.posix_acl_access"

static int copy_acl(int from, int to) {
  char list[4096];
  ssize_t size = fgetxattr(from, ACL_XATTR, list, sizeof list);
  if (size < 0) return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
  return fsetxattr(to, ACL_XATTR, list, (size_t)size, 0);
}

// The copy must not be accessible to a user who cannot access the directory itself.
static int copy_permissions(int from, int to, const struct stat *st) {
  if (host.root) {
    int list = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int bad = list < 0 || fchown(to, st->st_uid, st->st_gid) || fchmod(to, st->st_mode & 0777) ||
              copy_acl(list, to);
    k_close(list);
    return bad ? -1 : 0;
  }
  // Without root the box has this process's uid: grant what this process can access. On its own
  // directories it has capabilities that the box lacks, so there apply the owner's bits as well.
  mode_t mode = 0;
  if (!faccessat(from, ".", R_OK, AT_EACCESS)) mode |= 0444;
  if (!faccessat(from, ".", X_OK, AT_EACCESS)) mode |= 0111;
  mode_t owner = st->st_mode >> 6 & 7;
  if (st->st_uid == host.uid) mode &= (mode_t)(owner << 6 | owner << 3 | owner);
  return fchmod(to, mode);
}

static int copy_link(int from, int to, const char *name) {
  char text[PATH_BYTES];
  ssize_t size = readlinkat(from, name, text, sizeof text - 1);
  if (size < 0) return -1;
  text[size] = 0;
  return symlinkat(text, to, name);
}

// Copies one entry by descriptor, so that a concurrent replacement is not picked up.
static int copy_entry(int from, int to, const char *name) {
  int entry = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (entry < 0) return errno == ENOENT || errno == EACCES ? 0 : -1;
  struct stat st;
  int bad = fstat(entry, &st);
  if (!bad && S_ISLNK(st.st_mode)) {
    bad = copy_link(from, to, name);
  } else if (!bad) {
    int tree =
        k_open_tree(entry, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
    bad = tree < 0 || mount_point_create(to, name, S_ISDIR(st.st_mode));
    int at = bad ? -1 : openat(to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bad = bad || at < 0 || k_move_mount(tree, at);
    k_close(at);
    k_close(tree);
  }
  k_close(entry);
  return bad ? -1 : 0;
}

static int copy_entries(int from, int to, const char *path, struct failure *err) {
  DIR *entries = open_dir(from);
  // If even this process cannot list it, there is nothing to show.
  if (!entries) return errno == EACCES ? 0 : mount_error(err, "listing", path);
  unsigned count = 0;
  int bad = 0;
  struct dirent *entry;
  while (!bad && (errno = 0, entry = readdir(entries))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (++count > ENTRIES_MAX) {
      bad = fail(err, REFUSED_SETUP, "%.200s has more than %d entries and contains a denied path",
                 path, ENTRIES_MAX);
      snprintf(err->hint, sizeof err->hint,
               "declare the needed entries instead of the whole directory");
    } else if (copy_entry(from, to, entry->d_name)) {
      bad = mount_error(err, "copying the entries of", path);
    }
  }
  if (!bad && errno) bad = mount_error(err, "listing", path);
  closedir(entries);
  return bad;
}

static int freeze(int dir, const char *path, struct failure *err) {
  struct stat st;
  int mount = tmpfs_create("1m", "0700", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (mount < 0 || fstat(dir, &st) || k_move_mount(mount, dir)) {
    mount_error(err, "covering", path);
    if (mount >= 0) close(mount);
    return -1;
  }
  int dest = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  close(mount);
  if (dest < 0) return mount_error(err, "covering", path);
  int bad = copy_entries(dir, dest, path, err);
  if (!bad && (copy_permissions(dir, dest, &st) || k_mount_setattr(dest, K_ATTR_RDONLY, 0)))
    bad = mount_error(err, "copying the permissions of", path);
  close(dest);
  return bad ? -1 : 0;
}

static bool is_read_only(int fd) {
  struct statvfs state;
  return !fstatvfs(fd, &state) && state.f_flag & ST_RDONLY;
}

// Freezes every directory above `path` that is not on a box file system yet. Returns 1 if one does
// not exist or is no directory: then `path` can never appear.
static int freeze_ancestors(const char *path, struct failure *err) {
  char ancestor[PATH_BYTES];
  snprintf(ancestor, sizeof ancestor, "%s", path);
  for (char *slash = ancestor + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int dir = box_open_path(ancestor);
    struct stat st;
    if (dir < 0 && (errno == ENOENT || errno == EACCES)) return 1;
    if (dir < 0 || fstat(dir, &st)) return mount_error(err, "sealing", ancestor);
    int bad = 0;
    if (!S_ISDIR(st.st_mode)) bad = 1;
    else if (!is_box_fs(dir) && is_read_only(dir)) bad = freeze(dir, ancestor, err);
    close(dir);
    if (bad) return bad;
    *slash = '/';
  }
  return 0;
}

// Removes the mounts on this path; below them is an empty file or directory of the box.
static int unmount_path(const char *path, struct failure *err) {
  for (;;) {
    int fd = box_open_path(path);
    if (fd < 0) return errno == ENOENT || errno == EACCES ? 0 : mount_error(err, "masking", path);
    bool mounted = is_mount_root(fd), is_own = is_box_fs(fd);
    struct stat st;
    int bad = fstat(fd, &st) ? mount_error(err, "masking", path) : check_hard_links(path, &st, err);
    close(fd);
    if (bad) return -1;
    if (!mounted) return is_own ? 0 : fail(err, REFUSED_PROBE, "%.220s is not masked", path);
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW)) return mount_error(err, "masking", path);
  }
}

int freeze_and_mask(const char *path, struct failure *err) {
  int status = freeze_ancestors(path, err);
  return status ? (status > 0 ? 0 : -1) : unmount_path(path, err);
}

int freeze_parents(const char *path, struct failure *err) {
  return freeze_ancestors(path, err) < 0 ? -1 : 0;
}
