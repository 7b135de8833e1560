// The birth of a box: checks, descriptors, cgroup, clone. What fails here leaves nothing behind.
#include "box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

static int check_host(const struct plan *plan, struct failure *why) {
  if (halted()) return fail(why, REFUSED_HALT, "everything is halted: the HALT file exists");
  if (boxes_count() >= bounds.boxes_max)
    return fail(why, REFUSED_OVERLOAD, "%u boxes run already: try again later",
                boxes_count());
  if (!host.landlock) {
    fail(why, REFUSED_HOST, "this kernel has no Landlock");
    snprintf(why->hint, sizeof why->hint, "boot a kernel 5.13 or newer with lsm=landlock,...");
    return -1;
  }
  if (plan->level != LEVEL_1 && !host.namespaces) {
    fail(why, REFUSED_HOST, "%s", host.missing);
    snprintf(why->hint, sizeof why->hint, "%s", host.fix);
    return -1;
  }
  // Without a user of its own a level 1 command could end the warden, were it not for this scope.
  if (!host.root && plan->level == LEVEL_1 && !host.namespaces && host.landlock < 6)
    return fail(why, REFUSED_HOST, "level 1 without root needs Landlock 6, here is %d",
                host.landlock);
  return 0;
}

struct ends {
  int pairs[3][2];
};

static void close_ends(struct ends *ends) {
  for (int i = 0; i < 3; i++)
    for (int side = 0; side < 2; side++)
      if (ends->pairs[i][side] >= 0) close(ends->pairs[i][side]);
}

static int open_ends(const struct plan *plan, struct ends *ends, struct failure *why) {
  int bad = 0;
  for (int i = 0; i < 3 && !bad; i++) {
    bad = pipe2(ends->pairs[i], O_CLOEXEC);
    if (bad) break;
    int box_side = ends->pairs[i][i == 0 ? 0 : 1], our_side = ends->pairs[i][i == 0 ? 1 : 0];
    // So that the command can open /dev/stdout again.
    if (host.root) bad = fchown(box_side, plan->uid, plan->gid);
    if (!bad) bad = fcntl(our_side, F_SETFL, O_NONBLOCK);
  }
  return bad ? fail(why, REFUSED_OVERLOAD, "no descriptors left: %s", strerror(errno)) : 0;
}

static void adopt(struct box *box, struct stream *stream, int fd, uint8_t type,
                  void (*ready)(struct watch *, uint32_t), uint32_t events) {
  *stream = (struct stream){
      .watch = {.ready = ready, .fd = fd}, .box = box, .type = type, .open = true};
  watch_add(&stream->watch, events);
}

// Checks what the plan says against the bounds, the host and, for a command, its open box.
static int check(uint8_t frame, struct plan *plan, struct box **home, struct failure *why) {
  if (check_host(plan, why)) return -1;
  if (frame != FRAME_EXEC) {
    if (bounds_check(&bounds, plan, why)) return -1;
    int fd = plan->egress ? bounds_open(&bounds, plan->egress, PREFIX_EGRESS, why) : -1;
    if (fd >= 0) close(fd);
    // A socket that is not there yet is no fault of the plan; one out of bounds is.
    return plan->egress && fd < 0 && why->code == REFUSED_BOUNDS ? -1 : 0;
  }
  *home = box_find(plan->box);
  if (*home && !seals_hold(*home, now_us())) {
    box_kill(*home, ENDED_SEAL);
    *home = NULL;
  }
  if (!*home) return fail(why, REFUSED_BOX, "there is no such open box: open one");
  for (int which = 1; which < LIMIT_COUNT; which++)
    if (plan->limits[which] > (*home)->limits[which] && which != LIMIT_GRACE_MS)
      return fail(why, REFUSED_PLAN, "limit %d is above the open box's", which);
  entry_put(&(*home)->entry, plan);
  return 0;
}

static enum birth birth_of(uint8_t frame, const struct plan *plan) {
  if (frame == FRAME_EXEC) return BIRTH_EXEC;
  return plan->level == LEVEL_1 ? BIRTH_LEVEL_1 : BIRTH_LEVEL_2;
}

