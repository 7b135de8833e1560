// Seals the protected paths of a box: pins or masks each by a mount, and records the mounts, so
// that the warden notices when one disappears. Runs in the box's init.
#include "init.h"

#include <errno.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

bool is_mount_root(int fd) {
  struct statx st;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st)) return false;
  return st.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

// Binds a path onto itself: a mount point cannot be renamed, removed or replaced.
static int pin_path(int fd, bool readonly, const char *path, struct failure *err) {
  int copy = k_open_tree(fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
  if (copy < 0) return mount_error(err, "copying the mount", path);
  int bad = (readonly && k_mount_setattr(copy, K_ATTR_RDONLY, 1)) || k_move_mount(copy, fd);
  k_close(copy);
  return bad ? mount_error(err, "sealing", path) : 0;
}

static int mask_path(int fd, const char *path, struct failure *err) {
  struct stat st;
  if (fstat(fd, &st)) return mount_error(err, "masking", path);
  int empty = tmpfs_create("4k", "0555", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (empty < 0) return mount_error(err, "masking", path);
  int from = empty;
  if (!S_ISDIR(st.st_mode)) {
    int file = openat(empty, "empty", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    if (file >= 0) close(file);
    // Older kernels cannot clone a detached mount: attach it first.
    int at = open("/mnt-empty", O_PATH | O_CLOEXEC);
    if (at < 0 && !mkdir("/mnt-empty", 0)) at = open("/mnt-empty", O_PATH | O_CLOEXEC);
    if (at < 0 || k_move_mount(empty, at)) return mount_error(err, "masking", path);
    close(at);
    int file_fd = openat(empty, "empty", O_PATH | O_CLOEXEC);
    from = k_open_tree(file_fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
    close(file_fd);
    umount2("/mnt-empty", MNT_DETACH);
    rmdir("/mnt-empty");
  }
  int bad = k_mount_setattr(from, K_ATTR_RDONLY, 0) || k_move_mount(from, fd);
  if (from != empty) k_close(from);
  k_close(empty);
  return bad ? mount_error(err, "masking", path) : 0;
}

// Checks that the path is now read-only and not a symbolic link.
static int verify_seal(const char *path, struct failure *err) {
  struct statvfs state;
  int fd = box_open_path(path);
  bool bad = fd < 0 || fstatvfs(fd, &state) || !(state.f_flag & ST_RDONLY);
  if (fd >= 0) close(fd);
  return bad ? fail(err, REFUSED_PROBE, "%.220s is not read-only", path) : 0;
}

// Pins a symbolic link by mounting a file on its name: the target, which has a seal of its own, or
// an empty file if the link is hidden or its target no regular file. Magic links are not followed:
// they would lead to files of this process.
static int seal_link(const char *path, bool hidden, struct failure *err) {
  char parent[PATH_BYTES];
  const char *name = split_path(path, parent);
  int dir = box_open_path(parent);
  int link = dir < 0 ? -1 : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (dir >= 0) close(dir);
  struct stat st;
  if (link < 0 || fstat(link, &st)) return mount_error(err, "opening", path);
  int bad;
  int target = hidden ? -1 : k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
  if (!S_ISLNK(st.st_mode)) {
    bad = fail(err, REFUSED_SETUP, "%.220s changed while being sealed", path);
  } else if (target >= 0 && !fstat(target, &st) && S_ISREG(st.st_mode)) {
    int copy = k_open_tree(target, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
    bad = copy < 0 || k_mount_setattr(copy, K_ATTR_RDONLY, 0) || k_move_mount(copy, link);
    if (bad) mount_error(err, "sealing", path);
    if (copy >= 0) close(copy);
  } else {
    bad = mask_path(link, path, err);
  }
  if (target >= 0) close(target);
  close(link);
  return bad ? -1 : 0;
}

static int pin_parents(const struct plan *plan, const struct seal *seal, struct failure *err) {
  const struct bind *root = &plan->binds[seal->bind];
  if (!bind_is_writable(root)) return 0;
  char ancestor[PATH_BYTES];
  snprintf(ancestor, sizeof ancestor, "%s", seal->path);
  for (char *slash = ancestor + strlen(root->dst) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int fd = box_open_path(ancestor);
    if (fd < 0) return mount_error(err, "opening", ancestor);
    int bad = is_mount_root(fd) ? 0 : pin_path(fd, false, ancestor, err);
    close(fd);
    if (bad) return -1;
    *slash = '/';
  }
  return 0;
}

static int apply_seal(const struct plan *plan, const struct seal *seal, struct failure *err) {
  bool writable = bind_is_writable(&plan->binds[seal->bind]);
  if (GUARDED(plan, GUARD_READONLY)) {
    if (!writable && seal->kind == SEAL_MASK)
      return freeze_and_mask(seal->path, err);
    if (freeze_parents(seal->path, err)) return -1;
  }
  if (pin_parents(plan, seal, err)) return -1;
  if (seal->kind >= SEAL_LINK)
    return seal_link(seal->path, seal->kind == SEAL_HIDDEN_LINK, err) ||
                   verify_seal(seal->path, err)
               ? -1
               : 0;
  int fd = box_open_path(seal->path);
  if (fd < 0 && errno == ENOENT && !writable) return 0;
  if (fd < 0) return mount_error(err, "sealing", seal->path);
  int bad = seal->kind == SEAL_MASK ? mask_path(fd, seal->path, err)
                                    : pin_path(fd, true, seal->path, err);
  close(fd);
  return bad || verify_seal(seal->path, err) ? -1 : 0;
}

// A path below a masked directory does not exist in the box and needs no seal.
bool is_below_mask(const struct seal *seals, unsigned count, const char *path) {
  for (unsigned i = 0; i < count; i++) {
    size_t size = strlen(seals[i].path);
    if (seals[i].kind == SEAL_MASK && !strncmp(seals[i].path, path, size) && path[size] == '/')
      return true;
  }
  return false;
}

static bool is_masked(const struct job *job, const char *path) {
  return is_below_mask(job->seals, job->seal_count, path);
}

int seals_apply(const struct job *job, struct failure *err) {
  for (int kind = SEAL_READONLY; kind < SEAL_KINDS; kind++)
    for (unsigned i = 0; i < job->seal_count; i++) {
      const struct seal *seal = &job->seals[i];
      if ((int)seal->kind != kind || is_masked(job, seal->path)) continue;
      if (apply_seal(&job->plan, seal, err)) return -1;
    }
  return 0;
}

int mounts_count(int mountinfo) {
  char text[16384];
  int lines = 0;
  ssize_t size;
  if (lseek(mountinfo, 0, SEEK_SET)) return -1;
  while ((size = read(mountinfo, text, sizeof text)) > 0)
    for (ssize_t i = 0; i < size; i++) lines += text[i] == '\n';
  return size < 0 ? -1 : lines;
}

// Opens mountinfo, through which the warden learns that a mount disappeared. The mounts are counted
// before the seals are checked again: a seal lost earlier fails this check, one lost later is
// missing from the count.
int mounts_record(struct setup *setup, struct failure *err) {
  const struct job *job = setup->job;
  setup->mountinfo_fd = openat(host.proc_fd, "self/mountinfo", O_RDONLY | O_CLOEXEC);
  setup->mount_count = setup->mountinfo_fd < 0 ? -1 : mounts_count(setup->mountinfo_fd);
  if (setup->mount_count < 0) return mount_error(err, "watching", "the box's mounts");
  for (unsigned i = 0; i < job->seal_count; i++) {
    const struct seal *seal = &job->seals[i];
    if (!bind_is_writable(&job->plan.binds[seal->bind])) continue;
    if (is_masked(job, seal->path)) continue;
    int fd = box_open_path(seal->path);
    bool sealed = fd >= 0 && is_mount_root(fd);
    if (fd >= 0) close(fd);
    if (!sealed) return fail(err, REFUSED_PROBE, "%.220s changed while being sealed", seal->path);
  }
  return 0;
}
