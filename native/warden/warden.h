// What the warden's files say to each other. plan.h is the wire; this is the inside.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "plan.h"

// ── bounds.c: what root allowed this warden, read once at start ──
#define PREFIXES_MAX 64
enum prefix_use { PREFIX_READ, PREFIX_WRITE, PREFIX_EGRESS, PREFIX_OWN, PREFIX_SHARE };
struct prefix {
  char path[PATH_BYTES];
  enum prefix_use use;
};
struct bounds {
  uint32_t uid_min, uid_max, gid_min, gid_max;
  uint32_t groups[GROUPS_MAX];
  unsigned group_count, prefix_count, boxes_max;
  struct prefix prefixes[PREFIXES_MAX];
  uid_t client_uid;
  gid_t client_gid;  // 0: not said
  pid_t client_pid;  // 0: any process of client_uid
};
int bounds_read(const char *file, struct bounds *bounds, struct failure *why);
int bounds_check(const struct bounds *bounds, const struct plan *plan, struct failure *why);
int bounds_check_user(const struct bounds *bounds, uint32_t uid, struct failure *why);
int bounds_check_group(const struct bounds *bounds, uint32_t gid, struct failure *why);
// Opens a declared path; no link is followed. Returns an O_PATH descriptor.
int bounds_open(const struct bounds *bounds, const char *path, enum prefix_use use,
                struct failure *why);
// What is above the egress line that holds this path, and the path from there.
int bounds_egress_dir(const struct bounds *bounds, const char *path, const char **rest);

// ── host.c: what this machine gives, found by trying ──
enum entry_fd {
  ENTRY_USER, ENTRY_MOUNT, ENTRY_PID, ENTRY_NET, ENTRY_IPC, ENTRY_UTS, ENTRY_CGROUP,
  ENTRY_RULESET, ENTRY_COUNT,
};
extern const char *const namespace_names[ENTRY_RULESET];  // below /proc/<pid>/ns
struct host {
  bool root, namespaces;
  int landlock;
  int nice;  // of whoever started us, and of every command
  uid_t uid;
  gid_t gid;
  const char *run;          // the warden's own directory
  int proc, probe, dev;     // the host's /proc; a directory no box may read; the /dev template
  uint64_t own[ENTRY_RULESET];  // our own namespaces
  int lock;                 // of the directory: ours and our janitor's
  char missing[320], fix[200]; // why there are no namespaces, and the command that helps
};
extern struct host host;
int host_probe(const char *run, struct failure *why);
uint64_t namespace_of_self(enum entry_fd which);  // 0: cannot be told

// ── paths.c: sources, protected paths and the stubs that stand in for missing ones ──
// In the order in which they are applied: what a link shows is what is sealed already.
enum seal_kind { SEAL_READONLY = 1, SEAL_MASK, SEAL_LINK, SEAL_HIDDEN_LINK, SEAL_KINDS };
struct seal {
  enum seal_kind kind;
  unsigned bind;    // the declared path it lies in
  char *path;       // in the box
};
#define SEALS_MAX 512
struct paths {
  int fds[BINDS_MAX];
  struct seal seals[SEALS_MAX];
  unsigned seal_count;
  unsigned stubs[SEALS_MAX], stub_count;
};
int paths_open(const struct bounds *bounds, const struct plan *plan, struct paths *paths,
               struct failure *why);
void paths_close(const struct plan *plan, struct paths *paths);  // descriptors and seals
void paths_release(struct paths *paths);                         // stubs
// Fails for a file that is closed or protected by its name and has one more: nothing is held by the
// file itself.
struct stat;
int has_other_name(const char *path, const struct stat *about, struct failure *why);

// ── stubs.c: files and directories made where a protected path is missing ──
int stub_take(const char *path, bool directory, int parent, const char *name, struct failure *why);
int stub_find(const char *path);
void stub_hold(unsigned stub);
void stub_drop(unsigned stub);
void stubs_sweep(const char *run);

