// What the keeper's files say to each other.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define NEEDS_MAX 256
#define SECRETS "/secrets"  // where the view keeps copies; empty but in the runtime's own view

enum need_kind {
  NEED_MUST,    // without it nothing can start
  NEED_SHOW,    // seen, if its own mode allows
  NEED_SECRET,  // root's: the runtime sees a copy of its own in its place
};
struct need {
  const char *path;
  enum need_kind kind;
};

// What the program that prepares told us: words, each ended by a NUL (see read_orders in orders.c).
struct orders {
  uid_t uid;
  gid_t gid;
  int ready_fd;
  bool one_client;  // the warden answers the runtime's own process only
  const char *user, *warden, *dir, *bounds, *halt, *runtime, *log, *held;
  struct need needs[NEEDS_MAX];
  unsigned need_count;
  char **program;
};

// ── orders.c ──
// Runs argv as root and reads what it tells; ends this process when it refuses.
void read_orders(char **argv, struct orders *orders);

// ── view.c: shows the runtime what it needs below directories that are closed to its user ──
int view_make(const struct orders *orders, char *why, size_t size);

// ── step-down.c: the runtime's first process, from root to a user without rights ──
pid_t runtime_start(const struct orders *orders, int *go);

// ── places.c: directories that only root can change ──
void places_take(const struct orders *orders);
void places_leave(const struct orders *orders);

// ── sweep.c: the same directories of runtimes that were killed and never started again ──
void places_sweep(const struct orders *orders);

// One line for whoever waits for the runtime, then the end.
__attribute__((noreturn)) void refuse(int fd, const char *code, const char *hint, const char *text,
                                      ...) __attribute__((format(printf, 4, 5)));
__attribute__((noreturn)) void refuse_with(int fd, const char *line);
