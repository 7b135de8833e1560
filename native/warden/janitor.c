// The janitor: a second process with no task but to wait for the warden's death and then take away
// what only a living warden would have: cgroups and stubs. When both die, the next start sweeps.
#include "warden.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

int janitor_start(struct failure *why) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return fail(why, REFUSED_SETUP, "pipe: %s", strerror(errno));
  pid_t child = fork();
  if (child < 0) return fail(why, REFUSED_SETUP, "fork: %s", strerror(errno));
  if (child == 0) {
    if (fork()) _exit(0);  // the warden's children are boxes only
    setsid();
    prctl(PR_SET_NAME, "warden-janitor");
    for (int number = 1; number < NSIG; number++) signal(number, SIG_IGN);
    // The lock goes with it: no warden begins here before this one's boxes and stubs are gone.
    int end = fcntl(ends[0], F_DUPFD, 6), lock = fcntl(host.lock, F_DUPFD, 6);
    int proc = fcntl(host.proc, F_DUPFD, 6);
    if (dup2(end, 3) != 3 || dup2(lock, 4) != 4 || dup2(proc, 5) != 5) _exit(1);
    host.proc = 5;
    syscall(SYS_close_range, 6, ~0u, 0);
    syscall(SYS_close_range, 0, 2, 0);
    char byte;
    while (read(3, &byte, 1) < 0 && errno == EINTR) {
    }
    cgroups_sweep();
    stubs_sweep(host.run);
    cgroups_leave();
    _exit(0);
  }
  waitpid(child, NULL, 0);
  close(ends[0]);
  return 0;  // the other end stays open for as long as we live
}