// ── cgroup.c: v1, v2 and both at once behind one interface ──
enum held { HELD_MEMORY, HELD_PIDS, HELD_CPU, HELD_TREE, HELD_COUNT };
enum { JOIN_QUOTA = HELD_COUNT, JOINS };
struct cgroup {
  char name[40];
  int dirs[HELD_COUNT];   // -1: nothing holds it
  int joins[JOINS];  // cgroup.procs of v1 trees; the box's init writes itself there
  int quota;         // -1: not of its own (cgroup-quota.c)
  bool nested;            // its first process sits one below, so that commands can sit beside it
  int leaf;
};
void cgroups_find(const char *run);
void cgroups_sweep(void);
void cgroups_leave(void);
const char *cgroups_held(enum held what);  // "v1", "v2" or "none"
int group_make(struct cgroup *group, const struct cgroup *parent, bool nested,
               struct failure *why);
int group_limit(const struct cgroup *group, const uint64_t *limits, unsigned own_pids,
                struct failure *why);
void group_share(const struct cgroup *group);
// ── cgroup-quota.c: how much of the processors at any time; asked for by few ──
void quota_find(void);
const char *quota_held(void);  // "v1", "v2" or "none"
int quota_set(struct cgroup *group, pid_t init, uint64_t milli, struct failure *why);
int quota_join(struct cgroup *group, const struct cgroup *parent);
bool quota_remove(struct cgroup *group);
void quota_sweep(void);
int group_clone_fd(const struct cgroup *group);  // for CLONE_INTO_CGROUP, or -1
void group_joined(struct cgroup *group);
int64_t group_cpu_ms(const struct cgroup *group);
int group_oom_kills(const struct cgroup *group);
int group_pids_refused(const struct cgroup *group);
void group_kill(const struct cgroup *group);
bool group_remove(struct cgroup *group);  // false: not empty yet, ask again
void group_abandon(struct cgroup *group); // removes it as soon as the kernel lets it go
unsigned groups_settle(void);             // tries again; how many are left

// ── procs.c: a process tree by /proc, where no cgroup and no pid namespace holds it ──
pid_t parent_of(pid_t pid);  // 0: cannot be told
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
// From here exec needs the leave of whoever holds what is returned.
int seccomp_ask_to_exec(struct failure *why);

// ── gate.c: a runner's one exec ──
int gate_close(int to, struct failure *why);
void gate_let_one(int from);

// ── spare.c: a box's first process, prepared before its job is known. It serves one box or none ──
enum birth { BIRTH_LEVEL_1, BIRTH_LEVEL_2, BIRTH_EXEC };
struct job {  // shared with the spare, at one address in both
  bool hold, confined;
  struct failure why;  // of a command that did not become one
  struct plan plan;
  struct seal seals[SEALS_MAX];
  unsigned seal_count;
  size_t used;
  char text[FRAME_MAX + SEALS_MAX * PATH_BYTES];
};
struct entry {  // what leads into an open box, and who one is there
  int fds[ENTRY_COUNT];
  const struct cgroup *group;
  uint32_t uid, gid, groups[GROUPS_MAX], guards_off;
  unsigned group_count;
  uint8_t profile;
};
void entry_put(const struct entry *entry, struct plan *plan);
enum spare_state { SPARE_MADE, SPARE_JOINING, SPARE_READY };
struct watch {
  void (*ready)(struct watch *watch, uint32_t events);
  int fd;
  bool active;
};
struct spare {
  struct watch watch;  // first: a watch is its spare; its descriptor is the control socket
  enum birth birth;
  enum spare_state state;
  pid_t pid;
  bool pid_namespace;
  struct cgroup group;
  uint64_t limits[LIMIT_COUNT];  // those its group has
  struct job *job;
  const struct entry *entry;
  struct spare *next;
};
// A prepared spare, or one made now. Entry: the open box it is for, else NULL.
struct spare *spare_take(enum birth birth, const struct entry *entry, uint32_t guards_off,
                         struct failure *why);
// Its group's limits; what most boxes ask for is set before they come.
int spare_limit(struct spare *spare, const uint64_t *limits, bool hold, struct failure *why);
// Hands the job over; from then on the process and its control socket are the caller's.
int spare_send(struct spare *spare, const int *stdio, const struct paths *paths,
               struct failure *why);
void spare_free(struct spare *spare);    // the struct only
void spare_discard(struct spare *spare); // with its process and cgroup
bool spares_reaped(pid_t pid);           // true: it was a spare in waiting
bool is_spare(pid_t pid);
unsigned spares_count(void);
bool spares_wanted(void);
void spares_fill(void);     // one more, or, when there are enough, all at once into their cgroups
bool spares_joining(void);  // then whatever else touches cgroups waits
void spares_expect(const struct entry *entry);  // commands will come to this open box
void spares_drop(const struct entry *entry);  // those for this open box
void spares_empty(void);
void spares_bury(void);

