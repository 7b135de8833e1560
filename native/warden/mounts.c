// Builds the file tree of a box: an empty root on a tmpfs, the declared paths attached to it,
// protected paths sealed, then the root read-only. Runs in the box's init, in its own mount
// namespace.
#include "init.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

// In a layer and in an owned bind, a file has another owner, inode and device than when its
// repository was last used outside: git would read all files again, or refuse the repository.
#define GIT_CONFIG "[core]\n\tcheckStat = minimal\n[safe]\n\tdirectory = *\n"

#define BOX_DEVICES_MAX 1200
// File systems created for this box; mount points are created only on these.
static dev_t box_devices[BOX_DEVICES_MAX];
static unsigned box_device_count;

int mount_error(struct failure *err, const char *step, const char *path) {
  return fail(err, REFUSED_SETUP, "%s %.220s: %s", step, path, strerror(errno));
}

int tmpfs_create(const char *size, const char *mode, unsigned attrs) {
  int fs = k_fsopen("tmpfs");
  if (fs < 0) return -1;
  int bad = k_fsconfig(fs, K_FSCONFIG_STRING, "size", size) ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "nr_inodes", "65536") ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "mode", mode) ||
            k_fsconfig(fs, K_FSCONFIG_CREATE, NULL, NULL);
  int mount = bad ? -1 : k_fsmount(fs, attrs);
  close(fs);
  struct stat st;
  // Without a record, it would be treated as a file system of the host.
  if (mount >= 0 && (box_device_count == BOX_DEVICES_MAX || fstat(mount, &st))) {
    close(mount);
    errno = EMFILE;
    return -1;
  }
  if (mount >= 0) box_devices[box_device_count++] = st.st_dev;
  return mount;
}

bool is_box_fs(int fd) {
  struct stat st;
  if (fstat(fd, &st)) return false;
  for (unsigned i = 0; i < box_device_count; i++)
    if (box_devices[i] == st.st_dev) return true;
  return false;
}

int mount_point_create(int dir, const char *name, bool directory) {
  if (directory) return mkdirat(dir, name, 0755);
  int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
  if (fd < 0) return -1;
  close(fd);
  return 0;
}

