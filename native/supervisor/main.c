// The supervisor: starts the runtime's first process (as root, the keeper) and restarts it when it
// dies. It gives up when deaths follow each other too fast. It opens no file: agentctl passes the
// descriptors. From the runtime it reads one line, of which it only relays the bytes.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BACKOFF_MS_MIN 200
#define BACKOFF_MS_MAX 30000
#define STABLE_UPTIME_MS 60000
#define WINDOW_MS (10 * 60 * 1000)
#define RESTARTS_MAX 100
// A dead runtime's other processes end by themselves, or are killed: that loses no data.
#define ORPHANS_TIMEOUT_MS 3000
#define KILLED_TIMEOUT_MS 5000
#define STATUS_BYTES 512
// How writeReadyLine in src/entry/options.ts starts its line. Any other line is a refusal.
#define READY_PREFIX "{\"ready\":true"

static int client_fd = -1, status_fd = -1;  // where agentctl reads the ready line; supervisor.json
static int child_ready_fd = -1;             // the number that the child's arguments name
static int restarts_max;
static char **command;
static unsigned command_size;

static pid_t child;
static int ready_pipe = -1;
static char ready_start[sizeof READY_PREFIX];  // the first bytes of the child's line
static size_t ready_size;
static bool has_been_ready, is_ready, stopping;
static unsigned restarts;
static int backoff_ms = BACKOFF_MS_MIN;
static long long ready_at, died_at, restart_at;
static long long deaths[RESTARTS_MAX + 1];  // within the window, oldest first
static int death_count;
static char started_time[32], death_time[32], reason[32];

static long long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

static void format_time(char *out, size_t size, long delay_ms) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  long long ms = now.tv_sec * 1000ll + now.tv_nsec / 1000000 + delay_ms;
  time_t seconds = ms / 1000;
  struct tm utc;
  size_t used = strftime(out, size, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
  snprintf(out + used, size - used, ".%03lldZ", ms % 1000);
}

static void log_line(const char *level, const char *message, const char *fields) {
  char at[32];
  format_time(at, sizeof at, 0);
  const char *format =
      "{\"ts\":\"%s\",\"level\":\"%s\",\"daemon\":\"supervisor\",\"message\":\"%s\"%s}\n";
  fprintf(stderr, format, at, level, message, fields);
}

// One write of a fixed size, so that a reader sees the old record or the new one.
static void write_status(const char *state, long retry_ms) {
  char text[STATUS_BYTES], last[128] = "null", retry[40] = "null", at[32];
  if (*reason) snprintf(last, sizeof last, "{\"at\":\"%s\",\"reason\":\"%s\"}", death_time, reason);
  if (retry_ms >= 0) {
    format_time(at, sizeof at, retry_ms);
    snprintf(retry, sizeof retry, "\"%s\"", at);
  }
  long long span = death_count > 0 ? deaths[death_count - 1] - deaths[0] : 0;
  int size = snprintf(text, sizeof text,
                      "{\"pid\":%d,\"state\":\"%s\",\"started_at\":\"%s\",\"restarts\":%u,"
                      "\"restarts_max\":%d,\"deaths\":%d,\"deaths_span_ms\":%lld,\"last\":%s,"
                      "\"retry_at\":%s}",
                      getpid(), state, started_time, restarts, restarts_max, death_count, span,
                      last, retry);
  memset(text + size, ' ', sizeof text - (size_t)size - 1);
  text[sizeof text - 1] = '\n';
  // A full disk must not keep the runtime down.
  if (pwrite(status_fd, text, sizeof text, 0) < 0)
    log_line("warn", "writing supervisor.json failed", "");
}

