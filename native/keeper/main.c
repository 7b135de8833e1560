// The keeper: confines root to itself and the warden. It runs as-root to learn what to start,
// starts and restarts the warden, and runs the daemons as an unprivileged user. It reads nothing
// that the daemons write.
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY_TIMEOUT_MS 20000
#define STOP_TIMEOUT_MS 6000
#define RESTART_BACKOFF_MS_MIN 50
#define RESTART_BACKOFF_MS_MAX 5000
#define STABLE_UPTIME_MS 1000

static struct launch_spec spec;
static pid_t warden, runtime, dirs_owner;

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

// ── failure to start ──

static size_t json_escape(char *out, size_t capacity, const char *text) {
  size_t used = 0;
  for (; *text && used + 8 < capacity; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') used += (size_t)sprintf(out + used, "\\%c", c);
    else if (c < 0x20) used += (size_t)sprintf(out + used, "\\u%04x", c);
    else out[used++] = (char)c;
  }
  out[used] = 0;
  return used;
}

void refuse_with_line(int fd, const char *line) {
  if (write(fd, line, strlen(line)) < 0 || write(fd, "\n", 1) < 0)
    fprintf(stderr, "keeper: reporting the failure failed\n");
  fprintf(stderr, "%s\n", line);
  if (dirs_owner == getpid()) {
    if (warden > 0) kill(warden, SIGKILL);
    runtime_dirs_remove(&spec);
  }
  exit(78);
}

void refuse(int fd, const char *code, const char *hint, const char *text, ...) {
  char message[1024], message_json[2048], hint_json[1024], line[4096];
  va_list args;
  va_start(args, text);
  vsnprintf(message, sizeof message, text, args);
  va_end(args);
  json_escape(message_json, sizeof message_json, message);
  json_escape(hint_json, sizeof hint_json, hint);
  snprintf(line, sizeof line,
           "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":\"%s\",\"retry\":false}}", code,
           message_json, hint_json);
  refuse_with_line(fd, line);
}

// ── the warden ──

// Opened as the runtime's user: root never opens a path in the daemons' directories.
static int open_log(void) {
  int fd = -1;
  if (!setegid(spec.gid) && !seteuid(spec.uid))
    fd = open(spec.warden_log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
              0600);
  if (seteuid(0) || setegid(0)) abort();
  return fd;
}

static void warden_start(int stdout_fd) {
  char parent[16], client[16], socket[PATH_MAX], bounds[PATH_MAX];
  snprintf(parent, sizeof parent, "%d", getpid());
  snprintf(client, sizeof client, "%d", spec.single_client ? runtime : 0);
  snprintf(socket, sizeof socket, "%s/warden.sock", spec.warden_dir);
  snprintf(bounds, sizeof bounds, "%s/bounds", spec.warden_dir);
  int log_fd = open_log(), dev_null = open("/dev/null", O_RDWR | O_CLOEXEC);
  warden = fork();
  if (warden == 0) {
    if (dup2(dev_null, 0) < 0 || dup2(stdout_fd < 0 ? dev_null : stdout_fd, 1) < 0 ||
        dup2(log_fd < 0 ? dev_null : log_fd, 2) < 0)
      _exit(1);
    if (syscall(SYS_close_range, 3, ~0u, 0)) _exit(1);
    sigset_t all;
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    char *empty_env[] = {NULL};
    char *args[] = {(char *)spec.warden, "--run",    (char *)spec.warden_dir, "--socket", socket,
                    "--bounds",          bounds,     "--halt", (char *)spec.halt, "--parent",
                    parent,              "--client", client,   NULL};
    execve(spec.warden, args, empty_env);
    _exit(1);
  }
  if (log_fd >= 0) close(log_fd);
  if (dev_null >= 0) close(dev_null);
}

static void warden_start_first(void) {
  int pipe_fds[2];
  char text[16] = "";
  if (pipe2(pipe_fds, O_CLOEXEC))
    refuse(spec.ready_fd, "internal", "", "pipe: %s", strerror(errno));
  warden_start(pipe_fds[1]);
  close(pipe_fds[1]);
  struct pollfd wait = {.fd = pipe_fds[0], .events = POLLIN};
  ssize_t size =
      poll(&wait, 1, READY_TIMEOUT_MS) == 1 ? read(pipe_fds[0], text, sizeof text - 1) : -1;
  close(pipe_fds[0]);
  if (size < 5 || strncmp(text, "ready", 5))
    refuse(spec.ready_fd, "unavailable", "Read logs/warden.log in the state directory.",
           "the warden did not become ready");
}

