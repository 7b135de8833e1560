// The warden's wire protocol: frames and plans. The decoder is pure: bytes in, plan or failure out.
// It opens and allocates nothing, so that a fuzzer can drive it alone.
#pragma once
#include <stddef.h>
#include <stdint.h>

#define WARDEN_MAGIC 0x44525741u  // "AWRD", little endian
#define WARDEN_VERSION 1
#define FRAME_HEADER_BYTES 12     // magic u32, version u8, type u8, zero u16, length u32
#define FRAME_MAX (256 * 1024)    // longest plan
#define WINSIZE_BYTES 4
#define STDIN_WINDOW (64 * 1024)  // stdin bytes a client may send before they are acknowledged

enum frame_type {
  FRAME_PLAN = 1,
  FRAME_STDIN = 2,
  FRAME_STDIN_END = 3,
  FRAME_SIGNAL = 4,  // u8: SIGTERM, SIGINT, SIGHUP or SIGCONT, to the command's process group
  FRAME_KILL = 5,
  FRAME_FEATURES = 6,
  FRAME_OPEN = 7,        // a plan without command, environment and directory: opens a box
  FRAME_EXEC = 8,        // a command in an open box, on any connection; same replies as a plan
  FRAME_CLOSE = 9,       // on the connection that opened the box or layer: ends it
  FRAME_DIRECTORY = 10,  // struct dir_request
  FRAME_LAYER = 11,      // struct layer_request; the layer is closed with its connection
  FRAME_WINSIZE = 12,    // u16 columns, u16 rows of the command's terminal
  FRAME_STARTED = 0x81,       // u32 pid, u8 × 4: cgroup versions for memory, pids, cpu, tree
  FRAME_STDOUT = 0x82,
  FRAME_STDERR = 0x83,
  FRAME_EXIT = 0x84,          // see send_exit in box.c
  FRAME_REFUSED = 0x85,       // u16 code, message NUL, hint NUL
  FRAME_STDIN_ACK = 0x86,     // u32 bytes
  FRAME_FEATURE_LIST = 0x87,  // text, one "name value" per line
  FRAME_OPENED = 0x88,        // u64 box, then as FRAME_STARTED
  FRAME_DIRECTORY_DONE = 0x89,  // u32: number of files left unchanged
  FRAME_MEASURED = 0x8a,      // u64 bytes, u64 entries
  FRAME_LAYER_OPENED = 0x8b,  // u64 layer
  FRAME_LAYER_CLOSED = 0x8c,  // empty: no box uses the layer any more
  FRAME_NEWEST = 0x8d,        // u64 nanoseconds
  FRAME_STOPPED = 0x8e,       // u8 signal that stopped the command on a terminal, until SIGCONT
};

// Body of FRAME_DIRECTORY: u8 op, u8 × 3 zero, u32 uid, u32 gid, path NUL.
enum dir_op {
  DIR_CHOWN = 1,    // one directory to one user, mode 0700; below a bounds line "own"
  DIR_SHARE = 2,    // a tree to a group, owners stay; uid is zero; below a bounds line "share"
  DIR_MEASURE = 3,  // disk usage, with a gid of that group's entries; below a bounds line "rw"
  DIR_DELETE = 4,   // a directory with all in it; uid and gid zero; a child of a line "delete"
  DIR_NEWEST = 5,   // newest ctime of its directories; uid and gid zero; as for writing
  DIR_GRANTED = 6,  // done if a grant allows the path; uid and gid zero
  DIR_REVOKE = 7,   // removes the grants of exactly this path; uid and gid zero
};
#define DIR_HEADER_BYTES 12
struct dir_request {
  uint8_t op;
  uint32_t uid, gid;
  const char *path;
};

