// The only network access of a box: listeners on its loopback, and one relay process outside that
// forwards each connection to the Unix socket of the host that belongs to its port. The relay does
// not interpret the data, has no privileges, and ends with the box.
#include "init.h"

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
#define PIPE_CAPACITY (256 * 1024)
#define SPLICE_BYTES_MAX (1024 * 1024)
#define PUMP_ROUNDS_MAX 32  // splices before other links are served

int relay_listen(uint16_t port, struct failure *err) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, LINKS_MAX)) {
    fail(err, REFUSED_SETUP, "listening on port %u: %s", port, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
  }
  return fd;
}

struct link;
struct side {
  struct link *link;
  int fd, pipe[2];  // bytes read here wait in the pipe for the other side
  size_t buffered;
  bool eof, eof_sent;  // no more input; the other side has been shut down
};
struct link {
  struct side sides[2];  // 0: the box, 1: the host
  bool unfinished;       // stopped by PUMP_ROUNDS_MAX
  struct link *next;
};
static struct link links[LINKS_MAX], *free_links, *closed_links;
static struct port {
  int listener, dir;
  const char *path;  // of the host's socket, below dir
} ports[RELAYS_MAX];
static unsigned port_count;
static int epoll_fd;
static bool any_unfinished;
static volatile sig_atomic_t stop_requested;
static void on_term(int number) { stop_requested = number; }

static void close_link(struct link *link, bool reset) {
  struct linger reset_on_close = {1, 0};
  if (link->sides[0].fd < 0) return;
  if (reset)
    setsockopt(link->sides[0].fd, SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close);
  for (int i = 0; i < 2; i++) {
    struct side *side = &link->sides[i];
    int fds[] = {side->fd, side->pipe[0], side->pipe[1]};
    for (int n = 0; n < 3; n++)
      if (fds[n] >= 0) close(fds[n]);
    side->fd = side->pipe[0] = side->pipe[1] = -1;
  }
  link->next = closed_links;
  closed_links = link;
}

// Moves the available bytes from one side to the other. Returns false if the link is broken.
static bool pump(struct side *from, struct side *to) {
  const unsigned flags = SPLICE_F_NONBLOCK | SPLICE_F_MOVE;
  for (int round = 0;; round++) {
    if (round == PUMP_ROUNDS_MAX) {
      from->link->unfinished = any_unfinished = true;
      return true;
    }
    ssize_t in = 0, out = 0;
    if (!from->eof && from->buffered < PIPE_CAPACITY) {
      in = splice(from->fd, NULL, from->pipe[1], NULL, SPLICE_BYTES_MAX, flags);
      if (in == 0) from->eof = true;
      if (in < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (in > 0) from->buffered += (size_t)in;
    }
    if (from->buffered) {
      out = splice(from->pipe[0], NULL, to->fd, NULL, from->buffered, flags);
      if (out < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (out > 0) from->buffered -= (size_t)out;
    }
    if (in <= 0 && out <= 0) break;
  }
  if (from->eof && !from->buffered && !from->eof_sent) {
    shutdown(to->fd, SHUT_WR);
    from->eof_sent = true;
  }
  return true;
}

static void on_side(struct side *side, uint32_t events) {
  struct link *link = side->link;
  struct side *other = &link->sides[side == link->sides];
  if (side->fd < 0) return;
  bool ok = !(events & EPOLLERR) && pump(side, other) && pump(other, side);
  if (!ok) close_link(link, true);
  else if (side->eof_sent && other->eof_sent) close_link(link, false);
}

// Resolved for each connection, because the daemon may have been restarted; from a directory opened
// with the warden's privileges, because this user may not be able to enter its parents.
static int connect_host(const struct port *port) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int path_fd = k_openat2(port->dir, port->path, O_PATH | O_CLOEXEC,
                          RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (path_fd < 0) return -1;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", path_fd);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // Fails at once if the backlog is full: a client in the box never waits for an unavailable
  // daemon.
  if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address)) {
    close(fd);
    fd = -1;
  }
  close(path_fd);
  return fd;
}

static void accept_link(const struct port *port) {
  int fd = accept4(port->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct link *link = free_links;
  if (link) free_links = link->next;
  struct linger reset_on_close = {1, 0};
  int out = link ? connect_host(port) : -1, one = 1;
  if (out < 0) {
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset_on_close, sizeof reset_on_close);
    close(fd);
    if (link) {
      link->next = free_links;
      free_links = link;
    }
    return;
  }
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  int fds[] = {fd, out};
  bool ok = true;
  for (int i = 0; i < 2; i++) {
    struct side *side = &link->sides[i];
    *side = (struct side){.link = link, .fd = fds[i], .pipe = {-1, -1}};
    ok = ok && !pipe2(side->pipe, O_CLOEXEC | O_NONBLOCK);
    if (ok) fcntl(side->pipe[1], F_SETPIPE_SZ, PIPE_CAPACITY);
  }
  for (int i = 0; i < 2; i++) {
    struct epoll_event interest = {EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                   {.ptr = &link->sides[i]}};
    ok = ok && !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[i], &interest);
  }
  if (!ok) close_link(link, true);
}

