// The init process of a box: builds the box, starts the command, reaps, reports the exit. It has no
// privileges once the command runs, cannot be traced, and dies with the warden.
#include "init.h"

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

static void report(int control, uint32_t kind, int status, const struct failure *err) {
  struct report report = {.kind = kind, .status = status};
  if (err) report.err = *err;
  if (send(control, &report, sizeof report, MSG_NOSIGNAL) < 0) _exit(1);
}

static int compare_ints(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

// The fork inherited the descriptors of every other box.
static void close_fds_except(const int *wanted, unsigned count) {
  int keep[ENTRY_COUNT + JOIN_COUNT + 16];
  memcpy(keep, wanted, count * sizeof *keep);
  qsort(keep, count, sizeof *keep, compare_ints);
  unsigned first = 0;
  for (unsigned i = 0; i < count; i++) {
    if (keep[i] < 0) continue;
    if ((unsigned)keep[i] > first) syscall(SYS_close_range, first, keep[i] - 1, 0);
    first = (unsigned)keep[i] + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0);
}

static void close_inherited_fds(const struct setup *setup) {
  int keep[ENTRY_COUNT + JOIN_COUNT + 16];
  unsigned count = 0;
  int needed[] = {setup->control, setup->dev, host.proc_fd, host.probe_fd, 0, 1, 2};
  for (unsigned i = 0; i < sizeof needed / sizeof *needed; i++) keep[count++] = needed[i];
  for (int i = 0; i < JOIN_COUNT; i++) keep[count++] = setup->cgroup->join_fds[i];
  for (int i = 0; i < ENTRY_COUNT && setup->entry; i++) keep[count++] = setup->entry->fds[i];
  close_fds_except(keep, count);
}

static int join_cgroups(const struct cgroup *cgroup, struct failure *err) {
  for (int i = 0; i < JOIN_COUNT; i++) {
    if (cgroup->join_fds[i] < 0) continue;
    if (write(cgroup->join_fds[i], "0", 1) != 1)
      return fail(err, REFUSED_SETUP, "joining the cgroup: %s", strerror(errno));
    close(cgroup->join_fds[i]);
  }
  return 0;
}

// Enters the namespaces of an open box; identity_assume enters the user namespace last.
static int enter_box_namespaces(const struct setup *setup, struct failure *err) {
  static const enum entry_fd order[] = {ENTRY_NET, ENTRY_IPC, ENTRY_UTS, ENTRY_CGROUP,
                                        ENTRY_MOUNT};
  for (unsigned i = 0; i < sizeof order / sizeof *order; i++)
    if (setns(setup->entry->fds[order[i]], 0))
      return fail(err, REFUSED_SETUP, "entering the open box: %s", strerror(errno));
  return 0;
}

// Brings loopback up. Another interface that is up means that the namespace is not a new one.
static int set_up_loopback(struct failure *err) {
  int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
  if (sock < 0 || ioctl(sock, SIOCSIFFLAGS, &lo))
    return fail(err, REFUSED_SETUP, "bringing loopback up: %s", strerror(errno));
  int bad = 0, lo_is_up = 0;
  struct if_nameindex *interfaces = if_nameindex();
  for (struct if_nameindex *at = interfaces; at && at->if_index; at++) {
    struct ifreq link = {0};
    snprintf(link.ifr_name, sizeof link.ifr_name, "%s", at->if_name);
    if (ioctl(sock, SIOCGIFFLAGS, &link)) bad = 1;
    else if (!strcmp(link.ifr_name, "lo")) lo_is_up = link.ifr_flags & IFF_UP;
    else bad |= link.ifr_flags & IFF_UP;
  }
  if (interfaces) if_freenameindex(interfaces);
  close(sock);
  return bad || !lo_is_up ? fail(err, REFUSED_PROBE,
                                 "the network namespace did not take effect: box not started")
                          : 0;
}

// Does everything that does not need the job.
static int prepare(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  if (setup->kind == INIT_LEVEL_2) {
    if (GUARDED(plan, GUARD_UTSNS) && sethostname("box", 3))
      return fail(err, REFUSED_SETUP, "sethostname: %s", strerror(errno));
    if (EXPECTED(plan, GUARD_NETNS) && set_up_loopback(err)) return -1;
    if (mounts_prepare(setup, err)) return -1;
  }
  // Spares join together: the kernel's wait is then paid once.
  struct job_message go;
  if (recv(setup->control, &go, sizeof go, 0) != sizeof go) _exit(0);
  if (join_cgroups(setup->cgroup, err)) return -1;
  if (setup->kind == INIT_EXEC)
    return enter_box_namespaces(setup, err) || identity_assume(setup, err);
  if (setup->kind == INIT_LEVEL_1)
    return GUARDED(plan, GUARD_CAPS) ? capabilities_drop_bounding(err) : 0;
  if (unshare(CLONE_NEWCGROUP))
    return fail(err, REFUSED_SETUP, "unshare of the cgroup namespace: %s", strerror(errno));
  return 0;
}

static int receive_job(struct setup *setup) {
  int fds[JOB_FDS_MAX];
  unsigned received = 0, part;
  struct job_message message;
  do {
    ssize_t size = fds_recv(setup->control, &message, sizeof message, fds + received,
                            JOB_FDS_MAX - received, &part, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size != sizeof message) return -1;
    received += part;
  } while (received < message.fd_count);
  unsigned next = 0;
  bool has_pipes = !setup->job->is_open_box && !setup->plan->has_terminal;
  if (received < (has_pipes ? 3u : 0)) return -1;
  for (int i = 0; i < 3; i++) setup->stdio[i] = has_pipes ? fds[next++] : -1;
  if (setup->kind == INIT_LEVEL_2 && setup->plan->terminals) setup->terminals_dev = fds[next++];
  bool has_namespace = setup->kind == INIT_LEVEL_2 && setup->plan->has_rights;
  if (has_namespace) setup->rights_ns = fds[next++];
  for (unsigned i = 0; i < setup->plan->bind_count; i++) {
    setup->fds[i] = bind_is_mounted(&setup->plan->binds[i]) ? fds[next++] : -1;
  }
  return next == received ? 0 : -1;
}

// Checks the namespaces that this level requires, independently of the clone flags.
static int verify_namespaces(const struct setup *setup, struct failure *err) {
  static const uint32_t guards[ENTRY_RULESET] = {
      [ENTRY_USER] = GUARD_USERNS, [ENTRY_PID] = GUARD_PIDNS, [ENTRY_NET] = GUARD_NETNS,
      [ENTRY_IPC] = GUARD_IPCNS,   [ENTRY_UTS] = GUARD_UTSNS};
  for (int i = 0; i < ENTRY_RULESET && host.namespaces; i++) {
    if (!EXPECTED(setup->plan, guards[i])) continue;
    if (setup->kind == INIT_LEVEL_1 && i != ENTRY_PID) continue;
    uint64_t id = own_namespace_id((enum entry_fd)i);
    if (!id || id == host.namespace_ids[i])
      return fail(err, REFUSED_PROBE, "the %s namespace did not take effect: box not started",
                  namespace_names[i]);
  }
  return 0;
}

// Once per box: commands in an open box enter what was verified when it was opened.
static int verify_box(const struct setup *setup, struct failure *err) {
  struct statvfs root;
  if (verify_namespaces(setup, err)) return -1;
  if (setup->kind == INIT_LEVEL_2 && EXPECTED(setup->plan, GUARD_READONLY) &&
      (statvfs("/", &root) || !(root.f_flag & ST_RDONLY)))
    return fail(err, REFUSED_PROBE, "the read-only root did not take effect: box not started");
  return 0;
}

// The warden starts one process that serves them all.
static int send_listeners(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  int fds[RELAYS_MAX];
  for (unsigned i = 0; i < plan->relay_count; i++) {
    fds[i] = relay_listen(plan->relays[i].port, err);
    if (fds[i] < 0) return -1;
  }
  struct report message = {.kind = REPORT_LISTENERS};
  if (fds_send(setup->control, &message, sizeof message, fds, plan->relay_count))
    return fail(err, REFUSED_SETUP, "sending the listeners: %s", strerror(errno));
  for (unsigned i = 0; i < plan->relay_count; i++) close(fds[i]);
  return 0;
}

static int build_box(struct setup *setup, struct failure *err) {
  if (setup->kind == INIT_EXEC) return 0;
  if (setup->plan->relay_count && send_listeners(setup, err)) return -1;
  if (setup->kind == INIT_LEVEL_2 && mounts_build(setup, err)) return -1;
  if (setup->mountinfo_fd >= 0) {
    struct report message = {.kind = REPORT_MOUNTS, .status = setup->mount_count};
    int fds[2] = {setup->mountinfo_fd, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (fds[1] < 0 || fds_send(setup->control, &message, sizeof message, fds, 2))
      return fail(err, REFUSED_SETUP, "sending mountinfo: %s", strerror(errno));
    for (int i = 0; i < 2; i++) close(fds[i]);
  }
  if (identity_assume(setup, err)) return -1;
  return GUARDED(setup->plan, GUARD_PROBES) ? verify_box(setup, err) : 0;
}

static void exec_command(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  char *const *args = (char *const *)plan->args, *const *envs = (char *const *)plan->envs;
  if (setup->exec_fd < 0) execve(args[0], args, envs);
  else syscall(SYS_execveat, setup->exec_fd, "", args, envs, AT_EMPTY_PATH);
  fail(err, REFUSED_EXEC, "%.220s: %s", args[0], strerror(errno));
}

static void run_command(struct setup *setup, struct failure *err) {
  for (int i = 0; i < 3; i++)
    if (dup2(setup->stdio[i], i) < 0) _exit(127);
  sigset_t empty_mask;
  sigemptyset(&empty_mask);
  signal(SIGTERM, SIG_DFL);
  if (setup->terminal >= 0 && terminal_enter()) _exit(127);
  sigprocmask(SIG_SETMASK, &empty_mask, NULL);
  if (!confine_self(setup, err)) exec_command(setup, err);
  _exit(127);
}

static volatile sig_atomic_t stop_requested;
static void on_signal(int number) { stop_requested |= number == SIGTERM; }

// A command in an open box may leave descendants, which the warden kills.
static void report_exit(const struct setup *setup, int status) {
  struct report message = {.kind = REPORT_ENDED, .status = status, .tree_exited = true};
  if (setup->kind == INIT_EXEC) {
    pid_t child;
    while ((child = waitpid(-1, NULL, WNOHANG)) > 0) {
    }
    message.tree_exited = child < 0;
  } else if (!setup->pid_namespace) {
    tree_kill(getpid(), false);
  }
  if (send(setup->control, &message, sizeof message, MSG_NOSIGNAL) < 0) _exit(1);
  if (message.tree_exited) _exit(0);
  while (waitpid(-1, NULL, 0) > 0 || errno == EINTR) {
  }
  _exit(0);
}

static void signal_command(const struct setup *setup, pid_t command, int number) {
  if (number == HANG_UP) terminal_hang_up(setup, command);
  else if (setup->terminal >= 0) terminal_signal(setup, command, number);
  else if (kill(-command, number)) kill(command, number);
}

// Reaps until the command has exited; the init of an open box runs until it is told to stop.
__attribute__((noreturn)) static void supervise(const struct setup *setup, pid_t command) {
  struct sigaction act = {.sa_handler = on_signal};
  sigaction(SIGCHLD, &act, NULL);
  sigset_t wait_mask;
  sigemptyset(&wait_mask);
  int wait_flags = WNOHANG | (setup->terminal >= 0 ? WUNTRACED : 0);
  if (setup->terminal >= 0) terminal_ignore_signals();
  int status, exit_status = 0;
  bool hung_up = false, exited = false;
  for (;;) {
    pid_t pid;
    while ((pid = waitpid(-1, &status, wait_flags)) > 0) {
      if (pid != command) continue;
      if (WIFSTOPPED(status)) {
        // After a hang-up there is no one left who could continue it.
        if (hung_up) kill(-command, SIGCONT);
        else report(setup->control, REPORT_STOPPED, WSTOPSIG(status), NULL);
        continue;
      }
      exited = true;
      exit_status = status;
    }
    // After a hang-up, the jobs of a shell get the rest of the grace time too.
    if (exited && (!hung_up || pid < 0)) report_exit(setup, exit_status);
    struct pollfd poll_fd = {.fd = setup->control, .events = POLLIN};
    if (ppoll(&poll_fd, 1, NULL, &wait_mask) > 0) {
      uint8_t number;
      if (recv(setup->control, &number, 1, MSG_DONTWAIT) == 1) {
        hung_up |= number == HANG_UP;
        if (command > 0 && !exited) signal_command(setup, command, number);
      } else if (errno != EAGAIN || poll_fd.revents & POLLHUP) {
        stop_requested = 1;
      }
    }
    if (stop_requested) {
      if (!setup->pid_namespace && setup->kind != INIT_EXEC) tree_kill(getpid(), false);
      _exit(1);
    }
  }
}

static pid_t start_runner(struct setup *setup) {
  int socks[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks)) return -1;
  setup->gate = socks[1];
  pid_t child = fork();
  if (child == 0) {
    close(socks[0]);
    run_command(setup, &setup->job->err);
  }
  close(socks[1]);
  setup->gate = -1;
  if (child > 0) gate_allow_first_exec(socks[0]);
  // The other end is closed by the exec, or by an exit.
  char byte;
  while (child > 0 && recv(socks[0], &byte, 1, 0) < 0 && errno == EINTR) {
  }
  close(socks[0]);
  return child;
}

// A tool's process is vforked, since it does little before its exec. vfork returns when it has
// exec'd or exited; errors are in the memory it shares with this process.
static int start_command(struct setup *setup, pid_t *command, struct failure *err) {
  struct job *job = setup->job;
  const struct plan *plan = setup->plan;
  if (plan->has_terminal && terminal_open(setup, err)) return -1;
  fail(&job->err, 0, "%s", "");
  pid_t child;
  if (plan->profile == PROFILE_RUNNER && GUARDED(plan, GUARD_SECCOMP)) child = start_runner(setup);
  else if ((child = vfork()) == 0) run_command(setup, &job->err);
  *command = child;
  if (child < 0) return fail(err, REFUSED_OVERLOAD, "starting the command: %s", strerror(errno));
  *err = job->err;
  if (err->code) return -1;
  siginfo_t info = {0};
  if (job->confined) return 0;
  waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
  return fail(err, REFUSED_SETUP, "the command's process exited before its exec");
}

// Sends the warden the descriptors through which commands enter this box.
static int send_entry_point(const struct setup *setup, struct failure *err) {
  int fds[ENTRY_COUNT];
  for (int i = 0; i < ENTRY_RULESET; i++) {
    char path[32];
    snprintf(path, sizeof path, "self/ns/%s", namespace_names[i]);
    fds[i] = openat(host.proc_fd, path, O_RDONLY | O_CLOEXEC);
    if (fds[i] < 0) return fail(err, REFUSED_SETUP, "%s: %s", path, strerror(errno));
  }
  fds[ENTRY_RULESET] = landlock_rules_create(setup, err);
  if (fds[ENTRY_RULESET] < 0) return -1;
  struct report message = {.kind = REPORT_STARTED};
  if (fds_send(setup->control, &message, sizeof message, fds, ENTRY_COUNT))
    return fail(err, REFUSED_SETUP, "sending the box's namespaces: %s", strerror(errno));
  return 0;
}

static void init_process_setup(const struct setup *setup) {
  sigset_t blocked;
  sigfillset(&blocked);
  sigprocmask(SIG_SETMASK, &blocked, NULL);
  struct sigaction act = {.sa_handler = on_signal};
  signal(SIGPIPE, SIG_DFL);  // the only one the warden changes
  if (!setup->pid_namespace) prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!setup->pid_namespace && setup->kind != INIT_EXEC) sigaction(SIGTERM, &act, NULL);
  prctl(PR_SET_NAME, "box-spare");
  if (!(setup->plan->guards_off & GUARD_DESCRIPTORS)) close_inherited_fds(setup);
  setsid();
}

void init_main(struct setup *setup) {
  struct failure err = {0};
  // In a pid namespace the kernel kills the tree with init; otherwise init has to do it itself.
  int death_signal = setup->pid_namespace || setup->kind == INIT_EXEC ? SIGKILL : SIGTERM;
  prctl(PR_SET_PDEATHSIG, death_signal);
  init_process_setup(setup);
  int bad = prepare(setup, &err);
  prctl(PR_SET_PDEATHSIG, death_signal);  // again: a change of user clears it
  if (!bad) report(setup->control, REPORT_READY, 0, NULL);
  if (!bad && receive_job(setup)) _exit(0);
  prctl(PR_SET_NAME, "box-init");
  pid_t command = -1;
  bad = bad || build_box(setup, &err);
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (!bad)
    bad = setup->job->is_open_box ? send_entry_point(setup, &err)
                                  : start_command(setup, &command, &err);
  if (bad) {
    report(setup->control, REPORT_FAILED, 0, &err);
    _exit(1);
  }
  int kept[] = {setup->control, setup->terminal};
  close_fds_except(kept, 2);
  if (!setup->job->is_open_box) report(setup->control, REPORT_STARTED, 0, NULL);
  supervise(setup, command);
}
