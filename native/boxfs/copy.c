// Copies a tree into an empty directory, with a record of it (OP_COPY): in pages, each of which
// continues behind the last path of the one before. No link is followed, and no other mount
// entered; what cannot be read, and what is neither file, directory nor link, is left out and
// recorded so.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "record.h"

#define BLOCK_BYTES 65536

struct copying {
  struct target from;
  FILE *record;
  const char *after;
  uint64_t bytes, bytes_max, page_end_ms, deadline_ms;
  uint32_t entries, entries_max, left_out, cloned;
  bool more, is_over;
  int error;
  struct record_entry entry;
  char path[PATH_BYTES];
  char last[PATH_BYTES];
};

static bool is_stopped(const struct copying *job) {
  return job->error || job->more || job->is_over;
}

static void put_entry(struct copying *job, uint8_t kind, const struct stat *base,
                      const struct stat *copy) {
  struct record_entry *entry = &job->entry;
  entry->kind = kind;
  entry->base_mode = base->st_mode;
  entry->mode = copy ? copy->st_mode : 0;
  entry->inode = copy ? copy->st_ino : 0;
  entry->ctime_ns = copy ? ctime_ns(copy) : 0;
  entry->size = copy ? (uint64_t)copy->st_size : 0;
  memcpy(entry->path, job->path, strlen(job->path) + 1);
  if (record_put(job->record, entry)) job->error = errno;
  if (kind == RECORD_LEFT_OUT) job->left_out++;
  job->entries++;
  memcpy(job->last, job->path, strlen(job->path) + 1);
  job->is_over = job->is_over || job->entries > job->entries_max;
  job->more = now_ms() > job->page_end_ms;
}

// True for what a person can have in a directory that this user cannot use.
static bool is_unusable(int error) {
  return error == EACCES || error == EPERM || error == EXDEV || error == ENXIO || error == ESTALE;
}

// Shares the blocks where the file system can.
static int copy_content(struct copying *job, int from, int to, uint64_t max) {
  static uint8_t block[BLOCK_BYTES];
  static const uint8_t zeros[BLOCK_BYTES];
  bool is_cloned = ioctl(to, FICLONE, from) == 0;
  int source = is_cloned ? to : from;
  struct sha256 hash;
  sha256_init(&hash);
  ssize_t got;
  uint64_t at = 0;
  while ((got = read_full(source, block, sizeof block, (off_t)at)) > 0) {
    sha256_update(&hash, block, (size_t)got);
    bool is_hole = memcmp(block, zeros, (size_t)got) == 0;
    if (!is_cloned && is_hole && lseek(to, got, SEEK_CUR) < 0) return -1;
    if (!is_cloned && !is_hole && write_full(to, block, (size_t)got)) return -1;
    at += (uint64_t)got;
    errno = at > max ? EFBIG : ETIMEDOUT;
    if (at > max || now_ms() > job->deadline_ms) return -1;
  }
  if (got < 0 || (!is_cloned && ftruncate(to, (off_t)at))) return -1;
  sha256_final(&hash, job->entry.hash);
  job->bytes += at;
  job->cloned += is_cloned;
  return 0;
}