static bool is_port(const void *of) {
  return (const struct port *)of >= ports && (const struct port *)of < ports + port_count;
}

static void relay(const sigset_t *wait_mask) {
  for (int i = 0; i < LINKS_MAX; i++) {
    links[i].sides[0].fd = -1;
    links[i].next = free_links;
    free_links = &links[i];
  }
  struct epoll_event ready[64];
  for (unsigned i = 0; i < port_count; i++) {
    struct epoll_event interest = {EPOLLIN, {.ptr = &ports[i]}};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ports[i].listener, &interest)) return;
  }
  for (;;) {
    int count = epoll_pwait(epoll_fd, ready, 64, any_unfinished ? 0 : -1, wait_mask);
    // The box has ended: its last bytes are already in our sockets; send what fits.
    for (int i = 0; stop_requested && i < LINKS_MAX; i++)
      if (links[i].sides[0].fd >= 0) pump(&links[i].sides[0], &links[i].sides[1]);
    if (stop_requested) _exit(0);
    any_unfinished = false;
    for (int i = 0; i < LINKS_MAX; i++) {
      if (!links[i].unfinished) continue;
      links[i].unfinished = false;
      on_side(links[i].sides, 0);
    }
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; i++) {
      if (is_port(ready[i].data.ptr)) accept_link(ready[i].data.ptr);
      else on_side(ready[i].data.ptr, ready[i].events);
    }
    // Reused only now: events already returned by epoll may refer to them.
    while (closed_links) {
      struct link *link = closed_links;
      closed_links = link->next;
      link->next = free_links;
      free_links = link;
    }
  }
}

// Becomes the client's user, without privileges or file access, with the runner's filter.
static int drop_privileges(gid_t gid, struct failure *err) {
  // The bounding set first: changing it needs root.
  if (capabilities_drop_bounding(err)) return -1;
  if (host.root && (setgroups(0, NULL) || setresgid(gid, gid, gid) ||
                    setresuid(bounds.client_uid, bounds.client_uid, bounds.client_uid)))
    return -1;
  // The change from root to another user has cleared all capabilities.
  if ((!host.root || !bounds.client_uid) && capabilities_drop(err)) return -1;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  int ruleset = landlock_create(host.landlock, LEVEL_1, err);
  if (ruleset < 0 || landlock_restrict(ruleset, err)) return -1;
  close(ruleset);
  return seccomp_install(FILTER_RUNNER, err);
}

// Opens the directories of the sockets, and moves the descriptors to the lowest numbers: all others
// are closed. Returns how many there are, or -1.
static int keep_descriptors(const int *listeners, char *const *sockets, unsigned count) {
  int moved[2 * RELAYS_MAX];
  for (unsigned i = 0; i < count; i++) {
    int dir = bounds_relay_dir(&bounds, sockets[i], &ports[i].path);
    // Either could be a number that another is moved to.
    moved[2 * i] = fcntl(listeners[i], F_DUPFD, 2 * RELAYS_MAX);
    moved[2 * i + 1] = fcntl(dir, F_DUPFD, 2 * RELAYS_MAX);
    if (moved[2 * i] < 0 || moved[2 * i + 1] < 0) return -1;
    ports[i].listener = (int)(2 * i);
    ports[i].dir = (int)(2 * i + 1);
  }
  for (int fd = 0; fd < (int)(2 * count); fd++)
    if (dup2(moved[fd], fd) != fd) return -1;
  port_count = count;
  return (int)(2 * count);
}

pid_t relay_start(const int *listeners, char *const *sockets, unsigned count, gid_t client_gid) {
  pid_t warden = getpid(), pid = fork();
  if (pid) return pid;
  struct failure err;
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGTERM, on_term);
  sigset_t empty_mask, term_mask;
  sigemptyset(&empty_mask);
  sigemptyset(&term_mask);
  sigaddset(&term_mask, SIGTERM);
  sigprocmask(SIG_SETMASK, &term_mask, NULL);
  prctl(PR_SET_NAME, "box-relay");
  setsid();
  setpriority(PRIO_PROCESS, 0, host.nice);
  int kept = keep_descriptors(listeners, sockets, count);
  if (kept < 0) _exit(1);
  syscall(SYS_close_range, kept, ~0u, 0);
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0 || drop_privileges(client_gid, &err)) _exit(1);
  prctl(PR_SET_DUMPABLE, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == warden) relay(&empty_mask);
  _exit(1);
}
