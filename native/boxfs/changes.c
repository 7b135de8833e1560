// Lists what differs between the merged view of a layered workspace and its lower directory. Of an
// overlay, only directories that the upper one has can hold a difference, so others are not read.
// Of a copy, all are, and its record says what an agent has changed.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "record.h"

struct listing {
  struct reply *reply;
  const char *after;  // resume behind this path
  struct record *record;            // NULL: an overlay
  const struct record_entry *base;  // of this path; NULL: the copy began without it
  bool is_removed;  // an agent removed the directory that this is in
  uint32_t count, limit;
  uint64_t page_end_ms, deadline_ms;
  bool more;
  int error;
  char path[PATH_BYTES];
};

// One name on each side; a mode of 0 means that it does not exist there.
struct sides {
  struct stat merged, lower;
  bool in_upper;   // the new content is in the layer's own directory
  bool is_closed;  // a directory in which nothing can be listed
  bool is_way;     // a directory that is listed only for what is in it
};

// One directory on each side, or -1.
struct dirs {
  int merged, lower, upper;
};

// That, and the names in it.
struct children {
  struct dirs dirs;
  struct names merged, lower;
};

static bool stat_name(int dir, const char *name, struct stat *st) {
  if (dir >= 0 && fstatat(dir, name, st, AT_SYMLINK_NOFOLLOW) == 0) return true;
  *st = (struct stat){0};
  return false;
}

static int open_dir(int dir, const char *name) {
  return dir < 0 ? -1 : openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Hashes a file's bytes. Sets a flag if it was hashed, or could not be read; a file that is too
// large keeps a hash of zeros.
static void hash_side(int dir, const char *name, const struct stat *st, uint8_t hash[32],
                      uint8_t hashed, uint8_t *flags) {
  if (!S_ISREG(st->st_mode)) return;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0 && hash_file(fd, CHANGE_HASH_MAX, hash) == 0) *flags |= hashed;
  else if (errno == EFBIG) memset(hash, 0, 32);
  else *flags |= CHANGE_UNREADABLE;
  if (fd >= 0) close(fd);
}

static bool links_equal(const struct dirs *dirs, const char *name) {
  char a[PATH_BYTES], b[PATH_BYTES];
  ssize_t x = readlinkat(dirs->merged, name, a, sizeof a);
  ssize_t y = readlinkat(dirs->lower, name, b, sizeof b);
  return x >= 0 && x == y && memcmp(a, b, (size_t)x) == 0;
}

static void put_link_target(struct reply *reply, int dir, const char *name, const struct stat *st) {
  char target[PATH_BYTES];
  ssize_t size = S_ISLNK(st->st_mode) ? readlinkat(dir, name, target, sizeof target) : 0;
  put_text(reply, target, size > 0 ? (size_t)size : 0);
}

static bool has_capabilities(int dir, const char *name, const struct stat *st) {
  if (!S_ISREG(st->st_mode)) return false;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  bool found = fd >= 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0;
  if (fd >= 0) close(fd);
  return found;
}

static void put_side(struct reply *reply, const struct stat *st, const uint8_t hash[32]) {
  put_u32(reply, st->st_mode);
  put_u64(reply, (uint64_t)st->st_size);
  put_u64(reply, ctime_ns(st));
  put_bytes(reply, hash, 32);
}

// Finds the kind of change, hashing both sides if needed; 0 if there is none.
static uint8_t find_kind(const struct dirs *dirs, const char *name, const struct sides *s,
                         uint8_t before[32], uint8_t after[32], uint8_t *flags) {
  bool is_new = s->merged.st_mode != 0, was = s->lower.st_mode != 0;
  if (was) hash_side(dirs->lower, name, &s->lower, before, CHANGE_OLD_HASHED, flags);
  if (is_new) hash_side(dirs->merged, name, &s->merged, after, CHANGE_NEW_HASHED, flags);
  if (!was) return CHANGE_ADDED;
  if (!is_new) return CHANGE_DELETED;
  if ((s->merged.st_mode & S_IFMT) != (s->lower.st_mode & S_IFMT)) return CHANGE_REPLACED;
  bool is_dir = S_ISDIR(s->merged.st_mode), is_link = S_ISLNK(s->merged.st_mode);
  bool both_hashed = (*flags & CHANGE_OLD_HASHED) && (*flags & CHANGE_NEW_HASHED);
  bool is_same = is_dir    ? true
                 : is_link ? links_equal(dirs, name)
                           : both_hashed && memcmp(before, after, 32) == 0;
  if (!is_same) return CHANGE_MODIFIED;
  bool mode_differs = (s->merged.st_mode & 07777) != (s->lower.st_mode & 07777);
  return mode_differs && !is_link ? CHANGE_MODE : 0;
}

