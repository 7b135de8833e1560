// People's own mailboxes. The daemons deliver mail into a directory of a person through a mount
// that only they see: in it the person's files appear as the daemons', and what the daemons write
// belongs to the person. The mount follows no symbolic link, so nothing that a person puts there
// leads the daemons elsewhere; and it is that directory alone, so they reach nothing else.
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keeper.h"

#define TREE_CLONE 1
#define FROM_EMPTY 4
#define ATTR_NOSUID 0x2
#define ATTR_NODEV 0x4
#define ATTR_NOEXEC 0x8
#define ATTR_IDMAP 0x100000
#define ATTR_NOSYMFOLLOW 0x200000
#define PROPAGATION_PRIVATE (1u << 18)
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

struct mount_attributes {
  uint64_t set, clear, propagation, userns_fd;
};

static int write_map(pid_t pid, const char *name, unsigned from, unsigned to) {
  char path[64], line[40];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int size = snprintf(line, sizeof line, "%u %u 1\n", from, to);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  bool bad = write(fd, line, (size_t)size) != size;
  int error = errno;
  close(fd);
  errno = error;
  return bad ? -1 : 0;
}

// Returns a user namespace that maps the person's ids to the daemons'; a child creates it and ends.
static int map_ids(const struct mailbox *box, const struct launch_spec *spec) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC)) return -1;
  pid_t pid = fork();
  if (pid == 0) {
    char byte = unshare(CLONE_NEWUSER) ? (char)errno : 0;
    if (write(ready[1], &byte, 1) == 1) pause();
    _exit(0);
  }
  close(ready[1]);
  char failed = EIO, path[64];
  int fd = -1;
  bool started = pid > 0 && read(ready[0], &failed, 1) == 1 && !failed;
  int error = pid < 0 ? errno : failed;
  close(ready[0]);
  if (started) {
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    bool mapped = fd >= 0 && !write_map(pid, "uid_map", box->uid, spec->uid) &&
                  !write_map(pid, "gid_map", box->gid, spec->gid);
    error = errno;
    if (!mapped && fd >= 0) {
      close(fd);
      fd = -1;
    }
  }
  if (pid > 0) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  errno = error;
  return fd;
}

// Opened, and made if it is missing, with the rights of the person: root goes nowhere for them.
static int open_as_person(const struct mailbox *box) {
  struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                         .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  int fd = -1;
  if (!setegid(box->gid) && !seteuid(box->uid)) {
    mkdir(box->path, 0700);
    fd = (int)syscall(SYS_openat2, AT_FDCWD, box->path, &how, sizeof how);
  }
  int error = errno;
  if (seteuid(0) || setegid(0)) _exit(70);
  errno = error;
  return fd;
}

static int mount_one(const struct mailbox *box, const struct launch_spec *spec, const char **step) {
  struct stat st;
  char target[PATH_MAX];
  snprintf(target, sizeof target, "%s%s/%s", spec->warden_dir, MAILBOXES, box->name);
  *step = "opening it";
  int dir = open_as_person(box);
  if (dir < 0) return -1;
  *step = "its owner";
  errno = EPERM;
  int tree = -1, namespace = -1, result = -1;
  if (fstat(dir, &st) || st.st_uid != box->uid) goto done;
  *step = "cloning its mount";
  tree = (int)syscall(SYS_open_tree, dir, "", AT_EMPTY_PATH | TREE_CLONE | O_CLOEXEC);
  if (tree < 0) goto done;
  *step = "mapping its owner (ext4, xfs, btrfs or tmpfs on Linux 6.3 or newer can)";
  namespace = map_ids(box, spec);
  struct mount_attributes attributes = {
      .set = ATTR_IDMAP | ATTR_NOSYMFOLLOW | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC,
      .propagation = PROPAGATION_PRIVATE,
      .userns_fd = (uint64_t)namespace,
  };
  if (namespace < 0 ||
      syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes))
    goto done;
  *step = "mounting it";
  if (mkdir(target, 0700)) goto done;
  result = (int)syscall(SYS_move_mount, tree, "", AT_FDCWD, target, FROM_EMPTY);
  // Without it, the daemons keep this person's mail themselves.
  if (result) rmdir(target);
done:;
  int error = errno;
  if (namespace >= 0) close(namespace);
  if (tree >= 0) close(tree);
  close(dir);
  errno = error;
  return result;
}

int mailboxes_mount(const struct launch_spec *spec) {
  char dir[PATH_MAX];
  snprintf(dir, sizeof dir, "%s%s", spec->warden_dir, MAILBOXES);
  if (mount("tmpfs", dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755,size=64k"))
    return -1;
  for (unsigned i = 0; i < spec->mailbox_count; i++) {
    const struct mailbox *box = &spec->mailboxes[i];
    const char *step;
    // A person can take their directory away; that must not keep the runtime from starting.
    if (mount_one(box, spec, &step))
      fprintf(stderr, "keeper: the mailbox of %s stays in the state directory: %s: %s: %s\n",
              box->name, box->path, step, strerror(errno));
  }
  return 0;
}
