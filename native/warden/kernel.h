// Kernel interfaces that older libc headers lack: Landlock, mount calls, clone3. Thin wrappers
// without logic.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

// Landlock rights, with the ABI that introduced them.
#define LL_EXECUTE (1ull << 0)
#define LL_WRITE_FILE (1ull << 1)
#define LL_READ_FILE (1ull << 2)
#define LL_READ_DIR (1ull << 3)
#define LL_REMOVE_DIR (1ull << 4)
#define LL_REMOVE_FILE (1ull << 5)
#define LL_MAKE_CHAR (1ull << 6)
#define LL_MAKE_DIR (1ull << 7)
#define LL_MAKE_REG (1ull << 8)
#define LL_MAKE_SOCK (1ull << 9)
#define LL_MAKE_FIFO (1ull << 10)
#define LL_MAKE_BLOCK (1ull << 11)
#define LL_MAKE_SYM (1ull << 12)
#define LL_REFER (1ull << 13)      // ABI 2
#define LL_TRUNCATE (1ull << 14)   // ABI 3
#define LL_IOCTL_DEV (1ull << 15)  // ABI 5
#define LL_NET_BIND (1ull << 0)    // ABI 4
#define LL_NET_CONNECT (1ull << 1) // ABI 4
#define LL_SCOPE_ABSTRACT (1ull << 0) // ABI 6
#define LL_SCOPE_SIGNAL (1ull << 1)   // ABI 6

struct ll_ruleset {
  uint64_t fs, net, scoped;
};

#define K_OPEN_TREE_CLONE 1
#define K_AT_RECURSIVE 0x8000
#define K_MOVE_FROM_EMPTY 0x4
#define K_MOVE_TO_EMPTY 0x40
#define K_ATTR_RDONLY 0x1
#define K_ATTR_NOSUID 0x2
#define K_ATTR_NODEV 0x4
#define K_ATTR_NOEXEC 0x8
#define K_ATTR_IDMAP 0x100000
#define K_MS_PRIVATE (1u << 18)
#define K_FSCONFIG_FLAG 0
#define K_FSCONFIG_STRING 1
#define K_FSCONFIG_CREATE 6
#define K_FSCONFIG_RECONFIGURE 7

struct k_mount_attr {
  uint64_t set, clear, propagation, userns_fd;
};

struct k_clone_args {
  uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
      set_tid_size, cgroup;
};
#define K_CLONE_INTO_CGROUP 0x200000000ull

#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

// Closes fd, unless it is negative. Keeps errno.
static inline void k_close(int fd) {
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
}

static inline int k_openat2(int dir, const char *path, uint64_t flags, uint64_t resolve) {
  struct open_how how = {.flags = flags, .resolve = resolve};
  return (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
}

static inline int k_open_tree(int dir, const char *path, unsigned flags) {
  return (int)syscall(SYS_open_tree, dir, path, flags);
}

static inline int k_move_mount(int from, int to) {
  return (int)syscall(SYS_move_mount, from, "", to, "", K_MOVE_FROM_EMPTY | K_MOVE_TO_EMPTY);
}

static inline int k_mount_setattr(int fd, uint64_t set, int recursive) {
  struct k_mount_attr attr = {.set = set};
  return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | (recursive ? K_AT_RECURSIVE : 0),
                      &attr, sizeof attr);
}

// Keeps later mounts of the host out: they would not have our attributes.
static inline int k_mount_make_private(int fd) {
  struct k_mount_attr attr = {.propagation = K_MS_PRIVATE};
  return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | K_AT_RECURSIVE, &attr,
                      sizeof attr);
}

// Shows the owners of files as the user namespace maps them.
static inline int k_mount_idmap(int fd, int user_namespace, unsigned recursive) {
  struct k_mount_attr attr = {.set = K_ATTR_IDMAP, .userns_fd = (uint64_t)user_namespace};
  return (int)syscall(SYS_mount_setattr, fd, "", AT_EMPTY_PATH | recursive, &attr, sizeof attr);
}

static inline int k_fsopen(const char *type) { return (int)syscall(SYS_fsopen, type, 1); }
static inline int k_fsconfig(int fd, unsigned cmd, const char *key, const char *value) {
  return (int)syscall(SYS_fsconfig, fd, cmd, key, value, 0);
}
static inline int k_fsmount(int fd, unsigned attrs) {
  return (int)syscall(SYS_fsmount, fd, 1, attrs);
}
