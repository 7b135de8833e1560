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

__attribute__((noreturn)) static void fail_step(const struct launch_spec *spec, const char *step) {
  refuse(spec->ready_fd, "internal", "", "the runtime cannot give up root: %s: %s", step,
         strerror(errno));
}

// Whoever answers for all agents gets its turn before them, so that none can keep the others from
// being answered. The warden has more, and starts every command as we were started.
#define DAEMONS_NICE (-5)

static void drop_privileges(const struct launch_spec *spec) {
  int nice = getpriority(PRIO_PROCESS, 0);
  // A container may not have the right. It is no boundary: then all have the same turn.
  if (nice > DAEMONS_NICE) setpriority(PRIO_PROCESS, 0, DAEMONS_NICE);
  for (int cap = 0; cap <= 63; cap++)
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) {
      if (errno == EINVAL) break;  // past the last one this kernel knows
      fail_step(spec, "the bounding set");
    }
  if (setgroups(0, NULL)) fail_step(spec, "setgroups");
  if (setresgid(spec->gid, spec->gid, spec->gid)) fail_step(spec, "setresgid");
  // From uid 0 to another: the kernel clears all capabilities with it.
  if (setresuid(spec->uid, spec->uid, spec->uid)) fail_step(spec, "setresuid");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail_step(spec, "no_new_privs");
}

// Said now, by name: a daemon that fails over it later would say less.
static void check_required_paths(const struct launch_spec *spec) {
  for (unsigned i = 0; i < spec->path_count; i++) {
    const char *path = spec->paths[i].path;
    struct stat st;
    if (spec->paths[i].kind != PATH_REQUIRED) continue;
    if (!stat(path, &st) && !access(path, S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK)) continue;
    refuse(spec->ready_fd, "bad_config",
           "Let others read it (chmod -R a+rX), or move it, to /opt for programs, to /var/lib for "
           "state.",
           "%s cannot be read by %s (uid %u), as whom the daemons run: %s", path, spec->user,
           spec->uid, strerror(errno));
  }
}

static int close_all(int from, int to) {
  if (from < 3) from = 3;
  return from > to ? 0 : (int)syscall(SYS_close_range, from, to, 0);
}

pid_t runtime_start(const struct launch_spec *spec, int *release_fd) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC))
    refuse(spec->ready_fd, "internal", "", "no pipe: %s", strerror(errno));
  pid_t keeper = getpid(), pid = fork();
  if (pid) {
    close(pipe_fds[0]);
    *release_fd = pipe_fds[1];
    return pid;
  }
  close(pipe_fds[1]);
  // Only what it was given by whoever started us.
  int low = spec->ready_fd < pipe_fds[0] ? spec->ready_fd : pipe_fds[0];
  int high = spec->ready_fd < pipe_fds[0] ? pipe_fds[0] : spec->ready_fd;
  if (close_all(3, low - 1) || close_all(low + 1, high - 1) || close_all(high + 1, INT_MAX))
    fail_step(spec, "close_range");
  char err[512];
  if (view_create(spec, err, sizeof err))
    refuse(spec->ready_fd, "bad_config",
           "Move the programs to /opt and the state to /var/lib, or let others enter (chmod a+x).",
           "%s", err);
  drop_privileges(spec);
  // Only now: a change of user would have taken it back.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(70);
  if (chdir("/")) fail_step(spec, "chdir");
  check_required_paths(spec);
  char byte;
  if (read(pipe_fds[0], &byte, 1) != 1) _exit(70);
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(spec->argv[0], spec->argv);
  refuse(spec->ready_fd, "bad_config", "", "%s cannot be started: %s", spec->argv[0],
         strerror(errno));
}
