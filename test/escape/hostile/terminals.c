// Attacks through terminals: input that nobody typed, other devices, the box's init, too many.
#include "hostile.h"

#include <linux/random.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

// Makes the terminal return a line that was not typed.
static int inject_input(char **argv) {
  (void)argv;
  char line[16] = "";
  size_t size = 0;
  int fd = open("/dev/tty", O_RDWR);
  if (fd < 0) return failed("open");
  for (const char *at = "hi\n"; *at; at++)
    if (ioctl(fd, TIOCSTI, at)) return failed("TIOCSTI");
  // The end of the input, which is typed meanwhile, cuts the line anywhere.
  while (size < 3) {
    ssize_t part = read(0, line + size, sizeof line - 1 - size);
    if (part < 0) return failed("read");
    size += (size_t)part;
  }
  return strcmp(line, "hi\n") ? failed("compare") : worked();
}

static int terminal_calls(char **argv) {
  (void)argv;
  int discipline = 0, any = 0;
  char code = 2;
  any |= !ioctl(0, TIOCLINUX, &code) || errno != EPERM;
  any |= !ioctl(0, TIOCSETD, &discipline) || errno != EPERM;
  any |= !ioctl(0, TIOCCONS) || errno != EPERM;
  // The kernel reads 32 bits of the request; the filter must too.
  any |= !syscall(SYS_ioctl, 0, 0x700000000ul | TIOCSTI, "x") || errno != EPERM;
  return any ? worked() : failed("all");
}

static int open_tty(char **argv) {
  (void)argv;
  return outcome("open", open("/dev/tty", O_RDWR));
}

static int ioctl_device(char **argv) {
  int count, fd = open(argv[0], O_RDONLY);
  if (fd < 0) return failed("open");
  return outcome("ioctl", ioctl(fd, RNDGETENTCNT, &count));
}

static int open_terminals(char **argv) {
  int max = atoi(argv[0]), made = 0;
  while (made < max && posix_openpt(O_RDWR | O_NOCTTY) >= 0) made++;
  printf("made %d\n", made);
  return made == max ? worked() : failed("ptmx");
}

// Lets what is typed interrupt, stop and quit the process above this one, the box's init.
static int give_terminal_away(char **argv) {
  (void)argv;
  signal(SIGTTOU, SIG_IGN);
  if (tcsetpgrp(0, getpgid(getppid()))) return failed("tcsetpgrp");
  printf("given\n");
  sleep(1);
  return worked();
}

// Ends the session of the terminal, and acquires it for another.
static int take_over_session(char **argv) {
  (void)argv;
  if (fork()) return pause();
  setsid();
  return outcome("TIOCSCTTY", ioctl(0, TIOCSCTTY, 1));
}

const struct attack terminal_attacks[] = {
    {"inject-input", inject_input},
    {"terminal-calls", terminal_calls},
    {"open-tty", open_tty},
    {"ioctl-device", ioctl_device},
    {"open-terminals", open_terminals},
    {"give-terminal-away", give_terminal_away},
    {"take-over-session", take_over_session},
    {NULL, NULL},
};
