// The interfaces between the warden's files; the wire protocol is in plan.h.
#pragma once
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel.h"
#include "plan.h"

// ── bounds.c: what root allows this warden, read once at startup ──
#define PREFIXES_MAX 64
enum prefix_use {
  PREFIX_READ,
  PREFIX_WRITE,
  PREFIX_RELAY,
  PREFIX_CHOWN,
  PREFIX_SHARE,
  PREFIX_DELETE
};
struct prefix {
  char path[PATH_BYTES];
  enum prefix_use use;
};
#define RANGES_MAX 8
struct id_ranges {
  struct {
    uint32_t first, last;
  } of[RANGES_MAX];
  unsigned count;
};
struct bounds {
  struct id_ranges uids, gids;
  uint32_t groups[GROUPS_MAX];
  unsigned group_count, prefix_count, boxes_max;
  struct prefix prefixes[PREFIXES_MAX];
  uid_t client_uid;
  gid_t client_gid;  // 0: not set
  pid_t client_pid;  // 0: any process of client_uid
  bool no_grants;    // the site names the workspaces itself
};
extern struct bounds bounds;
int bounds_read(const char *file, struct bounds *bounds, struct failure *err);
int bounds_check(const struct bounds *bounds, const struct plan *plan, struct failure *err);
int bounds_check_user(const struct bounds *bounds, uint32_t uid, struct failure *err);
bool is_below(const char *prefix, const char *path);  // or the same
int bounds_check_group(const struct bounds *bounds, uint32_t gid, struct failure *err);
// Returns an O_PATH descriptor of an allowed path; symbolic links are not followed.
int bounds_open(const struct bounds *bounds, const char *path, enum prefix_use use,
                struct failure *err);
// The same for a path below an `rw` line itself, whatever else is allowed.
int bounds_open_below(const struct bounds *bounds, const char *path, struct failure *err);
// Opens the prefix of which path is a direct child, and sets name to the last component.
int bounds_delete_dir(const struct bounds *bounds, const char *path, const char **name,
                      struct failure *err);
// Opens the parent of the relay prefix that contains path, and sets rest to the path below it.
int bounds_relay_dir(const struct bounds *bounds, const char *path, const char **rest);

// ── grants.c: what people allow beyond the bounds, read from DIR/grants at each use ──
#define NOT_GRANTED (-2)
// Returns an O_PATH descriptor as bounds_open, -1 with err, or NOT_GRANTED.
int grants_open(const char *path, bool writes, struct failure *err);
uint32_t grants_revoke(const char *path);  // returns how many were removed

// ── host.c: what this machine supports, found by probing ──
enum entry_fd {
  ENTRY_USER, ENTRY_MOUNT, ENTRY_PID, ENTRY_NET, ENTRY_IPC, ENTRY_UTS, ENTRY_CGROUP,
  ENTRY_RULESET, ENTRY_COUNT,
};
extern const char *const namespace_names[ENTRY_RULESET];  // below /proc/<pid>/ns
struct host {
  bool root, namespaces;
  int landlock;                  // ABI version, 0: not available
  int nice;                      // the warden's at startup, and every command's
  uid_t uid;
  gid_t gid;
  const char *run_dir;
  int proc_fd;                   // the host's /proc
  int probe_fd;                  // a directory that no box may read
  int dev_fd;                    // the template of /dev
  int terminals_dev_fd;          // the same for boxes with terminals
  uint64_t namespace_ids[ENTRY_RULESET];  // the warden's
  int lock_fd;                   // of run_dir, shared with the janitor
  char missing[320], fix[200];   // why namespaces are not available, and the command that helps
  char layers[340];              // "root", "user", or "no" and the reason
};
extern struct host host;
int host_probe(const char *run_dir, struct failure *err);
uint64_t own_namespace_id(enum entry_fd which);  // 0: unknown
int write_file(int dir, const char *path, const char *text);  // 0, or -1 with errno
DIR *open_dir(int dir);  // a new descriptor; NULL with errno
int dev_templates_create(struct failure *err);  // dev.c

// ── paths.c: bind sources, protected paths, stubs for missing ones ──
// In the order in which seals are applied: a link shows its target as already sealed.
enum seal_kind { SEAL_READONLY = 1, SEAL_MASK, SEAL_LINK, SEAL_HIDDEN_LINK, SEAL_KINDS };
struct layer;
struct seal {
  enum seal_kind kind;
  unsigned bind;  // index of the bind that contains it
  char *path;     // in the box
};
#define SEALS_MAX 512
struct paths {
  int fds[BINDS_MAX];
  int host_fds[BINDS_MAX];  // of an owned bind: without the mapping of owners; otherwise -1
  struct seal seals[SEALS_MAX];
  unsigned seal_count;
  unsigned stubs[SEALS_MAX], stub_count;
  struct layer *const *layers;  // by the index of a BIND_LAYER; only while the box is started
  bool has_rights;     // over the files of this user, in this user namespace
  uint32_t rights_uid;
  int rights_ns;
};
int paths_open(const struct bounds *bounds, const struct plan *plan, struct layer *const *layers,
               struct paths *paths, struct failure *err);