static int make_file(struct copying *job, int from, int dir, const char *name,
                     const struct stat *base, struct stat *copy) {
  int to = openat(dir, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (to < 0) return -1;
  struct timespec times[2] = {base->st_mtim, base->st_mtim};
  // git and make compare times.
  int failed = copy_content(job, from, to, job->bytes_max - job->bytes) ||
               fchmod(to, base->st_mode & 0777) || futimens(to, times) || fstat(to, copy);
  int error = errno;
  if (close(to) && !failed) {
    failed = 1;
    error = errno;
  }
  errno = error;
  return failed ? -1 : 0;
}

static void copy_file(struct copying *job, int dir, const char *name, const struct stat *base) {
  struct stat now, copy;
  if ((uint64_t)base->st_size > job->bytes_max - job->bytes) {
    job->is_over = true;
    return;
  }
  int from = open_strictly(&job->from, job->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (from < 0 && errno == ENOENT) return;
  if (from < 0 && is_unusable(errno)) {
    put_entry(job, RECORD_LEFT_OUT, base, NULL);
    return;
  }
  if (from < 0 || fstat(from, &now)) job->error = errno;
  else if (!S_ISREG(now.st_mode)) put_entry(job, RECORD_LEFT_OUT, base, NULL);
  else if (make_file(job, from, dir, name, &now, &copy) == 0)
    put_entry(job, RECORD_COPIED, &now, &copy);
  else if (errno == EFBIG) job->is_over = true;
  else job->error = errno;
  if (from >= 0) close(from);
}

static void copy_link(struct copying *job, int from, int dir, const char *name,
                      const struct stat *base) {
  struct stat copy;
  struct record_entry *entry = &job->entry;
  ssize_t size = readlinkat(from, name, entry->link, sizeof entry->link - 1);
  if (size < 0) {
    if (errno != ENOENT) put_entry(job, RECORD_LEFT_OUT, base, NULL);
    return;
  }
  entry->link[size] = 0;
  entry->link_size = (uint32_t)size;
  if (symlinkat(entry->link, dir, name) || fstatat(dir, name, &copy, AT_SYMLINK_NOFOLLOW))
    job->error = errno;
  else put_entry(job, RECORD_COPIED, base, &copy);
}

static void copy_names(struct copying *job, int from, int to, int depth);

// True if an earlier page has made it, and not all that is in it.
static bool is_above_last(const struct copying *job) {
  size_t length = strlen(job->path);
  return strncmp(job->after, job->path, length) == 0 && job->after[length] == '/';
}

static void copy_directory(struct copying *job, int dir, const char *name, const struct stat *base,
                           bool is_made, int depth) {
  struct stat copy;
  int from = open_strictly(&job->from, job->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (from < 0 && errno == ENOENT) return;
  // A page that cannot go on in it leaves the rest out: that would look deleted.
  if (from < 0 && is_unusable(errno) && !is_made) {
    put_entry(job, RECORD_LEFT_OUT, base, NULL);
    return;
  }
  if (from >= 0 && (depth >= DEPTH_MAX || strlen(job->path) + 1 + NAME_MAX >= sizeof job->path)) {
    close(from);
    put_entry(job, RECORD_LEFT_OUT, base, NULL);
    return;
  }
  int to = -1;
  if (from < 0 || (!is_made && mkdirat(dir, name, 0700)) ||
      (to = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0 ||
      fstat(to, &copy))
    job->error = errno;
  mode_t mode = base->st_mode & 0777;
  copy.st_mode = S_IFDIR | mode;
  if (!job->error && !is_made) put_entry(job, RECORD_COPIED, base, &copy);
  if (!is_stopped(job)) {
    copy_names(job, from, to, depth + 1);
    from = -1;
    // Only now: what is in it could not be made otherwise.
    if (!is_stopped(job) && fchmod(to, mode)) job->error = errno;
  }
  if (from >= 0) close(from);
  if (to >= 0) close(to);
}

static void copy_name(struct copying *job, int from, int to, const char *name, int depth) {
  struct stat base;
  size_t length = strlen(job->path), left = sizeof job->path - length;
  int added = snprintf(job->path + length, left, "%s%s", length ? "/" : "", name);
  if (added < 0 || (size_t)added >= left) job->error = ENAMETOOLONG;
  job->entry.link_size = 0;
  memset(job->entry.hash, 0, sizeof job->entry.hash);
  bool is_done = !job->error && *job->after && compare_paths(job->path, job->after) <= 0;
  bool is_made = is_done && (is_above_last(job) || strcmp(job->path, job->after) == 0);
  if (job->error || (is_done && !is_made)) {
  } else if (fstatat(from, name, &base, AT_SYMLINK_NOFOLLOW)) {
    if (errno != ENOENT) job->error = errno;
  } else if (S_ISDIR(base.st_mode)) {
    struct stat made;
    // One that was left out by the page before is not there.
    if (!is_made || (fstatat(to, name, &made, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(made.st_mode)))
      copy_directory(job, to, name, &base, is_made, depth);
  } else if (is_made) {
  } else if (S_ISREG(base.st_mode)) {
    copy_file(job, to, name, &base);
  } else if (S_ISLNK(base.st_mode)) {
    copy_link(job, from, to, name, &base);
  } else {
    put_entry(job, RECORD_LEFT_OUT, &base, NULL);
  }
  job->path[length] = 0;
}

// Closes from.
static void copy_names(struct copying *job, int from, int to, int depth) {
  struct names names;
  int copy = fcntl(from, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || read_names(copy, CHANGE_NAMES_MAX, job->deadline_ms, &names)) {
    job->error = errno;
    close(from);
    return;
  }
  if (names.truncated) job->is_over = true;
  for (size_t i = 0; i < names.count && !is_stopped(job); i++)
    copy_name(job, from, to, names.list[i], depth);
  free_names(&names);
  close(from);
}

// roots from, to, record u16 each; bytes max u64, entries max u32, after → more u8, over u8,
// entries u32, left out u32, cloned u32, bytes u64, last
void do_copy(struct request *req, struct reply *reply) {
  char after[PATH_BYTES];
  struct copying job = {.after = after};
  struct target to = {0}, place = {0};
  job.from.root = get_u16(req);
  to.root = get_u16(req);
  place.root = get_u16(req);
  job.bytes_max = get_u64(req);
  job.entries_max = get_u32(req);
  get_text(req, after, sizeof after);
  if (!is_fully_read(req)) return;
  if (job.from.root >= root_count() || to.root >= root_count() || place.root >= root_count()) {
    reply_error(reply, BAD_REQUEST, "unknown root");
    return;
  }
  job.deadline_ms = set_worker_deadline(0);
  job.page_end_ms = now_ms() + CHANGE_PAGE_MS;
  int from_fd = open_target(&job.from, "", O_RDONLY | O_DIRECTORY);
  int to_fd = open_target(&to, "", O_RDONLY | O_DIRECTORY);
  job.record = record_open(&place, *after == 0);
  if (from_fd < 0 || to_fd < 0 || !job.record) job.error = errno;
  if (!job.error) {
    copy_names(&job, from_fd, to_fd, 0);
    from_fd = -1;
  }
  bool is_last = !is_stopped(&job);
  if (is_last && record_end(job.record)) job.error = errno;
  if (job.record && fclose(job.record) && !job.error) job.error = errno;
  // A file that a power failure has cut off would look like a change of an agent.
  if (is_last && !job.error && syncfs(to_fd)) job.error = errno;
  if (from_fd >= 0) close(from_fd);
  if (to_fd >= 0) close(to_fd);
  if (job.error) {
    reply_errno(reply, job.error);
    return;
  }
  put_u8(reply, job.more);
  put_u8(reply, job.is_over);
  put_u32(reply, job.entries);
  put_u32(reply, job.left_out);
  put_u32(reply, job.cloned);
  put_u64(reply, job.bytes);
  put_text(reply, job.last, strlen(job.last));
}
