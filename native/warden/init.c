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
#include <sys/wait.h>

static void report(int control, uint32_t kind, int status, const struct failure *why) {
  struct report report = {.kind = kind, .status = status};
  if (why) report.why = *why;
  if (send(control, &report, sizeof report, MSG_NOSIGNAL) < 0) _exit(1);
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// The warden's fork carries every other box's descriptors; keep only what this box needs.
static void keep_only(const struct setup *setup) {
  int keep[BINDS_MAX + HELD_COUNT + 16], count = 0;
  for (unsigned i = 0; i < setup->plan->bind_count; i++) keep[count++] = setup->paths->fds[i];
  for (int i = 0; i < HELD_COUNT; i++) keep[count++] = setup->group->joins[i];
  for (int i = 0; i < 3; i++) keep[count++] = setup->stdio[i];
  int more[] = {setup->control, setup->dev, host.proc, host.probe, 0, 1, 2};
  for (unsigned i = 0; i < sizeof more / sizeof *more; i++) keep[count++] = more[i];
  qsort(keep, (size_t)count, sizeof *keep, by_number);
  unsigned from = 0;
  for (int i = 0; i < count; i++) {
    if (keep[i] < 0) continue;
    if ((unsigned)keep[i] > from) syscall(SYS_close_range, from, keep[i] - 1, 0);
    from = (unsigned)keep[i] + 1;
  }
  syscall(SYS_close_range, from, ~0u, 0);
}

static int join_groups(const struct cgroup *group, struct failure *why) {
  for (int i = 0; i < HELD_COUNT; i++) {
    if (group->joins[i] < 0) continue;
    if (write(group->joins[i], "0", 1) != 1)
      return fail(why, REFUSED_SETUP, "joining the cgroup: %s", strerror(errno));
    close(group->joins[i]);
  }
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

static int build(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  if (join_groups(setup->group, why)) return -1;
  if (setup->namespaces) {
    if (unshare(CLONE_NEWCGROUP))
      return fail(why, REFUSED_SETUP, "unshare of cgroups: %s", strerror(errno));
    if (GUARDED(plan, GUARD_UTSNS) && sethostname("box", 3))
      return fail(why, REFUSED_SETUP, "sethostname: %s", strerror(errno));
    if (EXPECTED(plan, GUARD_NETNS) && check_network(why)) return -1;
    if (mounts_build(setup, why)) return -1;
  }
  return identity_take(setup, why);
}

static void start_command(const struct setup *setup, int errors) {
  struct failure why = {0};
  for (int i = 0; i < 3; i++)
    if (dup2(setup->stdio[i], i) < 0) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  signal(SIGTERM, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  if (!confine(setup, &why)) {
    execve(setup->plan->args[0], (char *const *)setup->plan->args,
           (char *const *)setup->plan->envs);
    fail(&why, REFUSED_EXEC, "%.220s: %s", setup->plan->args[0], strerror(errno));
  }
  if (write(errors, &why, sizeof why) < 0) _exit(126);
  _exit(127);
}

static volatile sig_atomic_t leave;
static void on_signal(int number) { leave |= number == SIGTERM; }

static void watch_over(const struct setup *setup, pid_t command) {
  struct sigaction act = {.sa_handler = on_signal};
  sigaction(SIGCHLD, &act, NULL);
  sigset_t open_mask;
  sigemptyset(&open_mask);
  for (;;) {
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
      if (ended != command) continue;
      if (!setup->pid_namespace) tree_kill(getpid(), false);
      report(setup->control, REPORT_ENDED, status, NULL);
      _exit(0);
    }
    struct pollfd from = {.fd = setup->control, .events = POLLIN};
    if (ppoll(&from, 1, NULL, &open_mask) > 0) {
      uint8_t number;
      if (recv(setup->control, &number, 1, MSG_DONTWAIT) == 1) {
        if (kill(-command, number)) kill(command, number);
      } else if (errno != EAGAIN || from.revents & POLLHUP) {
        leave = 1;
      }
    }
    if (leave) {
      if (!setup->pid_namespace) tree_kill(getpid(), false);
      _exit(1);
    }
  }
}

void init_main(const struct setup *setup) {
  struct failure why = {0};
  // In a pid namespace the kernel takes the tree with init; elsewhere init must do it itself.
  int death = setup->pid_namespace ? SIGKILL : SIGTERM;
  sigset_t blocked;
  sigfillset(&blocked);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  struct sigaction act = {.sa_handler = on_signal};
  signal(SIGPIPE, SIG_DFL);  // the only one the warden itself changed
  if (!setup->pid_namespace) {
    sigaction(SIGTERM, &act, NULL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  prctl(PR_SET_PDEATHSIG, death);
  prctl(PR_SET_NAME, "box-init");
  if (GUARDED(setup->plan, GUARD_DESCRIPTORS)) keep_only(setup);
  setsid();
  int errors[2];
  if (pipe2(errors, O_CLOEXEC)) _exit(1);
  if (build(setup, &why)) {
    report(setup->control, REPORT_FAILED, 0, &why);
    _exit(1);
  }
  prctl(PR_SET_PDEATHSIG, death);  // again: a change of user clears it
  pid_t command = fork();
  if (command == 0) start_command(setup, errors[1]);
  close(errors[1]);
  for (int i = 0; i < 3; i++) close(setup->stdio[i]);
  ssize_t size = read(errors[0], &why, sizeof why);
  if (command < 0 || size != 0) {
    if (size != sizeof why) fail(&why, REFUSED_SETUP, "the command's process died early");
    report(setup->control, REPORT_FAILED, 0, &why);
    _exit(1);
  }
  syscall(SYS_close_range, 0, setup->control - 1, 0);
  syscall(SYS_close_range, setup->control + 1, ~0u, 0);
  report(setup->control, REPORT_STARTED, 0, NULL);
  watch_over(setup, command);
  _exit(0);
}
