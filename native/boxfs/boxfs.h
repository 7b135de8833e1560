// The boxfs protocol (frames, operations, statuses, limits) and the functions its files share. The
// TypeScript twin is src/daemons/sandboxd/adapters/boxfs-wire.ts.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define BOXFS_MAGIC 0x53465842u  // "BXFS", little endian
#define BOXFS_VERSION 1
#define HEADER_BYTES 16  // magic u32, length u32, id u32, op or status u8, version u8, zero u16

#define DATA_MAX (4u * 1024 * 1024)          // file bytes in one frame
#define FRAME_MAX (DATA_MAX + 64u * 1024)    // longest payload, in either direction
#define SEARCH_BYTES_MAX (1024u * 1024)      // longest result of a search
#define HASH_MAX (64ull * 1024 * 1024)       // larger files are not hashed
#define PATH_BYTES 4096
#define ROOTS_MAX 64
#define PATTERN_MAX 1024
#define LIST_MAX 2000
#define WORKERS_MAX 4
#define DEPTH_MAX 64
#define LINE_BYTES_MAX 500
#define REQUEST_TIMEOUT_MS 5000      // to list a directory, and to wait for its lock
#define WORKER_TIMEOUT_MS_MAX 30000  // upper bound of the limit in a request
#define INSTALL_TIMEOUT_MS 120000    // one step may copy and sync a file of 1 GiB

enum op {
  OP_HELLO = 1,   // → u16 version, u16 roots, u32 data max
  OP_STAT = 2,    // root u16, path → kind u8, mode u32, size u64, mtime_ns u64, real path, id
  OP_READ = 3,    // root, path, flags u8, offset u64, length u32 → stat, hashed u8, hash 32, data
  OP_WRITE = 4,   // root, path, flags u8, hash 32, data → made u8, same u8, size u64, hash 32
  OP_LIST = 5,    // root, path, limit u32, after → more u8, count u32, entries
  OP_SEARCH = 6,  // see search.c
  OP_DELETE = 7,  // root, path, flags u8, ms u32, with EXPECT hash 32 → count u32, incomplete u8
  OP_MKDIR = 8,   // root, path, flags u8 → made u8
  OP_CHANGES = 9,     // see changes.c
  OP_READ_MANY = 10,  // see read-many.c
  OP_INSTALL = 11,    // see install.c
  OP_WATCH = 12,      // see watch.c
  OP_UNLOCK = 13,     // see watch.c
  OP_COVERED = 14,      // see originals.c
  OP_DIRECTORIES = 15,  // see originals.c
  OP_COPY = 16,         // see copy.c
  OP_GIVE = 17,         // see give.c
};

enum { READ_FROM_END = 1, READ_HASH = 2 };
enum { WRITE_NEW = 1, WRITE_EXPECT = 2, WRITE_PARENTS = 4, WRITE_EXECUTABLE = 8 };
enum { WRITE_PARENT = 16 };
enum { DELETE_TREE = 1, DELETE_EXPECT = 2, DELETE_PARENT = 4 };
#define FILE_ID_BYTES 16  // device u64, inode u64; *_PARENT: ends the request, of the parent
enum { MKDIR_PARENTS = 1 };

enum change_kind {
  CHANGE_ADDED = 1,
  CHANGE_MODIFIED = 2,
  CHANGE_DELETED = 3,
  CHANGE_REPLACED = 4,  // by another type of file
  CHANGE_MODE = 5,
};
enum {
  CHANGE_OLD_HASHED = 1,
  CHANGE_NEW_HASHED = 2,
  CHANGE_CAPABILITIES = 4,  // the new file has file capabilities
  CHANGE_UNREADABLE = 8,    // the file could not be read on one side
  CHANGE_HARD_LINKED = 16,  // the new file has several names
  CHANGE_SHARED = 32,  // the new file's bytes are not in the upper directory: a parent was renamed
  CHANGE_CLOSED = 64,  // a directory in which nothing could be listed
};
#define CHANGES_MAX 10000                        // in one page
#define CHANGE_HASH_MAX (1024ull * 1024 * 1024)  // larger files are not hashed
#define CHANGE_NAMES_MAX 200000                  // in one directory
#define CHANGE_PAGE_MS 4000                      // a page ends at the first change after this
#define CHANGE_PAGE_BYTES (3u * 1024 * 1024)

