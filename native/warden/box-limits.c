// The limits of a box that the event loop enforces: time, CPU, memory where cgroups are missing,
// and how long a box that was asked to end may take.
#include "box.h"
#include "init.h"

#include <signal.h>

static void expire(struct box *box, enum ended_by reason, uint8_t request) {
  if (box->ended_by != ENDED_ITSELF) return;
  if (!box->limits[LIMIT_GRACE_MS] || !box->start_reported) {
    box_kill(box, reason);
    return;
  }
  box->ended_by = reason;
  box_request(box, request);
  box->kill_us = now_us() + (int64_t)box->limits[LIMIT_GRACE_MS] * 1000;
}

void box_hang_up(struct box *box) { expire(box, ENDED_CLIENT, HANG_UP); }

static void check_usage(struct box *box, int64_t now) {
  box->usage_us = now + USAGE_INTERVAL_US;
  int64_t cpu_ms = cgroup_cpu_ms(&box->cgroup), rss = 0;
  int processes = 0;
  if (cpu_ms < 0 || box->cgroup.dirs[CGROUP_MEMORY] < 0) {
    int64_t tree_cpu;
    tree_usage(box->pid, &tree_cpu, &rss, &processes);
    if (cpu_ms < 0) cpu_ms = tree_cpu;
  }
  if (cpu_ms > (int64_t)box->limits[LIMIT_CPU_MS]) expire(box, ENDED_CPU, SIGTERM);
  if (rss > (int64_t)box->limits[LIMIT_MEMORY_BYTES]) box_kill(box, ENDED_MEMORY);
}

int64_t box_tick(struct box *box, int64_t now) {
  if (box->cleaned_up && !box->cgroup_removed) return now + 1000;
  if (box->reaped) {
    // The client stopped reading. The box has ended, so the rest of its output can be dropped.
    if (now > box->drain_us && now > box->deadline_us)
      for (int i = 0; i < 2; i++) close_stream(&box->output[i]);
    return box->drain_us > box->deadline_us ? box->drain_us + 1 : box->deadline_us + 1;
  }
  if (now >= box->deadline_us) expire(box, ENDED_WALL, SIGTERM);
  if (box->kill_us && now >= box->kill_us) {
    bool is_ending = box->command_exited || box->ended_by != ENDED_ITSELF;
    if (box->parent && is_ending) box_kill_command(box);
    else box_kill(box, box->ended_by);
  }
  if (now >= box->usage_us) {
    check_usage(box, now);
    if (!box->is_open_box) seals_check(box, now);
  }
  int64_t next = box->usage_us;
  if (now < box->deadline_us && box->deadline_us < next) next = box->deadline_us;
  if (box->kill_us && box->kill_us > now && box->kill_us < next) next = box->kill_us;
  return next;
}
