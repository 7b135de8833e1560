// Deletes one name, an empty directory, or a tree if requested. Each step works from the descriptor
// of the parent directory, so a symbolic link that replaces an entry is removed, never followed.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NAMES_AT_ONCE 4096

struct tree_delete {
  uint64_t deadline_ms;
  uint32_t count;
  bool incomplete;  // an entry could not be removed, or the deadline passed
  int error;
};

static void record_failure(struct tree_delete *job, int error) {
  job->incomplete = true;
  if (job->error == 0) job->error = error;
}

static void delete_entry(struct tree_delete *job, int parent, const char *name, int depth);

static void delete_children(struct tree_delete *job, int dir, int depth) {
  for (;;) {
    struct names names;
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0 || read_names(copy, NAMES_AT_ONCE, job->deadline_ms, &names)) {
      record_failure(job, errno);
      return;
    }
    uint32_t before = job->count;
    for (size_t i = 0; i < names.count && now_ms() <= job->deadline_ms; i++)
      delete_entry(job, dir, names.list[i], depth + 1);
    bool more = names.truncated && job->count > before;
    free_names(&names);
    if (now_ms() > job->deadline_ms) record_failure(job, ETIMEDOUT);
    if (!more || job->incomplete) return;
  }
}

static void delete_entry(struct tree_delete *job, int parent, const char *name, int depth) {
  if (unlinkat(parent, name, 0) == 0) {
    job->count++;
    return;
  }
  // unlink of a directory fails with EISDIR, or with EPERM on some file systems.
  if (errno == ENOENT) return;
  int error = errno;
  int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0) {
    record_failure(job, errno == ENOTDIR || errno == ELOOP ? error : errno);
    return;
  }
  if (depth >= DEPTH_MAX) record_failure(job, E2BIG);
  else delete_children(job, dir, depth);
  close(dir);
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0) job->count++;
  else if (errno != ENOENT) record_failure(job, errno);
}

static void delete_tree(struct reply *reply, int dir, const char *name, uint64_t deadline_ms) {
  struct tree_delete job = {.deadline_ms = deadline_ms};
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
    reply_errno(reply, errno);
    return;
  }
  delete_entry(&job, dir, name, 0);
  // If nothing was deleted, report the error; otherwise the count, and whether entries remain.
  if (job.count == 0 && job.incomplete) {
    reply_errno(reply, job.error);
    return;
  }
  put_u32(reply, job.count);
  put_u8(reply, job.incomplete);
}

static void delete_one(struct reply *reply, int dir, const char *name) {
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
      unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0)) {
    reply_errno(reply, errno);
    return;
  }
  put_u32(reply, 1);
  put_u8(reply, 0);
}

void do_delete(struct request *req, struct reply *reply) {
  struct target target;
  const char *name;
  if (!get_target(req, &target, reply)) return;
  uint8_t flags = get_u8(req);
  uint32_t limit_ms = get_u32(req);
  const uint8_t *expected = flags & DELETE_EXPECT ? get_bytes(req, 32) : NULL;
  const uint8_t *parent = flags & DELETE_PARENT ? get_bytes(req, FILE_ID_BYTES) : NULL;
  if (!is_fully_read(req)) return;
  if (!root_is_writable(target.root)) {
    reply_error(reply, READ_ONLY, "is read-only");
    return;
  }
  int dir = open_parent(&target, expected ? O_RDONLY : O_PATH, &name);
  if (dir < 0 || (expected && lock_directory(dir))) {
    reply_errno(reply, errno);
    if (dir >= 0) close(dir);
    return;
  }
  if (parent && !check_parent(dir, parent, reply)) {
    close(dir);
    return;
  }
  if (expected && !check_hash(dir, name, expected, reply)) {
    close(dir);
    return;
  }
  if (flags & DELETE_TREE) delete_tree(reply, dir, name, set_worker_deadline(limit_ms));
  else delete_one(reply, dir, name);
  close(dir);
}
