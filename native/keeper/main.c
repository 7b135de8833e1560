// Started as root, this keeps root from everything but the warden: a program of the runtime says
// what is to be done and ends, the warden is started and started again, the daemons run as a user
// without rights. Reads nothing that they write.
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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READY_MS 20000
#define STOP_MS 6000
#define PAUSE_MS_MIN 50
#define PAUSE_MS_MAX 5000
#define SETTLED_MS 1000

static struct orders orders;
static pid_t warden, runtime, placed_by;

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

// ── what is said when it does not start ──

static size_t quote(char *out, size_t room, const char *text) {
  size_t used = 0;
  for (; *text && used + 8 < room; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') used += (size_t)sprintf(out + used, "\\%c", c);
    else if (c < 0x20) used += (size_t)sprintf(out + used, "\\u%04x", c);
    else out[used++] = (char)c;
  }
  out[used] = 0;
  return used;
}

void refuse_with(int fd, const char *line) {
  if (write(fd, line, strlen(line)) < 0 || write(fd, "\n", 1) < 0)
    fprintf(stderr, "keeper: nobody waits any more\n");
  fprintf(stderr, "%s\n", line);
  if (placed_by == getpid()) {
    if (warden > 0) kill(warden, SIGKILL);
    places_leave(&orders);
  }
  exit(78);
}

void refuse(int fd, const char *code, const char *hint, const char *text, ...) {
  char said[1024], message[2048], advice[1024], line[4096];
  va_list args;
  va_start(args, text);
  vsnprintf(said, sizeof said, text, args);
  va_end(args);
  quote(message, sizeof message, said);
  quote(advice, sizeof advice, hint);
  snprintf(line, sizeof line,
           "{\"error\":{\"code\":\"%s\",\"message\":\"%s\",\"hint\":\"%s\",\"retry\":false}}", code,
           message, advice);
  refuse_with(fd, line);
}

// ── the warden ──

// As the runtime's user: in its directories root opens nothing by name.
static int open_log(void) {
  int fd = -1;
  if (!setegid(orders.gid) && !seteuid(orders.uid))
    fd = open(orders.log, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
              0600);
  if (seteuid(0) || setegid(0)) abort();
  return fd;
}

static void warden_start(int out) {
  char parent[16], client[16], socket[PATH_MAX], bounds[PATH_MAX];
  snprintf(parent, sizeof parent, "%d", getpid());
  snprintf(client, sizeof client, "%d", orders.one_client ? runtime : 0);
  snprintf(socket, sizeof socket, "%s/warden.sock", orders.dir);
  snprintf(bounds, sizeof bounds, "%s/bounds", orders.dir);
  int log = open_log(), none = open("/dev/null", O_RDWR | O_CLOEXEC);
  warden = fork();
  if (warden == 0) {
    if (dup2(none, 0) < 0 || dup2(out < 0 ? none : out, 1) < 0 || dup2(log < 0 ? none : log, 2) < 0)
      _exit(1);
    if (syscall(SYS_close_range, 3, ~0u, 0)) _exit(1);
    sigset_t all;
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    char *environment[] = {NULL};
    char *words[] = {(char *)orders.warden, "--run",    (char *)orders.dir,  "--socket", socket,
                     "--bounds",            bounds,     "--halt",            (char *)orders.halt,
                     "--parent",            parent,     "--client",          client,     NULL};
    execve(orders.warden, words, environment);
    _exit(1);
  }
  if (log >= 0) close(log);
  if (none >= 0) close(none);
}

static void warden_first(void) {
  int ends[2];
  char said[16] = "";
  if (pipe2(ends, O_CLOEXEC)) refuse(orders.ready_fd, "internal", "", "no pipe");
  warden_start(ends[1]);
  close(ends[1]);
  struct pollfd wait = {.fd = ends[0], .events = POLLIN};
  ssize_t size = poll(&wait, 1, READY_MS) == 1 ? read(ends[0], said, sizeof said - 1) : -1;
  close(ends[0]);
  if (size < 5 || strncmp(said, "ready", 5))
    refuse(orders.ready_fd, "unavailable", "Its log is logs/warden.log of the state directory.",
           "the warden did not become ready");
}

// ── the life of both ──

static void reap(int *ended, long long *again, long long since, int *pause) {
  int status;
  pid_t pid;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == runtime) {
      *ended = status;
      runtime = 0;
    }
    if (pid != warden) continue;
    warden = 0;
    if (now_ms() - since > SETTLED_MS) *pause = PAUSE_MS_MIN;
    *again = now_ms() + *pause;
    *pause = *pause * 2 > PAUSE_MS_MAX ? PAUSE_MS_MAX : *pause * 2;
  }
}

static int live(const sigset_t *signals) {
  long long again = 0, since = now_ms();
  int pause = PAUSE_MS_MIN, ended = 0;
  while (runtime) {
    long long left = warden ? 1000 : again - now_ms();
    if (left < 0) left = 0;
    struct timespec wait = {left / 1000, left % 1000 * 1000000};
    int number = sigtimedwait(signals, NULL, &wait);
    if (number == SIGTERM || number == SIGINT || number == SIGHUP) kill(runtime, SIGTERM);
    reap(&ended, &again, since, &pause);
    if (!runtime || warden || now_ms() < again) continue;
    since = now_ms();
    warden_start(-1);
  }
  return ended;
}

static void warden_stop(const sigset_t *signals) {
  if (!warden) return;
  kill(warden, SIGTERM);
  long long until = now_ms() + STOP_MS;
  struct timespec wait = {0, 50000000};
  while (waitpid(warden, NULL, WNOHANG) == 0) {
    if (now_ms() > until) kill(warden, SIGKILL);
    sigtimedwait(signals, NULL, &wait);
  }
}

int main(int argc, char **argv) {
  if (argc < 2 || geteuid() || getuid()) {
    fprintf(stderr, "usage, as root: keeper PROGRAM ARGUMENT...\n");
    return 2;
  }
  orders.ready_fd = 2;
  read_orders(argv + 1, &orders);
  prctl(PR_SET_DUMPABLE, 0);
  umask(022);
  // Root's own groups would count where its user does not: see open_log.
  if (setgroups(0, NULL))
    refuse(orders.ready_fd, "internal", "", "setgroups: %s", strerror(errno));
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  signal(SIGPIPE, SIG_IGN);
  places_take(&orders);
  places_sweep(&orders);
  placed_by = getpid();
  int go;
  runtime = runtime_start(&orders, &go);
  warden_first();
  // When it is gone already it has said why, and how it ended is seen below.
  if (write(go, "g", 1) == 1) close(go);
  if (orders.ready_fd > 2) close(orders.ready_fd);
  int status = live(&signals);
  warden_stop(&signals);
  places_leave(&orders);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  // The same end as the runtime's, for whoever waits for us.
  signal(WTERMSIG(status), SIG_DFL);
  sigemptyset(&signals);
  sigprocmask(SIG_SETMASK, &signals, NULL);
  raise(WTERMSIG(status));
  return 70;
}
