// Starts a box: checks the plan, opens paths and pipes, sends the job to a spare. A failure leaves
// nothing behind.
#include "box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static int check_host(const struct plan *plan, struct failure *err) {
  if (is_halted()) return fail(err, REFUSED_HALT, "halted: the HALT file exists");
  if (boxes_count() >= bounds.boxes_max)
    return fail(err, REFUSED_OVERLOAD, "%u boxes are running: try again later", boxes_count());
  if (!host.landlock) {
    fail(err, REFUSED_HOST, "Landlock is not available");
    snprintf(err->hint, sizeof err->hint, "boot Linux 5.13 or newer with lsm=landlock,...");
    return -1;
  }
  if (plan->level != LEVEL_1 && !host.namespaces) {
    fail(err, REFUSED_HOST, "%s", host.missing);
    snprintf(err->hint, sizeof err->hint, "%s", host.fix);
    return -1;
  }
  // Without root a level 1 command has the warden's uid; only this Landlock scope (signals) keeps
  // it from killing the warden.
  if (!host.root && plan->level == LEVEL_1 && !host.namespaces && host.landlock < 6)
    return fail(err, REFUSED_HOST, "level 1 without root needs Landlock ABI 6, this host has %d",
                host.landlock);
  return 0;
}

struct stdio_pipes {
  int pairs[3][2];
};

static bool has_pipes(const struct box *box) { return !box->is_open_box && !box->has_terminal; }

static void close_pipes(struct stdio_pipes *pipes) {
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (pipes->pairs[i][side] >= 0) close(pipes->pairs[i][side]);
}

static int open_pipes(const struct plan *plan, struct stdio_pipes *pipes, struct failure *err) {
  int bad = 0;
  for (int i = 0; i < 3 && !bad; i++) {
    bad = pipe2(pipes->pairs[i], O_CLOEXEC);
    if (bad) break;
    int box_side = pipes->pairs[i][i == 0 ? 0 : 1], warden_side = pipes->pairs[i][i == 0 ? 1 : 0];
    // Lets the command reopen /dev/stdout.
    if (host.root) bad = fchown(box_side, plan->uid, plan->gid);
    if (!bad) bad = fcntl(warden_side, F_SETFL, O_NONBLOCK);
  }
  return bad ? fail(err, REFUSED_OVERLOAD, "out of file descriptors: %s", strerror(errno)) : 0;
}

// A socket that does not exist yet is not an error; one outside the bounds is.
static int check_relays(const struct plan *plan, struct failure *err) {
  for (unsigned i = 0; i < plan->relay_count; i++) {
    int fd = bounds_open(&bounds, plan->relays[i].socket, PREFIX_RELAY, err);
    if (fd >= 0) close(fd);
    else if (err->code == REFUSED_BOUNDS) return -1;
  }
  return 0;
}

// Checks a plan against the bounds, the host and, for a command, its open box.
static int check_plan(uint8_t frame, struct plan *plan, struct box **parent, struct failure *err) {
  if (check_host(plan, err)) return -1;
  if (frame != FRAME_EXEC) {
    if (bounds_check(&bounds, plan, err)) return -1;
    return check_relays(plan, err);
  }
  *parent = box_find(plan->box);
  if (*parent && !seals_intact(*parent, now_us())) {
    box_kill(*parent, ENDED_SEAL);
    *parent = NULL;
  }
  if (!*parent) return fail(err, REFUSED_BOX, "open box not found: open one first");
  for (int which = 1; which < LIMIT_COUNT; which++)
    if (plan->limits[which] > (*parent)->limits[which] && which != LIMIT_GRACE_MS)
      return fail(err, REFUSED_PLAN, "limit %d exceeds the open box's", which);
  entry_apply(&(*parent)->entry, plan);
  if (plan->has_terminal && plan->profile == PROFILE_RUNNER)
    return fail(err, REFUSED_PLAN, "a terminal is not for runners");
  if (plan->has_terminal && !plan->terminals)
    return fail(err, REFUSED_PLAN, "this box was opened without terminals");
  return 0;
}

static enum init_kind init_kind_for(uint8_t frame, const struct plan *plan) {
  if (frame == FRAME_EXEC) return INIT_EXEC;
  return plan->level == LEVEL_1 ? INIT_LEVEL_1 : INIT_LEVEL_2;
}

