// Starts the runtime's first process: it gets its view of the file system, then drops groups, user
// and every capability, with no way to regain them.
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
  refuse(spec->ready_fd, "internal", "", "dropping root privileges failed: %s: %s", step,
         strerror(errno));
}

// The daemons serve all agents, so their scheduling priority is above the agents': no agent can
// starve the others of responses. The warden's is higher still, and it starts commands at the
// keeper's.
#define DAEMONS_NICE (-5)

static void drop_privileges(const struct launch_spec *spec) {
  int nice = getpriority(PRIO_PROCESS, 0);
  // Best effort: a container may not allow it, and no security boundary depends on it.
  if (nice > DAEMONS_NICE) setpriority(PRIO_PROCESS, 0, DAEMONS_NICE);
  for (int cap = 0; cap <= 63; cap++)
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) {
      if (errno == EINVAL) break;  // past the kernel's last capability
      fail_step(spec, "the bounding set");
    }
  if (setgroups(0, NULL)) fail_step(spec, "setgroups");
  if (setresgid(spec->gid, spec->gid, spec->gid)) fail_step(spec, "setresgid");
  // Changing the uid from 0 clears all capabilities.
  if (setresuid(spec->uid, spec->uid, spec->uid)) fail_step(spec, "setresuid");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail_step(spec, "no_new_privs");
}

// Checked here because the error names the path; a daemon that fails on it later would not.
static void check_required_paths(const struct launch_spec *spec) {
  for (unsigned i = 0; i < spec->path_count; i++) {
    const char *path = spec->paths[i].path;
    struct stat st;
    if (spec->paths[i].kind != PATH_REQUIRED) continue;
    if (!stat(path, &st) && !access(path, S_ISDIR(st.st_mode) ? R_OK | X_OK : R_OK)) continue;
    refuse(spec->ready_fd, "bad_config",
           "Make it readable (chmod -R a+rX), or move programs to /opt and state to /var/lib.",
           "%s is not readable by the daemons' user %s (uid %u): %s", path, spec->user, spec->uid,
           strerror(errno));
  }
}

static int close_all(int from, int to) {
  if (from < 3) from = 3;
  return from > to ? 0 : (int)syscall(SYS_close_range, from, to, 0);
}

pid_t runtime_start(const struct launch_spec *spec, int *release_fd) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC))
    refuse(spec->ready_fd, "internal", "", "pipe: %s", strerror(errno));
  pid_t keeper = getpid(), pid = fork();
  if (pid) {
    close(pipe_fds[0]);
    *release_fd = pipe_fds[1];
    return pid;
  }
  close(pipe_fds[1]);
  // Inherit stdio, the ready descriptor and this pipe; nothing else that the keeper was started
  // with.
  int low = spec->ready_fd < pipe_fds[0] ? spec->ready_fd : pipe_fds[0];
  int high = spec->ready_fd < pipe_fds[0] ? pipe_fds[0] : spec->ready_fd;
  if (close_all(3, low - 1) || close_all(low + 1, high - 1) || close_all(high + 1, INT_MAX))
    fail_step(spec, "close_range");
  char err[512];
  if (view_create(spec, err, sizeof err))
    refuse(
        spec->ready_fd, "bad_config",
        "Move programs to /opt and state to /var/lib, or make the directory enterable (chmod a+x).",
        "%s", err);
  drop_privileges(spec);
  // Set last: a change of user clears it.
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
  refuse(spec->ready_fd, "bad_config", "", "starting %s failed: %s", spec->argv[0],
         strerror(errno));
}
