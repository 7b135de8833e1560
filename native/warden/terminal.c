// The terminal of a command, on the box's side: the box has a devpts of its own, its init leads the
// session, so that job control works in it, and the warden gets the other end.
#include "init.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

// Bounds one box: the kernel has 4,096 for the whole host by default.
#define TERMINALS_MAX "64"

int terminals_create(void) {
  int fs = k_fsopen("devpts");
  if (fs < 0) return -1;
  int bad = k_fsconfig(fs, K_FSCONFIG_STRING, "ptmxmode", "0666") ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "mode", "0600") ||
            k_fsconfig(fs, K_FSCONFIG_STRING, "max", TERMINALS_MAX) ||
            k_fsconfig(fs, K_FSCONFIG_CREATE, NULL, NULL);
  int mount = bad ? -1 : k_fsmount(fs, K_ATTR_NOSUID | K_ATTR_NOEXEC);
  k_close(fs);
  return mount;
}

// Returns the command's end, which this process keeps open: until it exits, no output is lost, even
// if the command has closed its own descriptors.
static int open_slave(int master, const struct plan *plan) {
  int locked = 0;
  struct winsize size = {.ws_row = plan->rows, .ws_col = plan->columns};
  struct termios modes;
  if (ioctl(master, TIOCSPTLCK, &locked)) return -1;
  int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (slave < 0) return -1;
  int bad = tcgetattr(slave, &modes);
  modes.c_iflag |= IUTF8;
  bad = bad || tcsetattr(slave, TCSANOW, &modes) || ioctl(slave, TIOCSWINSZ, &size) ||
        ioctl(slave, TIOCSCTTY, 0);
  if (!bad) return slave;
  k_close(slave);
  return -1;
}

int terminal_open(struct setup *setup, struct failure *err) {
  // Not /dev/tty or a path from the plan: no process of the box can change what this is.
  int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
  int slave = master < 0 ? -1 : open_slave(master, setup->plan);
  struct report message = {.kind = REPORT_TERMINAL};
  if (slave < 0 || fds_send(setup->control, &message, sizeof message, &master, 1)) {
    int error = errno;
    k_close(slave);
    k_close(master);
    return fail(err, error == ENOSPC ? REFUSED_OVERLOAD : REFUSED_SETUP, "opening a terminal: %s",
                error == ENOSPC ? "the box has too many open" : strerror(error));
  }
  close(master);
  setup->terminal = slave;
  for (int i = 0; i < 3; i++) setup->stdio[i] = slave;
  return 0;
}

// Runs in the command's process, whose signals are blocked: it may change the foreground group. It
// is not the leader of its session: then the kernel would ignore a request to stop it.
int terminal_enter(void) { return setpgid(0, 0) || tcsetpgrp(0, getpid()) ? -1 : 0; }

// The leader of a session gets the terminal's signals, among others when it hangs up.
void terminal_ignore_signals(void) {
  static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU};
  for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) signal(numbers[i], SIG_IGN);
}

static void signal_group(pid_t group, int number) {
  kill(-group, number);
  // One that is stopped would not notice.
  if (number != SIGCONT) kill(-group, SIGCONT);
}

void terminal_signal(const struct setup *setup, pid_t command, int number) {
  if (number == SIGCONT) tcsetpgrp(setup->terminal, command);
  signal_group(command, number);
}

// The kernel would signal the leader of the session only, and leave the rest to it.
void terminal_hang_up(const struct setup *setup, pid_t command) {
  pid_t foreground = tcgetpgrp(setup->terminal);
  if (foreground > 0 && foreground != command) signal_group(foreground, SIGHUP);
  signal_group(command, SIGHUP);
}