#define READ_MANY_MAX 200  // paths in one request
#define STEPS_MAX 256      // in one OP_INSTALL
#define NO_ROOT 0xffffu
#define ANY_MODE 0xffffffffu
enum {
  INSTALL_CHECK = 1,    // change nothing; find out what would happen
  INSTALL_REPEAT = 2,   // an earlier run may have been interrupted: remove what it left behind
  INSTALL_SYNC = 4,     // reply when everything is on the disk
  INSTALL_STAGE = 8,    // make missing directories, and sync nothing
};
enum step_outcome {
  STEP_DONE = 1,
  STEP_ALREADY = 2,   // it was as it should become
  STEP_READY = 3,     // INSTALL_CHECK: nothing is in the way
  STEP_CONFLICT = 4,  // the cause is a conflict
  STEP_FAILED = 5,    // the cause is a status
};
enum conflict {
  CONFLICT_CHANGED = 1,
  CONFLICT_REMOVED = 2,
  CONFLICT_APPEARED = 3,
  CONFLICT_NOT_EMPTY = 4,
  CONFLICT_SOURCE = 5,     // the new content is not what was expected
  CONFLICT_NO_PARENT = 6,  // with STEP_READY: an earlier step has to make its directory
};

enum {
  WATCH_STRIPPED = 1,  // an empty file that was setuid or setgid, and is not any more
  WATCH_CLOSED = 2,    // a directory that cannot be read
};
#define WATCH_NAMES_MAX 100
#define WATCH_DIRS_MAX 1000000  // in the tree
#define WATCH_FOUND_MAX 20000   // in one reply
#define WATCH_BYTES_MAX (3u * 1024 * 1024)
#define WATCH_TIMEOUT_MS 30000

enum status {
  DONE = 0,
  BAD_REQUEST = 1,
  NOT_FOUND = 2,
  DENIED = 3,
  OUTSIDE = 4,  // the path, or a symbolic link in it, leaves its root
  IS_DIRECTORY = 5,
  NOT_DIRECTORY = 6,
  NOT_REGULAR = 7,
  IS_LINK = 8,
  EXISTS = 9,
  CONFLICT = 10,
  NOT_EMPTY = 11,
  TOO_LARGE = 12,
  TOO_SLOW = 13,
  NO_SPACE = 14,
  BAD_NAME = 15,
  BAD_PATTERN = 16,
  BUSY = 17,
  READ_ONLY = 18,
  BROKEN = 19,
};

enum kind { KIND_FILE = 1, KIND_DIRECTORY = 2, KIND_LINK = 3, KIND_OTHER = 4 };

// Reads the fields of a request. Once a field does not fit, every get_ fails.
struct request {
  const uint8_t *cursor, *end;
  bool malformed;
};
uint8_t get_u8(struct request *req);
uint16_t get_u16(struct request *req);
uint32_t get_u32(struct request *req);
uint64_t get_u64(struct request *req);
const uint8_t *get_bytes(struct request *req, size_t count);
const uint8_t *get_data(struct request *req, uint32_t *size);  // u32 length, bytes
// u16 length, then bytes without a NUL
bool get_text(struct request *req, char *text, size_t text_bytes);
bool is_fully_read(const struct request *req);

// Builds a reply. An error discards what was added before it.
struct reply {
  uint8_t *bytes;
  size_t size, capacity;
  uint8_t status;
};
bool reply_init(struct reply *reply);
void reply_free(struct reply *reply);
void put_u8(struct reply *reply, uint8_t value);
void put_u16(struct reply *reply, uint16_t value);
void put_u32(struct reply *reply, uint32_t value);
void put_u64(struct reply *reply, uint64_t value);
void put_bytes(struct reply *reply, const void *bytes, size_t count);
void put_text(struct reply *reply, const char *text, size_t size);
uint8_t *reply_reserve(struct reply *reply, size_t count);  // NULL if it does not fit
void patch_u32(struct reply *reply, size_t offset, uint32_t value);
void reply_error(struct reply *reply, enum status status, const char *text);
void reply_errno(struct reply *reply, int error);
enum status status_from_errno(int error);