// Opens `path` without following symbolic links. With `create`, missing components are created, but
// only on file systems of the box: a mount point never appears in a file system of the host.
static int open_in_box(const char *path, bool create, bool directory) {
  int fd = k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
  if (fd >= 0 || errno != ENOENT || !create) return fd;
  char components[PATH_BYTES];
  snprintf(components, sizeof components, "%s", path + 1);
  int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  char *rest = components, *name;
  while (dir >= 0 && (name = strsep(&rest, "/")) && *name) {
    int next = k_openat2(dir, name, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    if (next < 0 && errno == ENOENT && create && is_box_fs(dir) &&
        !mount_point_create(dir, name, rest || directory))
      next = k_openat2(dir, name, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    k_close(dir);
    dir = next;
  }
  return dir;
}

int box_open_path(const char *path) { return open_in_box(path, false, true); }

int mount_attach(int mount, const char *path, struct failure *err) {
  struct stat st;
  if (mount < 0 || fstat(mount, &st)) return mount_error(err, "preparing", path);
  int at = open_in_box(path, true, S_ISDIR(st.st_mode));
  if (at < 0) return mount_error(err, "creating the mount point", path);
  int bad = k_move_mount(mount, at);
  k_close(at);
  return bad ? mount_error(err, "mounting", path) : 0;
}

static int write_text(const char *path, const char *text, struct failure *err) {
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (fd < 0) return mount_error(err, "writing", path);
  ssize_t written = write(fd, text, strlen(text));
  close(fd);
  return written == (ssize_t)strlen(text) ? 0 : mount_error(err, "writing", path);
}

static int write_etc(const struct plan *plan, struct failure *err) {
  const char *user = plan->user ? plan->user : "agent";
  char text[512];
  if (mkdir("/etc", 0755)) return mount_error(err, "creating", "/etc");
  snprintf(text, sizeof text, "%s:x:%u:%u::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
           user, plan->uid, plan->gid);
  if (write_text("/etc/passwd", text, err)) return -1;
  snprintf(text, sizeof text, "%s:x:%u:\nnogroup:x:65534:\n", user, plan->gid);
  return write_text("/etc/group", text, err) ||
                 write_text("/etc/nsswitch.conf",
                            "passwd: files\ngroup: files\nshadow: files\nhosts: files\n", err) ||
                 write_text("/etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n", err) ||
                 write_text("/etc/hostname", "box\n", err) ||
                 write_text("/etc/gitconfig", GIT_CONFIG, err)
             ? -1
             : 0;
}

static int attach_bind(const struct setup *setup, unsigned i, struct failure *err) {
  const struct bind *bind = &setup->plan->binds[i];
  uint64_t attrs = K_ATTR_NODEV;
  if (GUARDED(setup->plan, GUARD_NNP)) attrs |= K_ATTR_NOSUID;
  if (bind->flags & BIND_NOEXEC) attrs |= K_ATTR_NOEXEC;
  if (bind->kind == BIND_TMPFS) {
    char size[32];
    snprintf(size, sizeof size, "%uk", bind->size_kib ? bind->size_kib : 65536);
    int fd = tmpfs_create(size, "1777", (unsigned)attrs);
    int bad = mount_attach(fd, bind->dst, err);
    if (fd >= 0) close(fd);
    return bad;
  }
  if (bind->kind == BIND_SYMLINK) {
    char parent[PATH_BYTES];
    const char *name = split_path(bind->dst, parent);
    int dir = open_in_box(parent, true, true);
    int bad = dir < 0 || !is_box_fs(dir) || symlinkat(bind->src, dir, name);
    if (dir >= 0) close(dir);
    return bad ? mount_error(err, "linking", bind->dst) : 0;
  }
  if (!bind_is_writable(bind) && GUARDED(setup->plan, GUARD_READONLY)) attrs |= K_ATTR_RDONLY;
  if (k_mount_make_private(setup->fds[i]) || k_mount_setattr(setup->fds[i], attrs, 1))
    return mount_error(err, "setting attributes of", bind->dst);
  return mount_attach(setup->fds[i], bind->dst, err);
}

static int enter_root(const struct setup *setup, int *proc, struct failure *err) {
  char root_path[PATH_BYTES];
  snprintf(root_path, sizeof root_path, "%s/root", host.run_dir);
  // While the host's /proc is visible: otherwise the kernel denies an ordinary user a new one.
  int fs;
  *proc = proc_create(setup->plan, true, &fs);
  k_close(fs);
  if (*proc < 0) {
    mount_error(err, "mounting a private", "/proc");
    snprintf(err->hint, sizeof err->hint,
             "run the warden outside the container, which masks parts of /proc");
    return -1;
  }
  int root = tmpfs_create("1m", "0755", K_ATTR_NOSUID | K_ATTR_NODEV);
  int at = open(root_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0 || at < 0 || k_move_mount(root, at)) return mount_error(err, "mounting", root_path);
  close(at);
  if (fchdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
    return mount_error(err, "entering", root_path);
  close(root);
  return 0;
}

static int attach_dev(int dev, struct failure *err) {
  if (mount_attach(dev, "/dev", err)) return -1;
  int shm = tmpfs_create("64m", "1777", K_ATTR_NOSUID | K_ATTR_NODEV | K_ATTR_NOEXEC);
  int bad = mount_attach(shm, "/dev/shm", err);
  k_close(shm);
  return bad;
}

// Replaces the /dev of every box by one with terminals.
static int attach_terminals(int dev, struct failure *err) {
  if (umount2("/dev", MNT_DETACH | UMOUNT_NOFOLLOW)) return mount_error(err, "replacing", "/dev");
  if (attach_dev(dev, err)) return -1;
  int terminals = terminals_create();
  int bad = mount_attach(terminals, "/dev/pts", err);
  k_close(terminals);
  return bad;
}

// Mounts what is the same in every box.
int mounts_prepare(const struct setup *setup, struct failure *err) {
  int proc;
  if (enter_root(setup, &proc, err)) return -1;
  int bad = mount_attach(proc, "/proc", err);
  close(proc);
  if (bad) return -1;
  if (attach_dev(setup->dev, err)) return -1;
  int tmp = tmpfs_create("256m", "1777", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (mount_attach(tmp, "/tmp", err)) return -1;
  close(tmp);
  return 0;
}

int mounts_build(struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  if (write_etc(plan, err)) return -1;
  if (plan->proc_entries && proc_entries_attach(plan, err)) return -1;
  if (plan->terminals && attach_terminals(setup->terminals_dev, err)) return -1;
  for (unsigned i = 0; i < plan->bind_count; i++)
    if (!bind_is_seal(&plan->binds[i]) && attach_bind(setup, i, err)) return -1;
  if (seals_apply(setup->job, err)) return -1;
  if (GUARDED(plan, GUARD_READONLY)) {
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int bad = k_mount_setattr(root, K_ATTR_RDONLY, 0);
    close(root);
    if (bad) return mount_error(err, "making read-only", "/");
  }
  return setup->job->seal_count ? mounts_record(setup, err) : 0;
}
