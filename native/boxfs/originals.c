// Reads what a layer stands over: the files of the lower directory that files of the upper one are
// in place of (OP_COVERED), and all directories of a tree with their inodes (OP_DIRECTORIES).
#include "boxfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct walk {
  struct reply *reply;
  uint32_t count, max;
  uint64_t deadline_ms;
  dev_t dev;
  bool more;
  char path[PATH_BYTES];
};

static int open_dir_at(int dir, const char *name) {
  return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static bool is_full(const struct walk *walk) {
  return walk->count >= walk->max || walk->reply->size > CHANGE_PAGE_BYTES ||
         now_ms() > walk->deadline_ms;
}

// Appends a name to the path and returns the length before, or -1 if it does not fit.
static ssize_t push(struct walk *walk, const char *name) {
  size_t length = strlen(walk->path), left = sizeof walk->path - length;
  int added = snprintf(walk->path + length, left, "%s%s", length ? "/" : "", name);
  if (added >= 0 && (size_t)added < left) return (ssize_t)length;
  walk->path[length] = 0;
  return -1;
}

static bool is_dots(const char *name) {
  return name[0] == '.' && (name[1] == 0 || (name[1] == '.' && name[2] == 0));
}

static void put_covered(struct walk *walk, const struct stat *st) {
  put_u32(walk->reply, st->st_mode);
  put_u64(walk->reply, (uint64_t)st->st_size);
  put_u64(walk->reply, ctime_ns(st));
  put_text(walk->reply, walk->path, strlen(walk->path));
  walk->count++;
}

static void walk_covered(struct walk *walk, int upper, int lower, int depth);

static void visit_covered(struct walk *walk, int upper, int lower, const char *name, int depth) {
  struct stat above, below;
  // git's own files are never written as files.
  if (is_dots(name) || strcmp(name, ".git") == 0) return;
  if (fstatat(lower, name, &below, AT_SYMLINK_NOFOLLOW) ||
      fstatat(upper, name, &above, AT_SYMLINK_NOFOLLOW))
    return;
  ssize_t length = push(walk, name);
  if (length < 0) return;
  if (S_ISREG(above.st_mode) && S_ISREG(below.st_mode)) put_covered(walk, &below);
  // A directory that the lower one does not have stands over nothing.
  if (S_ISDIR(above.st_mode) && S_ISDIR(below.st_mode) && depth < DEPTH_MAX) {
    int a = open_dir_at(upper, name), b = open_dir_at(lower, name);
    if (a >= 0 && b >= 0) walk_covered(walk, a, b, depth + 1);
    else if (a >= 0) close(a);
    if (b >= 0) close(b);
  }
  walk->path[length] = 0;
}

// Closes upper.
static void walk_covered(struct walk *walk, int upper, int lower, int depth) {
  DIR *entries = fdopendir(upper);
  if (!entries) {
    close(upper);
    return;
  }
  for (struct dirent *entry; !walk->more && (entry = readdir(entries));) {
    walk->more = is_full(walk);
    if (!walk->more) visit_covered(walk, upper, lower, entry->d_name, depth);
  }
  closedir(entries);
}

static void walk_directories(struct walk *walk, int dir, int depth);

static void visit_directory(struct walk *walk, int dir, const struct dirent *entry, int depth) {
  struct stat st;
  if (is_dots(entry->d_name) || (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN)) return;
  int fd = open_dir_at(dir, entry->d_name);
  if (fd < 0) return;
  ssize_t length = fstat(fd, &st) || st.st_dev != walk->dev ? -1 : push(walk, entry->d_name);
  if (length < 0) {
    close(fd);
    return;
  }
  put_u64(walk->reply, st.st_ino);
  put_text(walk->reply, walk->path, strlen(walk->path));
  walk->count++;
  if (depth < DEPTH_MAX) walk_directories(walk, fd, depth + 1);
  else close(fd);
  walk->path[length] = 0;
}

// Closes dir.
static void walk_directories(struct walk *walk, int dir, int depth) {
  DIR *entries = fdopendir(dir);
  if (!entries) {
    close(dir);
    return;
  }
  for (struct dirent *entry; !walk->more && (entry = readdir(entries));) {
    walk->more = is_full(walk);
    if (!walk->more) visit_directory(walk, dir, entry, depth);
  }
  closedir(entries);
}

static int open_root(struct request *req) {
  struct target root = {.root = get_u16(req)};
  if (req->malformed || root.root >= root_count()) {
    req->malformed = true;
    return -1;
  }
  return open_target(&root, "", O_RDONLY | O_DIRECTORY);
}

static void begin_reply(struct walk *walk) {
  walk->deadline_ms = set_worker_deadline(0);
  put_u8(walk->reply, 0);
  put_u32(walk->reply, 0);
}

static void end_reply(struct walk *walk) {
  if (walk->reply->status != DONE) return;
  walk->reply->bytes[0] = walk->more;
  patch_u32(walk->reply, 1, walk->count);
}

// roots upper, lower u16 each; max u32 → more u8, count u32; of each file of the lower directory:
// mode u32, size u64, ctime_ns u64, path
void do_covered(struct request *req, struct reply *reply) {
  int upper = open_root(req), lower = open_root(req);
  struct walk walk = {.reply = reply, .max = get_u32(req)};
  bool is_valid = is_fully_read(req);
  if (is_valid && (upper < 0 || lower < 0)) reply_errno(reply, errno);
  if (is_valid && upper >= 0 && lower >= 0) {
    begin_reply(&walk);
    walk_covered(&walk, upper, lower, 0);
    upper = -1;
    end_reply(&walk);
  }
  if (upper >= 0) close(upper);
  if (lower >= 0) close(lower);
}

// root u16; max u32 → more u8, count u32; of each directory on the root's device: inode u64, path
void do_directories(struct request *req, struct reply *reply) {
  struct stat st;
  int root = open_root(req);
  struct walk walk = {.reply = reply, .max = get_u32(req)};
  bool is_valid = is_fully_read(req);
  if (is_valid && (root < 0 || fstat(root, &st))) reply_errno(reply, errno);
  else if (is_valid) {
    walk.dev = st.st_dev;
    begin_reply(&walk);
    walk_directories(&walk, root, 0);
    root = -1;
    end_reply(&walk);
  }
  if (root >= 0) close(root);
}