// Appends what the change began from.
static void put_base(struct reply *reply, const struct record_entry *base) {
  put_u8(reply, base ? 1 : 0);
  if (!base) return;
  put_u32(reply, base->base_mode);
  put_u8(reply, base->kind == RECORD_COPIED);
  put_bytes(reply, base->hash, 32);
  put_text(reply, base->link, base->link_size);
}

static void put_change(struct listing *job, const struct dirs *dirs, const char *name,
                       const struct sides *s) {
  if (*job->after && compare_paths(job->path, job->after) <= 0) return;
  uint8_t before[32] = {0}, after[32] = {0}, flags = 0;
  uint8_t kind = find_kind(dirs, name, s, before, after, &flags);
  if (s->is_closed) flags |= CHANGE_CLOSED;
  // Whatever is different in it would not be seen otherwise.
  if (kind == 0 && s->is_closed) kind = CHANGE_MODIFIED;
  if (kind == 0) return;
  if (has_capabilities(dirs->merged, name, &s->merged)) flags |= CHANGE_CAPABILITIES;
  if (S_ISREG(s->merged.st_mode) && s->merged.st_nlink > 1) flags |= CHANGE_HARD_LINKED;
  if (S_ISREG(s->merged.st_mode) && !s->in_upper) flags |= CHANGE_SHARED;
  put_u8(job->reply, kind);
  put_u8(job->reply, flags);
  put_text(job->reply, job->path, strlen(job->path));
  put_side(job->reply, &s->lower, before);
  put_side(job->reply, &s->merged, after);
  put_link_target(job->reply, dirs->lower, name, &s->lower);
  put_link_target(job->reply, dirs->merged, name, &s->merged);
  if (job->record) put_base(job->reply, job->base);
  job->count++;
  job->more = job->count >= job->limit || job->reply->size > CHANGE_PAGE_BYTES ||
              now_ms() > job->page_end_ms;
}

// The overlay shows the inode of a lower file. The times alone do not tell files apart that were
// made in the same tick, as after a checkout.
static bool looks_equal(const struct stat *a, const struct stat *b) {
  return a->st_ino == b->st_ino && a->st_mode == b->st_mode && a->st_size == b->st_size &&
         mtime_ns(a) == mtime_ns(b) && ctime_ns(a) == ctime_ns(b);
}

static int read_side(int dir, uint64_t deadline_ms, struct names *names) {
  int copy = dir < 0 ? -1 : openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return 0;
  if (copy < 0 || read_names(copy, CHANGE_NAMES_MAX, deadline_ms, names)) return -1;
  if (!names->truncated) return 0;
  errno = E2BIG;
  return -1;
}

static void close_children(struct children *children) {
  int fds[] = {children->dirs.merged, children->dirs.lower, children->dirs.upper};
  for (int i = 0; i < 3; i++)
    if (fds[i] >= 0) close(fds[i]);
  free_names(&children->merged);
  free_names(&children->lower);
}

