// The file server of a tool box. Runs in the box as the agent's user; reads request frames from
// stdin and writes replies to stdout. Its only state is its roots. Operations that may take long
// run in child processes with limits, so that other requests are served meanwhile.
//   boxfs --write DIR … --read PATH …
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_USAGE 64
#define EXIT_HOST 69
#define EXIT_PROTOCOL 76
#define WORKER_GRACE_MS 1000
#define MEMORY_MAX (512ull * 1024 * 1024)

struct frame_header {
  uint32_t length, id;
  uint8_t op;
};

struct worker {
  pid_t pid;
  uint32_t id;
  int pipe;
  uint64_t deadline_ms;
  struct reply reply;
};
static struct worker workers[WORKERS_MAX];

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool write_all(int fd, const uint8_t *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EAGAIN) {
      poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
      continue;
    }
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes += written;
    count -= (size_t)written;
  }
  return true;
}

static void send_reply(uint32_t id, const struct reply *reply) {
  uint8_t header[HEADER_BYTES] = {0};
  struct reply writer = {.bytes = header, .capacity = sizeof header};
  put_u32(&writer, BOXFS_MAGIC);
  put_u32(&writer, (uint32_t)reply->size);
  put_u32(&writer, id);
  put_u8(&writer, reply->status);
  put_u8(&writer, BOXFS_VERSION);
  // The client closed its end: no further reply can be delivered.
  if (!write_all(STDOUT_FILENO, header, sizeof header) ||
      !write_all(STDOUT_FILENO, reply->bytes, reply->size))
    exit(0);
}

static void send_error(uint32_t id, enum status status, const char *text) {
  struct reply reply;
  if (!reply_init(&reply)) exit(EXIT_HOST);
  reply_error(&reply, status, text);
  send_reply(id, &reply);
  reply_free(&reply);
}

static void do_hello(struct request *req, struct reply *reply) {
  if (!is_fully_read(req)) return;
  put_u16(reply, BOXFS_VERSION);
  put_u16(reply, (uint16_t)root_count());
  put_u32(reply, DATA_MAX);
}

typedef void (*operation)(struct request *req, struct reply *reply);
static const operation operations[] = {
    [OP_HELLO] = do_hello,         [OP_STAT] = do_stat,     [OP_READ] = do_read,
    [OP_WRITE] = do_write,         [OP_LIST] = do_list,     [OP_SEARCH] = do_search,
    [OP_MKDIR] = do_mkdir,         [OP_DELETE] = do_delete, [OP_CHANGES] = do_changes,
    [OP_READ_MANY] = do_read_many, [OP_INSTALL] = do_install,
    [OP_WATCH] = do_watch,         [OP_UNLOCK] = do_unlock,
    [OP_COVERED] = do_covered,     [OP_DIRECTORIES] = do_directories,
    [OP_COPY] = do_copy,           [OP_GIVE] = do_give,
};

// The time limit of an operation that runs in a child, or 0: it runs in this process.
static uint32_t worker_limit_ms(uint8_t op) {
  switch (op) {
    case OP_SEARCH: case OP_DELETE: case OP_CHANGES: case OP_READ_MANY:
    case OP_COVERED: case OP_DIRECTORIES: case OP_GIVE:
      return WORKER_TIMEOUT_MS_MAX;
    case OP_INSTALL: case OP_COPY: return INSTALL_TIMEOUT_MS;
    default: return 0;
  }
}

static void run_operation(const struct frame_header *header, const uint8_t *payload,
                          struct reply *reply) {
  struct request req = {.cursor = payload, .end = payload + header->length};
  operations[header->op](&req, reply);
  if (req.malformed || (reply->status == DONE && req.cursor != req.end))
    reply_error(reply, BAD_REQUEST, "malformed request");
}

static uint32_t worker_limit_max_ms;

// The child limits itself, so that the limits apply even if this process is gone.
static void limit_worker(uint32_t limit_ms) {
#ifndef __SANITIZE_ADDRESS__  // ASan maps more than MEMORY_MAX at startup
  struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
  setrlimit(RLIMIT_AS, &memory);
#endif
  worker_limit_max_ms = limit_ms;
  set_worker_deadline(limit_ms);
}

