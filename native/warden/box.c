// The life of a box in the event loop: its process, limits and end. Single-threaded; every box is a
// child of the warden, so its pid cannot be reused before it is reaped.
#include "box.h"
#include "init.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define DRAIN_TIMEOUT_US 5000000
#define STOPPED_SPACE_MIN 256

static struct box *boxes, *dead_boxes;
static unsigned box_count;

unsigned boxes_count(void) { return box_count; }

void box_add(struct box *box) {
  box->next = boxes;
  boxes = box;
  box_count++;
}

static void put_u64(uint8_t *at, uint64_t value) {
  for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t to_us(struct timeval time) {
  return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

// u8 ended_by, u8 signal, u8 exit code, u8 pids limit hit, u32 zero, then u64: wall, user and
// system time in µs, peak RSS of the largest process in KiB, stdout bytes, stderr bytes.
static void send_exit(const struct box *box, struct conn *conn) {
  uint8_t body[56] = {(uint8_t)box->ended_by};
  if (box->command_exited && WIFEXITED(box->status)) body[2] = (uint8_t)WEXITSTATUS(box->status);
  else body[1] = (uint8_t)(box->command_exited ? WTERMSIG(box->status) : SIGKILL);
  body[3] = box->pids_limit_hit;
  put_u64(body + 8, (uint64_t)(now_us() - box->started_us));
  put_u64(body + 16, to_us(box->usage.ru_utime));
  put_u64(body + 24, to_us(box->usage.ru_stime));
  put_u64(body + 32, (uint64_t)box->usage.ru_maxrss);
  put_u64(body + 40, box->output[0].bytes);
  put_u64(body + 48, box->output[1].bytes);
  conn_send(conn, FRAME_EXIT, body, sizeof body);
}

struct box *box_find(uint64_t handle) {
  for (struct box *box = boxes; box; box = box->next)
    if (box->is_open_box && box->handle == handle && box->start_reported && !box->reaped &&
        box->ended_by == ENDED_ITSELF)
      return box;
  return NULL;
}

// Destroys the spares of an open box and closes its namespaces; no command can enter any more.
static void close_entry_point(struct box *box) {
  spares_remove_open_box(&box->entry);
  for (int i = 0; i < ENTRY_COUNT; i++)
    if (box->entry.fds[i] >= 0) close(box->entry.fds[i]);
  memset(box->entry.fds, -1, sizeof box->entry.fds);
}

// Runs once, when every process of the box is dead: collects its results and frees its resources.
static void clean_up(struct box *box) {
  box->cleaned_up = true;
  close_stream(&box->input);
  close_stream(&box->control);
  close_stream(&box->mount_watch);
  seals_free(box);
  if (box->relay > 0) kill(box->relay, SIGTERM);
  if (box->is_open_box) close_entry_point(box);
  if (box->parent ? !box->tree_exited : !box->pid_namespace) cgroup_kill(&box->cgroup);
  box->pids_limit_hit = cgroup_pids_max_hits(&box->cgroup) > 0;
  if (cgroup_oom_kills(&box->cgroup) > 0 && box->ended_by == ENDED_ITSELF)
    box->ended_by = ENDED_MEMORY;
  if (!box->command_exited && !box->failed && box->ended_by == ENDED_ITSELF) {
    box->ended_by = ENDED_LOST;
    // Without a cgroup, the command's orphans cannot be told from other processes of the open box.
    if (box->parent && box->cgroup.dirs[CGROUP_TREE] < 0) box_kill(box->parent, ENDED_LOST);
  }
  paths_drop_stubs(&box->paths);
  layers_release(box->layers);
}

// Returns false while the cgroup still has processes, or while an open box's commands have cgroups.
static bool try_remove_cgroup(struct box *box) {
  if (box->relay > 0 && now_us() < box->drain_us) return false;
  if (box->relay > 0) kill(box->relay, SIGKILL);
  for (struct box *other = boxes; other && box->is_open_box; other = other->next)
    if (other->parent == box && !other->cgroup_removed) return false;
  // A spare that joins a cgroup holds the kernel's lock on all of them for many milliseconds. This
  // one is empty, so its removal can wait, and the client need not.
  if (spares_joining() || now_us() > box->drain_us) cgroup_remove_later(&box->cgroup);
  else if (!cgroup_remove(&box->cgroup)) return false;
  for (struct box *other = boxes; other && box->is_open_box; other = other->next)
    if (other->parent == box) other->parent = NULL;
  return true;
}

void box_finish(struct box *box) {
  if (!box->reaped || box->unlisted) return;
  if (!box->cleaned_up) clean_up(box);
  // The kernel may count the last process slightly longer than waitpid does; boxes_tick retries.
  if (!box->cgroup_removed) box->cgroup_removed = try_remove_cgroup(box);
  if (!box->cgroup_removed || box->output[0].open || box->output[1].open) return;
  box->unlisted = true;
  // Reported last: a client that hears of the end finds nothing left of the box.
  struct conn *conn = box->conn;
  box->conn = NULL;
  if (conn) {
    conn_detach_box(conn);  // first: conn_send may find the client gone and close conn
    if (box->failed) conn_refuse(conn, &box->err);
    else send_exit(box, conn);
  }
  for (struct box **at = &boxes; *at; at = &(*at)->next)
    if (*at == box) {
      *at = box->next;
      break;
    }
  box_count--;
  // Freed later: events already returned by epoll may still refer to it.
  box->next = dead_boxes;
  dead_boxes = box;
}

void box_free(struct box *box) {
  for (unsigned i = 0; i < box->relay_count; i++) free(box->relay_sockets[i]);
  free(box);
}

void boxes_free_dead(void) {
  while (dead_boxes) {
    struct box *box = dead_boxes;
    dead_boxes = box->next;
    box_free(box);
  }
}

// A command in an open box has its own process tree, but not its own pid namespace.
void box_kill_command(struct box *box) {
  if (box->cgroup.dirs[CGROUP_TREE] >= 0) cgroup_kill(&box->cgroup);
  else if (box->start_reported && box->kill_attempts++ < 50) tree_kill(box->pid, false);
  else kill(box->pid, SIGKILL);  // init has no child left and should have exited
  box->kill_us = now_us() + 20000;
}

void box_kill(struct box *box, enum ended_by reason) {
  if (box->ended_by == ENDED_ITSELF) box->ended_by = reason;
  if (box->reaped) return;
  if (box->parent) {
    box_kill_command(box);
    return;
  }
  if (box->pid_namespace) kill(box->pid, SIGKILL);
  else tree_kill(box->pid, true);
  for (struct box *other = boxes; other; other = other->next)
    if (other->parent == box && other->ended_by == ENDED_ITSELF && !other->command_exited)
      other->ended_by = ENDED_BOX;
  cgroup_kill(&box->cgroup);
}

void box_request(struct box *box, uint8_t request) {
  if (box->control.open) send(box->control.watch.fd, &request, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void box_signal(struct box *box, uint8_t number) {
  if (number != SIGTERM && number != SIGINT && number != SIGHUP && number != SIGCONT) return;
  box_request(box, number);
}

static uint8_t cgroup_version_code(enum cgroup_resource resource) {  // 0: none
  const char *version = cgroups_version(resource);
  return version[0] == 'v' ? (uint8_t)(version[1] - '0') : 0;
}

static void report_started(struct box *box) {
  box->start_reported = true;
  if (box->is_open_box) spares_add_open_box(&box->entry);
  uint8_t body[17], *at = body;
  uint32_t pid = (uint32_t)box->pid;
  if (box->is_open_box) {
    while (!box->handle && getrandom(&box->handle, sizeof box->handle, 0) < 0) {
    }
    put_u64(body, box->handle);
    at += 8;
    cgroup_delegate(&box->cgroup);
  }
  memcpy(at, &pid, 4);
  for (int i = 0; i < CGROUP_RESOURCES; i++)
    at[4 + i] = cgroup_version_code((enum cgroup_resource)i);
  at[8] = box->pid_namespace;
  if (box->conn)
    conn_send(box->conn, box->is_open_box ? FRAME_OPENED : FRAME_STARTED, body,
              (size_t)(at + 9 - body));
  box_resume_output(box);
  if (box->has_terminal) flush_stdin(box);
}

// The mounts of an open box do not change, unless a covered file is removed or replaced on the
// host: then the kernel drops the mount, and exposes the file that it masked or protected.
static void on_mounts_changed(struct watch *watch, uint32_t events) {
  struct stream *stream = (struct stream *)watch;
  if (!(events & (EPOLLPRI | EPOLLERR))) return;
  box_kill(stream->box, ENDED_SEAL);
  close_stream(stream);
}

// Descriptors from init did not fit into this process; the box cannot work without them.
static void fail_overloaded(struct box *box, const int *fds, unsigned count) {
  for (unsigned i = 0; i < count; i++) close(fds[i]);
  box->failed = true;
  fail(&box->err, REFUSED_OVERLOAD, "out of file descriptors");
  box_kill(box, ENDED_LOST);
}

static void watch_mounts(struct box *box, int fd, int mounts) {
  box->mount_watch = (struct stream){
      .watch = {.ready = on_mounts_changed, .fd = fd}, .box = box, .type = 0, .open = true};
  watch_add(&box->mount_watch.watch, EPOLLPRI);
  // A change before watch_add may not be reported as an event, so compare the number of mounts too.
  if (!box->mount_watch.watch.active || mounts_count(fd) != mounts) box_kill(box, ENDED_SEAL);
}

static void on_report(struct box *box, const struct report *report, const int *fds,
                      unsigned count) {
  switch (report->kind) {
    case REPORT_READY: return;
    case REPORT_FAILED:
      box->failed = true;
      box->err = report->err;
      return;
    case REPORT_ENDED:
      box->command_exited = true;
      box->status = report->status;
      box->tree_exited = report->tree_exited;
      if (box->parent && !box->tree_exited) box_kill_command(box);
      return;
    case REPORT_STARTED:
      if (box->is_open_box && count != ENTRY_COUNT) {
        fail_overloaded(box, fds, count);
        return;
      }
      if (box->is_open_box) memcpy(box->entry.fds, fds, count * sizeof *fds);
      report_started(box);
      return;
    case REPORT_TERMINAL:
      if (count == 1 && box->has_terminal && !box->input.open) attach_terminal(box, fds[0]);
      else fail_overloaded(box, fds, count);
      return;
    case REPORT_STOPPED: {
      uint8_t signal = (uint8_t)report->status;
      // A client that does not read would be disconnected.
      if (box->conn && conn_space(box->conn) > STOPPED_SPACE_MIN)
        conn_send(box->conn, FRAME_STOPPED, &signal, 1);
      return;
    }
    case REPORT_MOUNTS:
      if (count == 2 && !box->mount_watch.open) {
        watch_mounts(box, fds[0], report->status);
        box->root_fd = fds[1];
      } else fail_overloaded(box, fds, count);
      return;
    case REPORT_LISTENERS:
      if (count != box->relay_count) {
        fail_overloaded(box, fds, count);
        return;
      }
      if (box->conn && !box->relay)
        box->relay = relay_start(fds, box->relay_sockets, count, conn_gid(box->conn));
      for (unsigned i = 0; i < count; i++) close(fds[i]);
      return;
  }
}

void box_on_control(struct watch *watch, uint32_t events) {
  (void)events;
  struct stream *stream = (struct stream *)watch;
  struct report report;
  int fds[REPORT_FDS_MAX];
  unsigned count;
  ssize_t size;
  // If init exited with unread data, recv fails once with ECONNRESET before its last messages.
  do {
    size = fds_recv(watch->fd, &report, sizeof report, fds, REPORT_FDS_MAX, &count, MSG_DONTWAIT);
  } while (size < 0 && errno == ECONNRESET);
  if (size < 0 && errno == EAGAIN) return;
  if (size != sizeof report) close_stream(stream);
  else on_report(stream->box, &report, fds, count);
}

bool is_box(pid_t pid) {
  for (struct box *box = boxes; box; box = box->next)
    if (box->pid == pid && !box->reaped) return true;
  return false;
}

// Without a pid namespace, the processes of a box whose init was killed become our children.
static void kill_orphans(void) {
  pid_t children[1024];
  unsigned found = child_pids(getpid(), children, 1024);
  for (unsigned i = 0; i < found; i++)
    if (!is_box(children[i]) && !is_spare(children[i]) && !is_dir_worker(children[i]))
      tree_kill(children[i], true);
}

static void relay_exited(pid_t pid) {
  for (struct box *box = boxes; box; box = box->next) {
    if (box->relay != pid) continue;
    box->relay = 0;
    box_finish(box);
    return;
  }
}

void boxes_reap(void) {
  siginfo_t info;
  for (;;) {
    info.si_pid = 0;
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || !info.si_pid) return;
    struct box *box = boxes;
    while (box && box->pid != info.si_pid) box = box->next;
    struct rusage usage;
    wait4(info.si_pid, NULL, WNOHANG, &usage);
    if (!box) {  // a spare, a relay, or an orphan of a box
      if (!spares_handle_exit(info.si_pid)) relay_exited(info.si_pid);
      continue;
    }
    box->usage = usage;
    box->reaped = true;
    box->drain_us = now_us() + DRAIN_TIMEOUT_US;
    // Its last messages may still be in the socket.
    while (box->control.open) {
      char byte;
      if (recv(box->control.watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0) break;
      box_on_control(&box->control.watch, 0);
    }
    if (!box->pid_namespace) kill_orphans();
    box_resume_output(box);
    box_finish(box);
  }
}

void box_detach_client(struct box *box) {
  box->conn = NULL;
  if (box->has_terminal && box->start_reported) {
    // The rest of its output is dropped.
    box_hang_up(box);
    box_resume_output(box);
    return;
  }
  box_kill(box, ENDED_CLIENT);
  for (int i = 0; i < 2; i++) close_stream(&box->output[i]);
  close_stream(&box->input);
  box_finish(box);
}

void boxes_kill(enum ended_by reason) {
  for (struct box *box = boxes; box; box = box->next) box_kill(box, reason);
}

int boxes_tick(void) {
  int64_t now = now_us(), next = INT64_MAX;
  for (struct box *box = boxes, *next_box; box; box = next_box) {
    next_box = box->next;
    int64_t at = box_tick(box, now);
    if (at < next) next = at;
    if (box->reaped) box_finish(box);
  }
  if (cgroups_retry_removal() && now + 5000 < next) next = now + 5000;
  if (next == INT64_MAX) return -1;
  return next <= now ? 0 : (int)((next - now) / 1000 + 1);
}

