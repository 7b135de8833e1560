// Mounts overlays. Every directory is given by descriptor: the options of a mount are readable in
// every box that has it, and name no path of the host this way. The mounts are attached to
// DIR/layers, in the warden's mount namespace only, because older kernels cannot copy a mount that
// is attached nowhere.
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#define OVERLAY_MAGIC 0x794c7630
#define PROBE_POINT 0

static int points_fd = -1;  // DIR/layers: a tmpfs of the warden's

static void point_name(char name[16], const char *kind, unsigned point) {
  snprintf(name, 16, "%s%u", kind, point);
}

// Attaches a detached mount to a new directory of DIR/layers.
static int attach(int mount, const char *name) {
  if (mkdirat(points_fd, name, 0700) && errno != EEXIST) return -1;
  int at = openat(points_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int bad = at < 0 || k_move_mount(mount, at);
  k_close(at);
  return bad ? -1 : 0;
}

static void detach(const char *name) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/layers/%s", host.run_dir, name);
  umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
  unlinkat(points_fd, name, AT_REMOVEDIR);
}

static int set_dir(int fs, const char *key, int fd) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return k_fsconfig(fs, K_FSCONFIG_STRING, key, path);
}

// One by one since Linux 6.7; before, in one value of up to 255 bytes.
static int set_lowers(int fs, const int *fds, unsigned count) {
  if (!set_dir(fs, "lowerdir+", fds[0])) {
    for (unsigned i = 1; i < count; i++)
      if (set_dir(fs, "lowerdir+", fds[i])) return -1;
    return 0;
  }
  char list[256];
  size_t used = 0;
  for (unsigned i = 0; i < count; i++) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s/proc/self/fd/%d", i ? ":" : "",
                             fds[i]);
    if (used >= sizeof list) {
      errno = E2BIG;
      return -1;
    }
  }
  return k_fsconfig(fs, K_FSCONFIG_STRING, "lowerdir", list);
}

// Each option is set, whatever the module's defaults are: an index would refuse a lower that was
// replaced, and metacopy would keep the content of a changed file below.
static int set_options(int fs) {
  if (k_fsconfig(fs, K_FSCONFIG_STRING, "source", "layer") ||
      k_fsconfig(fs, K_FSCONFIG_STRING, "index", "off"))
    return -1;
  // An ordinary user cannot write trusted.*, and the kernel then allows no redirects.
  if (!host.root) return k_fsconfig(fs, K_FSCONFIG_FLAG, "userxattr", NULL);
  return k_fsconfig(fs, K_FSCONFIG_STRING, "redirect_dir", "on") ||
                 k_fsconfig(fs, K_FSCONFIG_STRING, "metacopy", "off")
             ? -1
             : 0;
}

// The kernel's own words, if it left any.
static void explain(int fs, int error, struct failure *err) {
  char text[160] = "";
  ssize_t size = read(fs, text, sizeof text - 1);
  if (size < 0) size = 0;
  text[size] = 0;
  text[strcspn(text, "\n")] = 0;
  const char *words = size > 2 && text[1] == ' ' ? text + 2 : "";
  fail(err, REFUSED_OVERLAY, "mounting the layer: %s%s%.150s", strerror(error), *words ? ": " : "",
       words);
  if (!host.root && error == EINVAL)
    snprintf(err->hint, sizeof err->hint,
             "without root, a directory in which something is mounted cannot be a layer");
}

static int create(const struct overlay *overlay, const int *lowers, struct failure *err) {
  int fs = k_fsopen("overlay");
  if (fs < 0) {
    fail(err, REFUSED_OVERLAY, "the kernel mounts no overlay: %s", strerror(errno));
    if (errno == ENODEV) snprintf(err->hint, sizeof err->hint, "modprobe overlay");
    return -1;
  }
  int bad = set_options(fs) || set_lowers(fs, lowers, overlay->lower_count) ||
            set_dir(fs, "upperdir", overlay->upper) || set_dir(fs, "workdir", overlay->work) ||
            k_fsconfig(fs, K_FSCONFIG_CREATE, NULL, NULL);
  int mount = bad ? -1 : k_fsmount(fs, K_ATTR_NOSUID | K_ATTR_NODEV);
  if (mount < 0) explain(fs, errno, err);
  close(fs);
  return mount;
}

static int check_upper(int upper, struct failure *err) {
  struct statfs fs;
  if (fstatfs(upper, &fs)) return fail(err, REFUSED_SETUP, "statfs: %s", strerror(errno));
  if (fs.f_type != OVERLAY_MAGIC) return 0;
  fail(err, REFUSED_OVERLAY, "the layer's own directory is on an overlay, which takes no changes of "
                             "another one");
  snprintf(err->hint, sizeof err->hint,
           "in a container, put the state directory on a volume: ext4, xfs, btrfs or tmpfs");
  return -1;
}