__attribute__((noreturn)) static void exit_like(int status) {
  write_status("stopped", -1);
  if (WIFEXITED(status)) exit(WEXITSTATUS(status));
  // By the same signal, for the process that waits for the supervisor.
  signal(WTERMSIG(status), SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  raise(WTERMSIG(status));
  exit(70);
}

// ── the child ──

static void stop_child(void) {
  stopping = true;
  write_status("stopping", -1);
  if (child) kill(child, SIGTERM);
}

__attribute__((noreturn)) static void exec_child(int write_end) {
  char count[16];
  snprintf(count, sizeof count, "%u", restarts);
  char **args = calloc(command_size + 5, sizeof *args);
  if (!args || dup2(write_end, child_ready_fd) < 0) _exit(70);
  if (write_end == child_ready_fd) fcntl(write_end, F_SETFD, 0);
  memcpy(args, command, command_size * sizeof *args);
  if (restarts > 0) {
    char *more[] = {"--restarts", count, "--restarted-after", reason};
    memcpy(args + command_size, more, sizeof more);
  }
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execv(args[0], args);
  fprintf(stderr, "supervisor: %s: %s\n", args[0], strerror(errno));
  _exit(70);
}

static void close_ready_pipe(void) {
  if (ready_pipe >= 0) close(ready_pipe);
  if (client_fd >= 0) close(client_fd);
  ready_pipe = client_fd = -1;
}

static void start_child(void) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) || fcntl(pipe_fds[0], F_SETFL, O_NONBLOCK)) exit(70);
  is_ready = false;
  ready_size = 0;
  pid_t pid = fork();
  if (pid == 0) exec_child(pipe_fds[1]);
  close(pipe_fds[1]);
  ready_pipe = pipe_fds[0];
  if (pid < 0) {  // too many processes, or no memory
    if (!has_been_ready) exit(70);
    close_ready_pipe();
    restart_at = now_ms() + backoff_ms;
    return;
  }
  child = pid;
  write_status(restarts > 0 ? "restarting" : "starting", -1);
}

static void check_ready(const char *bytes, size_t size) {
  for (size_t i = 0; i < size && ready_size < sizeof ready_start - 1; i++)
    ready_start[ready_size++] = bytes[i];
  if (!memchr(bytes, '\n', size)) return;
  is_ready = !strncmp(ready_start, READY_PREFIX, sizeof READY_PREFIX - 1);
  close_ready_pipe();
  if (!is_ready) return;
  has_been_ready = true;
  ready_at = now_ms();
  if (!stopping) write_status("running", -1);
}

static void relay_ready_line(void) {
  char bytes[4096];
  while (ready_pipe >= 0) {
    ssize_t size = read(ready_pipe, bytes, sizeof bytes);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return close_ready_pipe();
    // agentctl up was killed: its request to start the runtime ends with it.
    if (client_fd >= 0 && write(client_fd, bytes, (size_t)size) != size) stop_child();
    check_ready(bytes, (size_t)size);
  }
}

// ── its death ──

__attribute__((noreturn)) static void give_up(void) {
  write_status("failed", -1);
  char fields[160];
  snprintf(fields, sizeof fields,
           ",\"deaths\":%d,\"within_s\":%lld,\"last\":\"%s\",\"next\":\"agentctl up\"", death_count,
           (deaths[death_count - 1] - deaths[0] + 999) / 1000, reason);
  log_line("error", "crash loop; the runtime is not restarted", fields);
  exit(70);
}

static void record_death(int status) {
  died_at = now_ms();
  format_time(death_time, sizeof death_time, 0);
  snprintf(reason, sizeof reason, WIFEXITED(status) ? "exit status %d" : "signal %d",
           WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  int expired = 0;
  while (expired < death_count && died_at - deaths[expired] > WINDOW_MS) expired++;
  death_count -= expired;
  memmove(deaths, deaths + expired, (size_t)death_count * sizeof *deaths);
  deaths[death_count++] = died_at;
}

static void handle_exit(int status) {
  child = 0;
  relay_ready_line();
  close_ready_pipe();
  bool wanted = stopping || (WIFEXITED(status) && !WEXITSTATUS(status));
  // agentctl up reports why a first start failed.
  if (wanted || !has_been_ready) exit_like(status);
  record_death(status);
  if (death_count > restarts_max) give_up();
  if (is_ready && died_at - ready_at > STABLE_UPTIME_MS) backoff_ms = BACKOFF_MS_MIN;
  restart_at = died_at + backoff_ms;
  restarts++;
  write_status("restarting", backoff_ms);
  char fields[96];
  snprintf(fields, sizeof fields, ",\"reason\":\"%s\",\"delay_ms\":%d,\"restarts\":%u", reason,
           backoff_ms, restarts);
  log_line("warn", "the runtime ended; restarting it", fields);
  backoff_ms = backoff_ms * 2 > BACKOFF_MS_MAX ? BACKOFF_MS_MAX : backoff_ms * 2;
}

// Returns true while this process has children: the runtime, or a dead one's orphans.
static bool reap(void) {
  for (;;) {
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    if (pid > 0 && pid == child) handle_exit(status);
    if (pid == 0) return true;
    if (pid < 0 && errno != EINTR) return false;
  }
}

// They hold locks that the next start needs. Safe: a child's pid is its own until it is reaped.
static void kill_orphans(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *list = fopen(path, "re");
  if (!list) return;
  for (int pid; fscanf(list, "%d", &pid) == 1;) kill(pid, SIGKILL);
  fclose(list);
}

// Restarts when the backoff has passed and the dead runtime's processes have ended.
static void restart_when_due(bool has_orphans) {
  long long now = now_ms();
  if (now < restart_at) return;
  if (has_orphans && now < died_at + ORPHANS_TIMEOUT_MS) return;
  if (has_orphans) kill_orphans();
  if (has_orphans && now < died_at + ORPHANS_TIMEOUT_MS + KILLED_TIMEOUT_MS) return;
  start_child();
}

static void read_signals(int fd) {
  struct signalfd_siginfo info;
  while (read(fd, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) stop_child();
}

__attribute__((noreturn)) static void supervise(int signals) {
  for (;;) {
    bool has_children = reap();
    if (!child && stopping) exit_like(0);
    if (!child) restart_when_due(has_children);
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN}, {.fd = ready_pipe, .events = POLLIN}};
    poll(fds, 2, child ? -1 : 50);
    read_signals(signals);
    relay_ready_line();
  }
}

