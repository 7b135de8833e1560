// The box's init: builds the box, starts the command, reaps, and says how it ended. It holds no
// rights once the command runs, cannot be traced, and dies with the warden.
#include "warden.h"

#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

static void report(int control, uint32_t kind, int status, const struct failure *why) {
  struct report report = {.kind = kind, .status = status};
  if (why) report.why = *why;
  if (send(control, &report, sizeof report, MSG_NOSIGNAL) < 0) _exit(1);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// The warden's fork carries every other box's descriptors; keep only what this box needs.
static void keep_only(const int *wanted, unsigned count) {
  int keep[ENTRY_COUNT + JOINS + 16];
  memcpy(keep, wanted, count * sizeof *keep);
  qsort(keep, count, sizeof *keep, by_number);
  unsigned from = 0;
  for (unsigned i = 0; i < count; i++) {
    if (keep[i] < 0) continue;
    if ((unsigned)keep[i] > from) syscall(SYS_close_range, from, keep[i] - 1, 0);
    from = (unsigned)keep[i] + 1;
  }
  syscall(SYS_close_range, from, ~0u, 0);
}

static void keep_own(const struct setup *setup) {
  int keep[ENTRY_COUNT + JOINS + 16];
  unsigned count = 0;
  int own[] = {setup->control, setup->dev, host.proc, host.probe, 0, 1, 2};
  for (unsigned i = 0; i < sizeof own / sizeof *own; i++) keep[count++] = own[i];
  for (int i = 0; i < JOINS; i++) keep[count++] = setup->group->joins[i];
  for (int i = 0; i < ENTRY_COUNT && setup->entry; i++) keep[count++] = setup->entry->fds[i];
  keep_only(keep, count);
}

static int join_groups(const struct cgroup *group, struct failure *why) {
  for (int i = 0; i < JOINS; i++) {
    if (group->joins[i] < 0) continue;
    if (write(group->joins[i], "0", 1) != 1)
      return fail(why, REFUSED_SETUP, "joining the cgroup: %s", strerror(errno));
    close(group->joins[i]);
  }
  return 0;
}

// Into the namespaces of an open box; its user namespace comes last, with the identity.
static int entry_go(const struct setup *setup, struct failure *why) {
  static const enum entry_fd order[] = {ENTRY_NET, ENTRY_IPC, ENTRY_UTS, ENTRY_CGROUP,
                                        ENTRY_MOUNT};
  for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
    if (setns(setup->entry->fds[order[i]], 0))
      return fail(why, REFUSED_SETUP, "entering the open box: %s", strerror(errno));
  return 0;
}

// Loopback up; anything else that is up means that the namespace is not ours alone.
static int check_network(struct failure *why) {
  int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo))
    return fail(why, REFUSED_SETUP, "bringing loopback up: %s", strerror(errno));
  int bad = 0, seen = 0;
  struct if_nameindex *links = if_nameindex();
  for (struct if_nameindex *at = links; at && at->if_index; at++) {
    struct ifreq link = {0};
    snprintf(link.ifr_name, sizeof link.ifr_name, "%s", at->if_name);
    if (ioctl(sock, SIOCGIFFLAGS, &link)) bad = 1;
    else if (!strcmp(link.ifr_name, "lo")) seen = link.ifr_flags & IFF_UP;
    else bad |= link.ifr_flags & IFF_UP;
  }
  if (links) if_freenameindex(links);
  close(sock);
  return bad || !seen ? fail(why, REFUSED_PROBE, "the network namespace did not take") : 0;
}

// What needs no job: done ahead of time.
static int prepare(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  if (setup->birth == BIRTH_LEVEL_2) {
    if (GUARDED(plan, GUARD_UTSNS) && sethostname("box", 3))
      return fail(why, REFUSED_SETUP, "sethostname: %s", strerror(errno));
    if (EXPECTED(plan, GUARD_NETNS) && check_network(why)) return -1;
    if (mounts_prepare(setup, why)) return -1;
  }
  // Several join at once: the kernel then makes them wait only once.
  struct order go;
  if (recv(setup->control, &go, sizeof go, 0) != sizeof go) _exit(0);
  if (join_groups(setup->group, why)) return -1;
  if (setup->birth == BIRTH_EXEC) return entry_go(setup, why) || identity_take(setup, why);
  if (setup->birth == BIRTH_LEVEL_1)
    return GUARDED(plan, GUARD_CAPS) ? capabilities_unbind(why) : 0;
  if (unshare(CLONE_NEWCGROUP))
    return fail(why, REFUSED_SETUP, "unshare of cgroups: %s", strerror(errno));
  return 0;
}

