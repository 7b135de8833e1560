// Measures a directory by walking it, in a child of the warden: its disk usage, or when a directory
// in it last changed. Agents can create directories that
// only they can enter, deep and numerous, and change them meanwhile. Each directory is opened once,
// from its parent, and left by "..": time is linear in the entries, whatever their nesting, and
// memory is bounded by their names.
#include "warden.h"

#include <errno.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// An empty file uses an inode, which can run out too.
#define ENTRY_BYTES 4096
#define NAMES_BYTES_MAX (256u << 20)
#define NEWEST_DIRS_MAX 500000
#define NEWEST_ENTRIES_MAX 10000000
// After a concurrent rename the path is reopened from the top, in as many steps as it is deep.
#define RESTARTS_MAX 64

struct name_stack {  // NUL-terminated names, one after the other
  char *bytes;
  size_t used, capacity;
};
struct dir_frame {  // a directory on the current path
  dev_t device;
  ino_t inode;
  size_t name;     // offset of its name in `path`
  size_t pending;  // offset of its first unvisited child in `pending`
};
struct tree_walk {
  int top, dir;  // the start, and the directory of the last frame
  struct dir_frame *frames;
  size_t depth, capacity;
  struct name_stack path, pending;
  unsigned restarts;
  // Looks at an entry, and pushes it to `pending` if it is a directory to enter.
  int (*visit)(struct tree_walk *walk, int dir, const struct dirent *entry);
  gid_t gid;  // 0: all entries
  struct disk_usage *usage;
  uint64_t newest_ns, entries, directories;
};

static int push_name(struct name_stack *stack, const char *name) {
  size_t size = strlen(name) + 1;
  if (stack->used + size > stack->capacity) {
    size_t capacity = stack->capacity ? stack->capacity * 2 : 64 * 1024;
    char *grown = capacity > NAMES_BYTES_MAX ? NULL : realloc(stack->bytes, capacity);
    if (!grown) {
      errno = ENOMEM;
      return -1;
    }
    stack->bytes = grown;
    stack->capacity = capacity;
  }
  memcpy(stack->bytes + stack->used, name, size);
  stack->used += size;
  return 0;
}

static void pop_name(struct name_stack *stack, char *name, size_t capacity) {
  size_t start = stack->used - 1;
  while (start && stack->bytes[start - 1]) start--;
  size_t size = stack->used - start;
  memcpy(name, stack->bytes + start, size < capacity ? size : capacity);
  name[capacity - 1] = 0;
  stack->used = start;
}

static void add_usage(struct tree_walk *walk, const struct statx *st) {
  if (walk->gid && st->stx_gid != walk->gid) return;
  uint64_t bytes = st->stx_blocks * 512;
  // Count each hard link's share.
  if (!S_ISDIR(st->stx_mode) && st->stx_nlink > 1) bytes /= st->stx_nlink;
  walk->usage->bytes += bytes < ENTRY_BYTES ? ENTRY_BYTES : bytes;
  walk->usage->entries++;
}

static int stat_entry(int dir, const char *name, struct statx *st) {
  return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH),
               STATX_BASIC_STATS, st);
}

static int visit_usage(struct tree_walk *walk, int dir, const struct dirent *entry) {
  struct statx st;
  if (stat_entry(dir, entry->d_name, &st)) return errno == ENOENT ? 0 : -1;
  // Skip mounts of the host. Not by device: an agent can create a subvolume.
  if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) {
    if (walk->gid) walk->usage->entries++;
    return 0;
  }
  add_usage(walk, &st);
  return S_ISDIR(st.stx_mode) ? push_name(&walk->pending, entry->d_name) : 0;
}

static void add_newest(struct tree_walk *walk, const struct statx *st) {
  uint64_t ns = (uint64_t)st->stx_ctime.tv_sec * 1000000000 + st->stx_ctime.tv_nsec;
  if (st->stx_ctime.tv_sec >= 0 && ns > walk->newest_ns) walk->newest_ns = ns;
}

static int visit_newest(struct tree_walk *walk, int dir, const struct dirent *entry) {
  errno = E2BIG;
  if (++walk->entries > NEWEST_ENTRIES_MAX) return -1;
  if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) return 0;
  struct statx st;
  if (stat_entry(dir, entry->d_name, &st)) return errno == ENOENT ? 0 : -1;
  if (!S_ISDIR(st.stx_mode) || st.stx_attributes & STATX_ATTR_MOUNT_ROOT) return 0;
  errno = E2BIG;
  if (++walk->directories > NEWEST_DIRS_MAX) return -1;
  add_newest(walk, &st);
  return push_name(&walk->pending, entry->d_name);
}

