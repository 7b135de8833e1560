// Brings files from one root into another, step by step: for each path what must be there, and what
// has to be there afterwards. A path that is neither is a conflict and is not touched. Repeating a
// batch finishes it, wherever an earlier run was killed; with the sides swapped, it undoes it.
#include "install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool get_place(struct request *req, struct target *place) {
  char path[PATH_BYTES];
  place->root = get_u16(req);
  return get_text(req, path, sizeof path) && normalize_path(path, place->path);
}

static bool get_side(struct request *req, struct side *side) {
  char link[PATH_BYTES];
  side->kind = get_u8(req);
  side->mode = get_u32(req);
  switch (side->kind) {
    case 0: case KIND_DIRECTORY: break;
    case KIND_FILE: side->hash = get_bytes(req, 32); break;
    case KIND_LINK:
      if (get_text(req, link, sizeof link)) side->link = strdup(link);
      return side->link != NULL && *side->link;
    default: return false;
  }
  return !req->malformed && (side->mode == ANY_MODE || side->mode <= 0777);
}

// The kernel would resolve "..", but a step names what it changes.
static bool is_plain(const char *path) {
  for (const char *at = path; *at;) {
    size_t length = strcspn(at, "/");
    if (length == 2 && at[0] == '.' && at[1] == '.') return false;
    at += length + (at[length] == '/');
  }
  return *path != 0;
}

static bool get_step(struct request *req, struct step *step) {
  char path[PATH_BYTES], normalized[PATH_BYTES];
  if (!get_text(req, path, sizeof path) || !normalize_path(path, normalized)) return false;
  step->path = strdup(normalized);
  if (!step->path || !is_plain(step->path)) return false;
  if (!get_side(req, &step->old) || !get_side(req, &step->new)) return false;
  return step->old.kind != 0 || step->new.kind != 0;
}

static void forget_pending(struct install *job) {
  job->pending_count = 0;
  job->has_removals = job->has_new_directories = false;
}

static void commit_pending(struct install *job) {
  for (size_t i = 0; i < job->pending_count; i++) commit_step(job, &job->pending[i]);
  forget_pending(job);
}

static bool sync_places(const struct install *job) {
  struct stat to, undo;
  if (syncfs(job->sync_to)) return false;
  if (job->sync_undo < 0) return true;
  bool is_one = fstat(job->sync_to, &to) == 0 && fstat(job->sync_undo, &undo) == 0 &&
                to.st_dev == undo.st_dev;
  return is_one || syncfs(job->sync_undo) == 0;
}

// No path changes before its new content and the copy of its old one are on the disk.
static void flush(struct install *job) {
  if (job->pending_count == 0) return;
  if (job->flags & INSTALL_STAGE || sync_places(job)) {
    commit_pending(job);
    return;
  }
  int error = errno;
  for (size_t i = 0; i < job->pending_count; i++) {
    struct pending *pending = &job->pending[i];
    fail_step(pending->step, error);
    drop_temp(pending);
    close(pending->dir);
  }
  forget_pending(job);
}

// Files are collected, so that one sync is enough for many; what depends on them comes behind a
// flush: a directory is removed when it is empty, and filled when it is there.
static bool must_flush(const struct install *job, const struct step *step) {
  bool was_dir = step->old.kind == KIND_DIRECTORY, is_dir = step->new.kind == KIND_DIRECTORY;
  if (was_dir && (is_dir || job->has_removals)) return true;
  bool turns = is_dir && step->old.kind != 0 && !was_dir;
  return job->has_new_directories && !turns;
}

static void run_step(struct install *job, struct step *step) {
  bool was_dir = step->old.kind == KIND_DIRECTORY, is_dir = step->new.kind == KIND_DIRECTORY;
  bool has_content = step->old.kind == KIND_FILE || step->new.kind == KIND_FILE;
  if (must_flush(job, step)) flush(job);
  struct pending *pending = &job->pending[job->pending_count];
  if (!prepare_step(job, step, pending)) return;
  if ((was_dir || is_dir) && !has_content) {
    commit_step(job, pending);
    return;
  }
  job->pending_count++;
  job->has_removals = job->has_removals || step->new.kind == 0;
  job->has_new_directories = job->has_new_directories || is_dir;
}

