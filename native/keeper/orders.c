// What to do comes from a program that runs as root, once, before anything else: it reads the
// configuration and says who the runtime is and what it needs. It is gone when the runtime starts.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ORDERS_BYTES (1024 * 1024)
#define WORDS_MAX 1024

__attribute__((noreturn)) static void broken(const char *what) {
  fprintf(stderr, "keeper: %s\n", what);
  exit(70);
}

static pid_t prepare(char **argv, int tell) {
  unsigned count = 0;
  while (argv[count]) count++;
  pid_t keeper = getpid(), pid = fork();
  if (pid) return pid;
  char number[16];
  snprintf(number, sizeof number, "%d", tell);
  char **words = calloc(count + 3, sizeof *words);
  if (!words) _exit(70);
  memcpy(words, argv, count * sizeof *words);
  words[count] = "--tell-fd";
  words[count + 1] = number;
  fcntl(tell, F_SETFD, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(70);
  execv(words[0], words);
  fprintf(stderr, "keeper: %s: %s\n", words[0], strerror(errno));
  _exit(70);
}

static size_t read_all(int fd, char *bytes) {
  size_t size = 0;
  for (;;) {
    ssize_t got = read(fd, bytes + size, ORDERS_BYTES - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) broken("reading the orders failed");
    if (!got) return size;
    size += (size_t)got;
    if (size == ORDERS_BYTES) broken("the orders are too long");
  }
}

static long number_of(const char *word) {
  char *end;
  errno = 0;
  long number = strtol(word, &end, 10);
  if (errno || end == word || *end || number < 0 || number >= UINT_MAX)
    broken("an order is not a number");
  return number;
}

static void take(struct orders *o, const char *name, char *value) {
  const struct {
    const char *name;
    const char **place;
  } texts[] = {{"user", &o->user},     {"warden", &o->warden}, {"dir", &o->dir},
               {"bounds", &o->bounds}, {"halt", &o->halt},     {"runtime", &o->runtime},
               {"log", &o->log},       {"held", &o->held}};
  for (unsigned i = 0; i < sizeof texts / sizeof *texts; i++)
    if (!strcmp(texts[i].name, name)) {
      *texts[i].place = value;
      return;
    }
  enum need_kind kind = !strcmp(name, "need") ? NEED_MUST
                        : !strcmp(name, "show") ? NEED_SHOW
                                                : NEED_SECRET;
  if (kind != NEED_SECRET || !strcmp(name, "secret")) {
    if (o->need_count == NEEDS_MAX) broken("too many paths are needed");
    o->needs[o->need_count++] = (struct need){value, kind};
  } else if (!strcmp(name, "uid")) {
    o->uid = (uid_t)number_of(value);
  } else if (!strcmp(name, "gid")) {
    o->gid = (gid_t)number_of(value);
  } else if (!strcmp(name, "ready-fd")) {
    o->ready_fd = (int)number_of(value);
  } else if (!strcmp(name, "one-client")) {
    o->one_client = number_of(value);
  } else {
    broken("an order is not known");
  }
}

void read_orders(char **argv, struct orders *orders) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) broken("no pipe");
  pid_t pid = prepare(argv, ends[1]);
  close(ends[1]);
  static char bytes[ORDERS_BYTES];
  static char *words[WORDS_MAX + 1];
  size_t size = read_all(ends[0], bytes);
  close(ends[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  // Whoever waits has been told why.
  if (!WIFEXITED(status) || WEXITSTATUS(status)) exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70);
  unsigned count = 0;
  for (size_t at = 0; at < size; at += strlen(bytes + at) + 1) {
    if (count == WORDS_MAX || !memchr(bytes + at, 0, size - at)) broken("the orders are cut short");
    words[count++] = bytes + at;
  }
  unsigned at = 0;
  for (; at + 1 < count && strcmp(words[at], "--"); at += 2) take(orders, words[at], words[at + 1]);
  orders->program = words + at + 1;
  // No order may leave the runtime root, or anything unsaid.
  if (at >= count || !orders->program[0] || !orders->uid || !orders->gid || !orders->user ||
      !orders->warden || !orders->dir || !orders->bounds || !orders->halt || !orders->runtime ||
      !orders->log || !orders->held)
    broken("the orders lack something");
}
