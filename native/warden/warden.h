// What the warden's files say to each other. plan.h is the wire; this is the inside.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "plan.h"

// ── bounds.c: what root allowed this warden, read once at start ──
#define PREFIXES_MAX 64
struct prefix {
  char path[PATH_BYTES];
  bool writable;
};
struct bounds {
  uint32_t uid_min, uid_max, gid_min, gid_max;
  uint32_t groups[GROUPS_MAX];
  unsigned group_count, prefix_count, boxes_max;
  struct prefix prefixes[PREFIXES_MAX];
  uid_t client_uid;
  pid_t client_pid;  // 0: any process of client_uid
};
int bounds_read(const char *file, struct bounds *bounds, struct failure *why);
int bounds_check(const struct bounds *bounds, const struct plan *plan, struct failure *why);
// Opens a declared source; no link is followed. Returns an O_PATH descriptor.
int bounds_open(const struct bounds *bounds, const char *path, bool writable, struct failure *why);

// ── host.c: what this machine gives, found by trying ──
struct host {
  bool root, namespaces;
  int landlock;
  uid_t uid;
  gid_t gid;
  const char *run;          // the warden's own directory
  int proc, probe, dev;     // the host's /proc; a directory no box may read; the /dev template
  char missing[320], fix[200]; // why there are no namespaces, and the command that helps
};
extern struct host host;
int host_probe(const char *run, struct failure *why);

// ── paths.c: sources, protected paths and the stubs that stand in for missing ones ──
enum seal_kind { SEAL_LINK = 1, SEAL_READONLY, SEAL_MASK };
struct seal {
  enum seal_kind kind;
  unsigned bind;    // the declared path it lies in
  char *path;       // in the box
};
#define SEALS_MAX 512
struct paths {
  int fds[BINDS_MAX];  // level 1: O_PATH; level 2: detached mounts
  struct seal seals[SEALS_MAX];
  unsigned seal_count;
  unsigned stubs[SEALS_MAX], stub_count;
};
int paths_open(const struct bounds *bounds, const struct plan *plan, struct paths *paths,
               struct failure *why);
void paths_close(const struct plan *plan, struct paths *paths);  // descriptors and seals
void paths_release(struct paths *paths);                         // stubs

// ── stubs.c: files and directories made where a protected path is missing ──
int stub_take(const char *path, bool directory, int parent, const char *name, struct failure *why);
int stub_find(const char *path);
void stub_hold(unsigned stub);
void stub_drop(unsigned stub);
void stubs_sweep(const char *run);

// ── cgroup.c: v1, v2 and both at once behind one interface ──
enum held { HELD_MEMORY, HELD_PIDS, HELD_CPU, HELD_TREE, HELD_COUNT };
struct cgroup {
  char name[24];
  int dirs[HELD_COUNT];   // -1: nothing holds it
  int joins[HELD_COUNT];  // cgroup.procs of v1 trees; the box's init writes itself there
};
void cgroups_find(const char *run);
void cgroups_sweep(void);
const char *cgroups_held(enum held what);  // "v1", "v2" or "none"
int group_make(struct cgroup *group, const struct plan *plan, struct failure *why);
int group_clone_fd(const struct cgroup *group);  // for CLONE_INTO_CGROUP, or -1
void group_joined(struct cgroup *group);
int64_t group_cpu_ms(const struct cgroup *group);
int group_oom_kills(const struct cgroup *group);
int group_pids_refused(const struct cgroup *group);
void group_kill(const struct cgroup *group);
bool group_remove(struct cgroup *group);  // false: not empty yet, ask again

// ── procs.c: a process tree by /proc, where no cgroup and no pid namespace holds it ──
unsigned tree_children(pid_t pid, pid_t *out, unsigned room);
void tree_kill(pid_t top, bool top_too);
void tree_usage(pid_t top, int64_t *cpu_ms, int64_t *rss_bytes, int *count);

// ── landlock.c ──
enum landlock_use { USE_READ, USE_LIST, USE_WRITE, USE_PRIVATE, USE_DEVICE };
int landlock_abi(void);
int landlock_open(int abi, int level, struct failure *why);
int landlock_allow(int ruleset, int abi, int path_fd, enum landlock_use use, struct failure *why);
int landlock_enter(int ruleset, struct failure *why);

// ── seccomp.c ──
enum filter { FILTER_TOOL_L1, FILTER_TOOL_L2, FILTER_RUNNER, FILTER_COUNT };
void seccomp_build(void);
int seccomp_enter(enum filter filter, struct failure *why);

// ── init.c, mounts.c, confine.c: the child's side ──
struct setup {
  const struct plan *plan;
  const struct paths *paths;
  const struct cgroup *group;
  int stdio[3], control, dev;
  bool pid_namespace, namespaces;
};
enum report_kind { REPORT_FAILED = 1, REPORT_STARTED, REPORT_ENDED };
struct report {
  uint32_t kind;
  int32_t status;
  struct failure why;
};
void init_main(const struct setup *setup) __attribute__((noreturn));
int mounts_build(const struct setup *setup, struct failure *why);
int mounts_template(struct failure *why);
int identity_take(const struct setup *setup, struct failure *why);
int confine(const struct setup *setup, struct failure *why);

// ── box.c, conn.c, main.c: the loop ──
enum ended_by {
  ENDED_ITSELF = 0,
  ENDED_WALL,
  ENDED_CPU,
  ENDED_MEMORY,
  ENDED_OUTPUT,
  ENDED_PIDS,
  ENDED_HALT,
  ENDED_CLIENT,  // asked to, or gone
  ENDED_WARDEN,  // the warden is leaving
  ENDED_LOST,    // the box's init died and nobody here did it
};
struct conn;
struct box;
struct box *box_start(struct conn *conn, const struct plan *plan, struct failure *why);
void box_kill(struct box *box, enum ended_by why);
void box_signal(struct box *box, uint8_t number);
size_t box_stdin(struct box *box, const uint8_t *bytes, size_t size); // 0: window overrun
void box_stdin_end(struct box *box);
void box_forget_client(struct box *box);
void box_output_possible(struct box *box);
void boxes_kill(enum ended_by why);
unsigned boxes_count(void);
int boxes_tick(void);  // ms until the next deadline, -1: none
void boxes_reap(void);
void boxes_bury(void);  // frees what ended in this round

void conn_accept(int listener);
void conn_send(struct conn *conn, uint8_t type, const void *bytes, size_t size);
void conn_refuse(struct conn *conn, const struct failure *why);
void conns_bury(void);
size_t conn_room(const struct conn *conn);
void conn_box_gone(struct conn *conn);

struct watch {
  void (*ready)(struct watch *watch, uint32_t events);
  int fd;
  bool active;
};
void watch_add(struct watch *watch, uint32_t events);
void watch_set(struct watch *watch, uint32_t events);
void watch_drop(struct watch *watch);
int64_t now_us(void);
bool halted(void);
extern struct bounds bounds;

// ── janitor.c: takes away what is left when the warden itself is killed ──
int janitor_start(struct failure *why);
