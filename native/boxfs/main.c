// Lives in a run's tool box, as the agent's user, and answers what toold asks about files: frames
// come on stdin, answers go to stdout. Holds no state but its roots. What may take long runs in a
// child with limits, so that the others are answered meanwhile.
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

struct head {
  uint32_t length, id;
  uint8_t op;
};

struct worker {
  pid_t pid;
  uint32_t id;
  int pipe;
  uint64_t deadline_ms;
  struct out out;
};
static struct worker workers[WORKERS_MAX];

uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool write_all(int fd, const uint8_t *bytes, size_t count) {
  while (count > 0) {
    ssize_t put = write(fd, bytes, count);
    if (put < 0 && errno == EAGAIN) {
      poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
      continue;
    }
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes += put;
    count -= (size_t)put;
  }
  return true;
}

static void answer(uint32_t id, const struct out *out) {
  uint8_t head[HEAD_BYTES] = {0};
  struct out into = {.bytes = head, .room = sizeof head};
  put_u32(&into, BOXFS_MAGIC);
  put_u32(&into, (uint32_t)out->size);
  put_u32(&into, id);
  put_u8(&into, out->status);
  put_u8(&into, BOXFS_VERSION);
  // Nobody reads any more: there is nobody to work for.
  if (!write_all(STDOUT_FILENO, head, sizeof head) ||
      !write_all(STDOUT_FILENO, out->bytes, out->size))
    exit(0);
}

static void refuse_now(uint32_t id, enum status status, const char *text) {
  struct out out;
  if (!out_init(&out)) exit(EXIT_HOST);
  refuse(&out, status, text);
  answer(id, &out);
  out_free(&out);
}

static void do_hello(struct in *in, struct out *out) {
  if (!all_read(in)) return;
  put_u16(out, BOXFS_VERSION);
  put_u16(out, (uint16_t)root_count());
  put_u32(out, DATA_MAX);
}

typedef void (*operation)(struct in *in, struct out *out);
static const operation operations[] = {
    [OP_HELLO] = do_hello, [OP_STAT] = do_stat,     [OP_READ] = do_read,
    [OP_WRITE] = do_write, [OP_LIST] = do_list,     [OP_SEARCH] = do_search,
    [OP_MKDIR] = do_mkdir, [OP_DELETE] = do_delete,
};

static void perform(const struct head *head, const uint8_t *payload, struct out *out) {
  struct in in = {.at = payload, .end = payload + head->length};
  operations[head->op](&in, out);
  if (in.bad || (out->status == DONE && in.at != in.end))
    refuse(out, BAD_REQUEST, "the request does not fit its operation");
}

// The limits are the child's own, so that they hold even if this process is not there to see.
static void limit_worker(void) {
#ifndef __SANITIZE_ADDRESS__  // which maps more than any limit before it begins
  struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};
  setrlimit(RLIMIT_AS, &memory);
#endif
  bound_worker(SEARCH_MS);
}

uint64_t bound_worker(uint32_t limit_ms) {
  if (limit_ms == 0 || limit_ms > SEARCH_MS) limit_ms = SEARCH_MS;
  uint32_t end_ms = limit_ms + WORKER_GRACE_MS;
  struct itimerval timer = {.it_value = {end_ms / 1000, end_ms % 1000 * 1000}};
  setitimer(ITIMER_REAL, &timer, NULL);
  return now_ms() + limit_ms;
}

static void start_worker(const struct head *head, const uint8_t *payload) {
  struct worker *worker = workers;
  while (worker < workers + WORKERS_MAX && worker->pid) worker++;
  int ends[2];
  if (worker == workers + WORKERS_MAX || pipe2(ends, O_CLOEXEC)) {
    refuse_now(head->id, BUSY, "too many searches at once");
    return;
  }
  *worker = (struct worker){.id = head->id, .pipe = ends[0]};
  if (!out_init(&worker->out) || (worker->pid = fork()) < 0) {
    refuse_now(head->id, BUSY, "no process for it");
    close(ends[0]);
    close(ends[1]);
    out_free(&worker->out);
    *worker = (struct worker){0};
    return;
  }
  if (worker->pid == 0) {
    struct out out;
    limit_worker();
    if (!out_init(&out)) _exit(1);
    perform(head, payload, &out);
    bool sent = write_all(ends[1], &out.status, 1) && write_all(ends[1], out.bytes, out.size);
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  worker->deadline_ms = now_ms() + SEARCH_MS + 2 * WORKER_GRACE_MS;
}

static void end_worker(struct worker *worker, bool is_late) {
  int status = 0;
  if (is_late) kill(worker->pid, SIGKILL);
  while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR) continue;
  struct out *out = &worker->out;
  bool done = !is_late && WIFEXITED(status) && WEXITSTATUS(status) == 0 && out->size > 0;
  if (done) {
    out->status = out->bytes[0];
    memmove(out->bytes, out->bytes + 1, --out->size);
    answer(worker->id, out);
  } else {
    refuse_now(worker->id, TOO_SLOW, "it took too long or too much memory");
  }
  close(worker->pipe);
  out_free(out);
  *worker = (struct worker){0};
}

