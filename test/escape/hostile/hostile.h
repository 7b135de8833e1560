// Shared by the hostile programs. An attack returns worked() or failed(); the tests read the
// output.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct attack {
  const char *name;
  int (*run)(char **argv);
};
extern const struct attack file_attacks[], kernel_attacks[], socket_attacks[], process_attacks[],
    terminal_attacks[];

static inline int worked(void) {
  printf("worked\n");
  return 0;
}
static inline int failed(const char *step) {
  printf("failed %s %s\n", step, strerrorname_np(errno));
  return 1;
}
// As system calls report it: a negative result is a failure.
static inline int outcome(const char *step, long result) {
  return result < 0 ? failed(step) : worked();
}
