// The warden: cleans up after a crash, then runs one event loop. The bounds file limits what it may
// do; requests come from one socket.
#include "init.h"
#include "layer.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

static int epoll_fd = -1;
static bool stopping;
static const char *halt_file;

int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void watch_add(struct watch *watch, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  watch->active = !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, watch->fd, &event);
}
void watch_modify(struct watch *watch, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  epoll_ctl(epoll_fd, EPOLL_CTL_MOD, watch->fd, &event);
}
void watch_remove(struct watch *watch) {
  epoll_ctl(epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
  watch->active = false;
}

// A dangling link counts too. If the state of the file is unknown, the warden is halted.
bool is_halted(void) {
  struct stat st;
  return !lstat(halt_file, &st) || errno != ENOENT;
}

static void on_listener(struct watch *watch, uint32_t events) {
  (void)events;
  conn_accept(watch->fd);
}

static void on_signal(struct watch *watch, uint32_t events) {
  (void)events;
  struct signalfd_siginfo info;
  while (read(watch->fd, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) stopping = true;
  boxes_reap();
}

static void on_halt(struct watch *watch, uint32_t events) {
  (void)events;
  char buffer[4096];
  while (read(watch->fd, buffer, sizeof buffer) > 0) {
  }
  if (is_halted()) boxes_kill(ENDED_HALT);
}

__attribute__((noreturn, format(printf, 2, 3))) static void die(int status, const char *text, ...) {
  va_list args;
  va_start(args, text);
  fprintf(stderr, "warden: ");
  vfprintf(stderr, text, args);
  fprintf(stderr, "\n");
  exit(status);
}
__attribute__((noreturn)) static void die_errno(const char *what) {
  die(1, "%s: %s", what, strerror(errno));
}

// One warden per run directory: a second one would sweep away the boxes of the first.
static void lock_run_dir(const char *run_dir) {
  if (run_dir[0] != '/' || strlen(run_dir) > 200)
    die(2, "--run takes an absolute path of up to 200 bytes");
  if (mkdir(run_dir, 0711) && errno != EEXIST) die_errno(run_dir);
  struct stat st;
  if (lstat(run_dir, &st) || !S_ISDIR(st.st_mode) || st.st_uid != geteuid() ||
      st.st_mode & (S_IWGRP | S_IWOTH))
    die(1, "%s is not a directory that only this user can write", run_dir);
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/lock", run_dir);
  int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) die_errno(path);
  host.lock_fd = lock;
  // A killed warden may still be exiting and its janitor still sweeping, which must not hit our
  // boxes.
  int lock_failed = -1;
  for (int tries = 0; tries < 300 && lock_failed; tries++) {
    lock_failed = flock(lock, LOCK_EX | LOCK_NB);
    if (lock_failed) usleep(10000);
  }
  if (lock_failed) die(1, "another warden runs in %s", run_dir);
}

// True if no warden and no janitor uses this run directory, so that it can be removed.
static bool is_unused(const char *run_dir) {
  char path[PATH_BYTES];
  if ((size_t)snprintf(path, sizeof path, "%s/lock", run_dir) >= sizeof path) return false;
  int lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  return lock < 0 ? errno == ENOENT : !flock(lock, LOCK_EX | LOCK_NB);
}

static int listen_on(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) die(2, "%s: socket path too long", path);
  strcpy(address.sun_path, path);
  unlink(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t old_umask = umask(0177);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address)) die_errno(path);
  umask(old_umask);
  if (host.root && lchown(path, bounds.client_uid, (gid_t)-1)) die_errno(path);
  if (listen(fd, 256)) die_errno(path);
  return fd;
}

static int open_halt_watch(void) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s", halt_file);
  int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0 || inotify_add_watch(fd, dirname(path), IN_CREATE | IN_MOVED_TO) < 0)
    die_errno(halt_file);
  return fd;
}

