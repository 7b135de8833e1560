// Attacks through sockets: local services, unusual families, the host's loopback, bad addresses.
#include "hostile.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_un local(const char *path, socklen_t *size) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t length = strlen(path);
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = 0;
  *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@'));
  return address;
}

static int unix_connect(char **argv) {
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return failed("socket");
  socklen_t size;
  struct sockaddr_un address = local(argv[0], &size);
  return outcome("connect", connect(fd, (struct sockaddr *)&address, size));
}

// A datagram pair can be reconnected to a path.
static int pair_reconnect(char **argv) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return failed("socketpair");
  socklen_t size;
  struct sockaddr_un address = local(argv[0], &size);
  return outcome("connect", connect(pair[0], (struct sockaddr *)&address, size));
}

static int stream_pair(char **argv) {
  (void)argv;
  int pair[2];
  return outcome("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

// Not an attack: the server that pair-reconnect tries to reach, started on the host.
static int serve_datagrams(char **argv) {
  int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  socklen_t size;
  struct sockaddr_un address = local(argv[0], &size);
  if (bind(fd, (struct sockaddr *)&address, size)) return failed("bind");
  chmod(argv[0], 0777);
  printf("serving\n");
  pause();
  return worked();
}

// Fails with EPERM if the filter denies the family; the kernel's own errors differ.
static int family(char **argv) {
  static const struct {
    const char *name;
    int domain, type, protocol;
  } families[] = {
      {"inet", AF_INET, SOCK_STREAM, 0},     {"vsock", 40, SOCK_STREAM, 0},
      {"packet", AF_PACKET, 99, 0},          {"alg", 38, SOCK_SEQPACKET, 0},
      {"bluetooth", AF_BLUETOOTH, 99, 0},    {"audit", AF_NETLINK, SOCK_RAW, NETLINK_AUDIT},
      {"route", AF_NETLINK, SOCK_RAW, 0},    {"unix", AF_UNIX, SOCK_DGRAM, 0},
      {"unix-stream", AF_UNIX, SOCK_STREAM, 0},
  };
  for (unsigned i = 0; i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i].name, argv[0])) continue;
    int fd = socket(families[i].domain, families[i].type, families[i].protocol);
    if (fd < 0 && errno == EPERM) return failed("socket");
    printf("%s\n", fd < 0 ? strerrorname_np(errno) : "open");
    return worked();
  }
  return 2;
}

static int raw_icmp(char **argv) {
  (void)argv;
  return outcome("socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int tcp_connect(char **argv) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return failed("socket");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  inet_pton(AF_INET, argv[0], &address.sin_addr);
  return outcome("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
}

// Loopback inside the box must work: server and client in one process.
static int own_loopback(char **argv) {
  (void)argv;
  int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(server, (struct sockaddr *)&address, size) || listen(server, 1)) return failed("bind");
  if (getsockname(server, (struct sockaddr *)&address, &size)) return failed("getsockname");
  return outcome("connect", connect(client, (struct sockaddr *)&address, size));
}

static int odd_addresses(char **argv) {
  (void)argv;
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET};
  long any = 0;
  any |= connect(fd, (struct sockaddr *)&address, 0x7fffffff) == 0;
  any |= bind(fd, NULL, 16) == 0;
  any |= syscall(SYS_sendmmsg, fd, NULL, 1024, 0) > 0;
  any |= syscall(SYS_sendto, fd, "x", 1, 0, &address, 0x7fffffff) > 0;
  any |= syscall(SYS_recvmsg, fd, NULL, 0) == 0;
  return any ? worked() : failed("all");
}

static int connect_loopback(uint16_t port) {
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_port = htons(port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&address, sizeof address) ? -1 : fd;
}

static int print_until_eof(int fd) {
  char bytes[65536];
  ssize_t size;
  while ((size = read(fd, bytes, sizeof bytes)) > 0)
    if (write(1, bytes, (size_t)size) < 0) return failed("write");
  return size < 0 ? failed("read") : worked();
}

static int connect_egress(void) { return connect_loopback(3128); }

// Sends the text, or this many MiB of a pattern, to the port (3128 if absent), shuts the write side
// down and prints the response.
static int talk(char **argv) {
  int fd = argv[1] ? connect_loopback((uint16_t)atoi(argv[1])) : connect_egress();
  if (fd < 0) return failed("connect");
  long blocks = strtol(argv[0], NULL, 10) * 16;
  static char block[65536];
  memset(block, 'x', sizeof block);
  for (long i = 0; i < blocks; i++)
    for (size_t at = 0; at < sizeof block;) {
      ssize_t size = write(fd, block + at, sizeof block - at);
      if (size < 0) return failed("write");
      at += (size_t)size;
    }
  if (!blocks && write(fd, argv[0], strlen(argv[0])) < 0) return failed("write");
  shutdown(fd, SHUT_WR);
  return print_until_eof(fd);
}

// Reads until the other side has finished, then writes.
static int listen_first(char **argv) {
  int fd = connect_egress();
  if (fd < 0) return failed("connect");
  if (print_until_eof(fd)) return 1;
  usleep(50000);
  return outcome("write", write(fd, argv[0], strlen(argv[0])));
}

// Opens this many connections at once and counts those that are served.
static int open_many(char **argv) {
  int max = atoi(argv[0]), served = 0;
  int *fds = calloc((size_t)max, sizeof *fds);
  for (int i = 0; i < max; i++) fds[i] = connect_egress();
  for (int i = 0; i < max; i++) {
    char byte;
    if (fds[i] >= 0 && read(fds[i], &byte, 1) == 1) served++;
  }
  printf("answered %d\n", served);
  return worked();
}

const struct attack socket_attacks[] = {
    {"unix-connect", unix_connect},
    {"pair-reconnect", pair_reconnect},
    {"stream-pair", stream_pair},
    {"serve-datagrams", serve_datagrams},
    {"family", family},
    {"raw-icmp", raw_icmp},
    {"tcp-connect", tcp_connect},
    {"own-loopback", own_loopback},
    {"odd-addresses", odd_addresses},
    {"talk", talk},
    {"listen-first", listen_first},
    {"open-many", open_many},
    {NULL, NULL},
};
