// The warden: starts, sweeps what a crash left, then one loop. Everything it may do is in the
// bounds file; everything it is asked comes from one socket.
#include "warden.h"

#include <errno.h>
#include <libgen.h>
#include <signal.h>
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

static int loop = -1;
static bool leaving;
static const char *halt_file;

int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void watch_add(struct watch *watch, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  watch->active = !epoll_ctl(loop, EPOLL_CTL_ADD, watch->fd, &event);
}
void watch_set(struct watch *watch, uint32_t events) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  epoll_ctl(loop, EPOLL_CTL_MOD, watch->fd, &event);
}
void watch_drop(struct watch *watch) {
  epoll_ctl(loop, EPOLL_CTL_DEL, watch->fd, NULL);
  watch->active = false;
}

// A link that leads nowhere is there too; when nobody can tell, everything stands still.
bool halted(void) {
  struct stat about;
  return !lstat(halt_file, &about) || errno != ENOENT;
}

static void on_listener(struct watch *watch, uint32_t events) {
  (void)events;
  conn_accept(watch->fd);
}

static void on_signal(struct watch *watch, uint32_t events) {
  (void)events;
  struct signalfd_siginfo info;
  while (read(watch->fd, &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) leaving = true;
  boxes_reap();
}

static void on_halt(struct watch *watch, uint32_t events) {
  (void)events;
  char changes[4096];
  while (read(watch->fd, changes, sizeof changes) > 0) {
  }
  if (halted()) boxes_kill(ENDED_HALT);
}

__attribute__((noreturn)) static void die(const struct failure *why) {
  fprintf(stderr, "warden: %s\n", why->text);
  exit(1);
}
__attribute__((noreturn)) static void die_of(const char *what) {
  fprintf(stderr, "warden: %s: %s\n", what, strerror(errno));
  exit(1);
}

// One warden per run directory: the second would sweep the first one's boxes away.
static void take_run_directory(const char *run) {
  if (run[0] != '/' || strlen(run) > 200) {
    fprintf(stderr, "warden: --run takes a short absolute path\n");
    exit(2);
  }
  if (mkdir(run, 0711) && errno != EEXIST) die_of(run);
  struct stat about;
  if (lstat(run, &about) || !S_ISDIR(about.st_mode) || about.st_uid != geteuid() ||
      about.st_mode & (S_IWGRP | S_IWOTH)) {
    fprintf(stderr, "warden: %s must be a directory only its owner can write\n", run);
    exit(1);
  }
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/lock", run);
  int lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) die_of(path);
  host.lock = lock;
  // A warden that was just killed may still be on its way out, and its janitor at work: what that
  // one sweeps must not be ours.
  int taken = -1;
  for (int tries = 0; tries < 300 && taken; tries++) {
    taken = flock(lock, LOCK_EX | LOCK_NB);
    if (taken) usleep(10000);
  }
  if (taken) {
    fprintf(stderr, "warden: another warden runs in %s\n", run);
    exit(1);
  }
}

// For whoever removes what killed runtimes have left: that no warden lives here, nor its janitor.
static bool is_free(const char *run) {
  char path[PATH_BYTES];
  if ((size_t)snprintf(path, sizeof path, "%s/lock", run) >= sizeof path) return false;
  int lock = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  return lock < 0 ? errno == ENOENT : !flock(lock, LOCK_EX | LOCK_NB);
}

static int listen_on(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) {
    fprintf(stderr, "warden: the socket's path is too long\n");
    exit(2);
  }
  strcpy(address.sun_path, path);
  unlink(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  mode_t before = umask(0177);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address)) die_of(path);
  umask(before);
  if (host.root && lchown(path, bounds.client_uid, (gid_t)-1)) die_of(path);
  if (listen(fd, 256)) die_of(path);
  return fd;
}

static int watch_halt(void) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s", halt_file);
  int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (fd < 0 || inotify_add_watch(fd, dirname(path), IN_CREATE | IN_MOVED_TO) < 0)
    die_of(halt_file);
  return fd;
}