static int open_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_SETMASK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

// Memory of the daemons holds keys. The limit covers core files, the filter those that the host
// pipes to a program; every process of the runtime inherits both, over exec, too.
static int disable_core_files(void) {
  struct rlimit none = {0, 0};
  if (setrlimit(RLIMIT_CORE, &none)) return -1;
  int fd = open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? 0 : -1;  // a kernel that writes no core files
  ssize_t written = write(fd, "0", 1);
  close(fd);
  return written == 1 ? 0 : -1;
}

// For a runtime that is not restarted: only takes its core files from it.
static int run_once(char **program) {
  if (disable_core_files())
    fprintf(stderr, "supervisor: core files could not be disabled: %s\n", strerror(errno));
  else if (execv(program[0], program))
    fprintf(stderr, "supervisor: %s: %s\n", program[0], strerror(errno));
  return 70;
}

int main(int argc, char **argv) {
  if (argc > 3 && !strcmp(argv[1], "--once") && !strcmp(argv[2], "--")) return run_once(argv + 3);
  int at = 1;
  for (; at + 1 < argc && strcmp(argv[at], "--"); at += 2) {
    int value = atoi(argv[at + 1]);
    if (!strcmp(argv[at], "--ready-fd")) child_ready_fd = value;
    else if (!strcmp(argv[at], "--status-fd")) status_fd = value;
    else if (!strcmp(argv[at], "--restarts")) restarts_max = value;
    else at = argc;
  }
  if (at + 1 >= argc || child_ready_fd < 3 || status_fd < 3 || status_fd == child_ready_fd ||
      restarts_max < 1 || restarts_max > RESTARTS_MAX) {
    fprintf(stderr, "usage: supervisor --ready-fd N --status-fd N --restarts N -- PROGRAM ...\n"
                    "       supervisor --once -- PROGRAM ...\n");
    return 2;
  }
  command = argv + at + 1;
  command_size = (unsigned)(argc - at - 1);
  client_fd = fcntl(child_ready_fd, F_DUPFD_CLOEXEC, 3);
  close(child_ready_fd);
  fcntl(status_fd, F_SETFD, FD_CLOEXEC);
  int signals = open_signals();
  if (client_fd < 0 || signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1)) return 70;
  if (disable_core_files()) {
    dprintf(client_fd, "{\"error\":{\"code\":\"internal\",\"message\":\"core files could not be "
                       "disabled: %s\",\"hint\":\"\",\"retry\":false}}\n", strerror(errno));
    return 78;
  }
  // Held until this process ends: another agentctl up at the same moment must not overwrite it.
  if (flock(status_fd, LOCK_EX | LOCK_NB)) {
    dprintf(client_fd, "{\"error\":{\"code\":\"state_in_use\",\"message\":\"the runtime is being "
                       "started by another agentctl up, or restarted\",\"hint\":\"Wait, then "
                       "run: agentctl status\",\"retry\":false}}\n");
    return 78;
  }
  format_time(started_time, sizeof started_time, 0);
  start_child();
  supervise(signals);
}