// ── supervision ──

static void reap(int *runtime_status, long long *restart_at, long long started_at, int *backoff) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    grant_socket_reap(pid);
    if (pid == runtime) {
      *runtime_status = status;
      runtime = 0;
    }
    if (pid != warden) continue;
    warden = 0;
    if (now_ms() - started_at > STABLE_UPTIME_MS) *backoff = RESTART_BACKOFF_MS_MIN;
    *restart_at = now_ms() + *backoff;
    *backoff = *backoff * 2 > RESTART_BACKOFF_MS_MAX ? RESTART_BACKOFF_MS_MAX : *backoff * 2;
  }
}

// Returns the number of a signal, 0 if there is none.
static int read_signal(int signal_fd) {
  struct signalfd_siginfo info;
  return read(signal_fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

// Serves people's requests until a signal arrives or the time is over.
static int wait_for_signal(int signal_fd, long long ms) {
  struct pollfd fds[GRANT_CLIENTS_MAX + 2] = {{signal_fd, POLLIN, 0}};
  unsigned count = grant_socket_poll(fds + 1);
  if (poll(fds, count + 1, (int)ms) > 0) grant_socket_serve(fds + 1, count, now_ms());
  else grant_socket_serve(fds + 1, 0, now_ms());
  return read_signal(signal_fd);
}

static int supervise(const sigset_t *signals) {
  int signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signal_fd < 0) refuse(spec.ready_fd, "internal", "", "signalfd: %s", strerror(errno));
  long long restart_at = 0, started_at = now_ms();
  int backoff = RESTART_BACKOFF_MS_MIN, runtime_status = 0;
  while (runtime) {
    long long left = warden ? 1000 : restart_at - now_ms();
    if (left < 0) left = 0;
    int number = wait_for_signal(signal_fd, left);
    if (number == SIGTERM || number == SIGINT || number == SIGHUP) kill(runtime, SIGTERM);
    reap(&runtime_status, &restart_at, started_at, &backoff);
    if (!runtime || warden || now_ms() < restart_at) continue;
    started_at = now_ms();
    warden_start(-1);
  }
  return runtime_status;
}

static void warden_stop(const sigset_t *signals) {
  if (!warden) return;
  kill(warden, SIGTERM);
  long long deadline = now_ms() + STOP_TIMEOUT_MS;
  struct timespec wait = {0, 50000000};
  while (waitpid(warden, NULL, WNOHANG) == 0) {
    if (now_ms() > deadline) kill(warden, SIGKILL);
    sigtimedwait(signals, NULL, &wait);
  }
}

int main(int argc, char **argv) {
  if (argc < 2 || geteuid() || getuid()) {
    fprintf(stderr, "usage: keeper PROGRAM ARGUMENT... (as root)\n");
    return 2;
  }
  spec.ready_fd = 2;
  read_launch_spec(argv + 1, &spec);
  prctl(PR_SET_DUMPABLE, 0);
  umask(022);
  // Root's supplementary groups would still apply in open_log, after seteuid.
  if (setgroups(0, NULL)) refuse(spec.ready_fd, "internal", "", "setgroups: %s", strerror(errno));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
  runtime_dirs_create(&spec);
  runtime_dirs_sweep(&spec);
  dirs_owner = getpid();
  int release_fd;
  runtime = runtime_start(&spec, &release_fd);
  warden_start_first();
  grant_socket_open(&spec);
  // If the runtime has exited, it has reported why, and supervise returns its status.
  if (write(release_fd, "g", 1) == 1) close(release_fd);
  if (spec.ready_fd > 2) close(spec.ready_fd);
  int status = supervise(&signals);
  warden_stop(&signals);
  runtime_dirs_remove(&spec);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  // Die by the same signal as the runtime, for the process that waits for the keeper.
  signal(WTERMSIG(status), SIG_DFL);
  sigemptyset(&signals);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  raise(WTERMSIG(status));
  return 70;
}