static int open_signal_fd(void) {
  // The parent process may have ignored some; boxes inherit what is set here.
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
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

// An orphaned warden would be unreachable and keep its run directory locked.
static void die_with_parent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) die(1, "parent process %d has exited", parent);
}

static pid_t parse_pid(const char *text) {
  char *end;
  errno = 0;
  long number = strtol(text, &end, 10);
  if (!errno && end != text && !*end && number >= 0 && number <= INT32_MAX) return (pid_t)number;
  die(2, "%s is not a process id", text);
}

// A box needs a dozen descriptors; the limit of its command is in its plan.
static void raise_fd_limit(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files)) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

static void run_loop(void) {
  struct epoll_event ready[64];
  int64_t stop_deadline_us = 0;
  for (;;) {
    int timeout_ms = boxes_tick();
    boxes_free_dead();
    conns_free_dead();
    spares_free_dead();
    if (stopping && !stop_deadline_us) {
      boxes_kill(ENDED_WARDEN);
      stop_deadline_us = now_us() + 3000000;
    }
    if (stopping && (!boxes_count() || now_us() > stop_deadline_us)) return;
    // inotify can miss the HALT file (another mount, a race at startup): also check once a second.
    if (timeout_ms < 0 || timeout_ms > 1000) timeout_ms = 1000;
    bool refill = !stopping && spares_need_refill();
    int count = epoll_wait(epoll_fd, ready, 64, refill ? 0 : timeout_ms);
    if (!count && refill) spares_refill();
    for (int i = 0; i < count; i++) {
      struct watch *watch = ready[i].data.ptr;
      if (watch->active) watch->ready(watch, ready[i].events);
    }
    if (boxes_count() && is_halted()) boxes_kill(ENDED_HALT);
  }
}

int main(int argc, char **argv) {
  const char *run_dir = NULL, *socket_path = NULL, *bounds_file = NULL, *parent = NULL,
             *client = NULL;
  if (argc == 3 && !strcmp(argv[1], "--free")) return is_unused(argv[2]) ? 0 : 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--run")) run_dir = argv[i + 1];
    else if (!strcmp(argv[i], "--socket")) socket_path = argv[i + 1];
    else if (!strcmp(argv[i], "--bounds")) bounds_file = argv[i + 1];
    else if (!strcmp(argv[i], "--halt")) halt_file = argv[i + 1];
    else if (!strcmp(argv[i], "--parent")) parent = argv[i + 1];
    else if (!strcmp(argv[i], "--client")) client = argv[i + 1];
    else argc = 0;
  }
  if (argc % 2 == 0 || !run_dir || !socket_path || !bounds_file || !halt_file) {
    fprintf(stderr,
            "usage: warden --run DIR --socket PATH --bounds FILE --halt FILE [--parent PID] "
            "[--client PID]\n       warden --free DIR\n");
    return 2;
  }
  struct failure err = {0};
  umask(022);
  raise_fd_limit();
  lock_run_dir(run_dir);
  if (bounds_read(bounds_file, &bounds, &err) || host_probe(run_dir, &err)) die(1, "%s", err.text);
  if (client) bounds.client_pid = parse_pid(client);
  if (parent) die_with_parent(parse_pid(parent));
  seccomp_compile();
  cgroups_detect(run_dir);
  cgroups_sweep();
  stubs_sweep(run_dir);
  cgroups_detect(run_dir);
  if (janitor_start(&err)) die(1, "%s", err.text);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1)) die_errno("subreaper");
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  struct watch signals = {.ready = on_signal, .fd = open_signal_fd()};
  struct watch halt_watch = {.ready = on_halt, .fd = open_halt_watch()};
  struct watch listener = {.ready = on_listener, .fd = listen_on(socket_path)};
  watch_add(&signals, EPOLLIN);
  watch_add(&halt_watch, EPOLLIN);
  watch_add(&listener, EPOLLIN);
  printf("ready\n");
  fflush(stdout);
  run_loop();
  spares_destroy_all();
  layers_close_all();
  unlink(socket_path);
  cgroups_sweep();
  return 0;
}
