// Denied paths below what a box only reads. A mask on a host's file goes when somebody replaces
// that file on the host, and nothing can be mounted on a name that is not there yet. So every
// read-only directory above a denied path becomes one of the box's own, with what is in it now:
// what comes later on the host, under any name, is not in the box. Runs in the box's init.
#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

// Each is a mount, and a box opens while somebody waits.
#define ENTRIES_MAX 4096
#define ACCESS_LIST "system.posix_acl_access"

static int broken(struct failure *why, const char *step, const char *path) {
  return fail(why, REFUSED_SETUP, "%s %.220s: %s", step, path, strerror(errno));
}

static int copy_access_list(int from, int to) {
  char list[4096];
  ssize_t size = fgetxattr(from, ACCESS_LIST, list, sizeof list);
  if (size < 0) return errno == ENODATA || errno == EOPNOTSUPP ? 0 : -1;
  return fsetxattr(to, ACCESS_LIST, list, (size_t)size, 0);
}

// Nobody may look into the copy who may not look into the directory itself.
static int copy_rights(int from, int to, const struct stat *about) {
  if (host.root) {
    int list = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int bad = list < 0 || fchown(to, about->st_uid, about->st_gid) ||
              fchmod(to, about->st_mode & 0777) || copy_access_list(list, to);
    int error = errno;
    if (list >= 0) close(list);
    errno = error;
    return bad ? -1 : 0;
  }
  // The box's user is this one: what it may do there, and of its own what it may without rights.
  mode_t mode = 0;
  if (!faccessat(from, ".", R_OK, AT_EACCESS)) mode |= 0444;
  if (!faccessat(from, ".", X_OK, AT_EACCESS)) mode |= 0111;
  mode_t owner = about->st_mode >> 6 & 7;
  if (about->st_uid == host.uid) mode &= (mode_t)(owner << 6 | owner << 3 | owner);
  return fchmod(to, mode);
}

static int copy_link(int from, int to, const char *name) {
  char text[PATH_BYTES];
  ssize_t size = readlinkat(from, name, text, sizeof text - 1);
  if (size < 0) return -1;
  text[size] = 0;
  return symlinkat(text, to, name);
}

// One entry as it is now, by descriptor: whatever is put in its place meanwhile is not it.
static int copy_entry(int from, int to, const char *name) {
  int entry = openat(from, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (entry < 0) return errno == ENOENT || errno == EACCES ? 0 : -1;
  struct stat about;
  int bad = fstat(entry, &about);
  if (!bad && S_ISLNK(about.st_mode)) {
    bad = copy_link(from, to, name);
  } else if (!bad) {
    int tree =
        k_open_tree(entry, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
    bad = tree < 0 || mount_point_make(to, name, S_ISDIR(about.st_mode));
    int at = bad ? -1 : openat(to, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    bad = bad || at < 0 || k_move_mount(tree, at);
    int error = errno;
    if (at >= 0) close(at);
    if (tree >= 0) close(tree);
    errno = error;
  }
  int error = errno;
  close(entry);
  errno = error;
  return bad ? -1 : 0;
}

static int copy_entries(int from, int to, const char *path, struct failure *why) {
  int list = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Where not even we may look, there is nothing to show.
  if (list < 0) return errno == EACCES ? 0 : broken(why, "listing", path);
  DIR *entries = fdopendir(list);
  if (!entries) {
    close(list);
    return broken(why, "listing", path);
  }
  unsigned count = 0;
  int bad = 0;
  struct dirent *one;
  while (!bad && (errno = 0, one = readdir(entries))) {
    if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, "..")) continue;
    if (++count > ENTRIES_MAX) {
      bad = fail(why, REFUSED_SETUP, "%.200s has more than %d entries, and one in it is denied",
                 path, ENTRIES_MAX);
      snprintf(why->hint, sizeof why->hint, "declare what is needed in it, not all of it");
    } else if (copy_entry(from, to, one->d_name)) {
      bad = broken(why, "showing what is in", path);
    }
  }
  if (!bad && errno) bad = broken(why, "listing", path);
  closedir(entries);
  return bad;
}

static int freeze(int dir, const char *path, struct failure *why) {
  struct stat about;
  int mount = tmpfs_make("1m", "0700", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (mount < 0 || fstat(dir, &about) || k_move_mount(mount, dir)) {
    broken(why, "covering", path);
    if (mount >= 0) close(mount);
    return -1;
  }
  int own = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  close(mount);
  if (own < 0) return broken(why, "covering", path);
  int bad = copy_entries(dir, own, path, why);
  if (!bad && (copy_rights(dir, own, &about) || k_mount_setattr(own, K_ATTR_RDONLY, 0)))
    bad = broken(why, "giving the rights of", path);
  close(own);
  return bad ? -1 : 0;
}

static bool is_read_only(int fd) {
  struct statvfs state;
  return !fstatvfs(fd, &state) && state.f_flag & ST_RDONLY;
}

// Every directory above `path` that is not the box's own yet. 1: the way ends before it does, in a
// place where nothing can appear any more.
static int freeze_above(const char *path, struct failure *why) {
  char part[PATH_BYTES];
  snprintf(part, sizeof part, "%s", path);
  for (char *slash = part + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int dir = box_reach(part);
    struct stat about;
    if (dir < 0 && (errno == ENOENT || errno == EACCES)) return 1;
    if (dir < 0 || fstat(dir, &about)) return broken(why, "sealing", part);
    int bad = 0;
    if (!S_ISDIR(about.st_mode)) bad = 1;
    else if (!is_box_own(dir) && is_read_only(dir)) bad = freeze(dir, part, why);
    close(dir);
    if (bad) return bad;
    *slash = '/';
  }
  return 0;
}

// Takes what is mounted on the name away: below is an empty file or directory of the box's own.
static int take_away(const char *path, struct failure *why) {
  for (;;) {
    int fd = box_reach(path);
    if (fd < 0) return errno == ENOENT || errno == EACCES ? 0 : broken(why, "masking", path);
    bool mounted = is_mount_root(fd), own = is_box_own(fd);
    struct stat about;
    int bad = fstat(fd, &about) ? broken(why, "masking", path) : has_other_name(path, &about, why);
    close(fd);
    if (bad) return -1;
    if (!mounted)
      return own ? 0 : fail(why, REFUSED_PROBE, "%.220s is not masked", path);
    if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW)) return broken(why, "masking", path);
  }
}

int freeze_and_mask(const char *path, struct failure *why) {
  int found = freeze_above(path, why);
  return found ? (found > 0 ? 0 : -1) : take_away(path, why);
}

int freeze_way_to(const char *path, struct failure *why) {
  return freeze_above(path, why) < 0 ? -1 : 0;
}