static bool has_other_parent(const char *path, const char *last) {
  const char *a = strrchr(path, '/'), *b = strrchr(last, '/');
  size_t x = a ? (size_t)(a - path) : 0, y = b ? (size_t)(b - last) : 0;
  return x != y || memcmp(path, last, x) != 0;
}

static void run_steps(struct install *job, struct step *steps, size_t count) {
  if (job->flags & INSTALL_REPEAT && !(job->flags & INSTALL_CHECK))
    for (size_t i = 0; i < count; i++)
      if (i == 0 || has_other_parent(steps[i].path, steps[i - 1].path))
        remove_leftovers(job, steps[i].path);
  for (size_t i = 0; i < count; i++) run_step(job, &steps[i]);
  flush(job);
}

static void put_outcomes(struct reply *reply, const struct step *steps, size_t count) {
  put_u16(reply, (uint16_t)count);
  for (size_t i = 0; i < count; i++) {
    put_u8(reply, steps[i].outcome);
    put_u8(reply, steps[i].cause);
    put_u32(reply, steps[i].entries);
  }
}

static bool get_job(struct request *req, struct install *job, struct reply *reply) {
  bool are_places = get_place(req, &job->from) && get_place(req, &job->to) &&
                    get_place(req, &job->undo);
  job->saves = job->undo.root != NO_ROOT;
  job->flags = get_u8(req);
  uint64_t apply_id = get_u64(req);
  snprintf(job->prefix, sizeof job->prefix, ".agentd-%016llx-", (unsigned long long)apply_id);
  if (!are_places || req->malformed || job->from.root >= root_count() ||
      job->to.root >= root_count() || (job->saves && job->undo.root >= root_count())) {
    reply_error(reply, BAD_REQUEST, "unknown root or absolute path");
    return false;
  }
  bool changes = !(job->flags & INSTALL_CHECK);
  if (changes && (!root_is_writable(job->to.root) ||
                  (job->saves && !root_is_writable(job->undo.root)))) {
    reply_error(reply, READ_ONLY, "is read-only");
    return false;
  }
  return true;
}

static void install(struct install *job, struct step *steps, size_t count, struct reply *reply) {
  // Opened first: a later syncfs then reports what could not be written since.
  job->sync_to = open_strictly(&(struct target){.root = job->to.root}, "", O_RDONLY | O_DIRECTORY);
  job->sync_undo = -1;
  if (job->saves)
    job->sync_undo =
        open_strictly(&(struct target){.root = job->undo.root}, "", O_RDONLY | O_DIRECTORY);
  if (job->sync_to < 0 || (job->saves && job->sync_undo < 0)) {
    reply_errno(reply, errno);
  } else {
    run_steps(job, steps, count);
    if (job->flags & INSTALL_SYNC && !sync_places(job)) reply_errno(reply, errno);
    else put_outcomes(reply, steps, count);
  }
  if (job->sync_to >= 0) close(job->sync_to);
  if (job->sync_undo >= 0) close(job->sync_undo);
}

// from, to, undo (root u16, path); flags u8, apply id u64, count u16, steps: path, old side, new
// side; a side: kind u8 (0: absent), mode u32, then the hash of a file or the target of a link.
// → count u16, for each step outcome u8, cause u8, names in the directory u32
void do_install(struct request *req, struct reply *reply) {
  // Modes are set as they are given. This process serves only this request.
  umask(0);
  struct install *job = calloc(1, sizeof *job);
  struct step *steps = calloc(STEPS_MAX, sizeof *steps);
  if (!job || !steps) {
    reply_errno(reply, ENOMEM);
  } else if (get_job(req, job, reply)) {
    uint16_t count = get_u16(req);
    bool is_valid = !req->malformed && count <= STEPS_MAX;
    for (uint16_t i = 0; is_valid && i < count; i++) is_valid = get_step(req, &steps[i]);
    if (is_valid && is_fully_read(req)) install(job, steps, count, reply);
    else reply_error(reply, BAD_REQUEST, "malformed step");
  }
  for (size_t i = 0; steps && i < STEPS_MAX; i++) {
    free(steps[i].path);
    free(steps[i].old.link);
    free(steps[i].new.link);
  }
  free(steps);
  free(job);
}