// Opens and reads the directory at job->path; close_children is due in any case.
static int open_children(struct listing *job, const struct dirs *dirs, const char *name,
                         const struct sides *s, int depth, struct children *next) {
  *next = (struct children){.dirs = {-1, -1, -1}};
  // Every name in it must fit into a path, or the whole list would end there.
  if (depth >= DEPTH_MAX || strlen(job->path) + 1 + NAME_MAX >= sizeof job->path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  struct dirs *opened = &next->dirs;
  if (S_ISDIR(s->merged.st_mode) && (opened->merged = open_dir(dirs->merged, name)) < 0) return -1;
  if (S_ISDIR(s->lower.st_mode) && (opened->lower = open_dir(dirs->lower, name)) < 0) return -1;
  if (s->in_upper) opened->upper = open_dir(dirs->upper, name);
  if (read_side(opened->merged, job->deadline_ms, &next->merged)) return -1;
  return read_side(opened->lower, job->deadline_ms, &next->lower);
}

// True for what an agent can do to a directory: one change says so, and the others are listed.
static bool is_closed_by(int error) {
  return error == EACCES || error == EPERM || error == E2BIG || error == ENAMETOOLONG ||
         error == ENOMEM;
}

static void list_dir(struct listing *job, const struct children *children, int depth);

static void list_path(struct listing *job, const struct dirs *dirs, const char *name,
                      struct sides *s, int depth) {
  struct children next = {.dirs = {-1, -1, -1}};
  bool differs = s->in_upper || !looks_equal(&s->merged, &s->lower);
  // Else everything in it comes from the lower directory.
  bool is_listed = differs && (S_ISDIR(s->merged.st_mode) || S_ISDIR(s->lower.st_mode));
  if (is_listed && open_children(job, dirs, name, s, depth, &next)) {
    if (is_closed_by(errno)) s->is_closed = true;
    else job->error = errno;
  }
  if (differs && job->error == 0 && (!s->is_way || s->is_closed)) put_change(job, dirs, name, s);
  // Its content went with it.
  if (!S_ISDIR(s->merged.st_mode)) job->is_removed = true;
  if (is_listed && !s->is_closed && job->error == 0 && !job->more) list_dir(job, &next, depth + 1);
  close_children(&next);
}

// ── of a copy ──

static int change_of(struct listing *job, int dir, const char *name, const struct stat *st,
                     const struct record_entry *entry) {
  int changed = is_copy_changed(dir, name, st, entry);
  if (changed < 0) job->error = errno;
  return changed;
}

static bool has_changes(struct listing *job, int dir, int depth);

// Extends the path; returns its length before, or -1.
static ssize_t push_name(struct listing *job, const char *name) {
  size_t length = strlen(job->path), left = sizeof job->path - length;
  int added = snprintf(job->path + length, left, "%s%s", length ? "/" : "", name);
  if (added >= 0 && (size_t)added < left) return (ssize_t)length;
  job->error = ENAMETOOLONG;
  return -1;
}

static bool is_name_changed(struct listing *job, int dir, const char *name, int depth) {
  struct stat st;
  if (!stat_name(dir, name, &st)) return false;
  ssize_t length = push_name(job, name);
  if (length < 0) return true;
  bool changed = change_of(job, dir, name, &st, record_find(job->record, job->path)) != 0;
  if (!changed && S_ISDIR(st.st_mode)) changed = has_changes(job, open_dir(dir, name), depth + 1);
  job->path[length] = 0;
  return changed;
}

// Returns true if an agent has changed anything in a directory that the lower one does not have any
// more, or if it cannot be read. Closes dir.
static bool has_changes(struct listing *job, int dir, int depth) {
  struct names names = {0};
  bool changed = dir < 0 || depth >= DEPTH_MAX || read_side(dir, job->deadline_ms, &names) != 0;
  for (size_t i = 0; i < names.count && !changed && !job->error; i++)
    changed = is_name_changed(job, dir, names.list[i], depth);
  free_names(&names);
  if (dir >= 0) close(dir);
  return changed;
}

// Leaves out the changes of a person where no agent has changed the same.
static void list_copied(struct listing *job, const struct dirs *dirs, const char *name,
                        struct sides *s, int depth) {
  bool is_new = s->merged.st_mode != 0;
  const struct record_entry *found = record_find(job->record, job->path);
  bool is_known = found && found->kind == RECORD_COPIED;
  if (!is_new && !job->is_removed && !is_known) return;
  bool is_dir = S_ISDIR(s->merged.st_mode), was_dir = S_ISDIR(s->lower.st_mode);
  bool changed = !is_new || change_of(job, dirs->merged, name, &s->merged, found);
  if (job->error || (!changed && !is_dir)) return;
  // The search moves on with what is in it.
  struct record_entry *base = found ? malloc(sizeof *base) : NULL;
  if (found && !base) {
    job->error = ENOMEM;
    return;
  }
  if (base) *base = *found;
  if (!changed && is_dir && !was_dir) {
    size_t mark = record_mark(job->record);
    changed = has_changes(job, open_dir(dirs->merged, name), depth);
    record_return(job->record, mark);
  }
  // An unchanged directory is only a way to what is in it.
  s->is_way = is_dir && was_dir && !changed;
  if (changed || s->is_way) {
    bool was_removed = job->is_removed;
    s->in_upper = true;
    job->base = base;
    list_path(job, dirs, name, s, depth);
    job->is_removed = was_removed;
  }
  free(base);
}

static void list_name(struct listing *job, const struct dirs *dirs, const char *name, int depth) {
  struct sides s = {0};
  struct stat upper;
  bool is_new = stat_name(dirs->merged, name, &s.merged);
  bool was = stat_name(dirs->lower, name, &s.lower);
  if (!is_new && !was) return;
  s.in_upper = !job->record && stat_name(dirs->upper, name, &upper);
  ssize_t length = push_name(job, name);
  if (length < 0) return;
  if (job->record) list_copied(job, dirs, name, &s, depth);
  else list_path(job, dirs, name, &s, depth);
  job->path[length] = 0;
}

static void list_dir(struct listing *job, const struct children *children, int depth) {
  const struct names *merged = &children->merged, *lower = &children->lower;
  for (size_t m = 0, l = 0; job->error == 0 && (m < merged->count || l < lower->count);) {
    int order = m == merged->count  ? 1
                : l == lower->count ? -1
                                    : strcmp(merged->list[m], lower->list[l]);
    const char *name = order <= 0 ? merged->list[m] : lower->list[l];
    m += order <= 0;
    l += order >= 0;
    list_name(job, &children->dirs, name, depth);
    if (now_ms() > job->deadline_ms) job->error = ETIMEDOUT;
    if (job->more) break;
  }
}

// roots merged, upper, lower u16 each; is_copy u8: upper has the record of a copy; limit u32,
// after → more u8, count u32, changes; of a copy each with its base
void do_changes(struct request *req, struct reply *reply) {
  char after[PATH_BYTES];
  struct target roots[3] = {0};
  for (int i = 0; i < 3; i++) roots[i].root = get_u16(req);
  struct listing job = {.reply = reply, .after = after};
  bool is_copy = get_u8(req) == 1;
  job.limit = get_u32(req);
  get_text(req, after, sizeof after);
  if (!is_fully_read(req)) return;
  for (int i = 0; i < 3; i++)
    if (roots[i].root >= root_count()) {
      reply_error(reply, BAD_REQUEST, "unknown root");
      return;
    }
  if (job.limit == 0 || job.limit > CHANGES_MAX) job.limit = CHANGES_MAX;
  job.deadline_ms = set_worker_deadline(0);
  job.page_end_ms = now_ms() + CHANGE_PAGE_MS;
  struct record record = {0};
  if (is_copy && record_read(&roots[1], &record)) {
    reply_error(reply, BROKEN, "the record of the copy is missing or cut off");
    return;
  }
  if (is_copy) job.record = &record;
  struct children top = {.dirs = {.merged = open_target(&roots[0], "", O_RDONLY | O_DIRECTORY),
                                  .upper = open_target(&roots[1], "", O_RDONLY | O_DIRECTORY),
                                  .lower = open_target(&roots[2], "", O_RDONLY | O_DIRECTORY)}};
  if (top.dirs.merged < 0 || top.dirs.upper < 0 || top.dirs.lower < 0 ||
      read_side(top.dirs.merged, job.deadline_ms, &top.merged) ||
      read_side(top.dirs.lower, job.deadline_ms, &top.lower)) {
    reply_errno(reply, errno);
  } else {
    put_u8(reply, 0);
    put_u32(reply, 0);
    list_dir(&job, &top, 0);
    if (job.error) reply_errno(reply, job.error);
    else if (reply->status == DONE) reply->bytes[0] = job.more;
    if (reply->status == DONE) patch_u32(reply, 1, job.count);
  }
  close_children(&top);
  record_close(&record);
}
