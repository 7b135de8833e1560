// The box's file tree: an empty root on a tmpfs, the declared paths moved onto it, protected paths
// sealed, then the root made read-only. Runs in the box's init, alone in its mount namespace.
#include "warden.h"

#include <errno.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define OWN_MAX 1200
static dev_t own[OWN_MAX];  // file systems made for this box: only there are mount points created
static unsigned own_count;

static int broken(struct failure *why, const char *step, const char *path) {
  return fail(why, REFUSED_SETUP, "%s %.220s: %s", step, path, strerror(errno));
}

int tmpfs_make(const char *size, const char *mode, unsigned attrs) {
  int fs = k_fsopen("tmpfs");
  if (fs < 0) return -1;
  int bad = k_fsconfig(fs, K_FSCONFIG_STRING, "size", size) ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "nr_inodes", "65536") ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "mode", mode) ||
            k_fsconfig(fs, K_FSCONFIG_CREATE, NULL, NULL);
  int mount = bad ? -1 : k_fsmount(fs, attrs);
  close(fs);
  struct stat about;
  // One that is not known as the box's own would be taken for the host's.
  if (mount >= 0 && (own_count == OWN_MAX || fstat(mount, &about))) {
    close(mount);
    errno = EMFILE;
    return -1;
  }
  if (mount >= 0) own[own_count++] = about.st_dev;
  return mount;
}

static int new_proc(bool subset) {
  int fs = k_fsopen("proc");
  if (fs < 0) return -1;
  int bad = 0;
  if (subset) {
    bad = k_fsconfig(fs, K_FSCONFIG_STRING, "hidepid", "invisible") ||
          k_fsconfig(fs, K_FSCONFIG_STRING, "subset", "pid");
  }
  bad = bad || k_fsconfig(fs, K_FSCONFIG_CREATE, NULL, NULL);
  int mount = bad ? -1 : k_fsmount(fs, K_ATTR_NOSUID | K_ATTR_NODEV | K_ATTR_NOEXEC);
  int error = errno;
  close(fs);
  errno = error;
  return mount;
}

bool is_box_own(int fd) {
  struct stat about;
  if (fstat(fd, &about)) return false;
  for (unsigned i = 0; i < own_count; i++)
    if (own[i] == about.st_dev) return true;
  return false;
}

int mount_point_make(int dir, const char *name, bool directory) {
  if (directory) return mkdirat(dir, name, 0755);
  int fd = openat(dir, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
  if (fd < 0) return -1;
  close(fd);
  return 0;
}

// Opens `path` in the box without following any link. With `make`, what is missing is made, but
// only on the box's own file systems: a mount point never appears in anybody's files.
static int reach(const char *path, bool make, bool directory) {
  int whole = k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS);
  if (whole >= 0 || errno != ENOENT || !make) return whole;
  char words[PATH_BYTES];
  snprintf(words, sizeof words, "%s", path + 1);
  int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  char *rest = words, *word;
  while (dir >= 0 && (word = strsep(&rest, "/")) && *word) {
    int next = k_openat2(dir, word, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    if (next < 0 && errno == ENOENT && make && is_box_own(dir) &&
        !mount_point_make(dir, word, rest || directory))
      next = k_openat2(dir, word, O_PATH | O_CLOEXEC, RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH);
    int error = errno;
    close(dir);
    errno = error;
    dir = next;
  }
  return dir;
}

int box_reach(const char *path) { return reach(path, false, true); }

static int place(int mount, const char *path, struct failure *why) {
  struct stat about;
  if (mount < 0 || fstat(mount, &about)) return broken(why, "preparing", path);
  int at = reach(path, true, S_ISDIR(about.st_mode));
  if (at < 0) return broken(why, "no place for", path);
  int bad = k_move_mount(mount, at);
  int error = errno;
  close(at);
  errno = error;
  return bad ? broken(why, "mounting", path) : 0;
}

static int write_text(const char *path, const char *text, struct failure *why) {
  int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (fd < 0) return broken(why, "writing", path);
  ssize_t done = write(fd, text, strlen(text));
  close(fd);
  return done == (ssize_t)strlen(text) ? 0 : broken(why, "writing", path);
}

static int write_etc(const struct plan *plan, struct failure *why) {
  const char *user = plan->user ? plan->user : "agent";
  char text[512];
  if (mkdir("/etc", 0755)) return broken(why, "making", "/etc");
  snprintf(text, sizeof text, "%s:x:%u:%u::/tmp:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
           user, plan->uid, plan->gid);
  if (write_text("/etc/passwd", text, why)) return -1;
  snprintf(text, sizeof text, "%s:x:%u:\nnogroup:x:65534:\n", user, plan->gid);
  return write_text("/etc/group", text, why) ||
                 write_text("/etc/nsswitch.conf",
                            "passwd: files\ngroup: files\nshadow: files\nhosts: files\n", why) ||
                 write_text("/etc/hosts", "127.0.0.1 localhost box\n::1 localhost\n", why) ||
                 write_text("/etc/hostname", "box\n", why)
             ? -1
             : 0;
}

bool is_mount_root(int fd) {
  struct statx about;
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &about)) return false;
  return about.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

