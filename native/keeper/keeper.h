// What the keeper's files say to each other.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#define PATHS_MAX 256
#define SECRETS "/secrets"  // where the view keeps copies; empty but in the runtime's own view

enum path_kind {
  PATH_REQUIRED,    // without it nothing can start
  PATH_OPTIONAL,    // seen, if its own mode allows
  PATH_SECRET,  // root's: the runtime sees a copy of its own in its place
};
struct needed_path {
  const char *path;
  enum path_kind kind;
};

// What the program that prepares told us: words, each ended by a NUL (see read_orders in orders.c).
struct launch_spec {
  uid_t uid;
  gid_t gid;
  int ready_fd;
  bool single_client;  // the warden answers the runtime's own process only
  const char *user, *warden, *warden_dir, *bounds, *halt, *runtime_dir, *warden_log;
  const char *in_use_error;
  struct needed_path paths[PATHS_MAX];
  unsigned path_count;
  char **argv;
};

// ── orders.c ──
// Runs argv as root and reads what it tells; ends this process when it refuses.
void read_launch_spec(char **argv, struct launch_spec *spec);

// ── view.c: shows the runtime what it needs below directories that are closed to its user ──
int view_create(const struct launch_spec *spec, char *err, size_t size);

// ── step-down.c: the runtime's first process, from root to a user without rights ──
pid_t runtime_start(const struct launch_spec *spec, int *release_fd);

// ── places.c: directories that only root can change ──
void runtime_dirs_create(const struct launch_spec *spec);
void runtime_dirs_remove(const struct launch_spec *spec);

// ── sweep.c: the same directories of runtimes that were killed and never started again ──
void runtime_dirs_sweep(const struct launch_spec *spec);

// One line for whoever waits for the runtime, then the end.
__attribute__((noreturn)) void refuse(int fd, const char *code, const char *hint, const char *text,
                                      ...) __attribute__((format(printf, 4, 5)));
__attribute__((noreturn)) void refuse_with_line(int fd, const char *line);
