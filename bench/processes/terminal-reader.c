// Runs a command on a terminal of its own, as a person's terminal program would, and reads all that
// it prints. Prints one line: the bytes, and the milliseconds from the first to the last, as JSON.
//   terminal-reader COMMAND [ARGUMENT…]
#define _GNU_SOURCE
#include <errno.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  struct winsize size = {.ws_row = 24, .ws_col = 80};
  int master, status;
  pid_t child = forkpty(&master, NULL, NULL, &size);
  if (child < 0) return perror("forkpty"), 1;
  if (child == 0) {
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    _exit(127);
  }
  static char bytes[65536];
  char tail[513] = "";
  size_t total = 0;
  double first = 0, last = 0;
  for (;;) {
    ssize_t n = read(master, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // EIO: nobody has the other end any more
    last = now_ms();
    if (total == 0) first = last;
    total += (size_t)n;
    size_t kept = (size_t)n < sizeof tail - 1 ? (size_t)n : sizeof tail - 1;
    memcpy(tail, bytes + n - kept, kept);
    tail[kept] = 0;
  }
  if (waitpid(child, &status, 0) < 0 || status != 0) {
    fprintf(stderr, "terminal-reader: the command failed: %s\n", tail);
    return 1;
  }
  printf("{\"bytes\":%zu,\"ms\":%.3f}\n", total, last - first);
  return 0;
}
