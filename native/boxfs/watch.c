// Finds what belongs to git repositories in a tree that agents change in place (OP_WATCH), again
// and again: directories that have not changed since the last scan are not read a second time.
#include "boxfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// Complete, because a name that appears, disappears or moves changes the ctime of its directory,
// which no process can set; and because the files themselves are looked at in each scan. A
// directory that has changed shortly before it was read is read again: two changes in one tick of
// the clock have the same time.
#define FRESH_NS 2000000000ull

struct dir {
  char *name;
  struct dir **children;  // sorted by name
  size_t count;
  dev_t dev;
  ino_t ino;
  uint64_t changed_ns;
  bool is_read, has_head, has_git_file;
};

static struct dir top;
static unsigned top_root;
static size_t dirs_known;
static uint64_t scanned_ns;  // when the last complete scan began; 0: there was none

struct scan {
  struct reply *reply;
  struct request names;  // count u16, texts: looked up in each directory that has a HEAD
  int root;
  bool strips;
  uint64_t began_ns, deadline_ms;
  uint32_t dirs, reads, found;
  bool more;
  int error;
  char path[PATH_BYTES];
};

static uint64_t to_ns(struct timespec at) {
  return at.tv_sec < 0 ? 0 : (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

static void free_children(struct dir *dir) {
  for (size_t i = 0; i < dir->count; i++) {
    dirs_known--;
    if (!dir->children[i]) continue;
    free_children(dir->children[i]);
    free(dir->children[i]->name);
    free(dir->children[i]);
  }
  free(dir->children);
  dir->children = NULL;
  dir->count = 0;
  dir->is_read = false;
}

static void put_id(struct reply *reply, const struct stat *st) {
  put_u64(reply, st->st_dev);
  put_u64(reply, st->st_ino);
}

static void stat_parent(const struct scan *scan, struct stat *st) {
  char parent[PATH_BYTES];
  const char *slash = strrchr(scan->path, '/');
  size_t length = slash ? (size_t)(slash - scan->path) : 0;
  memcpy(parent, scan->path, length);
  parent[length] = 0;
  if (fstatat(scan->root, *parent ? parent : ".", st, AT_SYMLINK_NOFOLLOW))
    *st = (struct stat){0};
}

static void put_found(struct scan *scan, const struct stat *st, uint8_t flags) {
  char target[PATH_BYTES];
  struct stat parent;
  if (scan->found == WATCH_FOUND_MAX || scan->reply->size > WATCH_BYTES_MAX) {
    scan->more = true;
    return;
  }
  ssize_t size =
      S_ISLNK(st->st_mode) ? readlinkat(scan->root, scan->path, target, sizeof target) : 0;
  stat_parent(scan, &parent);
  put_u8(scan->reply, file_kind(st->st_mode));
  put_u8(scan->reply, flags);
  put_u32(scan->reply, st->st_mode & 07777);
  put_u64(scan->reply, (uint64_t)st->st_size);
  put_u64(scan->reply, to_ns(st->st_ctim));
  put_id(scan->reply, st);
  put_id(scan->reply, &parent);
  put_text(scan->reply, scan->path, strlen(scan->path));
  put_text(scan->reply, target, size > 0 ? (size_t)size : 0);
  scan->found++;
}

// Appends a name to the path and returns the length before, or -1 if it does not fit.
static ssize_t push_name(struct scan *scan, const char *name) {
  size_t length = strlen(scan->path), left = sizeof scan->path - length;
  int added = snprintf(scan->path + length, left, "%s%s", length ? "/" : "", name);
  if (added >= 0 && (size_t)added < left) return (ssize_t)length;
  scan->path[length] = 0;
  return -1;
}

static void put_name(struct scan *scan, const char *name) {
  struct stat st;
  ssize_t length = push_name(scan, name);
  if (length < 0) return;
  if (fstatat(scan->root, scan->path, &st, AT_SYMLINK_NOFOLLOW) == 0) put_found(scan, &st, 0);
  scan->path[length] = 0;
}

static void put_repository(struct scan *scan) {
  struct request names = scan->names;
  char name[NAME_MAX];
  for (uint16_t left = get_u16(&names); left > 0 && get_text(&names, name, sizeof name); left--)
    put_name(scan, name);
}

// A box can make such a file with openat2, whose mode no filter sees, and cannot put anything in it
// without losing the bits.
static void strip_bits(struct scan *scan, int dir, const char *name) {
  struct stat st;
  char link[64];
  int fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  bool is_made_here = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
                      st.st_mode & (S_ISUID | S_ISGID) &&
                      to_ns(st.st_ctim) + FRESH_NS >= scanned_ns;
  ssize_t length = is_made_here ? push_name(scan, name) : -1;
  if (length >= 0) {
    int failed = chmod(link, st.st_mode & 0777);
    put_found(scan, &st, failed ? 0 : WATCH_STRIPPED);
    scan->path[length] = 0;
  }
  close(fd);
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

struct list {
  char **names;
  size_t count, capacity;
};

static bool add_name(struct list *list, const char *name) {
  if (list->count == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 16;
    char **names = realloc(list->names, capacity * sizeof *names);
    if (!names) return false;
    list->names = names;
    list->capacity = capacity;
  }
  char *copy = strdup(name);
  if (copy) list->names[list->count++] = copy;
  return copy != NULL;
}

static bool is_directory(int fd, const struct dirent *entry) {
  struct stat st;
  if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_DIR;
  return fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int read_entries(struct scan *scan, struct dir *dir, DIR *stream, struct list *list) {
  struct dirent *entry;
  dir->has_head = dir->has_git_file = false;
  while ((errno = 0, entry = readdir(stream)) != NULL) {
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    bool is_dir = is_directory(dirfd(stream), entry);
    if (strcasecmp(name, "HEAD") == 0) dir->has_head = true;
    if (strcasecmp(name, ".git") == 0 && !is_dir) dir->has_git_file = true;
    if (is_dir && !add_name(list, name)) return -1;
    if (!is_dir && scan->strips) strip_bits(scan, dirfd(stream), name);
    if (now_ms() > scan->deadline_ms) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
  return errno ? -1 : 0;
}

// Replaces the children by those with these names, and keeps what is known of them.
static int set_children(struct dir *dir, struct list *list) {
  struct dir **children = calloc(list->count + 1, sizeof *children);
  if (!children) return -1;
  if (list->count > 0) qsort(list->names, list->count, sizeof *list->names, compare_names);
  size_t old = 0, count = 0;
  int failed = 0;
  for (size_t i = 0; i < list->count && !failed; i++) {
    while (old < dir->count && strcmp(dir->children[old]->name, list->names[i]) < 0) old++;
    bool is_known = old < dir->count && strcmp(dir->children[old]->name, list->names[i]) == 0;
    struct dir *child = is_known ? dir->children[old] : calloc(1, sizeof *child);
    if (!child) {
      failed = -1;
      break;
    }
    if (is_known) {
      dir->children[old++] = NULL;
    } else {
      child->name = list->names[i];
      list->names[i] = NULL;
    }
    children[count++] = child;
    dirs_known++;
  }
  free_children(dir);
  dir->children = children;
  dir->count = count;
  return failed;
}

// Opens without following a link; what a person mounted inside is part of the tree.
static int open_dir(struct scan *scan) {
  int fd = open_no_links(top_root, scan->path, O_RDONLY | O_DIRECTORY);
  if (fd >= 0 || errno != EACCES || !scan->strips) return fd;
  // Closed by a process of this user, since it was scanned; a person could open it, too.
  struct stat st;
  int path = open_no_links(top_root, scan->path, O_PATH | O_DIRECTORY);
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", path);
  bool is_opened = path >= 0 && fstat(path, &st) == 0 &&
                   chmod(link, (st.st_mode & 07777) | S_IRUSR | S_IXUSR) == 0;
  if (path >= 0) close(path);
  if (is_opened) return open_no_links(top_root, scan->path, O_RDONLY | O_DIRECTORY);
  errno = EACCES;
  return -1;
}

static int read_dir(struct scan *scan, struct dir *dir) {
  struct list list = {0};
  struct stat st;
  int fd = open_dir(scan);
  DIR *stream = fd < 0 || fstat(fd, &st) ? NULL : fdopendir(fd);
  if (!stream) {
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
  }
  scan->reads++;
  int failed = read_entries(scan, dir, stream, &list);
  if (!failed) failed = set_children(dir, &list);
  int error = errno;
  for (size_t i = 0; i < list.count; i++) free(list.names[i]);
  free(list.names);
  closedir(stream);
  dir->dev = st.st_dev;
  dir->ino = st.st_ino;
  dir->changed_ns = to_ns(st.st_ctim);
  dir->is_read = !failed && dir->changed_ns + FRESH_NS < scan->began_ns;
  errno = error;
  return failed;
}

static bool is_unchanged(const struct dir *dir, const struct stat *st) {
  return dir->is_read && dir->dev == st->st_dev && dir->ino == st->st_ino &&
         dir->changed_ns == to_ns(st->st_ctim);
}

static void scan_dir(struct scan *scan, struct dir *dir, const struct stat *st) {
  bool fits = strlen(scan->path) + 1 + NAME_MAX < sizeof scan->path;
  if (!is_unchanged(dir, st)) {
    if (!fits) errno = ENAMETOOLONG;
    if (!fits || read_dir(scan, dir)) {
      // It was removed meanwhile; its parent is read again in the next scan.
      if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return;
      if (errno == EACCES || errno == ENAMETOOLONG) put_found(scan, st, WATCH_CLOSED);
      else scan->error = errno;
      return;
    }
  }
  scan->dirs++;
  if (dirs_known > WATCH_DIRS_MAX) scan->error = E2BIG;
  if (now_ms() > scan->deadline_ms) scan->error = ETIMEDOUT;
  if (dir->has_git_file) put_name(scan, ".git");
  if (dir->has_head) put_repository(scan);
  for (size_t i = 0; i < dir->count && !scan->error && !scan->more; i++) {
    struct stat child;
    ssize_t length = push_name(scan, dir->children[i]->name);
    if (length < 0) continue;
    if (fstatat(scan->root, scan->path, &child, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(child.st_mode))
      scan_dir(scan, dir->children[i], &child);
    scan->path[length] = 0;
  }
}

static bool are_names(struct request names) {
  char name[NAME_MAX];
  uint16_t count = get_u16(&names);
  if (count > WATCH_NAMES_MAX) return false;
  for (uint16_t i = 0; i < count; i++) get_text(&names, name, sizeof name);
  return !names.malformed && names.cursor == names.end;
}

static void scan_tree(struct scan *scan) {
  struct stat st;
  if (fstat(scan->root, &st)) {
    scan->error = errno;
    return;
  }
  for (int i = 0; i < 3; i++) put_u32(scan->reply, 0);
  put_u8(scan->reply, 0);
  scan_dir(scan, &top, &st);
}

// root u16, path (empty), names: count u16, texts
// → directories u32, of them read u32, found u32, more u8; for each kind u8, flags u8, mode u32,
// size u64, ctime_ns u64, id, id of its directory, path, target of a link
void do_watch(struct request *req, struct reply *reply) {
  struct target target;
  struct timespec now;
  if (!get_target(req, &target, reply)) return;
  struct scan scan = {.reply = reply, .names = *req};
  req->cursor = req->end;
  if (*target.path || (top.is_read && target.root != top_root) || !are_names(scan.names)) {
    reply_error(reply, BAD_REQUEST, "not the root that is watched, or malformed names");
    return;
  }
  top_root = target.root;
  clock_gettime(CLOCK_REALTIME, &now);
  scan.began_ns = to_ns(now);
  scan.strips = scanned_ns > 0 && root_is_writable(target.root);
  scan.deadline_ms = now_ms() + WATCH_TIMEOUT_MS;
  scan.root = open_target(&target, "", O_RDONLY | O_DIRECTORY);
  if (scan.root < 0) scan.error = errno;
  else scan_tree(&scan);
  if (scan.root >= 0) close(scan.root);
  if (scan.error) {
    reply_errno(reply, scan.error);
    return;
  }
  if (!scan.more) scanned_ns = scan.began_ns;
  if (reply->status != DONE) return;
  patch_u32(reply, 0, scan.dirs);
  patch_u32(reply, 4, scan.reads);
  patch_u32(reply, 8, scan.found);
  reply->bytes[12] = scan.more;
}

// A file of another user keeps its mode, and may still be open to this one.
static void add_mode(int fd, mode_t bits) {
  struct stat st;
  char link[64];
  if (fstat(fd, &st) || S_ISLNK(st.st_mode) || (st.st_mode & bits) == bits) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  if (chmod(link, (st.st_mode & 01777) | bits)) return;
}

// root u16, path, id of its directory → nothing. Lets the owner of both read the file, and remove
// it: whoever made it may have closed it.
void do_unlock(struct request *req, struct reply *reply) {
  struct target target;
  char parent[PATH_BYTES] = "";
  if (!get_target(req, &target, reply)) return;
  const uint8_t *id = get_bytes(req, FILE_ID_BYTES);
  if (!is_fully_read(req)) return;
  const char *slash = strrchr(target.path, '/');
  if (slash) memcpy(parent, target.path, (size_t)(slash - target.path));
  int dir = open_no_links(target.root, parent, O_PATH | O_DIRECTORY);
  int file = -1;
  if (dir < 0) {
    reply_errno(reply, errno);
  } else if (check_parent(dir, id, reply)) {
    add_mode(dir, S_IRWXU);
    file = openat(dir, slash ? slash + 1 : target.path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) reply_errno(reply, errno);
    else add_mode(file, S_IRUSR);
  }
  if (file >= 0) close(file);
  if (dir >= 0) close(dir);
}
