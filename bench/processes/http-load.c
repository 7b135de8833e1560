// The load and the provider of the throughput benchmarks. In C, because in Node the two took a
// third of the processor that a gateway was measured on.
//   http-load drive ADDRESS CALLERS WARM_UP_MS MS   sends stdin, a request, again and again
//   http-load serve [PATH]                          responds with stdin to every request
// ADDRESS is a port of 127.0.0.1 or the path of a Unix socket; `serve` without a path uses a free
// port. `#{26}` in a request becomes a number that is never used twice. Prints one line: the result
// as JSON, or the port.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define MESSAGE_MAX 65536
#define NUMBER_DIGITS 26

struct connection {
  int fd;
  size_t size;
  double sent_ms;
  char bytes[MESSAGE_MAX];
};

static char message[MESSAGE_MAX];  // what this side sends
static size_t message_size;
static char *number_at;  // where the number goes; NULL: nowhere

static void die(const char *what) {
  fprintf(stderr, "http-load: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void read_message(void) {
  for (ssize_t n; (n = read(0, message + message_size, sizeof message - 1 - message_size)) != 0;) {
    if (n < 0) die("reading the message");
    message_size += (size_t)n;
  }
  char *mark = strstr(message, "#{26}");
  if (mark == NULL) return;
  number_at = mark;
  memmove(mark + NUMBER_DIGITS, mark + 5, strlen(mark + 5) + 1);
  message_size += NUMBER_DIGITS - 5;
}

static void send_message(int fd) {
  if (number_at != NULL) {
    static uint64_t number;
    if (number == 0) number = (uint64_t)time(NULL) * 1000000000u + (uint64_t)getpid() * 1000000u;
    char digits[NUMBER_DIGITS + 1];
    snprintf(digits, sizeof digits, "%0*llu", NUMBER_DIGITS, (unsigned long long)++number);
    memcpy(number_at, digits, NUMBER_DIGITS);
  }
  if (send(fd, message, message_size, MSG_NOSIGNAL) != (ssize_t)message_size) die("sending");
}

// Returns the length of the first complete HTTP message of the bytes, or 0.
static size_t message_length(const char *bytes, size_t size) {
  const char *end = memmem(bytes, size, "\r\n\r\n", 4);
  if (end == NULL) return 0;
  size_t head = (size_t)(end - bytes) + 4;
  const char *line = bytes;
  while (line < end) {
    if (strncasecmp(line, "content-length:", 15) == 0) {
      size_t length = head + strtoul(line + 15, NULL, 10);
      return size < length ? 0 : length;
    }
    if (strncasecmp(line, "transfer-encoding: chunked", 26) == 0) {
      const char *last = memmem(bytes + head - 2, size - head + 2, "\r\n0\r\n\r\n", 7);
      return last == NULL ? 0 : (size_t)(last - bytes) + 7;
    }
    line = (const char *)memchr(line, '\n', (size_t)(end + 2 - line)) + 1;
  }
  return head;
}

// Reads what has arrived. Returns the length of a complete message in it, 0, or -1 when closed.
static ssize_t receive(struct connection *from) {
  ssize_t n = recv(from->fd, from->bytes + from->size, sizeof from->bytes - from->size, 0);
  if (n < 0) die("receiving");
  if (n == 0) return -1;
  from->size += (size_t)n;
  size_t length = message_length(from->bytes, from->size);
  if (length == 0 && from->size == sizeof from->bytes) die("a message is too long");
  return (ssize_t)length;
}

static void drop_message(struct connection *from, size_t length) {
  from->size -= length;
  memmove(from->bytes, from->bytes + length, from->size);
}

static void add(int events, struct connection *connection) {
  struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = connection};
  if (epoll_ctl(events, EPOLL_CTL_ADD, connection->fd, &wanted) != 0) die("epoll_ctl");
}

static struct connection *new_connection(int fd) {
  struct connection *made = calloc(1, sizeof *made);
  if (made == NULL) die("memory");
  made->fd = fd;
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails for a Unix socket
  return made;
}

