// Roots and the paths below them. The kernel resolves every path from its root's descriptor
// (RESOLVE_BENEATH); no code here compares names to decide whether a path is inside.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// A root that is a file is kept as its parent directory and its name.
struct root {
  const char *path;
  bool writable;
  int dir;
  const char *file;
};
static struct root roots[ROOTS_MAX];
static unsigned root_total;

int add_root(const char *path, bool writable) {
  if (root_total == ROOTS_MAX) return -1;
  roots[root_total++] = (struct root){.path = path, .writable = writable, .dir = -1};
  return 0;
}

unsigned root_count(void) { return root_total; }
bool root_is_writable(unsigned root) { return roots[root].writable; }

static int openat2_beneath(int dir, const char *path, int flags, uint64_t resolve) {
  // openat2 rejects flags that have no effect with O_PATH.
  int extra = flags & O_PATH ? O_CLOEXEC : O_CLOEXEC | O_NOCTTY;
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | extra),
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve,
  };
  // EAGAIN: a concurrent rename kept the kernel from verifying "..".
  for (int tries = 0;; tries++) {
    int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
    if (fd >= 0 || tries == 16 || (errno != EAGAIN && errno != EINTR)) return fd;
  }
}

// There is no fallback without openat2: path resolution could not be trusted.
int probe_openat2(void) {
  int dir = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return -1;
  int fd = openat2_beneath(dir, ".", O_PATH, 0);
  int error = errno;
  if (fd >= 0) close(fd);
  close(dir);
  errno = error;
  return fd >= 0 ? 0 : -1;
}

static bool open_root(struct root *root) {
  if (root->dir >= 0) return true;
  root->dir = open(root->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root->dir >= 0) return true;
  if (errno != ENOTDIR) return false;
  char parent[PATH_BYTES];
  const char *slash = strrchr(root->path, '/');
  if (!slash || slash[1] == 0 || (size_t)(slash - root->path) + 2 > sizeof parent) return false;
  memcpy(parent, root->path, (size_t)(slash - root->path) + 1);
  parent[slash - root->path + 1] = 0;
  root->dir = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root->dir < 0) return false;
  root->file = slash + 1;
  return true;
}

// Drops empty components and ".". Keeps "..", which only the kernel can resolve.
bool normalize_path(const char *path, char *normalized) {
  size_t size = 0;
  if (path[0] == '/') return false;
  while (*path) {
    size_t length = strcspn(path, "/");
    if (length > 0 && !(length == 1 && path[0] == '.')) {
      if (size > 0) normalized[size++] = '/';
      memcpy(normalized + size, path, length);
      size += length;
    }
    path += length + (path[length] == '/');
  }
  normalized[size] = 0;
  return true;
}

bool get_target(struct request *req, struct target *target, struct reply *reply) {
  char path[PATH_BYTES];
  target->root = get_u16(req);
  get_text(req, path, sizeof path);
  if (req->malformed || target->root >= root_total || !normalize_path(path, target->path)) {
    req->malformed = true;
    reply_error(reply, BAD_REQUEST, "unknown root or absolute path");
    return false;
  }
  return true;
}

static int open_resolved(const struct target *target, const char *path, int flags,
                         uint64_t resolve) {
  struct root *root = &roots[target->root];
  if (!open_root(root)) return -1;
  if (!root->file) return openat2_beneath(root->dir, *path ? path : ".", flags, resolve);
  if (*path) {
    errno = ENOTDIR;
    return -1;
  }
  return openat2_beneath(root->dir, root->file, flags, RESOLVE_NO_SYMLINKS);
}

int open_target(const struct target *target, const char *path, int flags) {
  return open_resolved(target, path, flags, 0);
}

int open_strictly(const struct target *target, const char *path, int flags) {
  return open_resolved(target, path, flags, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

int open_no_links(unsigned root, const char *path, int flags) {
  struct target target = {.root = root};
  return open_resolved(&target, path, flags, RESOLVE_NO_SYMLINKS);
}

static int open_parent_resolved(const struct target *target, int flags, const char **name,
                                uint64_t resolve) {
  const char *slash = strrchr(target->path, '/');
  *name = slash ? slash + 1 : target->path;
  char parent[PATH_BYTES] = "";
  if (slash) memcpy(parent, target->path, (size_t)(slash - target->path));
  if (slash) parent[slash - target->path] = 0;
  if (**name == 0) {
    *name = NULL;
    errno = EBUSY;
    return -1;
  }
  if (strcmp(*name, "..") == 0) {
    errno = EINVAL;
    return -1;
  }
  return open_resolved(target, parent, flags | O_DIRECTORY, resolve);
}

int open_parent(const struct target *target, int flags, const char **name) {
  return open_parent_resolved(target, flags, name, 0);
}

int open_parent_strictly(const struct target *target, int flags, const char **name) {
  return open_parent_resolved(target, flags, name, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

bool check_parent(int dir, const uint8_t expected[FILE_ID_BYTES], struct reply *reply) {
  struct stat st;
  struct request id = {.cursor = expected, .end = expected + FILE_ID_BYTES};
  if (fstat(dir, &st)) reply_errno(reply, errno);
  else if (get_u64(&id) != st.st_dev || get_u64(&id) != st.st_ino)
    reply_error(reply, CONFLICT, "is now in another directory");
  return reply->status == DONE;
}

int compare_paths(const char *a, const char *b) {
  for (;; a++, b++) {
    unsigned char x = (unsigned char)*a, y = (unsigned char)*b;
    if (x == y && x == 0) return 0;
    if (x == y) continue;
    if (x == 0 || y == 0) return x == 0 ? -1 : 1;
    if (x == '/' || y == '/') return x == '/' ? -1 : 1;
    return x < y ? -1 : 1;
  }
}

// Adds the path the kernel resolved to, for display; empty if /proc is not available.
void put_real_path(struct reply *reply, int fd) {
  char link[64], path[PATH_BYTES];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t size = readlink(link, path, sizeof path);
  put_text(reply, path, size > 0 && path[0] == '/' ? (size_t)size : 0);
}

uint8_t file_kind(mode_t mode) {
  if (S_ISREG(mode)) return KIND_FILE;
  if (S_ISDIR(mode)) return KIND_DIRECTORY;
  return S_ISLNK(mode) ? KIND_LINK : KIND_OTHER;
}

// Times before 1970 are reported as 0.
static uint64_t to_ns(struct timespec at) {
  return at.tv_sec < 0 ? 0 : (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

uint64_t mtime_ns(const struct stat *st) { return to_ns(st->st_mtim); }
uint64_t ctime_ns(const struct stat *st) { return to_ns(st->st_ctim); }