static int list_dir(struct tree_walk *walk) {
  DIR *entries = open_dir(walk->dir);
  if (!entries) return -1;
  int bad = 0;
  struct dirent *entry;
  while (!bad && (errno = 0, entry = readdir(entries))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    bad = walk->visit(walk, dirfd(entries), entry);
  }
  bad = bad || errno;
  int error = errno;
  closedir(entries);
  errno = error;
  return bad ? -1 : 0;
}

// Closes the previous directory and keeps fd.
static int enter_dir(struct tree_walk *walk, int fd, const char *name) {
  struct stat st;
  if (walk->dir >= 0) close(walk->dir);
  walk->dir = fd;
  if (walk->depth == walk->capacity) {
    size_t capacity = walk->capacity ? walk->capacity * 2 : 256;
    struct dir_frame *grown = realloc(walk->frames, capacity * sizeof *grown);
    if (!grown) return -1;
    walk->frames = grown;
    walk->capacity = capacity;
  }
  size_t before = walk->path.used;
  if (fstat(fd, &st) || push_name(&walk->path, name)) return -1;
  walk->frames[walk->depth++] =
      (struct dir_frame){st.st_dev, st.st_ino, before, walk->pending.used};
  return list_dir(walk);
}

static bool is_frame_dir(int fd, const struct dir_frame *frame) {
  struct stat st;
  return !fstat(fd, &st) && st.st_dev == frame->device && st.st_ino == frame->inode;
}

static int open_child(int dir, const char *name) {
  return k_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

// Pops frames until `depth` are left.
static void pop_frames(struct tree_walk *walk, size_t depth) {
  walk->path.used = walk->frames[depth].name;
  walk->pending.used = walk->frames[depth].pending;
  walk->depth = depth;
}

// The current directory was moved: reopen the path from the top as far as it is unchanged.
static int reopen_from_top(struct tree_walk *walk) {
  if (++walk->restarts > RESTARTS_MAX) {
    errno = EAGAIN;
    return -1;
  }
  int dir = openat(walk->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (size_t depth = 1; dir >= 0 && depth < walk->depth; depth++) {
    const struct dir_frame *frame = &walk->frames[depth];
    int next = open_child(dir, walk->path.bytes + frame->name);
    if (next < 0 || !is_frame_dir(next, frame)) {
      if (next >= 0) close(next);
      pop_frames(walk, depth);
      break;
    }
    close(dir);
    dir = next;
  }
  return dir;
}

static int leave_dir(struct tree_walk *walk) {
  pop_frames(walk, walk->depth - 1);
  if (!walk->depth) return 0;
  int parent = openat(walk->dir, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (parent >= 0 && !is_frame_dir(parent, &walk->frames[walk->depth - 1])) {
    close(parent);
    parent = -1;
  }
  close(walk->dir);
  walk->dir = parent >= 0 ? parent : reopen_from_top(walk);
  return walk->dir < 0 ? -1 : 0;
}

static int walk_step(struct tree_walk *walk) {
  if (walk->pending.used == walk->frames[walk->depth - 1].pending) return leave_dir(walk);
  char name[NAME_MAX + 1];
  pop_name(&walk->pending, name, sizeof name);
  int fd = open_child(walk->dir, name);
  if (fd >= 0) return enter_dir(walk, fd, name);
  // Deleted, moved or replaced meanwhile, or another file system.
  return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV ? 0 : -1;
}

static int walk_tree(struct tree_walk *walk) {
  int fd = openat(walk->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int bad = fd < 0 || enter_dir(walk, fd, "");
  while (!bad && walk->depth) bad = walk_step(walk);
  k_close(walk->dir);
  int error = errno;
  free(walk->frames);
  free(walk->path.bytes);
  free(walk->pending.bytes);
  errno = error;
  return bad ? -1 : 0;
}

int measure_tree(int top, gid_t gid, struct disk_usage *usage) {
  struct tree_walk walk = {
      .top = top, .dir = -1, .visit = visit_usage, .gid = gid, .usage = usage};
  struct statx st;
  *usage = (struct disk_usage){0};
  if (stat_entry(top, "", &st)) return -1;
  if (gid || !S_ISDIR(st.stx_mode)) add_usage(&walk, &st);
  return S_ISDIR(st.stx_mode) ? walk_tree(&walk) : 0;
}

int newest_in_tree(int top, uint64_t *newest_ns) {
  struct tree_walk walk = {.top = top, .dir = -1, .visit = visit_newest};
  struct statx st;
  if (stat_entry(top, "", &st)) return -1;
  add_newest(&walk, &st);
  int bad = S_ISDIR(st.stx_mode) ? walk_tree(&walk) : 0;
  *newest_ns = walk.newest_ns;
  return bad;
}
