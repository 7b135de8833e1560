// Attacks through sockets: local services, odd families, the host's loopback, bad addresses.
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
  return judge("connect", connect(fd, (struct sockaddr *)&address, size));
}

// A datagram pair can be connected anew, to a name.
static int pair_reconnect(char **argv) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return failed("socketpair");
  socklen_t size;
  struct sockaddr_un address = local(argv[0], &size);
  return judge("connect", connect(pair[0], (struct sockaddr *)&address, size));
}

static int stream_pair(char **argv) {
  (void)argv;
  int pair[2];
  return judge("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

// Not an attack: what pair-reconnect wants to reach, started on the host.
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

// Answers EPERM when the filter refuses the family; the kernel's own words differ.
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
  return judge("socket", socket(AF_INET, SOCK_RAW, IPPROTO_ICMP));
}

static int tcp_connect(char **argv) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return failed("socket");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
  inet_pton(AF_INET, argv[0], &address.sin_addr);
  return judge("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
}

// Loopback inside the box must work: a service and its client in one process.
static int own_loopback(char **argv) {
  (void)argv;
  int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in address = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(server, (struct sockaddr *)&address, size) || listen(server, 1)) return failed("bind");
  if (getsockname(server, (struct sockaddr *)&address, &size)) return failed("getsockname");
  return judge("connect", connect(client, (struct sockaddr *)&address, size));
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
    {NULL, NULL},
};