// ── init.c, mounts.c, confine.c: the child's side ──
struct setup {
  enum birth birth;
  struct job *job;
  const struct plan *plan;  // the job's
  const struct entry *entry;
  const struct cgroup *group;
  int stdio[3], control, dev, exec_fd;
  int gate;  // where a runner's process leaves its only leave to exec; -1: it needs none
  int watch, mounts;  // what tells when a mount goes, and how many there are; -1: none is a seal
  int fds[BINDS_MAX];  // level 1: O_PATH; level 2: detached mounts
  bool pid_namespace;
};
enum report_kind {
  REPORT_FAILED = 1,
  REPORT_READY,  // prepared, waits for its job
  REPORT_STARTED,
  REPORT_ENDED,
  REPORT_LISTENER,
  REPORT_WATCH,  // with what tells of a mount that goes, and the root; status: how many there are
};
struct report {
  uint32_t kind;
  int32_t status;
  bool alone;  // ended, and nothing it started is left
  struct failure why;
};
struct order {
  uint32_t fd_count;
};
void init_main(struct setup *setup) __attribute__((noreturn));
int mounts_prepare(const struct setup *setup, struct failure *why);
int mounts_build(struct setup *setup, struct failure *why);
int mounts_count(int mountinfo);  // -1: it cannot be read
// True when another of these masks a directory above.
bool seal_is_masked(const struct seal *seals, unsigned count, const char *path);
int box_reach(const char *path);  // no link is followed
bool is_box_own(int fd);          // on a file system made for this box
bool is_mount_root(int fd);
int tmpfs_make(const char *size, const char *mode, unsigned attrs);
int mount_point_make(int dir, const char *name, bool directory);
// freeze.c: denied paths below what is read-only
int freeze_and_mask(const char *path, struct failure *why);
int freeze_way_to(const char *path, struct failure *why);
int mounts_template(struct failure *why);
int capabilities_unbind(struct failure *why);  // the bounding set
int capabilities_drop(struct failure *why);
int identity_take(const struct setup *setup, struct failure *why);
int confine(struct setup *setup, struct failure *why);
int confine_ruleset(const struct setup *setup, struct failure *why);

// ── fds.c: descriptors over a socket ──
#define FDS_AT_ONCE 250
int fds_send(int sock, const void *bytes, size_t size, const int *fds, unsigned count);
ssize_t fds_recv(int sock, void *bytes, size_t size, int *fds, unsigned room, unsigned *count,
                 int flags);

// ── egress.c: what connects to the box's one port goes to a socket on the host ──
#define EGRESS_PORT 3128
int egress_listen(struct failure *why);  // in the box's network namespace
pid_t egress_start(int listener, const char *path, gid_t client_gid);

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
  ENDED_BOX,     // the open box it ran in ended
  ENDED_SEAL,    // what protected or masked a path in it went, from outside
};
struct conn;
struct box;
struct box *box_start(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size,
                      struct failure *why);
struct box *box_find(uint64_t handle);
void box_kill(struct box *box, enum ended_by why);
void box_signal(struct box *box, uint8_t number);
size_t box_stdin(struct box *box, const uint8_t *bytes, size_t size); // 0: window overrun
void box_stdin_end(struct box *box);
void box_forget_client(struct box *box);
void box_output_possible(struct box *box);
void boxes_kill(enum ended_by why);
bool is_box(pid_t pid);  // the first process of one
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
gid_t conn_gid(const struct conn *conn);

void watch_add(struct watch *watch, uint32_t events);
void watch_set(struct watch *watch, uint32_t events);
void watch_drop(struct watch *watch);
int64_t now_us(void);
bool halted(void);
extern struct bounds bounds;

// ── own.c: directories that sandboxd may not give away itself ──
// Answers on the connection, at once or when a tree has been walked.
void own_start(struct conn *conn, const uint8_t *bytes, size_t size);
void own_forget(struct conn *conn);  // it has gone
bool is_walk(pid_t pid);

// ── measure.c: how much is in a directory ──
struct amount {
  uint64_t bytes, entries;
};
int measure_tree(int top, struct amount *amount);

// ── janitor.c: takes away what is left when the warden itself is killed ──
int janitor_start(struct failure *why);