int overlay_mount(const struct overlay *overlay, unsigned point, struct failure *err) {
  char name[16], lower_name[16];
  point_name(name, "", point);
  point_name(lower_name, "lower", point);
  if (check_upper(overlay->upper, err)) return -1;
  int lowers[SEALED_MAX + 1];
  unsigned last = overlay->lower_count - 1;
  memcpy(lowers, overlay->lowers, sizeof lowers);
  if (host.root) {
    lowers[last] = idmap_clone(lowers[last], overlay->from, overlay->to, false, err);
    if (lowers[last] < 0) {
      // Who makes a copy needs no mapped mount (owner-rights.c).
      if (err->code == REFUSED_HOST) err->code = REFUSED_OVERLAY;
      return -1;
    }
    if (attach(lowers[last], lower_name)) {
      fail(err, REFUSED_SETUP, "attaching the lower directory: %s", strerror(errno));
      close(lowers[last]);
      return -1;
    }
  }
  int mount = create(overlay, lowers, err);
  if (host.root) {  // the overlay has its own copy
    close(lowers[last]);
    detach(lower_name);
  }
  if (mount >= 0 && attach(mount, name)) {
    fail(err, REFUSED_SETUP, "attaching the layer: %s", strerror(errno));
    detach(name);
    close(mount);
    return -1;
  }
  return mount;
}

int copy_mount(int dir, unsigned point, struct failure *err) {
  char name[16];
  point_name(name, "", point);
  int mount = k_open_tree(dir, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
  if (mount >= 0 && !k_mount_setattr(mount, K_ATTR_NOSUID | K_ATTR_NODEV, 0) &&
      !attach(mount, name))
    return mount;
  fail(err, REFUSED_SETUP, "attaching the copy: %s", strerror(errno));
  if (mount >= 0) detach(name);
  k_close(mount);
  return -1;
}

void overlay_unmount(unsigned point) {
  char name[16];
  point_name(name, "", point);
  detach(name);
}

// ── which layers this machine supports ──

static int open_points(struct failure *err) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/layers", host.run_dir);
  if (mkdir(path, 0700) && errno != EEXIST)
    return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  if (mount("layers", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=700,size=256k"))
    return fail(err, REFUSED_SETUP, "mounting a tmpfs: %s", strerror(errno));
  points_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (points_fd < 0 || mkdirat(points_fd, "upper", 0700) || mkdirat(points_fd, "work", 0700))
    return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  return 0;
}

static int try_lower(const char *path, struct failure *err) {
  struct stat st;
  int flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  int lower = k_openat2(AT_FDCWD, path, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (lower < 0 || fstat(lower, &st)) {
    k_close(lower);
    return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  }
  struct overlay overlay = {
      .lowers = {lower},
      .lower_count = 1,
      .upper = openat(points_fd, "upper", flags),
      .work = openat(points_fd, "work", flags),
      .from = {st.st_uid, st.st_gid},
      .to = {65534, 65534},
  };
  int mount = overlay_mount(&overlay, PROBE_POINT, err);
  if (mount >= 0) overlay_unmount(PROBE_POINT);
  k_close(mount);
  k_close(overlay.work);
  k_close(overlay.upper);
  close(lower);
  return mount < 0 ? -1 : 0;
}

// Where layers will be wanted; or else in the warden's own directory.
static int try_lowers(const struct bounds *b, struct failure *err) {
  struct failure later;
  for (unsigned i = 0; i < b->prefix_count; i++)
    if (b->prefixes[i].use == PREFIX_WRITE &&
        !try_lower(b->prefixes[i].path, err->code ? &later : err))
      return 0;
  return try_lower(host.run_dir, err->code ? &later : err);
}

void overlay_probe(const struct bounds *b) {
  struct failure err = {0};
  if (!host.namespaces || !host.landlock)
    fail(&err, REFUSED_HOST, "%.300s", host.namespaces ? "no Landlock" : host.missing);
  else if (!open_points(&err) && !try_lowers(b, &err)) err.code = 0;
  if (!err.code) snprintf(host.layers, sizeof host.layers, "%s", host.root ? "root" : "user");
  else if (err.code == REFUSED_OVERLAY)
    snprintf(host.layers, sizeof host.layers, "copy: %s", err.text);
  else snprintf(host.layers, sizeof host.layers, "no: %s", err.text);
}