static int take_order(struct setup *setup) {
  int fds[3 + BINDS_MAX];
  unsigned have = 0, got;
  struct order order;
  do {
    ssize_t size =
        fds_recv(setup->control, &order, sizeof order, fds + have, 3 + BINDS_MAX - have, &got, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof order) return -1;
    have += got;
  } while (have < order.fd_count);
  unsigned next = 0;
  for (int i = 0; i < 3; i++) setup->stdio[i] = setup->job->hold ? -1 : fds[next++];
  for (unsigned i = 0; i < setup->plan->bind_count; i++) {
    uint8_t kind = setup->plan->binds[i].kind;
    setup->fds[i] = kind == BIND_RO || kind == BIND_RW ? fds[next++] : -1;
  }
  return next == have ? 0 : -1;
}

// What a box of this level must have of its own, whatever was said when it was made.
static int prove_namespaces(const struct setup *setup, struct failure *why) {
  static const uint32_t guards[ENTRY_RULESET] = {
      [ENTRY_USER] = GUARD_USERNS, [ENTRY_PID] = GUARD_PIDNS, [ENTRY_NET] = GUARD_NETNS,
      [ENTRY_IPC] = GUARD_IPCNS,   [ENTRY_UTS] = GUARD_UTSNS};
  for (int i = 0; i < ENTRY_RULESET && host.namespaces; i++) {
    if (!EXPECTED(setup->plan, guards[i])) continue;
    if (setup->birth == BIRTH_LEVEL_1 && i != ENTRY_PID) continue;
    uint64_t now = namespace_of_self((enum entry_fd)i);
    if (!now || now == host.own[i])
      return fail(why, REFUSED_PROBE, "the %s namespace did not take: the box was not started",
                  namespace_names[i]);
  }
  return 0;
}

// Once for a box: the commands of one that is held open enter what was proved when it was opened.
static int prove_box(const struct setup *setup, struct failure *why) {
  struct statvfs root;
  if (prove_namespaces(setup, why)) return -1;
  if (setup->birth == BIRTH_LEVEL_2 && EXPECTED(setup->plan, GUARD_READONLY) &&
      (statvfs("/", &root) || !(root.f_flag & ST_RDONLY)))
    return fail(why, REFUSED_PROBE, "the read-only root did not take: the box was not started");
  return 0;
}

static int build(struct setup *setup, struct failure *why) {
  if (setup->birth == BIRTH_EXEC) return 0;
  if (setup->plan->egress) {
    int listener = egress_listen(why);
    if (listener < 0) return -1;
    struct report told = {.kind = REPORT_LISTENER};
    if (fds_send(setup->control, &told, sizeof told, &listener, 1))
      return fail(why, REFUSED_SETUP, "handing the listener over: %s", strerror(errno));
    close(listener);
  }
  if (setup->birth == BIRTH_LEVEL_2 && mounts_build(setup, why)) return -1;
  if (setup->watch >= 0) {
    struct report told = {.kind = REPORT_WATCH, .status = setup->mounts};
    int fds[2] = {setup->watch, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (fds[1] < 0 || fds_send(setup->control, &told, sizeof told, fds, 2))
      return fail(why, REFUSED_SETUP, "handing the watch over: %s", strerror(errno));
    for (int i = 0; i < 2; i++) close(fds[i]);
  }
  if (identity_take(setup, why)) return -1;
  return GUARDED(setup->plan, GUARD_PROBES) ? prove_box(setup, why) : 0;
}

static void exec_command(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  char *const *args = (char *const *)plan->args, *const *envs = (char *const *)plan->envs;
  if (setup->exec_fd < 0) execve(args[0], args, envs);
  else syscall(SYS_execveat, setup->exec_fd, "", args, envs, AT_EMPTY_PATH);
  fail(why, REFUSED_EXEC, "%.220s: %s", args[0], strerror(errno));
}

static void start_command(struct setup *setup, struct failure *why) {
  for (int i = 0; i < 3; i++)
    if (dup2(setup->stdio[i], i) < 0) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (!confine(setup, why)) exec_command(setup, why);
  _exit(127);
}

static volatile sig_atomic_t leave;
static void on_signal(int number) { leave |= number == SIGTERM; }

// The command ended; of a command in an open box others may be left, which the warden ends.
static void say_ended(const struct setup *setup, int status) {
  struct report told = {.kind = REPORT_ENDED, .status = status, .alone = true};
  if (setup->birth == BIRTH_EXEC) {
    pid_t other;
    while ((other = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    told.alone = other < 0;
  } else if (!setup->pid_namespace) {
    tree_kill(getpid(), false);
  }
  if (send(setup->control, &told, sizeof told, MSG_NOSIGNAL) < 0) _exit(1);
  if (told.alone) _exit(0);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
  }
  _exit(0);
}

// Reaps until the command has ended; an open box has none and goes on until it is told to end.
__attribute__((noreturn)) static void watch_over(const struct setup *setup, pid_t command) {
  struct sigaction act = {.sa_handler = on_signal};
  sigaction(SIGCHLD, &act, NULL);
  sigset_t open_mask;
  sigemptyset(&open_mask);
  for (;;) {
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
      if (ended == command) say_ended(setup, status);
    struct pollfd from = {.fd = setup->control, .events = POLLIN};
    if (ppoll(&from, 1, NULL, &open_mask) > 0) {
      uint8_t number;
      if (recv(setup->control, &number, 1, MSG_DONTWAIT) == 1) {
        if (command > 0 && kill(-command, number)) kill(command, number);
      } else if (errno != EAGAIN || from.revents & POLLHUP) {
        leave = 1;
      }
    }
    if (leave) {
      if (!setup->pid_namespace && setup->birth != BIRTH_EXEC) tree_kill(getpid(), false);
      _exit(1);
    }
  }
}

static void close_all_but(int fd) {
  if (fd) syscall(SYS_close_range, 0, fd - 1, 0);
  syscall(SYS_close_range, fd + 1, ~0u, 0);
}

static pid_t start_runner(struct setup *setup) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return -1;
  setup->gate = ends[1];
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    start_command(setup, &setup->job->why);
  }
  close(ends[1]);
  setup->gate = -1;
  if (child > 0) gate_let_one(ends[0]);
  // Its side is closed by the exec, or by its end.
  char byte;
  while (child > 0 && recv(ends[0], &byte, 1, 0) < 0 && errno == EINTR) {
  }
  close(ends[0]);
  return child;
}

