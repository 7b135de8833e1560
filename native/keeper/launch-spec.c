// Reads the launch spec: runs as-root, once, before anything else. It reads the configuration as
// root and names the runtime's user, program and paths, as NUL-terminated fields; it has exited
// before the runtime starts.
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

#define SPEC_BYTES_MAX (1024 * 1024)
#define FIELDS_MAX 1024

__attribute__((noreturn)) static void die(const char *what) {
  fprintf(stderr, "keeper: %s\n", what);
  exit(70);
}

static pid_t start_preparer(char **argv, int write_fd) {
  unsigned count = 0;
  while (argv[count]) count++;
  pid_t keeper = getpid(), pid = fork();
  if (pid) return pid;
  char digits[16];
  snprintf(digits, sizeof digits, "%d", write_fd);
  char **args = calloc(count + 3, sizeof *args);
  if (!args) _exit(70);
  memcpy(args, argv, count * sizeof *args);
  args[count] = "--keeper-fd";
  args[count + 1] = digits;
  fcntl(write_fd, F_SETFD, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(70);
  execv(args[0], args);
  fprintf(stderr, "keeper: %s: %s\n", args[0], strerror(errno));
  _exit(70);
}

static size_t read_all(int fd, char *bytes) {
  size_t size = 0;
  for (;;) {
    ssize_t got = read(fd, bytes + size, SPEC_BYTES_MAX - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) die("reading the launch spec failed");
    if (!got) return size;
    size += (size_t)got;
    if (size == SPEC_BYTES_MAX) die("the launch spec is too long");
  }
}

static long parse_number(const char *text) {
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (errno || end == text || *end || number < 0 || number >= UINT_MAX)
    die("a field of the launch spec is not a number");
  return number;
}

// "UID GID NAME PATH": a path may have spaces, a name has none.
static void add_mailbox(struct launch_spec *spec, char *value) {
  struct mailbox box = {0};
  int at = 0;
  char *name = NULL, *path = NULL;
  if (sscanf(value, "%u %u %n", &box.uid, &box.gid, &at) == 2 && at) name = value + at;
  if (name) path = strchr(name, ' ');
  if (!path || path == name || path[1] != '/' || !box.uid || !box.gid ||
      spec->mailbox_count == MAILBOXES_MAX)
    die("a mailbox of the launch spec is malformed");
  *path = 0;
  if (strchr(name, '/') || name[0] == '.') die("a mailbox of the launch spec is malformed");
  box.name = name;
  box.path = path + 1;
  spec->mailboxes[spec->mailbox_count++] = box;
}

static void set_field(struct launch_spec *spec, const char *name, char *value) {
  const struct {
    const char *name;
    const char **field;
  } string_fields[] = {
      {"user", &spec->user},           {"warden", &spec->warden},
      {"bounds", &spec->bounds},       {"warden-dir", &spec->warden_dir},
      {"halt", &spec->halt},           {"runtime-dir", &spec->runtime_dir},
      {"warden-log", &spec->warden_log}, {"in-use-error", &spec->in_use_error},
      {"grants-dir", &spec->grants_dir}, {"no-grants", &spec->no_grants},
      {"state", &spec->state_dir},       {"other-ids", &spec->other_ids},
  };
  for (unsigned i = 0; i < sizeof string_fields / sizeof *string_fields; i++)
    if (!strcmp(string_fields[i].name, name)) {
      *string_fields[i].field = value;
      return;
    }
  enum path_kind kind = !strcmp(name, "required")   ? PATH_REQUIRED
                        : !strcmp(name, "optional") ? PATH_OPTIONAL
                                                    : PATH_SECRET;
  if (kind != PATH_SECRET || !strcmp(name, "secret")) {
    if (spec->path_count == PATHS_MAX) die("the launch spec has too many paths");
    spec->paths[spec->path_count++] = (struct needed_path){value, kind};
  } else if (!strcmp(name, "uid")) {
    spec->uid = (uid_t)parse_number(value);
  } else if (!strcmp(name, "gid")) {
    spec->gid = (gid_t)parse_number(value);
  } else if (!strcmp(name, "mailbox")) {
    add_mailbox(spec, value);
  } else if (!strcmp(name, "ready-fd")) {
    spec->ready_fd = (int)parse_number(value);
  } else if (!strcmp(name, "single-client")) {
    spec->single_client = parse_number(value);
  } else {
    die("the launch spec has an unknown field");
  }
}

void read_launch_spec(char **argv, struct launch_spec *spec) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC)) die("creating a pipe failed");
  pid_t pid = start_preparer(argv, pipe_fds[1]);
  close(pipe_fds[1]);
  static char bytes[SPEC_BYTES_MAX];
  static char *fields[FIELDS_MAX + 1];
  size_t size = read_all(pipe_fds[0], bytes);
  close(pipe_fds[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  // as-root has already reported the reason.
  if (!WIFEXITED(status) || WEXITSTATUS(status)) exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70);
  unsigned count = 0;
  for (size_t at = 0; at < size; at += strlen(bytes + at) + 1) {
    if (count == FIELDS_MAX || !memchr(bytes + at, 0, size - at))
      die("the launch spec is truncated");
    fields[count++] = bytes + at;
  }
  unsigned at = 0;
  for (; at + 1 < count && strcmp(fields[at], "--"); at += 2)
    set_field(spec, fields[at], fields[at + 1]);
  spec->argv = fields + at + 1;
  // The runtime must never run as root, and every field must be set.
  if (at >= count || !spec->argv[0] || !spec->uid || !spec->gid || !spec->user || !spec->warden ||
      !spec->warden_dir || !spec->bounds || !spec->halt || !spec->runtime_dir ||
      !spec->warden_log || !spec->in_use_error || !spec->state_dir ||
      (!spec->grants_dir && !spec->no_grants))
    die("the launch spec is incomplete");
}