static void hear_worker(struct worker *worker) {
  uint8_t part[16384];
  ssize_t got = read(worker->pipe, part, sizeof part);
  if (got < 0 && errno == EINTR) return;
  if (got == 0) {
    end_worker(worker, false);
    return;
  }
  uint8_t *room = got > 0 ? put_room(&worker->out, (size_t)got) : NULL;
  if (room) memcpy(room, part, (size_t)got);
  else end_worker(worker, true);
}

static void take(const struct head *head, const uint8_t *payload) {
  if (head->op == 0 || head->op >= sizeof operations / sizeof *operations) {
    refuse_now(head->id, BAD_REQUEST, "there is no such operation");
    return;
  }
  if (head->op == OP_SEARCH || head->op == OP_DELETE) {
    start_worker(head, payload);
    return;
  }
  struct out out;
  if (!out_init(&out)) exit(EXIT_HOST);
  perform(head, payload, &out);
  answer(head->id, &out);
  out_free(&out);
}

// What is not a frame of ours cannot be told from what follows it, so there is no way on.
static void parse_head(const uint8_t *bytes, struct head *head) {
  struct in in = {.at = bytes, .end = bytes + HEAD_BYTES};
  uint32_t magic = get_u32(&in);
  head->length = get_u32(&in);
  head->id = get_u32(&in);
  head->op = get_u8(&in);
  uint8_t version = get_u8(&in);
  if (magic == BOXFS_MAGIC && version == BOXFS_VERSION && head->length <= FRAME_MAX) return;
  fprintf(stderr, "boxfs: not a frame of version %d\n", BOXFS_VERSION);
  exit(EXIT_PROTOCOL);
}

static struct {
  uint8_t head_bytes[HEAD_BYTES];
  struct head head;
  uint8_t *payload;
  size_t have;  // of the head, and then of the payload
  bool in_payload;
} incoming;

static void take_incoming(void) {
  take(&incoming.head, incoming.payload);
  free(incoming.payload);
  incoming.payload = NULL;
  incoming.have = 0;
  incoming.in_payload = false;
}

static void hear_client(void) {
  bool in_payload = incoming.in_payload;
  uint8_t *into = in_payload ? incoming.payload : incoming.head_bytes;
  size_t want = in_payload ? incoming.head.length : HEAD_BYTES;
  ssize_t got = read(STDIN_FILENO, into + incoming.have, want - incoming.have);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) exit(0);
  incoming.have += (size_t)got;
  if (incoming.have < want) return;
  if (in_payload) {
    take_incoming();
    return;
  }
  parse_head(incoming.head_bytes, &incoming.head);
  incoming.payload = malloc(incoming.head.length + 1);
  if (!incoming.payload) exit(EXIT_HOST);
  incoming.in_payload = true;
  incoming.have = 0;
  if (incoming.head.length == 0) take_incoming();
}

static void run(void) {
  for (;;) {
    struct pollfd polls[1 + WORKERS_MAX] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    bool any = false;
    for (int i = 0; i < WORKERS_MAX; i++) {
      polls[1 + i] = (struct pollfd){.fd = workers[i].pid ? workers[i].pipe : -1, .events = POLLIN};
      any = any || workers[i].pid;
    }
    if (poll(polls, 1 + WORKERS_MAX, any ? 500 : -1) < 0 && errno != EINTR) exit(EXIT_HOST);
    for (int i = 0; i < WORKERS_MAX; i++) {
      if (workers[i].pid && polls[1 + i].revents) hear_worker(&workers[i]);
      else if (workers[i].pid && now_ms() > workers[i].deadline_ms) end_worker(&workers[i], true);
    }
    if (polls[0].revents) hear_client();
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
      fprintf(stderr, "usage: boxfs --write DIR ... --read PATH ... (absolute, %d at most)\n",
              ROOTS_MAX);
      return EXIT_USAGE;
    }
  }
  if (probe_openat2()) {
    fprintf(stderr, "boxfs: this kernel has no openat2 (Linux 5.6): %s\n", strerror(errno));
    return EXIT_HOST;
  }
  // What runs beside it as the same user must not write into it.
  prctl(PR_SET_DUMPABLE, 0);
  signal(SIGPIPE, SIG_IGN);
  atexit(kill_workers);
  run();
}