static int connect_to(const char *address) {
  struct sockaddr_un path = {.sun_family = AF_UNIX};
  struct sockaddr_in port = {
      .sin_family = AF_INET,
      .sin_port = htons((uint16_t)atoi(address)),
      .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
  };
  bool is_path = strchr(address, '/') != NULL;
  if (is_path && strlen(address) >= sizeof path.sun_path) die("the path is too long");
  strncpy(path.sun_path, address, sizeof path.sun_path - 1);
  int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct sockaddr *to = is_path ? (struct sockaddr *)&path : (struct sockaddr *)&port;
  if (fd < 0 || connect(fd, to, is_path ? sizeof path : sizeof port) != 0) die("connecting");
  return fd;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void drive(const char *address, int callers, double warm_up_ms, double ms) {
  if (callers < 1 || callers > CONNECTIONS_MAX) die("the number of callers");
  int events = epoll_create1(EPOLL_CLOEXEC);
  double begin = now_ms() + warm_up_ms, end = begin + ms;
  size_t count = 0, capacity = 1 << 20;
  double *took = malloc(capacity * sizeof *took);
  if (took == NULL) die("memory");
  for (int i = 0; i < callers; i++) {
    struct connection *caller = new_connection(connect_to(address));
    add(events, caller);
    caller->sent_ms = now_ms();
    send_message(caller->fd);
  }
  while (callers > 0) {
    struct epoll_event ready[64];
    int n = epoll_wait(events, ready, 64, 30000);
    if (n == 0) die("no response for 30 seconds");
    for (int i = 0; i < n; i++) {
      struct connection *caller = ready[i].data.ptr;
      ssize_t length = receive(caller);
      if (length < 0) die("a connection was closed");
      if (length == 0) continue;
      if (strncmp(caller->bytes, "HTTP/1.1 200", 12) != 0) {
        fprintf(stderr, "http-load: a request failed: %.*s\n", (int)length, caller->bytes);
        exit(1);
      }
      double now = now_ms();
      if (now >= begin && now < end && count < capacity) took[count++] = now - caller->sent_ms;
      drop_message(caller, (size_t)length);
      if (now < end) {
        caller->sent_ms = now;
        send_message(caller->fd);
      } else {
        close(caller->fd);
        callers--;
      }
    }
  }
  if (count == 0) die("no response in time");
  qsort(took, count, sizeof *took, compare);
  printf("{\"requests\":%zu,\"perSecond\":%.1f,\"p50Ms\":%.4f}\n", count, (double)count / ms * 1e3,
         took[count / 2]);
}

static void serve(const char *path) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct sockaddr_un path_at = {.sun_family = AF_UNIX};
  strncpy(path_at.sun_path, path, sizeof path_at.sun_path - 1);
  bool is_path = *path != 0;
  socklen_t size = sizeof at;
  struct connection listener = {
      .fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const struct sockaddr *own = is_path ? (struct sockaddr *)&path_at : (struct sockaddr *)&at;
  if (bind(listener.fd, own, is_path ? sizeof path_at : sizeof at) != 0 ||
      listen(listener.fd, 512) != 0 ||
      (!is_path && getsockname(listener.fd, (struct sockaddr *)&at, &size) != 0))
    die("listening");
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  int events = epoll_create1(EPOLL_CLOEXEC);
  add(events, &listener);
  for (;;) {
    struct epoll_event ready[64];
    int n = epoll_wait(events, ready, 64, -1);
    for (int i = 0; i < n; i++) {
      struct connection *client = ready[i].data.ptr;
      if (client == &listener) {
        int fd = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) add(events, new_connection(fd));
        continue;
      }
      ssize_t length = receive(client);
      for (; length > 0; length = (ssize_t)message_length(client->bytes, client->size)) {
        drop_message(client, (size_t)length);
        send_message(client->fd);
      }
      if (length < 0) {
        close(client->fd);
        free(client);
      }
    }
  }
}

int main(int argc, char **argv) {
  read_message();
  if (argc == 6 && strcmp(argv[1], "drive") == 0)
    drive(argv[2], atoi(argv[3]), atof(argv[4]), atof(argv[5]));
  else if ((argc == 2 || argc == 3) && strcmp(argv[1], "serve") == 0)
    serve(argc == 3 ? argv[2] : "");
  else
    die("usage: http-load drive ADDRESS CALLERS WARM_UP_MS MS | serve [PATH]");
}
