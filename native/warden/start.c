// The birth of a box: checks, descriptors, cgroup, clone. What fails here leaves nothing behind.
#include "box.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static int check_host(const struct plan *plan, struct failure *why) {
  if (halted()) return fail(why, REFUSED_HALT, "everything is halted: the HALT file exists");
  if (boxes_count() >= bounds.boxes_max)
    return fail(why, REFUSED_OVERLOAD, "%u boxes run already: try again later",
                boxes_count());
  if (!host.landlock) {
    fail(why, REFUSED_HOST, "this kernel has no Landlock");
    snprintf(why->hint, sizeof why->hint, "boot a kernel 5.13 or newer with lsm=landlock,...");
    return -1;
  }
  if (plan->level == LEVEL_2 && !host.namespaces) {
    fail(why, REFUSED_HOST, "%s", host.missing);
    snprintf(why->hint, sizeof why->hint, "%s", host.fix);
    return -1;
  }
  // Without a user of its own a level 1 command could end the warden, were it not for this scope.
  if (!host.root && plan->level == LEVEL_1 && !host.namespaces && host.landlock < 6)
    return fail(why, REFUSED_HOST, "level 1 without root needs Landlock 6, here is %d",
                host.landlock);
  return 0;
}

struct ends {
  int pairs[3][2], control[2], dev;
};

static void close_ends(struct ends *ends) {
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (ends->pairs[i][side] >= 0) close(ends->pairs[i][side]);
  for (int side = 0; side < 2; side++)
    if (ends->control[side] >= 0) close(ends->control[side]);
  if (ends->dev >= 0) close(ends->dev);
}

static int open_ends(const struct plan *plan, struct ends *ends, struct failure *why) {
  memset(ends, -1, sizeof *ends);
  int bad = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends->control);
  for (int i = 0; i < 3 && !bad; i++) {
    bad = pipe2(ends->pairs[i], O_CLOEXEC);
    if (bad) break;
    int box_side = ends->pairs[i][i == 0 ? 0 : 1], our_side = ends->pairs[i][i == 0 ? 1 : 0];
    // So that the command can open /dev/stdout again.
    if (host.root) bad = fchown(box_side, plan->uid, plan->gid);
    if (!bad) bad = fcntl(our_side, F_SETFL, O_NONBLOCK);
  }
  if (!bad && plan->level == LEVEL_2) {
    ends->dev = k_open_tree(host.dev, "",
                            AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
    bad = ends->dev < 0;
  }
  return bad ? fail(why, REFUSED_OVERLOAD, "no descriptors left: %s", strerror(errno)) : 0;
}

static uint64_t namespaces_of(const struct plan *plan) {
  uint64_t flags = 0;
  if (plan->level == LEVEL_2) {
    flags = CLONE_NEWNS;
    if (GUARDED(plan, GUARD_IPCNS)) flags |= CLONE_NEWIPC;
    if (GUARDED(plan, GUARD_UTSNS)) flags |= CLONE_NEWUTS;
    if (GUARDED(plan, GUARD_NETNS)) flags |= CLONE_NEWNET;
  }
  if (host.namespaces && GUARDED(plan, GUARD_PIDNS)) flags |= CLONE_NEWPID;
  return flags;
}

static void adopt(struct box *box, struct stream *stream, int fd, uint8_t type,
                  void (*ready)(struct watch *, uint32_t), uint32_t events) {
  *stream = (struct stream){.watch = {ready, fd}, .box = box, .type = type, .open = true};
  watch_add(&stream->watch, events);
}

struct box *box_start(struct conn *conn, const struct plan *plan, struct failure *why) {
  if (check_host(plan, why) || bounds_check(&bounds, plan, why)) return NULL;
  struct box *box = calloc(1, sizeof *box);
  if (!box) {
    fail(why, REFUSED_OVERLOAD, "out of memory");
    return NULL;
  }
  struct ends ends;
  memset(&ends, -1, sizeof ends);
  if (group_make(&box->group, plan, why)) {
    free(box);
    return NULL;
  }
  uint64_t flags = namespaces_of(plan);
  box->pid_namespace = flags & CLONE_NEWPID;
  int bad = paths_open(&bounds, plan, &box->paths, why) || open_ends(plan, &ends, why);
  if (!bad) {
    struct setup setup = {
        plan, &box->paths, &box->group, {ends.pairs[0][0], ends.pairs[1][1], ends.pairs[2][1]},
        ends.control[1], ends.dev, box->pid_namespace, plan->level == LEVEL_2};
    struct k_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
    int into = group_clone_fd(&box->group);
    if (into >= 0) {
      args.flags |= K_CLONE_INTO_CGROUP;
      args.cgroup = (uint64_t)into;
    }
    box->pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    if (box->pid == 0) init_main(&setup);
    bad = box->pid < 0 ? fail(why, REFUSED_SETUP, "clone3: %s", strerror(errno)) : 0;
  }
  paths_close(plan, &box->paths);
  if (bad) {
    close_ends(&ends);
    paths_release(&box->paths);
    group_remove(&box->group);
    free(box);
    return NULL;
  }
  group_joined(&box->group);
  box->conn = conn;
  memcpy(box->limits, plan->limits, sizeof box->limits);
  box->began_us = now_us();
  box->deadline_us = box->began_us + (int64_t)box->limits[LIMIT_WALL_MS] * 1000;
  box->usage_us = box->began_us + USAGE_EVERY_US;
  adopt(box, &box->in, ends.pairs[0][1], 0, on_stdin, 0);
  adopt(box, &box->out[0], ends.pairs[1][0], FRAME_STDOUT, on_output, EPOLLIN);
  adopt(box, &box->out[1], ends.pairs[2][0], FRAME_STDERR, on_output, EPOLLIN);
  adopt(box, &box->control, ends.control[0], 0, box_on_control, EPOLLIN);
  ends.pairs[0][1] = ends.pairs[1][0] = ends.pairs[2][0] = ends.control[0] = -1;
  close_ends(&ends);
  box_add(box);
  return box;
}