// Puts a path onto itself: a mount point can be neither renamed, nor removed, nor replaced.
static int pin(int fd, bool readonly, const char *path, struct failure *why) {
  int copy =
      k_open_tree(fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
  if (copy < 0) return broken(why, "copying the mount", path);
  int bad = (readonly && k_mount_setattr(copy, K_ATTR_RDONLY, 1)) || k_move_mount(copy, fd);
  int error = errno;
  close(copy);
  errno = error;
  return bad ? broken(why, "sealing", path) : 0;
}

static int cover(int fd, const char *path, struct failure *why) {
  struct stat about;
  if (fstat(fd, &about)) return broken(why, "masking", path);
  int empty = tmpfs_make("4k", "0555", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (empty < 0) return broken(why, "masking", path);
  int from = empty;
  if (!S_ISDIR(about.st_mode)) {
    int file = openat(empty, "empty", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444);
    if (file >= 0) close(file);
    // A detached mount cannot be cloned on older kernels: give it a place first.
    int at = open("/mnt-empty", O_PATH | O_CLOEXEC);
    if (at < 0 && !mkdir("/mnt-empty", 0)) at = open("/mnt-empty", O_PATH | O_CLOEXEC);
    if (at < 0 || k_move_mount(empty, at)) return broken(why, "masking", path);
    close(at);
    int held = openat(empty, "empty", O_PATH | O_CLOEXEC);
    from = k_open_tree(held, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
    close(held);
    umount2("/mnt-empty", MNT_DETACH);
    rmdir("/mnt-empty");
  }
  int bad = k_mount_setattr(from, K_ATTR_RDONLY, 0) || k_move_mount(from, fd);
  int error = errno;
  if (from != empty) close(from);
  close(empty);
  errno = error;
  return bad ? broken(why, "masking", path) : 0;
}

// What is now at the name must be no link any more, and refuse writing: proof, not trust.
static int prove_seal(const char *path, struct failure *why) {
  struct statvfs state;
  int fd = reach(path, false, true);
  bool bad = fd < 0 || fstatvfs(fd, &state) || !(state.f_flag & ST_RDONLY);
  if (fd >= 0) close(fd);
  return bad ? fail(why, REFUSED_PROBE, "%.220s is not read-only", path) : 0;
}

// A link is held in place by a file mounted on its name; where it leads has its own seal. A hidden
// one shows nothing, and no link shows what only our own process could reach.
static int seal_link(const char *path, bool hidden, struct failure *why) {
  char parent[PATH_BYTES];
  snprintf(parent, sizeof parent, "%s", path);
  char *name = strrchr(parent, '/');
  *name++ = 0;
  int dir = reach(*parent ? parent : "/", false, true);
  int link = dir < 0 ? -1 : openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (dir >= 0) close(dir);
  struct stat about;
  if (link < 0 || fstat(link, &about)) return broken(why, "opening", path);
  int bad;
  int target = hidden ? -1
                      : k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
  if (!S_ISLNK(about.st_mode)) {
    bad = fail(why, REFUSED_SETUP, "%.220s changed while it was being sealed", path);
  } else if (target >= 0 && !fstat(target, &about) && S_ISREG(about.st_mode)) {
    int copy = k_open_tree(target, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
    bad = copy < 0 || k_mount_setattr(copy, K_ATTR_RDONLY, 0) || k_move_mount(copy, link);
    if (bad) broken(why, "sealing", path);
    if (copy >= 0) close(copy);
  } else {
    bad = cover(link, path, why);
  }
  if (target >= 0) close(target);
  close(link);
  return bad ? -1 : 0;
}

static int pin_parents(const struct plan *plan, const struct seal *seal, struct failure *why) {
  const struct bind *root = &plan->binds[seal->bind];
  if (root->kind != BIND_RW) return 0;
  char part[PATH_BYTES];
  snprintf(part, sizeof part, "%s", seal->path);
  for (char *slash = part + strlen(root->dst) + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    int fd = reach(part, false, true);
    if (fd < 0) return broken(why, "opening", part);
    int bad = is_mount_root(fd) ? 0 : pin(fd, false, part, why);
    close(fd);
    if (bad) return -1;
    *slash = '/';
  }
  return 0;
}

static int apply_seal(const struct plan *plan, const struct seal *seal, struct failure *why) {
  if (GUARDED(plan, GUARD_READONLY)) {
    if (plan->binds[seal->bind].kind != BIND_RW && seal->kind == SEAL_MASK)
      return freeze_and_mask(seal->path, why);
    if (freeze_way_to(seal->path, why)) return -1;
  }
  if (pin_parents(plan, seal, why)) return -1;
  if (seal->kind >= SEAL_LINK)
    return seal_link(seal->path, seal->kind == SEAL_HIDDEN_LINK, why) ||
                   prove_seal(seal->path, why)
               ? -1
               : 0;
  int fd = reach(seal->path, false, true);
  if (fd < 0 && errno == ENOENT && plan->binds[seal->bind].kind != BIND_RW) return 0;
  if (fd < 0) return broken(why, "sealing", seal->path);
  int bad = seal->kind == SEAL_MASK ? cover(fd, seal->path, why)
                                    : pin(fd, true, seal->path, why);
  close(fd);
  return bad || prove_seal(seal->path, why) ? -1 : 0;
}

// What is in a directory that shows as empty is not there to be sealed.
bool seal_is_masked(const struct seal *seals, unsigned count, const char *path) {
  for (unsigned i = 0; i < count; i++) {
    size_t size = strlen(seals[i].path);
    if (seals[i].kind == SEAL_MASK && !strncmp(seals[i].path, path, size) && path[size] == '/')
      return true;
  }
  return false;
}

static bool is_masked(const struct job *job, const char *path) {
  return seal_is_masked(job->seals, job->seal_count, path);
}

static int apply_seals(const struct plan *plan, const struct job *job, struct failure *why) {
  for (int kind = SEAL_READONLY; kind < SEAL_KINDS; kind++)
    for (unsigned i = 0; i < job->seal_count; i++) {
      const struct seal *seal = &job->seals[i];
      if ((int)seal->kind != kind || is_masked(job, seal->path)) continue;
      if (apply_seal(plan, seal, why)) return -1;
    }
  return 0;
}

static int place_bind(const struct setup *setup, unsigned i, struct failure *why) {
  const struct bind *bind = &setup->plan->binds[i];
  uint64_t attrs = K_ATTR_NODEV;
  if (GUARDED(setup->plan, GUARD_NNP)) attrs |= K_ATTR_NOSUID;
  if (bind->flags & BIND_NOEXEC) attrs |= K_ATTR_NOEXEC;
  if (bind->kind == BIND_TMPFS) {
    char size[32];
    snprintf(size, sizeof size, "%uk", bind->size_kib ? bind->size_kib : 65536);
    int fd = tmpfs_make(size, "1777", (unsigned)attrs);
    int bad = place(fd, bind->dst, why);
    if (fd >= 0) close(fd);
    return bad;
  }
  if (bind->kind == BIND_SYMLINK) {
    char parent[PATH_BYTES];
    snprintf(parent, sizeof parent, "%s", bind->dst);
    char *name = strrchr(parent, '/');
    *name++ = 0;
    int dir = reach(*parent ? parent : "/", true, true);
    int bad = dir < 0 || !is_box_own(dir) || symlinkat(bind->src, dir, name);
    if (dir >= 0) close(dir);
    return bad ? broken(why, "linking", bind->dst) : 0;
  }
  if (bind->kind == BIND_RO && GUARDED(setup->plan, GUARD_READONLY)) attrs |= K_ATTR_RDONLY;
  if (k_mount_seclude(setup->fds[i]) || k_mount_setattr(setup->fds[i], attrs, 1))
    return broken(why, "setting attributes of", bind->dst);
  return place(setup->fds[i], bind->dst, why);
}

static int enter_root(const struct setup *setup, int *proc, struct failure *why) {
  char base[PATH_BYTES];
  snprintf(base, sizeof base, "%s/root", host.run);
  // While the host's /proc is still in sight: the kernel gives an ordinary user no other.
  *proc = new_proc(GUARDED(setup->plan, GUARD_PROC_SUBSET));
  if (*proc < 0) {
    broken(why, "mounting a private", "/proc");
    snprintf(why->hint, sizeof why->hint,
             "the host's own /proc is partly masked, as in a container: run the warden outside");
    return -1;
  }
  int root = tmpfs_make("1m", "0755", K_ATTR_NOSUID | K_ATTR_NODEV);
  int at = open(base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (root < 0 || at < 0 || k_move_mount(root, at)) return broken(why, "mounting", base);
  close(at);
  if (fchdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) || chdir("/"))
    return broken(why, "entering", base);
  close(root);
  return 0;
}

// Everything that is the same in every box.
int mounts_prepare(const struct setup *setup, struct failure *why) {
  int proc;
  if (enter_root(setup, &proc, why)) return -1;
  int bad = place(proc, "/proc", why);
  close(proc);
  if (bad) return -1;
  if (place(setup->dev, "/dev", why)) return -1;
  int shm = tmpfs_make("64m", "1777", K_ATTR_NOSUID | K_ATTR_NODEV | K_ATTR_NOEXEC);
  if (place(shm, "/dev/shm", why)) return -1;
  close(shm);
  int tmp = tmpfs_make("256m", "1777", K_ATTR_NOSUID | K_ATTR_NODEV);
  if (place(tmp, "/tmp", why)) return -1;
  close(tmp);
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

// What tells the warden that a mount of this box went. Counted before the seals are looked at once
// more: one that goes from now on is missing from the count, one that went before is missing here.
static int watch_seals(struct setup *setup, struct failure *why) {
  const struct job *job = setup->job;
  setup->watch = openat(host.proc, "self/mountinfo", O_RDONLY | O_CLOEXEC);
  setup->mounts = setup->watch < 0 ? -1 : mounts_count(setup->watch);
  if (setup->mounts < 0) return broken(why, "watching", "the box's mounts");
  for (unsigned i = 0; i < job->seal_count; i++) {
    const struct seal *seal = &job->seals[i];
    if (job->plan.binds[seal->bind].kind != BIND_RW) continue;
    if (is_masked(job, seal->path)) continue;
    int fd = reach(seal->path, false, true);
    bool held = fd >= 0 && is_mount_root(fd);
    if (fd >= 0) close(fd);
    if (!held)
      return fail(why, REFUSED_PROBE, "%.220s changed while it was being sealed", seal->path);
  }
  return 0;
}

int mounts_build(struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  if (write_etc(plan, why)) return -1;
  for (unsigned i = 0; i < plan->bind_count; i++)
    if (plan->binds[i].kind < BIND_MASK && place_bind(setup, i, why)) return -1;
  if (apply_seals(plan, setup->job, why)) return -1;
  if (GUARDED(plan, GUARD_READONLY)) {
    int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    int bad = k_mount_setattr(root, K_ATTR_RDONLY, 0);
    close(root);
    if (bad) return broken(why, "making read-only", "/");
  }
  return setup->job->seal_count ? watch_seals(setup, why) : 0;
}
