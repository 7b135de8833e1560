// The only way out of a box: a listener on its loopback, and a process outside that carries each
// connection to one Unix socket, the run's own. It reads nothing, holds no rights, and ends with
// the box.
#include "warden.h"

#include <arpa/inet.h>
#include <errno.h>
#include <grp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define LINKS_MAX 256
#define PIPE_BYTES (256 * 1024)
#define MOVE_BYTES (1024 * 1024)
#define TURNS 32  // moves before other links get theirs
#define EGRESS_DIR 1

int egress_listen(struct failure *why) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons(EGRESS_PORT),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, LINKS_MAX)) {
    fail(why, REFUSED_SETUP, "listening for egress: %s", strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

struct link;
struct side {
  struct link *link;
  int fd, pipe[2];  // what was read here waits in the pipe for the other side
  size_t held;
  bool ended, told;  // nothing more to read; the other side knows
};
struct link {
  struct side sides[2];  // 0: the box, 1: the host
  bool more;             // its turn ended before its bytes did
  struct link *next;
};
static struct link links[LINKS_MAX], *idle, *graves;
static int loop;
static bool again;
static volatile sig_atomic_t leave;
static void on_term(int number) { leave = number; }

static void cut(struct link *link, bool reset) {
  struct linger hard = {1, 0};
  if (link->sides[0].fd < 0) return;
  if (reset) setsockopt(link->sides[0].fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  for (int i = 0; i < 2; i++) {
    struct side *side = &link->sides[i];
    int fds[] = {side->fd, side->pipe[0], side->pipe[1]};
    for (int n = 0; n < 3; n++)
      if (fds[n] >= 0) close(fds[n]);
    side->fd = side->pipe[0] = side->pipe[1] = -1;
  }
  link->next = graves;
  graves = link;
}

// Moves what there is from one side to the other; false when the link is beyond repair.
static bool move(struct side *from, struct side *to) {
  const unsigned how = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;
  for (int turn = 0;; turn++) {
    if (turn == TURNS) {
      from->link->more = again = true;
      return true;
    }
    ssize_t in = 0, out = 0;
    if (!from->ended && from->held < PIPE_BYTES) {
      in = splice(from->fd, NULL, from->pipe[1], NULL, MOVE_BYTES, how);
      if (in == 0) from->ended = true;
      if (in < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (in > 0) from->held += (size_t)in;
    }
    if (from->held) {
      out = splice(from->pipe[0], NULL, to->fd, NULL, from->held, how);
      if (out < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (out > 0) from->held -= (size_t)out;
    }
    if (in <= 0 && out <= 0) break;
  }
  if (from->ended && !from->held && !from->told) {
    shutdown(to->fd, SHUT_WR);
    from->told = true;
  }
  return true;
}

static void on_side(struct side *side, uint32_t events) {
  struct link *link = side->link;
  struct side *other = &link->sides[side == link->sides];
  if (side->fd < 0) return;
  bool fine = !(events & EPOLLERR) && move(side, other) && move(other, side);
  if (!fine) cut(link, true);
  else if (side->told && other->told) cut(link, false);
}

// The name is looked up each time: egressd may have started anew. From a directory that was opened
// with the warden's rights: this user need not be able to enter what is above.
static int connect_out(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int at = k_openat2(EGRESS_DIR, path, O_PATH | O_CLOEXEC,
                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (at < 0) return -1;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", at);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // A full backlog answers at once too: nobody in the box waits for a daemon that is away.
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
    close(fd);
    fd = -1;
  }
  close(at);
  return fd;
}

static void take_link(int listener, const char *path) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct link *link = idle;
  if (link) idle = link->next;
  struct linger hard = {1, 0};
  int out = link ? connect_out(path) : -1, one = 1;
  if (out < 0) {
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(fd);
    if (link) {
      link->next = idle;
      idle = link;
    }
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int fds[] = {fd, out};
  bool fine = true;
  for (int i = 0; i < 2; i++) {
    struct side *side = &link->sides[i];
    *side = (struct side){.link = link, .fd = fds[i], .pipe = {-1, -1}};
    fine = fine && !pipe2(side->pipe, O_CLOEXEC | O_NONBLOCK);
    if (fine) fcntl(side->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
  }
  for (int i = 0; i < 2; i++) {
    struct epoll_event want = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                               {.ptr = &link->sides[i]}};
    fine = fine && !epoll_ctl(loop, EPOLL_CTL_ADD, fds[i], &want);
  }
  if (!fine) cut(link, true);
}

static void carry(int listener, const char *path, const sigset_t *open_mask) {
  for (int i = 0; i < LINKS_MAX; i++) {
    links[i].sides[0].fd = -1;
    links[i].next = idle;
    idle = &links[i];
  }
  struct epoll_event want = {EPOLLIN, {.ptr = NULL}}, ready[64];
  if (epoll_ctl(loop, EPOLL_CTL_ADD, listener, &want)) return;
  for (;;) {
    int count = epoll_pwait(loop, ready, 64, again ? 0 : -1, open_mask);
    // The box has ended: its last words are in our sockets already, and go out if there is room.
    for (int i = 0; leave && i < LINKS_MAX; i++)
      if (links[i].sides[0].fd >= 0) move(&links[i].sides[0], &links[i].sides[1]);
    if (leave) _exit(0);
    again = false;
    for (int i = 0; i < LINKS_MAX; i++) {
      if (!links[i].more) continue;
      links[i].more = false;
      on_side(links[i].sides, 0);
    }
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; i++) {
      if (ready[i].data.ptr) on_side(ready[i].data.ptr, ready[i].events);
      else take_link(listener, path);
    }
    // Only now: events of this round may still have named them.
    while (graves) {
      struct link *link = graves;
      graves = link->next;
      link->next = idle;
      idle = link;
    }
  }
}

// As the user who asked, with no rights, no files and the narrow filter.
static int step_down(gid_t gid, struct failure *why) {
  // The bounding set first: whoever is not root any more cannot change it.
  if (capabilities_unbind(why)) return -1;
  if (host.root && (setgroups(0, NULL) || setresgid(gid, gid, gid) ||
                    setresuid(bounds.client_uid, bounds.client_uid, bounds.client_uid)))
    return -1;
  // Another user than root has lost all capabilities by becoming it.
  if ((!host.root || !bounds.client_uid) && capabilities_drop(why)) return -1;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  int ruleset = landlock_open(host.landlock, LEVEL_1, why);
  if (ruleset < 0 || landlock_enter(ruleset, why)) return -1;
  close(ruleset);
  return seccomp_enter(FILTER_RUNNER, why);
}

pid_t egress_start(int listener, const char *path, gid_t client_gid) {
  pid_t warden = getpid(), pid = fork();
  if (pid) return pid;
  struct failure why;
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, on_term);
  sigset_t none, term;
  sigemptyset(&none);
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_SETMASK, &term, NULL);
  prctl(PR_SET_NAME, "box-egress");
  setsid();
  setpriority(PRIO_PROCESS, 0, host.nice);
  int dir = bounds_egress_dir(&bounds, path, &path);
  // Both may be where the other goes.
  listener = fcntl(listener, F_DUPFD, 3);
  dir = fcntl(dir, F_DUPFD, 3);
  if (listener < 0 || dir < 0 || dup2(listener, 0) || dup2(dir, EGRESS_DIR) != EGRESS_DIR)
    _exit(1);
  syscall(SYS_close_range, 2, ~0u, 0);
  loop = epoll_create1(EPOLL_CLOEXEC);
  if (loop < 0 || step_down(client_gid, &why)) _exit(1);
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == warden) carry(0, path, &none);
  _exit(1);
}