uint64_t set_worker_deadline(uint32_t limit_ms) {
  if (limit_ms == 0 || limit_ms > worker_limit_max_ms) limit_ms = worker_limit_max_ms;
  uint32_t end_ms = limit_ms + WORKER_GRACE_MS;
  struct itimerval timer = {.it_value = {end_ms / 1000, end_ms % 1000 * 1000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  return now_ms() + limit_ms;
}

static void start_worker(const struct frame_header *header, const uint8_t *payload) {
  struct worker *worker = workers;
  while (worker < workers + WORKERS_MAX && worker->pid) worker++;
  int pipe_fds[2];
  if (worker == workers + WORKERS_MAX || pipe2(pipe_fds, O_CLOEXEC)) {
    send_error(header->id, BUSY, "too many long operations in progress");
    return;
  }
  *worker = (struct worker){.id = header->id, .pipe = pipe_fds[0]};
  if (!reply_init(&worker->reply) || (worker->pid = fork()) < 0) {
    send_error(header->id, BUSY, "starting a worker failed");
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    reply_free(&worker->reply);
    *worker = (struct worker){0};
    return;
  }
  if (worker->pid == 0) {
    struct reply reply;
    limit_worker(worker_limit_ms(header->op));
    if (!reply_init(&reply)) _exit(1);
    run_operation(header, payload, &reply);
    bool sent =
        write_all(pipe_fds[1], &reply.status, 1) && write_all(pipe_fds[1], reply.bytes, reply.size);
    _exit(sent ? 0 : 1);
  }
  close(pipe_fds[1]);
  worker->deadline_ms = now_ms() + worker_limit_ms(header->op) + 2 * WORKER_GRACE_MS;
}

static void finish_worker(struct worker *worker, bool timed_out) {
  int status = 0;
  if (timed_out) kill(worker->pid, SIGKILL);
  while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR) continue;
  struct reply *reply = &worker->reply;
  bool done = !timed_out && WIFEXITED(status) && WEXITSTATUS(status) == 0 && reply->size > 0;
  if (done) {
    reply->status = reply->bytes[0];
    memmove(reply->bytes, reply->bytes + 1, --reply->size);
    send_reply(worker->id, reply);
  } else {
    send_error(worker->id, TOO_SLOW, "time or memory limit exceeded");
  }
  close(worker->pipe);
  reply_free(reply);
  *worker = (struct worker){0};
}

static void read_worker(struct worker *worker) {
  uint8_t chunk[16384];
  ssize_t got = read(worker->pipe, chunk, sizeof chunk);
  if (got < 0 && errno == EINTR) return;
  if (got == 0) {
    finish_worker(worker, false);
    return;
  }
  uint8_t *dest = got > 0 ? reply_reserve(&worker->reply, (size_t)got) : NULL;
  if (dest) memcpy(dest, chunk, (size_t)got);
  else finish_worker(worker, true);
}

static void handle_request(const struct frame_header *header, const uint8_t *payload) {
  if (header->op == 0 || header->op >= sizeof operations / sizeof *operations) {
    send_error(header->id, BAD_REQUEST, "unknown operation");
    return;
  }
  if (worker_limit_ms(header->op) > 0) {
    start_worker(header, payload);
    return;
  }
  struct reply reply;
  if (!reply_init(&reply)) exit(EXIT_HOST);
  run_operation(header, payload, &reply);
  send_reply(header->id, &reply);
  reply_free(&reply);
}

// After a malformed header the start of the next frame is unknown, so this is fatal.
static void parse_header(const uint8_t *bytes, struct frame_header *header) {
  struct request req = {.cursor = bytes, .end = bytes + HEADER_BYTES};
  uint32_t magic = get_u32(&req);
  header->length = get_u32(&req);
  header->id = get_u32(&req);
  header->op = get_u8(&req);
  uint8_t version = get_u8(&req);
  if (magic == BOXFS_MAGIC && version == BOXFS_VERSION && header->length <= FRAME_MAX) return;
  fprintf(stderr, "boxfs: invalid frame header, expected version %d\n", BOXFS_VERSION);
  exit(EXIT_PROTOCOL);
}

static struct {
  uint8_t header_bytes[HEADER_BYTES];
  struct frame_header header;
  uint8_t *payload;
  size_t have;  // bytes of the header, then of the payload
  bool in_payload;
} incoming;

static void handle_incoming(void) {
  handle_request(&incoming.header, incoming.payload);
  free(incoming.payload);
  incoming.payload = NULL;
  incoming.have = 0;
  incoming.in_payload = false;
}

static void read_client(void) {
  bool in_payload = incoming.in_payload;
  uint8_t *dest = in_payload ? incoming.payload : incoming.header_bytes;
  size_t want = in_payload ? incoming.header.length : HEADER_BYTES;
  ssize_t got = read(STDIN_FILENO, dest + incoming.have, want - incoming.have);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) exit(0);
  incoming.have += (size_t)got;
  if (incoming.have < want) return;
  if (in_payload) {
    handle_incoming();
    return;
  }
  parse_header(incoming.header_bytes, &incoming.header);
  incoming.payload = malloc(incoming.header.length + 1);
  if (!incoming.payload) exit(EXIT_HOST);
  incoming.in_payload = true;
  incoming.have = 0;
  if (incoming.header.length == 0) handle_incoming();
}

static void serve(void) {
  for (;;) {
    struct pollfd polls[1 + WORKERS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    bool any = false;
    for (int i = 0; i < WORKERS_MAX; i++) {
      polls[1 + i] = (struct pollfd){.fd = workers[i].pid ? workers[i].pipe : -1, .events = POLLIN};
      any = any || workers[i].pid;
    }
    if (poll(polls, 1 + WORKERS_MAX, any ? 500 : -1) < 0 && errno != EINTR) exit(EXIT_HOST);
    for (int i = 0; i < WORKERS_MAX; i++) {
      if (workers[i].pid && polls[1 + i].revents) read_worker(&workers[i]);
      else if (workers[i].pid && now_ms() > workers[i].deadline_ms)
        finish_worker(&workers[i], true);
    }
    if (polls[0].revents) read_client();
  }
}

static void kill_workers(void) {
  for (int i = 0; i < WORKERS_MAX; i++)
    if (workers[i].pid > 0) kill(workers[i].pid, SIGKILL);
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    bool writable = strcmp(argv[i], "--write") == 0;
    if ((!writable && strcmp(argv[i], "--read") != 0) || i + 1 == argc || argv[i + 1][0] != '/' ||
        add_root(argv[i + 1], writable)) {
      fprintf(stderr, "usage: boxfs --write DIR ... --read PATH ... (up to %d absolute paths)\n",
              ROOTS_MAX);
      return EXIT_USAGE;
    }
  }
  if (probe_openat2()) {
    fprintf(stderr, "boxfs: openat2 not available (Linux 5.6 or newer): %s\n", strerror(errno));
    return EXIT_HOST;
  }
  // Other processes of the same user must not be able to attach to this one.
  prctl(PR_SET_DUMPABLE, 0);
  signal(SIGPIPE, SIG_IGN);
  atexit(kill_workers);
  serve();
}