// A tool's process lives in our memory until it becomes the command: no copy is made for the little
// it does. We go on when it has, or has died; what went wrong is in memory that both see.
static int start(struct setup *setup, pid_t *command, struct failure *why) {
  struct job *job = setup->job;
  const struct plan *plan = setup->plan;
  fail(&job->why, 0, "%s", "");
  pid_t child;
  if (plan->profile == PROFILE_RUNNER && GUARDED(plan, GUARD_SECCOMP)) child = start_runner(setup);
  else if ((child = vfork()) == 0) start_command(setup, &job->why);
  *command = child;
  if (child < 0) return fail(why, REFUSED_OVERLOAD, "starting: %s", strerror(errno));
  *why = job->why;
  if (why->code) return -1;
  siginfo_t early = {0};
  if (job->confined) return 0;
  waitid(P_PID, (id_t)child, &early, WEXITED | WNOWAIT);
  return fail(why, REFUSED_SETUP, "the command's process died early");
}

// Gives the warden what leads into this box, and waits.
static int open_up(const struct setup *setup, struct failure *why) {
  int fds[ENTRY_COUNT];
  for (int i = 0; i < ENTRY_RULESET; i++) {
    char path[32];
    snprintf(path, sizeof path, "self/ns/%s", namespace_names[i]);
    fds[i] = openat(host.proc, path, O_RDONLY | O_CLOEXEC);
    if (fds[i] < 0) return fail(why, REFUSED_SETUP, "%s: %s", path, strerror(errno));
  }
  fds[ENTRY_RULESET] = confine_ruleset(setup, why);
  if (fds[ENTRY_RULESET] < 0) return -1;
  struct report told = {.kind = REPORT_STARTED};
  if (fds_send(setup->control, &told, sizeof told, fds, ENTRY_COUNT))
    return fail(why, REFUSED_SETUP, "handing the box over: %s", strerror(errno));
  return 0;
}

static void be_born(const struct setup *setup) {
  sigset_t blocked;
  sigfillset(&blocked);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  struct sigaction act = {.sa_handler = on_signal};
  signal(SIGPIPE, SIG_DFL);  // the only one the warden itself changed
  if (!setup->pid_namespace) prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!setup->pid_namespace && setup->birth != BIRTH_EXEC) sigaction(SIGTERM, &act, NULL);
  prctl(PR_SET_NAME, "box-spare");
  if (!(setup->plan->guards_off & GUARD_DESCRIPTORS)) keep_own(setup);
  setsid();
}

void init_main(struct setup *setup) {
  struct failure why = {0};
  // In a pid namespace the kernel takes the tree with init; elsewhere init must do it itself.
  int death = setup->pid_namespace || setup->birth == BIRTH_EXEC ? SIGKILL : SIGTERM;
  prctl(PR_SET_PDEATHSIG, death);
  be_born(setup);
  int bad = prepare(setup, &why);
  prctl(PR_SET_PDEATHSIG, death);  // again: a change of user clears it
  if (!bad) report(setup->control, REPORT_READY, 0, NULL);
  if (!bad && take_order(setup)) _exit(0);
  prctl(PR_SET_NAME, "box-init");
  pid_t command = -1;
  bad = bad || build(setup, &why);
  prctl(PR_SET_PDEATHSIG, death);
  if (!bad) bad = setup->job->hold ? open_up(setup, &why) : start(setup, &command, &why);
  if (bad) {
    report(setup->control, REPORT_FAILED, 0, &why);
    _exit(1);
  }
  close_all_but(setup->control);
  if (!setup->job->hold) report(setup->control, REPORT_STARTED, 0, NULL);
  watch_over(setup, command);
}