// Takes a spare and gives it the job. The spare's copy of the plan is the one that counts there:
// its strings lie in memory that both see.
static struct spare *send_off(struct box *box, uint8_t frame, const uint8_t *bytes, size_t size,
                              const struct plan *plan, const struct ends *ends,
                              struct failure *why) {
  const struct entry *entry = box->home ? &box->home->entry : NULL;
  struct spare *spare = spare_take(birth_of(frame, plan), entry, plan->guards_off, why);
  if (!spare) return NULL;
  struct job *job = spare->job;
  int stdio[] = {ends->pairs[0][0], ends->pairs[1][1], ends->pairs[2][1]};
  memcpy(job->text, bytes, size);
  job->used = size;
  job->hold = box->hold;
  // In one go: a spare that is still on its way in takes its user from there just now, and must
  // never see a plan that is half read.
  static struct plan parsed;
  int bad = parse_plan(frame, (uint8_t *)job->text, size, &parsed, why);
  if (!bad && entry) entry_put(entry, &parsed);
  if (!bad) job->plan = parsed;
  bad = bad || spare_limit(spare, plan->limits, box->hold, why) ||
        (!entry && quota_set(&spare->group, spare->pid, plan->limits[LIMIT_CPU_MILLI], why)) ||
        spare_send(spare, box->hold ? NULL : stdio, &box->paths, why);
  if (!bad) return spare;
  spare_discard(spare);
  return NULL;
}

static void begin(struct box *box, struct spare *spare, const struct plan *plan,
                  struct ends *ends) {
  box->pid = spare->pid;
  box->group = spare->group;
  box->pid_namespace = spare->pid_namespace;
  memcpy(box->limits, plan->limits, sizeof box->limits);
  box->began_us = now_us();
  box->deadline_us = box->began_us + (int64_t)box->limits[LIMIT_WALL_MS] * 1000;
  box->usage_us = box->began_us + USAGE_EVERY_US;
  adopt(box, &box->control, spare->watch.fd, 0, box_on_control, EPOLLIN);
  spare_free(spare);
  if (!box->hold) {
    adopt(box, &box->in, ends->pairs[0][1], 0, on_stdin, 0);
    adopt(box, &box->out[0], ends->pairs[1][0], FRAME_STDOUT, on_output, EPOLLIN);
    adopt(box, &box->out[1], ends->pairs[2][0], FRAME_STDERR, on_output, EPOLLIN);
    ends->pairs[0][1] = ends->pairs[1][0] = ends->pairs[2][0] = -1;
  }
  box_add(box);
}

static void remember_identity(struct box *box, const struct plan *plan) {
  struct entry *entry = &box->entry;
  memset(entry->fds, -1, sizeof entry->fds);
  entry->group = &box->group;
  entry->uid = plan->uid;
  entry->gid = plan->gid;
  entry->group_count = plan->group_count;
  memcpy(entry->groups, plan->groups, sizeof entry->groups);
  entry->guards_off = plan->guards_off;
  entry->profile = plan->profile;
}

struct box *box_start(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size,
                      struct failure *why) {
  static struct plan plan;
  struct box *home = NULL;
  if (parse_plan(frame, bytes, size, &plan, why) || check(frame, &plan, &home, why)) return NULL;
  struct box *box = calloc(1, sizeof *box);
  if (!box) {
    fail(why, REFUSED_OVERLOAD, "out of memory");
    return NULL;
  }
  box->conn = conn;
  box->home = home;
  box->hold = frame == FRAME_OPEN;
  remember_identity(box, &plan);
  if (plan.egress) box->egress_path = strdup(plan.egress);
  struct ends ends;
  memset(&ends, -1, sizeof ends);
  int bad = paths_open(&bounds, &plan, &box->paths, why) ||
            (seals_remember(box, &plan) && fail(why, REFUSED_OVERLOAD, "out of memory")) ||
            (!box->hold && open_ends(&plan, &ends, why));
  struct spare *spare = bad ? NULL : send_off(box, frame, bytes, size, &plan, &ends, why);
  paths_close(&plan, &box->paths);
  if (spare) {
    begin(box, spare, &plan, &ends);
  } else {
    paths_release(&box->paths);
    seals_forget(box);
    free(box->egress_path);
    free(box);
    box = NULL;
  }
  close_ends(&ends);
  return box;
}
