// A box as the warden's loop sees it: start.c (birth), relay.c (streams), box.c (the rest).
#pragma once
#include <sys/resource.h>

#include "warden.h"

#define USAGE_EVERY_US 100000

struct stream {
  struct watch watch;  // first: a watch is its stream
  struct box *box;
  uint8_t type;
  bool open, paused;
  uint64_t bytes;
};

struct box {
  struct stream out[2], in, control, seals;
  struct conn *conn;
  pid_t pid;
  struct box *home;     // the open box this command runs in, or NULL
  bool hold;            // an open box: no command of its own
  uint64_t handle;      // of an open box
  struct entry entry;
  char *egress_path;
  pid_t egress;
  bool pid_namespace, failed, told_start, ended, alone, dead, settled, swept, gone;
  bool stdin_ends, pids_met;
  enum ended_by by;
  unsigned kills;
  int status;
  struct rusage usage;
  struct failure why;
  char **sealed;  // paths in it that must stay covered, and the root they are looked up from
  unsigned sealed_count;
  int root_fd;
  int64_t sealed_us;  // when they are looked at again
  struct cgroup group;
  struct paths paths;
  uint64_t limits[LIMIT_COUNT];
  int64_t began_us, deadline_us, kill_us, usage_us, drain_us;
  uint8_t stdin_bytes[STDIN_WINDOW];
  size_t stdin_size;
  struct box *next;
};

void close_stream(struct stream *stream);
void on_output(struct watch *watch, uint32_t events);
void on_stdin(struct watch *watch, uint32_t events);
void box_on_control(struct watch *watch, uint32_t events);
void box_add(struct box *box);
void box_finish(struct box *box);

// ── seals.c ──
int seals_remember(struct box *box, const struct plan *plan);
void seals_forget(struct box *box);
bool seals_hold(struct box *box, int64_t now);
void seals_look(struct box *box, int64_t now);  // ends the box if they do not, now and then