// Acquires a spare and sends it the job. The spare uses its own copy of the plan, whose strings are
// in the memory it shares with the warden.
static struct spare *dispatch_job(struct box *box, uint8_t frame, const uint8_t *bytes, size_t size,
                                  const struct plan *plan, const struct stdio_pipes *pipes,
                                  struct failure *err) {
  const struct entry_point *entry = box->parent ? &box->parent->entry : NULL;
  struct spare *spare = spare_acquire(init_kind_for(frame, plan), entry, plan->guards_off, err);
  if (!spare) return NULL;
  struct job *job = spare->job;
  int stdio[] = {pipes->pairs[0][0], pipes->pairs[1][1], pipes->pairs[2][1]};
  memcpy(job->text, bytes, size);
  job->used = size;
  job->is_open_box = box->is_open_box;
  // Assigned as a whole: a spare that is still preparing may read its identity from it right now,
  // and must never see a partly decoded plan.
  static struct plan parsed;
  int bad = parse_plan(frame, (uint8_t *)job->text, size, &parsed, err);
  if (!bad && entry) entry_apply(entry, &parsed);
  else parsed.has_rights = box->paths.has_rights;
  if (!bad) job->plan = parsed;
  bad = bad || spare_set_limits(spare, plan->limits, box->is_open_box, err) ||
        (!entry && quota_set(&spare->cgroup, spare->pid, plan->limits[LIMIT_CPU_MILLI], err)) ||
        spare_send_job(spare, has_pipes(box) ? stdio : NULL, &box->paths, err);
  if (!bad) return spare;
  spare_destroy(spare);
  return NULL;
}

static void activate(struct box *box, struct spare *spare, const struct plan *plan,
                     struct stdio_pipes *pipes) {
  box->pid = spare->pid;
  box->cgroup = spare->cgroup;
  box->pid_namespace = spare->pid_namespace;
  memcpy(box->limits, plan->limits, sizeof box->limits);
  box->started_us = now_us();
  box->deadline_us = box->started_us + (int64_t)box->limits[LIMIT_WALL_MS] * 1000;
  box->usage_us = box->started_us + USAGE_INTERVAL_US;
  attach_stream(box, &box->control, spare->watch.fd, 0, box_on_control, EPOLLIN);
  spare_free(spare);
  if (has_pipes(box)) {
    attach_stream(box, &box->input, pipes->pairs[0][1], 0, on_stdin, 0);
    attach_stream(box, &box->output[0], pipes->pairs[1][0], FRAME_STDOUT, on_output, EPOLLIN);
    attach_stream(box, &box->output[1], pipes->pairs[2][0], FRAME_STDERR, on_output, EPOLLIN);
    pipes->pairs[0][1] = pipes->pairs[1][0] = pipes->pairs[2][0] = -1;
  }
  box_add(box);
}

static void save_entry_point(struct box *box, const struct plan *plan) {
  struct entry_point *entry = &box->entry;
  memset(entry->fds, -1, sizeof entry->fds);
  entry->cgroup = &box->cgroup;
  entry->uid = plan->uid;
  entry->gid = plan->gid;
  entry->group_count = plan->group_count;
  memcpy(entry->groups, plan->groups, sizeof entry->groups);
  entry->guards_off = plan->guards_off;
  entry->profile = plan->profile;
  entry->owns_files = plan->owns_files;
  entry->terminals = plan->terminals;
}

static int save_relays(struct box *box, const struct plan *plan) {
  for (unsigned i = 0; i < plan->relay_count; i++) {
    box->relay_sockets[i] = strdup(plan->relays[i].socket);
    if (!box->relay_sockets[i]) return -1;
    box->relay_count++;
  }
  return 0;
}

struct box *box_start(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size,
                      struct failure *err) {
  static struct plan plan;
  struct box *parent = NULL;
  if (parse_plan(frame, bytes, size, &plan, err) || check_plan(frame, &plan, &parent, err))
    return NULL;
  struct layer *layers[BOX_LAYERS_MAX];
  if (layers_acquire(&plan, layers, err)) return NULL;
  struct box *box = calloc(1, sizeof *box);
  if (!box) {
    layers_release(layers);
    fail(err, REFUSED_OVERLOAD, "out of memory");
    return NULL;
  }
  box->conn = conn;
  memcpy(box->layers, layers, sizeof box->layers);
  box->parent = parent;
  box->is_open_box = frame == FRAME_OPEN;
  box->has_terminal = plan.has_terminal;
  save_entry_point(box, &plan);
  struct stdio_pipes pipes;
  memset(&pipes, -1, sizeof pipes);
  int bad = paths_open(&bounds, &plan, layers, &box->paths, err) ||
            ((save_relays(box, &plan) || seals_record(box, &plan)) &&
             fail(err, REFUSED_OVERLOAD, "out of memory")) ||
            (has_pipes(box) && open_pipes(&plan, &pipes, err));
  box->entry.has_rights = box->paths.has_rights;
  struct spare *spare = bad ? NULL : dispatch_job(box, frame, bytes, size, &plan, &pipes, err);
  paths_close(&plan, &box->paths);
  if (spare) {
    activate(box, spare, &plan, &pipes);
  } else {
    paths_drop_stubs(&box->paths);
    layers_release(box->layers);
    seals_free(box);
    box_free(box);
    box = NULL;
  }
  close_pipes(&pipes);
  return box;
}