struct sha256 {
  uint32_t state[8];
  uint64_t size;
  uint8_t block[64];
};
void sha256_init(struct sha256 *hash);
void sha256_update(struct sha256 *hash, const uint8_t *bytes, size_t count);
void sha256_final(struct sha256 *hash, uint8_t digest[32]);

// A path in a request, relative to one root.
struct target {
  unsigned root;
  char path[PATH_BYTES];  // without "." or empty components; "" is the root itself
};
int add_root(const char *path, bool writable);  // -1 if there are too many
unsigned root_count(void);
bool root_is_writable(unsigned root);
int probe_openat2(void);
// Drops empty components and ".". Returns false if the path is absolute.
bool normalize_path(const char *path, char *normalized);
bool get_target(struct request *req, struct target *target, struct reply *reply);
int open_target(const struct target *target, const char *path, int flags);  // -1 with errno
// Opens the parent directory and sets name to the last component, or to NULL for the root itself.
int open_parent(const struct target *target, int flags, const char **name);
// The same, but follow no symbolic link (ELOOP) and enter no other mount (EXDEV).
int open_strictly(const struct target *target, const char *path, int flags);
// Follows no symbolic link, but enters what is mounted inside.
int open_no_links(unsigned root, const char *path, int flags);
int open_parent_strictly(const struct target *target, int flags, const char **name);
// Returns whether the directory has this id; if not, replies with an error.
bool check_parent(int dir, const uint8_t expected[FILE_ID_BYTES], struct reply *reply);
void put_real_path(struct reply *reply, int fd);
uint8_t file_kind(mode_t mode);
uint64_t mtime_ns(const struct stat *st);
uint64_t ctime_ns(const struct stat *st);

uint64_t now_ms(void);
// Arms the timer that kills this worker soon after its limit, 0: the longest of its operation.
// Returns the deadline in ms.
uint64_t set_worker_deadline(uint32_t limit_ms);

// Reads until count bytes or the end of the file. Returns the number, or -1 with errno.
ssize_t read_full(int fd, uint8_t *bytes, size_t count, off_t offset);
int write_full(int fd, const uint8_t *bytes, size_t count);  // 0, or -1 with errno
// Hashes the whole file. Returns 0, or -1 with errno (EFBIG: longer than bytes_max).
int hash_file(int fd, uint64_t bytes_max, uint8_t digest[32]);
// Locks a directory against other boxfs processes that change names in it. Returns -1 with errno.
int lock_directory(int dir);
// Returns whether the name is a regular file with this hash; if not, replies with an error.
bool check_hash(int dir, const char *name, const uint8_t expected[32], struct reply *reply);

void do_stat(struct request *req, struct reply *reply);
void do_read(struct request *req, struct reply *reply);
void do_write(struct request *req, struct reply *reply);
void do_list(struct request *req, struct reply *reply);
void do_search(struct request *req, struct reply *reply);
void do_delete(struct request *req, struct reply *reply);
void do_mkdir(struct request *req, struct reply *reply);
void do_changes(struct request *req, struct reply *reply);
void do_read_many(struct request *req, struct reply *reply);
void do_install(struct request *req, struct reply *reply);
void do_watch(struct request *req, struct reply *reply);
void do_unlock(struct request *req, struct reply *reply);
void do_covered(struct request *req, struct reply *reply);
void do_directories(struct request *req, struct reply *reply);
void do_copy(struct request *req, struct reply *reply);
void do_give(struct request *req, struct reply *reply);

// ── give.c: files of a root whose owner is another user, in a box with that owner's rights ──
// Gives a new file to the owner of the root, if that is another user. -1 with errno.
int give_file(unsigned root, int fd);
int give_name(unsigned root, int dir, const char *name);  // a link is not followed
// Returns true for what belongs to neither this user nor the owner of the root.
bool is_of_others(unsigned root, const struct stat *st);

// By components: what is in a directory comes directly behind it.
int compare_paths(const char *a, const char *b);

// Pure; used by search.
bool glob_matches(const char *glob, const char *path);

// The names in a directory, sorted bytewise.
struct names {
  char **list;
  size_t count;
  bool truncated;  // there were more than max
};
int read_names(int dir, size_t max, uint64_t deadline_ms, struct names *names);  // closes dir
void free_names(struct names *names);