static int take_signals(void) {
  // Whoever started us may have left some ignored; boxes inherit what is set here.
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

// For whoever starts us and may be killed: a warden nobody can reach would hold its directory.
static void leave_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() == parent) return;
  fprintf(stderr, "warden: process %d, which started this one, is gone\n", parent);
  exit(1);
}

static pid_t parse_pid(const char *word) {
  char *end;
  errno = 0;
  long number = strtol(word, &end, 10);
  if (!errno && end != word && !*end && number >= 0 && number <= INT32_MAX) return (pid_t)number;
  fprintf(stderr, "warden: %s is not a process\n", word);
  exit(2);
}

// Each box takes a dozen descriptors; what its command may have is in its plan.
static void take_descriptors(void) {
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files)) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

static void run_loop(void) {
  struct epoll_event ready[64];
  int64_t until = 0;
  for (;;) {
    int wait = boxes_tick();
    boxes_bury();
    conns_bury();
    spares_bury();
    if (leaving && !until) {
      boxes_kill(ENDED_WARDEN);
      until = now_us() + 3000000;
    }
    if (leaving && (!boxes_count() || now_us() > until)) return;
    // Files can appear without a notice (another mount, a race at start): look once a second too.
    if (wait < 0 || wait > 1000) wait = 1000;
    bool fill = !leaving && spares_wanted();
    int count = epoll_wait(loop, ready, 64, fill ? 0 : wait);
    if (!count && fill) spares_fill();
    for (int i = 0; i < count; i++) {
      struct watch *watch = ready[i].data.ptr;
      if (watch->active) watch->ready(watch, ready[i].events);
    }
    if (boxes_count() && halted()) boxes_kill(ENDED_HALT);
  }
}

int main(int argc, char **argv) {
  const char *run = NULL, *path = NULL, *bounds_file = NULL, *parent = NULL,
             *client = NULL;
  if (argc == 3 && !strcmp(argv[1], "--free")) return is_free(argv[2]) ? 0 : 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (!strcmp(argv[i], "--run")) run = argv[i + 1];
    else if (!strcmp(argv[i], "--socket")) path = argv[i + 1];
    else if (!strcmp(argv[i], "--bounds")) bounds_file = argv[i + 1];
    else if (!strcmp(argv[i], "--halt")) halt_file = argv[i + 1];
    else if (!strcmp(argv[i], "--parent")) parent = argv[i + 1];
    else if (!strcmp(argv[i], "--client")) client = argv[i + 1];
    else argc = 0;
  }
  if (argc % 2 == 0 || !run || !path || !bounds_file || !halt_file) {
    fprintf(stderr,
            "usage: warden --run DIR --socket PATH --bounds FILE --halt FILE [--parent PID] "
            "[--client PID]\n       warden --free DIR\n");
    return 2;
  }
  struct failure why = {0};
  umask(022);
  take_descriptors();
  take_run_directory(run);
  if (bounds_read(bounds_file, &bounds, &why) || host_probe(run, &why)) die(&why);
  if (client) bounds.client_pid = parse_pid(client);
  if (parent) leave_with(parse_pid(parent));
  seccomp_build();
  cgroups_find(run);
  cgroups_sweep();
  stubs_sweep(run);
  cgroups_find(run);
  if (janitor_start(&why)) die(&why);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1)) die_of("subreaper");
  loop = epoll_create1(EPOLL_CLOEXEC);
  struct watch signals = {.ready = on_signal, .fd = take_signals()};
  struct watch halts = {.ready = on_halt, .fd = watch_halt()};
  struct watch listener = {.ready = on_listener, .fd = listen_on(path)};
  watch_add(&signals, EPOLLIN);
  watch_add(&halts, EPOLLIN);
  watch_add(&listener, EPOLLIN);
  printf("ready\n");
  fflush(stdout);
  run_loop();
  spares_empty();
  unlink(path);
  cgroups_sweep();
  return 0;
}
