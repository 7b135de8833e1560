// The interfaces between the keeper's files.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <poll.h>
#include <sys/types.h>

#define PATHS_MAX 256
#define MAILBOXES_MAX 64
#define MAILBOXES "/mail"   // people's own mailboxes, as the runtime sees them (src/platform/mailboxes.ts)
#define SECRETS "/secrets"  // copies of secrets, in the warden's directory as the runtime sees it

enum path_kind {
  PATH_REQUIRED,  // the runtime cannot start without it
  PATH_OPTIONAL,  // visible if its mode allows
  PATH_SECRET,    // readable by root only: the runtime sees its own copy at this path
};
struct needed_path {
  const char *path;
  enum path_kind kind;
};

// A directory of a person, in which the runtime delivers mail as that person.
struct mailbox {
  const char *name, *path;
  uid_t uid;
  gid_t gid;
};

// The program to start, its user and its paths, from as-root (see read_launch_spec).
struct launch_spec {
  uid_t uid;
  gid_t gid;
  int ready_fd;
  bool single_client;  // the warden accepts the runtime's process only
  const char *user, *warden, *warden_dir, *bounds, *halt, *runtime_dir, *warden_log;
  const char *in_use_error, *state_dir;
  const char *other_ids;  // of other states on this host, as lines of a bounds file; may be NULL
  const char *grants_dir, *no_grants;  // one of them: the directory, or why there is none
  struct needed_path paths[PATHS_MAX];
  unsigned path_count;
  struct mailbox mailboxes[MAILBOXES_MAX];
  unsigned mailbox_count;
  char **argv;
};

// ── launch-spec.c ──
// Runs argv as root and reads the spec from it. Exits if that program refuses to start.
void read_launch_spec(char **argv, struct launch_spec *spec);

// ── view.c: exposes required paths below directories that the runtime's user cannot enter ──
int view_create(const struct launch_spec *spec, char *err, size_t size);

// ── mailboxes.c: mounts people's mailboxes in the runtime's mount namespace ──
int mailboxes_mount(const struct launch_spec *spec);

// ── drop-privileges.c: the runtime's first process ──
pid_t runtime_start(const struct launch_spec *spec, int *release_fd);

// ── runtime-dirs.c: lock, directories and bounds file, which only root can change ──
void runtime_dirs_create(const struct launch_spec *spec);
void runtime_dirs_remove(const struct launch_spec *spec);

// ── sweep.c: the directories of killed runtimes that were never restarted ──
void runtime_dirs_sweep(const struct launch_spec *spec);

// ── grant-socket.c: people's requests, served in the keeper's loop ──
#define GRANT_SOCKET "/grant.sock"
#define GRANT_CLIENTS_MAX 16
void grant_socket_open(const struct launch_spec *spec);
unsigned grant_socket_poll(struct pollfd *fds);  // up to GRANT_CLIENTS_MAX + 1
void grant_socket_serve(const struct pollfd *fds, unsigned count, long long now);
void grant_socket_reap(pid_t pid);

// Reports one line to the process that waits for the runtime, then exits.
__attribute__((noreturn)) void refuse(int fd, const char *code, const char *hint, const char *text,
                                      ...) __attribute__((format(printf, 4, 5)));
__attribute__((noreturn)) void refuse_with_line(int fd, const char *line);
