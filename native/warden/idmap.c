// Mounts in which the files of one user appear as another's, and are created as that user's: the
// box of a tree edits a person's files, and they stay the person's. Only root can do that. The
// kernel takes the mapping from a user namespace, which a short-lived child creates.
#include "layer.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

// A tree opens many boxes with one mapping.
#define CACHE_MAX 64
static struct mapping {
  struct owner from, to;
  int fd;
} cache[CACHE_MAX];
static unsigned cached;

static bool is_same(struct owner a, struct owner b) { return a.uid == b.uid && a.gid == b.gid; }

static int write_setting(pid_t pid, const char *name, const char *text) {
  char path[32];
  snprintf(path, sizeof path, "%d/%s", pid, name);
  return write_file(host.proc_fd, path, text);
}

// Sends its user namespace, then waits for the other end to be closed.
__attribute__((noreturn)) static void hold_namespace(int sock) {
  int fd = openat(host.proc_fd, "self/ns/user", O_RDONLY | O_CLOEXEC);
  char byte = 0;
  if (fd >= 0 && !fds_send(sock, &byte, 1, &fd, 1)) recv(sock, &byte, 1, 0);
  _exit(0);
}

int user_namespace_create(const char *uid_map, const char *gid_map) {
  int socks[2], fd = -1;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks)) return -1;
  struct k_clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
  pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid == 0) {
    close(socks[0]);
    hold_namespace(socks[1]);
  }
  int error = errno;
  close(socks[1]);
  unsigned count = 0;
  char byte;
  if (pid > 0) {
    errno = EIO;
    bool received = fds_recv(socks[0], &byte, 1, &fd, 1, &count, 0) == 1 && count == 1;
    bool mapped = received && !write_setting(pid, "setgroups", "deny") &&
                  !write_setting(pid, "uid_map", uid_map) &&
                  !write_setting(pid, "gid_map", gid_map);
    error = errno;
    if (!mapped && received) close(fd);
    if (!mapped) fd = -1;
  }
  close(socks[0]);
  if (pid > 0) waitpid(pid, NULL, 0);
  errno = error;
  return fd;
}

// Returns a descriptor that the cache owns.
static int find_namespace(struct owner from, struct owner to) {
  for (unsigned i = 0; i < CACHE_MAX && i < cached; i++)
    if (is_same(cache[i].from, from) && is_same(cache[i].to, to)) return cache[i].fd;
  char uid_map[40], gid_map[40];
  snprintf(uid_map, sizeof uid_map, "%u %u 1\n", from.uid, to.uid);
  snprintf(gid_map, sizeof gid_map, "%u %u 1\n", from.gid, to.gid);
  int fd = user_namespace_create(uid_map, gid_map);
  if (fd < 0) return -1;
  struct mapping *slot = &cache[cached++ % CACHE_MAX];
  if (cached > CACHE_MAX) close(slot->fd);
  *slot = (struct mapping){from, to, fd};
  return fd;
}

static int clone_mount(int fd, unsigned recursive) {
  return k_open_tree(fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC | recursive);
}

int idmap_clone(int fd, struct owner from, struct owner to, bool recursive, struct failure *err) {
  unsigned flags = recursive ? K_AT_RECURSIVE : 0;
  int tree = clone_mount(fd, flags);
  if (tree < 0) return fail(err, REFUSED_SETUP, "open_tree: %s", strerror(errno));
  if (is_same(from, to)) return tree;
  int namespace = find_namespace(from, to);
  int bad = namespace < 0 || k_mount_idmap(tree, namespace, flags);
  // A mount below it may be of a kind that cannot be mapped: leave it out.
  if (bad && namespace >= 0 && recursive) {
    close(tree);
    tree = clone_mount(fd, 0);
    bad = tree < 0 || k_mount_idmap(tree, namespace, 0);
  }
  if (!bad) return tree;
  int error = errno;
  k_close(tree);
  fail(err, REFUSED_HOST, "the owner of its files cannot be mapped: %s", strerror(error));
  if (namespace >= 0)
    snprintf(err->hint, sizeof err->hint,
             "this file system or kernel has no mapped mounts: work on a layer there (no --live; box "
             "run --layer), or use ext4, xfs, btrfs or tmpfs on Linux 6.3 or newer");
  return -1;
}
