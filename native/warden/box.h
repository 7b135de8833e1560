// A box as the event loop sees it: box-start.c, streams.c (stdio), seals.c, box.c (the rest).
#pragma once
#include <sys/resource.h>

#include "layer.h"

#define USAGE_INTERVAL_US 100000
#define EOF_BYTES_MAX 2

struct stream {
  struct watch watch;  // must be first
  struct box *box;
  uint8_t type;
  bool open, paused;
  uint64_t bytes;
};

struct box {
  struct stream output[2], input, control, mount_watch;
  struct conn *conn;
  pid_t pid;
  struct box *parent;  // the open box this command runs in, or NULL
  bool is_open_box;    // has no command itself
  bool has_terminal;   // instead of pipes: `input` and `output[0]` are its other end
  uint64_t handle;     // of an open box
  struct entry_point entry;
  char *relay_sockets[RELAYS_MAX];
  unsigned relay_count;
  pid_t relay;
  bool pid_namespace, failed, start_reported;
  // The stages of its end, in this order.
  bool command_exited, tree_exited, reaped, cleaned_up, cgroup_removed, unlisted;
  bool stdin_eof, pids_limit_hit;
  enum ended_by ended_by;
  unsigned kill_attempts;
  int status;
  struct rusage usage;
  struct failure err;
  char **sealed_paths;  // must stay covered; looked up from root_fd
  unsigned sealed_count;
  int root_fd;
  int64_t seal_check_us;  // time of the next check
  struct cgroup cgroup;
  struct paths paths;
  struct layer *layers[BOX_LAYERS_MAX];  // NULL: none, or released
  uint64_t limits[LIMIT_COUNT];
  int64_t started_us, deadline_us, kill_us, usage_us, drain_us;
  uint8_t stdin_bytes[STDIN_WINDOW + EOF_BYTES_MAX];
  size_t stdin_size, eof_size;  // the last eof_size bytes are not the client's
  uint8_t last_byte;            // of what the client has sent
  uint16_t columns, rows;       // 0: as in the plan
  struct box *next;
};

void attach_stream(struct box *box, struct stream *stream, int fd, uint8_t type,
                   void (*ready)(struct watch *, uint32_t), uint32_t events);
void attach_terminal(struct box *box, int master);
void flush_stdin(struct box *box);
void close_stream(struct stream *stream);
void on_output(struct watch *watch, uint32_t events);
void on_stdin(struct watch *watch, uint32_t events);
void box_on_control(struct watch *watch, uint32_t events);
void box_add(struct box *box);
void box_free(struct box *box);
void box_finish(struct box *box);
void box_kill_command(struct box *box);
void box_request(struct box *box, uint8_t request);  // a signal, or HANG_UP, to the box's init

// ── box-limits.c ──
// As when a terminal's window is closed; after the grace time the box is killed.
void box_hang_up(struct box *box);
int64_t box_tick(struct box *box, int64_t now);  // returns the time of its next call

// ── seals.c ──
int seals_record(struct box *box, const struct plan *plan);
void seals_free(struct box *box);
bool seals_intact(struct box *box, int64_t now);
void seals_check(struct box *box, int64_t now);  // kills the box if not intact; rate-limited
