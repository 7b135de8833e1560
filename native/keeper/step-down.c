// From root to a user without rights, before a line of the runtime runs: its view of the files,
// then groups, user, every capability, and no way to get any back.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

__attribute__((noreturn)) static void cannot(const struct orders *orders, const char *step) {
  refuse(orders->ready_fd, "internal", "", "the runtime cannot give up root: %s: %s", step,
         strerror(errno));
}

// Whoever answers for all agents gets its turn before them, so that none can keep the others from
// being answered. The warden has more, and starts every command as we were started.
#define DAEMONS_NICE (-5)

static void step_down(const struct orders *orders) {
  int nice = getpriority(PRIO_PROCESS, 0);
  // A container may not have the right. It is no boundary: then all have the same turn.
  if (nice > DAEMONS_NICE) setpriority(PRIO_PROCESS, 0, DAEMONS_NICE);
  for (int cap = 0; cap <= 63; cap++)
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) {
      if (errno == EINVAL) break;  // past the last one this kernel knows
      cannot(orders, "the bounding set");
    }
  if (setgroups(0, NULL)) cannot(orders, "setgroups");
  if (setresgid(orders->gid, orders->gid, orders->gid)) cannot(orders, "setresgid");
  // From uid 0 to another: the kernel clears all capabilities with it.
  if (setresuid(orders->uid, orders->uid, orders->uid)) cannot(orders, "setresuid");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) cannot(orders, "no_new_privs");
}

// Said now, by name: a daemon that fails over it later would say less.
static void check_needs(const struct orders *orders) {
  for (unsigned i = 0; i < orders->need_count; i++) {
    const char *path = orders->needs[i].path;
    struct stat about;
    if (orders->needs[i].kind != NEED_MUST) continue;
    if (!stat(path, &about) && !access(path, S_ISDIR(about.st_mode) ? R_OK | X_OK : R_OK)) continue;
    refuse(orders->ready_fd, "bad_config",
           "Let others read it (chmod -R a+rX), or move it, to /opt for programs, to /var/lib for "
           "state.",
           "%s cannot be read by %s (uid %u), as whom the daemons run: %s", path, orders->user,
           orders->uid, strerror(errno));
  }
}

static int close_all(int from, int to) {
  if (from < 3) from = 3;
  return from > to ? 0 : (int)syscall(SYS_close_range, from, to, 0);
}

pid_t runtime_start(const struct orders *orders, int *go) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC))
    refuse(orders->ready_fd, "internal", "", "no pipe: %s", strerror(errno));
  pid_t keeper = getpid(), pid = fork();
  if (pid) {
    close(ends[0]);
    *go = ends[1];
    return pid;
  }
  close(ends[1]);
  // Only what it was given by whoever started us.
  int low = orders->ready_fd < ends[0] ? orders->ready_fd : ends[0];
  int high = orders->ready_fd < ends[0] ? ends[0] : orders->ready_fd;
  if (close_all(3, low - 1) || close_all(low + 1, high - 1) || close_all(high + 1, INT_MAX))
    cannot(orders, "close_range");
  char why[512];
  if (view_make(orders, why, sizeof why))
    refuse(orders->ready_fd, "bad_config",
           "Move the programs to /opt and the state to /var/lib, or let others enter (chmod a+x).",
           "%s", why);
  step_down(orders);
  // Only now: a change of user would have taken it back.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(70);
  if (chdir("/")) cannot(orders, "chdir");
  check_needs(orders);
  char word;
  if (read(ends[0], &word, 1) != 1) _exit(70);
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(orders->program[0], orders->program);
  refuse(orders->ready_fd, "bad_config", "", "%s cannot be started: %s", orders->program[0],
         strerror(errno));
}