// Body of FRAME_LAYER: u32 uid, u32 gid, u8 count, u8 kind, u8 × 2 zero, then NUL-terminated paths:
// lower, `count` sealed uppers, dir.
enum layer_kind {
  LAYER_OVERLAY = 0,
  LAYER_COPY = 1,  // `dir/upper` alone, which has a copy of `lower`; no sealed uppers
};
#define SEALED_MAX 32
#define LAYER_HEADER_BYTES 12
#define BOX_LAYERS_MAX 4
struct layer_request {
  uint8_t kind;
  uint32_t uid, gid;
  const char *lower;               // the directory that is shown
  const char *sealed[SEALED_MAX];  // earlier changes to it, oldest first
  unsigned sealed_count;
  const char *dir;  // contains `upper` and `work`, which take the changes
};

enum plan_tag {
  TAG_ID = 1,
  TAG_LEVEL = 2,
  TAG_PROFILE = 3,
  TAG_UID = 4,
  TAG_GID = 5,
  TAG_GROUP = 6,
  TAG_ARG = 7,
  TAG_ENV = 8,
  TAG_CWD = 9,
  TAG_BIND = 10,  // u8 kind, u8 flags, u16 zero, u32 size in KiB, src NUL, dst NUL
  TAG_LIMIT = 11,  // u8 which, u64 value
  TAG_USER = 12,   // name of the uid in the box's passwd
  TAG_GUARDS_OFF = 13,  // test build only
  TAG_BOX = 14,     // u64 of FRAME_OPENED; only in FRAME_EXEC
  TAG_RELAY = 15,   // u16 port, Unix socket NUL: 127.0.0.1:port in the box is relayed to it
  TAG_PTY = 16,     // u16 columns, u16 rows: the command runs on a terminal of this size
  TAG_TERMINALS = 17,  // u8 1: processes of the box can open terminals
  TAG_PROC_ENTRIES = 18,  // u8 1: its /proc has some entries about the host (proc.c)
  TAG_OWNER_RIGHTS = 19,  // u8 1, only in FRAME_OPEN: see owner-rights.c
};

enum level { LEVEL_1 = 1, LEVEL_2 = 2 };
enum profile { PROFILE_TOOL = 1, PROFILE_RUNNER = 2 };

enum bind_kind {
  BIND_RO = 1,
  BIND_RW = 2,
  BIND_TMPFS = 3,
  BIND_SYMLINK = 4,       // src is the link's target
  BIND_MASK = 5,          // dst appears empty
  BIND_PROTECT_FILE = 6,  // dst cannot be changed, created, replaced or renamed
  BIND_PROTECT_DIR = 7,
  BIND_LAYER = 8,  // src is the decimal number of FRAME_LAYER_OPENED
};
enum {
  BIND_NOEXEC = 1,
  BIND_OWNED = 2,     // BIND_RO, BIND_RW: the owner of src appears as the plan's user
  BIND_READONLY = 4,  // BIND_LAYER
  BIND_FLAGS = 7,
};

enum limit {
  LIMIT_WALL_MS = 1,
  LIMIT_CPU_MS,
  LIMIT_MEMORY_BYTES,
  LIMIT_PIDS,
  LIMIT_OUTPUT_BYTES,
  LIMIT_NOFILE,
  LIMIT_FSIZE_BYTES,
  LIMIT_GRACE_MS,
  LIMIT_CPU_MILLI,  // CPU quota, in thousandths of one CPU; 0: none
  LIMIT_COUNT,
};

#define ARGS_MAX 1024
#define ENVS_MAX 512
#define GROUPS_MAX 32
#define BINDS_MAX 256
#define RELAYS_MAX 8
#define RELAY_PORT_MIN 1024
#define PATH_BYTES 4096

// Guards that a plan may switch off, in the test build only.
enum guard {
  GUARD_LANDLOCK = 1 << 0,
  GUARD_SECCOMP = 1 << 1,
  GUARD_CAPS = 1 << 2,
  GUARD_NNP = 1 << 3,
  GUARD_NETNS = 1 << 4,
  GUARD_PIDNS = 1 << 5,
  GUARD_IPCNS = 1 << 6,
  GUARD_READONLY = 1 << 7,
  GUARD_PROTECT = 1 << 8,
  GUARD_USERNS_LIMIT = 1 << 9,
  GUARD_SESSION = 1 << 10,
  GUARD_DESCRIPTORS = 1 << 11,
  GUARD_UTSNS = 1 << 12,
  GUARD_PROC_SUBSET = 1 << 13,
  GUARD_USERNS = 1 << 14,
  GUARD_PROBES = 1 << 15,
  GUARD_DUMPABLE = 1 << 16,
  GUARD_SILENT = 1 << 17,  // the probes still expect what is switched off
};