void paths_close(const struct plan *plan, struct paths *paths);  // descriptors and seals
void paths_drop_stubs(struct paths *paths);
// Copies the parent of an absolute path and returns the last component.
const char *split_path(const char *path, char parent[PATH_BYTES]);
// Fails if a file to be masked or protected has a second hard link: a seal covers one name only.
struct stat;
int check_hard_links(const char *path, const struct stat *st, struct failure *err);

// ── stubs.c: placeholders for protected paths that do not exist, reference-counted ──
int stub_create(const char *path, bool directory, int parent, const char *name,
                struct failure *err);
int stub_find(const char *path);
void stub_ref(unsigned stub);
void stub_unref(unsigned stub);
void stubs_sweep(const char *run_dir);

// ── cgroup.c: cgroup v1, v2 and hybrid hosts ──
enum cgroup_resource { CGROUP_MEMORY, CGROUP_PIDS, CGROUP_CPU, CGROUP_TREE, CGROUP_RESOURCES };
enum { JOIN_QUOTA = CGROUP_RESOURCES, JOIN_COUNT };
struct cgroup {
  char name[40];
  int dirs[CGROUP_RESOURCES];  // -1: not available
  int join_fds[JOIN_COUNT];    // cgroup.procs of v1 hierarchies, to which the box's init writes
  int quota_fd;                // -1: no separate directory (cgroup-quota.c)
  bool nested;                 // init is in a child, so that commands can have children beside it
  int leaf_fd;
};
void cgroups_detect(const char *run_dir);
void cgroups_sweep(void);
void cgroups_restore_parent(void);
const char *cgroups_version(enum cgroup_resource resource);  // "v1", "v2" or "none"
int cgroup_create(struct cgroup *cgroup, const struct cgroup *parent, bool nested,
                  struct failure *err);
int cgroup_set_limits(const struct cgroup *cgroup, const uint64_t *limits, unsigned own_pids,
                      struct failure *err);
void cgroup_delegate(const struct cgroup *cgroup);
int cgroup_clone_fd(const struct cgroup *cgroup);  // for CLONE_INTO_CGROUP, or -1
void cgroup_close_join_fds(struct cgroup *cgroup);
int64_t cgroup_cpu_ms(const struct cgroup *cgroup);
int cgroup_oom_kills(const struct cgroup *cgroup);
int cgroup_pids_max_hits(const struct cgroup *cgroup);
void cgroup_kill(const struct cgroup *cgroup);
bool cgroup_remove(struct cgroup *cgroup);  // false: not empty yet, retry
void cgroup_remove_later(struct cgroup *cgroup);
unsigned cgroups_retry_removal(void);  // returns how many are left

// ── cgroup-quota.c: the CPU quota of a box ──
void quota_detect(void);
const char *quota_version(void);  // "v1", "v2" or "none"
int quota_set(struct cgroup *cgroup, pid_t init, uint64_t milli, struct failure *err);
int quota_join(struct cgroup *cgroup, const struct cgroup *parent);
bool quota_remove(struct cgroup *cgroup);
void quota_sweep(void);

// ── process-tree.c: process trees from /proc, where cgroups and pid namespaces are missing ──
pid_t parent_pid(pid_t pid);  // 0: unknown
unsigned child_pids(pid_t pid, pid_t *out, unsigned capacity);
void tree_kill(pid_t root, bool include_root);
void tree_usage(pid_t root, int64_t *cpu_ms, int64_t *rss_bytes, int *count);

// ── spare.c: the pool of prepared init processes; each serves at most one box ──
enum init_kind { INIT_LEVEL_1, INIT_LEVEL_2, INIT_EXEC };  // INIT_EXEC: a command in an open box
struct job {  // shared memory of warden and spare, at the same address in both
  bool is_open_box, confined;
  struct failure err;  // set if the command could not be started
  struct plan plan;
  struct seal seals[SEALS_MAX];
  unsigned seal_count;
  size_t used;
  char text[FRAME_MAX + SEALS_MAX * PATH_BYTES];
};
struct entry_point {  // how a command enters an open box, and its identity there
  int fds[ENTRY_COUNT];
  const struct cgroup *cgroup;
  uint32_t uid, gid, groups[GROUPS_MAX], guards_off;
  unsigned group_count;
  uint8_t profile, owns_files, terminals, has_rights;
};
void entry_apply(const struct entry_point *entry, struct plan *plan);
enum spare_state { SPARE_CREATED, SPARE_JOINING, SPARE_READY };
struct watch {
  void (*ready)(struct watch *watch, uint32_t events);
  int fd;
  bool active;
};
struct spare {
  struct watch watch;  // must be first; its descriptor is the control socket
  enum init_kind kind;
  enum spare_state state;
  pid_t pid;
  bool pid_namespace;
  struct cgroup cgroup;
  uint64_t limits[LIMIT_COUNT];  // set on its cgroup
  struct job *job;
  const struct entry_point *entry;
  struct spare *next;
};
// Returns a spare from the pool, or a new one. entry: the open box it is for, or NULL.
struct spare *spare_acquire(enum init_kind kind, const struct entry_point *entry,
                            uint32_t guards_off, struct failure *err);
