// A box's side: the init process that builds, confines and supervises it, in the order these files
// run, and what it reports to the warden.
#pragma once
#include "warden.h"

// ── init.c, mounts.c, seal-mounts.c, freeze.c, confine.c: the init process of a box ──
struct setup {
  enum init_kind kind;
  struct job *job;
  const struct plan *plan;  // the job's
  const struct entry_point *entry;
  const struct cgroup *cgroup;
  int stdio[3], control, dev, exec_fd;
  int terminals_dev;  // another /dev, for a box with terminals; -1: none
  int rights_ns;      // a user namespace of the warden's, for a box with an owner's rights; or -1
  int terminal;       // the command's; -1: none
  int gate;           // socket on which a runner's process sends its exec listener; -1: none
  int mountinfo_fd;   // reports a mount that disappears; -1: no path is sealed
  int mount_count;
  int fds[BINDS_MAX];  // level 1: O_PATH; level 2: detached mounts
  bool pid_namespace;
};
enum report_kind {
  REPORT_FAILED = 1,
  REPORT_READY,  // prepared, waits for its job
  REPORT_STARTED,
  REPORT_ENDED,
  REPORT_LISTENERS,  // of all relays, in the order of the plan
  REPORT_TERMINAL,   // with the warden's end
  REPORT_STOPPED,    // the command, by the signal in status
  REPORT_MOUNTS,  // with mountinfo and the root directory; status: number of mounts
};
struct report {
  uint32_t kind;
  int32_t status;
  bool tree_exited;  // no descendant of the command is left
  struct failure err;
};
#define HANG_UP 0x80  // to init, instead of a signal
#define REPORT_FDS_MAX (ENTRY_COUNT > RELAYS_MAX ? (int)ENTRY_COUNT : RELAYS_MAX)
#define JOB_FDS_MAX (3 + 2 + BINDS_MAX)  // stdio, /dev, a user namespace, binds
struct job_message {
  uint32_t fd_count;
};
void init_main(struct setup *setup) __attribute__((noreturn));
int mounts_prepare(const struct setup *setup, struct failure *err);
int mounts_build(struct setup *setup, struct failure *err);
int mount_error(struct failure *err, const char *step, const char *path);  // adds errno; -1
int mount_attach(int mount, const char *path, struct failure *err);
int seals_apply(const struct job *job, struct failure *err);
int mounts_record(struct setup *setup, struct failure *err);
int mounts_count(int mountinfo);  // -1: not readable
// Returns whether one of these seals masks a directory above path.
bool is_below_mask(const struct seal *seals, unsigned count, const char *path);
int box_open_path(const char *path);  // O_PATH; symbolic links are not followed
bool is_box_fs(int fd);               // on a file system created for this box
bool is_mount_root(int fd);
int tmpfs_create(const char *size, const char *mode, unsigned attrs);
int mount_point_create(int dir, const char *name, bool directory);
int freeze_and_mask(const char *path, struct failure *err);
int freeze_parents(const char *path, struct failure *err);

// ── proc.c ──
// Returns a detached /proc of this pid namespace; *fs is its file system context, or -1.
int proc_create(const struct plan *plan, bool only_processes, int *fs);
int proc_entries_attach(const struct plan *plan, struct failure *err);

// ── terminal.c: the box's side of terminals ──
int terminals_create(void);  // returns a detached devpts
int terminal_open(struct setup *setup, struct failure *err);
int terminal_enter(void);
void terminal_ignore_signals(void);
void terminal_signal(const struct setup *setup, pid_t command, int number);
void terminal_hang_up(const struct setup *setup, pid_t command);

// CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER: in the user namespace of a box with an owner's rights.
#define RIGHTS_CAPABILITIES 0xbull
int capabilities_drop_bounding(struct failure *err);
int capabilities_drop(struct failure *err);
int identity_assume(const struct setup *setup, struct failure *err);
int confine_self(struct setup *setup, struct failure *err);
int landlock_rules_create(const struct setup *setup, struct failure *err);

// ── landlock.c ──
enum landlock_access {
  ACCESS_READ,
  ACCESS_LIST,
  ACCESS_WRITE,
  ACCESS_PRIVATE,
  ACCESS_DEVICE,
  ACCESS_TERMINAL
};
int landlock_abi(void);
int landlock_create(int abi, int level, struct failure *err);
int landlock_allow(int ruleset, int abi, int path_fd, enum landlock_access access,
                   struct failure *err);
int landlock_restrict(int ruleset, struct failure *err);

// ── seccomp.c ──
enum filter {
  FILTER_TOOL_L1, FILTER_TOOL_L2, FILTER_RUNNER,
  FILTER_COLUMNS,  // of the table
  FILTER_TOOL_OWNED = FILTER_COLUMNS,  // as FILTER_TOOL_L2, without setgid files
  FILTER_COUNT,
};
void seccomp_compile(void);
int seccomp_install(enum filter filter, struct failure *err);
// Returns a listener: from now on each exec of this process waits for its permission.
int seccomp_notify_exec(struct failure *err);

// ── exec-gate.c: lets a runner exec once ──
int gate_install(int sock, struct failure *err);
void gate_allow_first_exec(int sock);