struct bind {
  uint8_t kind, flags;
  uint8_t layer;  // of BIND_LAYER: its index among those of the plan
  uint32_t size_kib;
  const char *src, *dst;
};

static inline int bind_is_mounted(const struct bind *bind) {
  return bind->kind == BIND_RO || bind->kind == BIND_RW || bind->kind == BIND_LAYER;
}
// Its files may change, in the box and outside it.
static inline int bind_is_writable(const struct bind *bind) {
  return bind->kind == BIND_RW || (bind->kind == BIND_LAYER && !(bind->flags & BIND_READONLY));
}
static inline int bind_is_seal(const struct bind *bind) {
  return bind->kind >= BIND_MASK && bind->kind <= BIND_PROTECT_DIR;
}

struct relay {
  uint16_t port;
  const char *socket;
};

struct plan {
  const char *id, *cwd, *user;
  uint64_t box;
  uint64_t layers[BOX_LAYERS_MAX];
  unsigned layer_count;
  uint8_t owns_files;  // has a layer or an owned bind: no group shares its files
  uint8_t level, profile;
  uint8_t terminals, has_terminal;  // of the box; of the command
  uint8_t proc_entries;
  uint8_t wants_rights, has_rights;  // asked for; needed, found when the paths are opened
  uint16_t columns, rows;
  uint32_t uid, gid;
  uint32_t groups[GROUPS_MAX];
  unsigned group_count, arg_count, env_count, bind_count, relay_count;
  const char *args[ARGS_MAX + 1];
  const char *envs[ENVS_MAX + 1];
  struct bind binds[BINDS_MAX];
  struct relay relays[RELAYS_MAX];
  uint64_t limits[LIMIT_COUNT];
  uint32_t guards_off;
};

enum refusal {
  REFUSED_FRAME = 1,     // malformed frame
  REFUSED_PLAN = 2,      // malformed or inconsistent plan
  REFUSED_BOUNDS = 3,    // outside what root allows this warden
  REFUSED_HOST = 4,      // not supported by this host
  REFUSED_HALT = 5,      // the HALT file exists
  REFUSED_OVERLOAD = 6,  // too many boxes at once
  REFUSED_SETUP = 7,     // building the box failed
  REFUSED_PROBE = 8,     // a layer did not take effect
  REFUSED_EXEC = 9,      // the command could not be started
  REFUSED_CALLER = 10,   // not the process this warden serves
  REFUSED_BOX = 11,      // no such open box or layer, or it is in use
  REFUSED_OVERLAY = 12,  // no overlay can be mounted there: a copy can be used
};

struct failure {
  int code;
  char text[320];
  char hint[200];
};

struct frame_header {
  uint8_t type;
  uint32_t length;
};

// These return 0, or -1 with err set. Decoded strings point into bytes. The frame type (FRAME_PLAN,
// FRAME_OPEN or FRAME_EXEC) determines which fields a plan must have.
int parse_frame_header(const uint8_t *bytes, struct frame_header *header, struct failure *err);
int parse_dir_request(const uint8_t *bytes, size_t size, struct dir_request *request,
                      struct failure *err);
int parse_layer_request(const uint8_t *bytes, size_t size, struct layer_request *request,
                        struct failure *err);
int parse_plan(uint8_t frame, const uint8_t *bytes, size_t size, struct plan *plan,
               struct failure *err);
int parse_winsize(const uint8_t *bytes, size_t size, uint16_t *columns, uint16_t *rows);

#define GUARDED(plan, guard) (!((plan)->guards_off & (guard)))
#define EXPECTED(plan, guard) (GUARDED(plan, guard) || !GUARDED(plan, GUARD_SILENT))

// Returns -1.
__attribute__((format(printf, 3, 4))) int fail(struct failure *err, int code, const char *text,
                                               ...);