// Limits its cgroup. Spares get the limits of the last job of their kind in advance.
int spare_set_limits(struct spare *spare, const uint64_t *limits, bool is_open_box,
                     struct failure *err);
// Sends the job; afterwards the caller owns the process and its control socket.
int spare_send_job(struct spare *spare, const int *stdio, const struct paths *paths,
                   struct failure *err);
void spare_free(struct spare *spare);     // only the struct
void spare_destroy(struct spare *spare);  // with its process and cgroup
bool spares_handle_exit(pid_t pid);       // true: it was in the pool
bool is_spare(pid_t pid);
unsigned spares_count(void);
bool spares_need_refill(void);
void spares_refill(void);   // adds one; once the pool is full, lets all join their cgroups together
bool spares_joining(void);  // other cgroup operations would block until they have joined
void spares_add_open_box(const struct entry_point *entry);
void spares_remove_open_box(const struct entry_point *entry);
void spares_destroy_all(void);
void spares_free_dead(void);

// ── fds.c: file descriptors over a Unix socket ──
#define FDS_PER_MESSAGE 250
int fds_send(int sock, const void *bytes, size_t size, const int *fds, unsigned count);
ssize_t fds_recv(int sock, void *bytes, size_t size, int *fds, unsigned capacity, unsigned *count,
                 int flags);

// ── relay.c: relays connections to the box's ports to Unix sockets of the host ──
int relay_listen(uint16_t port, struct failure *err);  // in the box's network namespace
// Listeners and sockets of the host, in the same order. Returns the pid of the process.
pid_t relay_start(const int *listeners, char *const *sockets, unsigned count, gid_t client_gid);

// ── box.c, conn.c, main.c: the event loop ──
enum ended_by {
  ENDED_ITSELF = 0,
  ENDED_WALL,
  ENDED_CPU,
  ENDED_MEMORY,
  ENDED_OUTPUT,
  ENDED_PIDS,
  ENDED_HALT,
  ENDED_CLIENT,  // by request, or because the client disconnected
  ENDED_WARDEN,  // the warden is stopping
  ENDED_LOST,    // the box's init died for another reason
  ENDED_BOX,     // the open box it ran in ended
  ENDED_SEAL,    // a seal disappeared because of a change on the host
};
struct conn;
struct box;
struct box *box_start(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size,
                      struct failure *err);
struct box *box_find(uint64_t handle);
void box_kill(struct box *box, enum ended_by reason);
void box_signal(struct box *box, uint8_t number);
size_t box_write_stdin(struct box *box, const uint8_t *bytes, size_t size);  // 0: window overrun
void box_close_stdin(struct box *box);
void box_resize(struct box *box, uint16_t columns, uint16_t rows);
void box_detach_client(struct box *box);
void box_resume_output(struct box *box);
void boxes_kill(enum ended_by reason);
bool is_box(pid_t pid);  // the init process of one
unsigned boxes_count(void);
int boxes_tick(void);  // returns ms until the next deadline, -1: none
void boxes_reap(void);
void boxes_free_dead(void);

void conn_accept(int listener);
void conn_send(struct conn *conn, uint8_t type, const void *bytes, size_t size);
void conn_refuse(struct conn *conn, const struct failure *err);
void conns_free_dead(void);
size_t conn_space(const struct conn *conn);
void conn_detach_box(struct conn *conn);
void conn_detach_layer(struct conn *conn);
gid_t conn_gid(const struct conn *conn);

void watch_add(struct watch *watch, uint32_t events);
void watch_modify(struct watch *watch, uint32_t events);
void watch_remove(struct watch *watch);
int64_t now_us(void);
bool is_halted(void);

// ── directory.c: chown, share, measure and delete directories, which sandboxd may not do itself ──
// Replies on the connection, at once or when a tree has been walked.
void dir_request_start(struct conn *conn, const uint8_t *bytes, size_t size);
void dir_requests_detach(struct conn *conn);  // the client disconnected
bool is_dir_worker(pid_t pid);

// ── disk-usage.c ──
struct disk_usage {
  uint64_t bytes, entries;
};
// With a gid, only entries of that group, `top` included, and mounts, whose entries are unknown.
int measure_tree(int top, gid_t gid, struct disk_usage *usage);
// Returns the newest ctime of the directories, `top` included; E2BIG if there are too many.
int newest_in_tree(int top, uint64_t *newest_ns);

// ── delete-tree.c ──
int delete_tree(int parent, const char *name, struct disk_usage *freed);

// ── janitor.c: cleans up after a warden that was killed ──
int janitor_start(struct failure *err);
