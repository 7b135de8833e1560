// The janitor: a process that waits for the warden's death, then removes its cgroups and stubs. If
// both are killed, the next warden sweeps.
#include "warden.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int janitor_start(struct failure *err) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC)) return fail(err, REFUSED_SETUP, "pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child < 0) return fail(err, REFUSED_SETUP, "fork: %s", strerror(errno));
  if (child == 0) {
    if (fork()) _exit(0);  // orphaned, so that it is not a child of the warden
    setsid();
    prctl(PR_SET_NAME, "warden-janitor");
    for (int number = 1; number < NSIG; number++) signal(number, SIG_IGN);
    // Keeps the run directory locked: no warden may start there before this one's boxes and stubs
    // are removed.
    int read_end = fcntl(pipe_fds[0], F_DUPFD, 6), lock = fcntl(host.lock_fd, F_DUPFD, 6);
    int proc = fcntl(host.proc_fd, F_DUPFD, 6);
    if (dup2(read_end, 3) != 3 || dup2(lock, 4) != 4 || dup2(proc, 5) != 5) _exit(1);
    host.proc_fd = 5;
    syscall(SYS_close_range, 6, ~0u, 0);
    syscall(SYS_close_range, 0, 2, 0);
    char byte;
    while (read(3, &byte, 1) < 0 && errno == EINTR) {
    }
    cgroups_sweep();
    stubs_sweep(host.run_dir);
    cgroups_restore_parent();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  close(pipe_fds[0]);
  return 0;  // the write end stays open until the warden dies
}
