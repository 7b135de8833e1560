// One step of OP_INSTALL: preparing it changes nothing at its path, and committing it is one
// rename. What a rename displaces is compared with what was found, and put back if it differs: an
// edit in the last moment is not lost.
#include "install.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

void end_step(struct step *step, enum step_outcome outcome, uint8_t cause) {
  step->outcome = (uint8_t)outcome;
  step->cause = cause;
}

void fail_step(struct step *step, int error) {
  end_step(step, STEP_FAILED, (uint8_t)status_from_errno(error));
}

static void end_conflict(struct step *step, enum conflict cause) {
  end_step(step, STEP_CONFLICT, (uint8_t)cause);
}

static void end_unexpected(struct step *step, const struct found *found) {
  enum conflict cause = found->kind == 0      ? CONFLICT_REMOVED
                        : step->old.kind == 0 ? CONFLICT_APPEARED
                                              : CONFLICT_CHANGED;
  end_conflict(step, cause);
}

static uint32_t count_entries(int dir, const char *name) {
  struct names names;
  int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || read_names(fd, CHANGE_NAMES_MAX, UINT64_MAX, &names)) return UINT32_MAX;
  uint32_t count = (uint32_t)names.count;
  free_names(&names);
  return count;
}

static bool changes_mode_only(const struct step *step) {
  if (step->old.kind != step->new.kind) return false;
  if (step->old.kind == KIND_DIRECTORY) return true;
  return step->old.kind == KIND_FILE && memcmp(step->old.hash, step->new.hash, 32) == 0;
}

static void check_new_content(const struct install *job, struct step *step, uint8_t cause) {
  bool has_source = step->new.kind == KIND_FILE && !changes_mode_only(step);
  int source = has_source ? verify_source(job, step) : 0;
  if (source < 0) fail_step(step, errno);
  else if (source > 0) end_conflict(step, CONFLICT_SOURCE);
  else end_step(step, STEP_READY, cause);
}

// Where the files are a person's, the box's filter refuses any mode with the setgid bit.
static bool may_set_setgid(void) { return fchmod(-1, S_ISGID) == 0 || errno != EPERM; }

static void check_step(const struct install *job, struct step *step,
                       const struct pending *pending) {
  bool keeps_setgid = step->old.kind == KIND_DIRECTORY && step->new.kind == KIND_DIRECTORY &&
                      pending->found.st.st_mode & S_ISGID;
  if (faccessat(pending->dir, ".", W_OK | X_OK, AT_EACCESS)) fail_step(step, errno);
  else if (keeps_setgid && !may_set_setgid()) fail_step(step, EPERM);
  else check_new_content(job, step, 0);
  if (step->old.kind == KIND_DIRECTORY && step->new.kind != KIND_DIRECTORY)
    step->entries = count_entries(pending->dir, pending->name);
}

// The directory cannot be opened without following a link: nothing of the person's is at the path.
static void prepare_without_parent(const struct install *job, struct step *step, int error) {
  if (error != ENOENT && error != ENOTDIR && error != ELOOP) fail_step(step, error);
  else if (step->new.kind == 0) end_step(step, STEP_ALREADY, 0);
  else if (step->old.kind == 0 && job->flags & INSTALL_CHECK)
    check_new_content(job, step, CONFLICT_NO_PARENT);
  else end_conflict(step, CONFLICT_REMOVED);
}

// It inherits the setgid bit. A default access list can give it another mode.
static int make_new_directory(unsigned root, int dir, const char *temp, uint32_t mode) {
  struct stat st;
  if (mkdirat(dir, temp, mode == ANY_MODE ? 0700 : mode) || give_name(root, dir, temp)) return -1;
  if (mode == ANY_MODE) return 0;
  int fd = openat(dir, temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  int failed = fd < 0 ? -1 : fstat(fd, &st);
  if (!failed && (st.st_mode & 0777) != mode) failed = fchmod(fd, (st.st_mode & 03000) | mode);
  int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return failed;
}

// Makes what will be renamed to the path: 0, 1 if the source is not as expected, -1 with errno.
static int make_new(const struct install *job, const struct step *step, struct pending *pending) {
  pending->temp[0] = 0;
  if (step->new.kind == 0 || changes_mode_only(step)) return 0;
  if (!make_temp_name(job, pending->temp)) return -1;
  switch (step->new.kind) {
    case KIND_FILE: return copy_source(job, step, pending->dir, pending->temp);
    case KIND_LINK:
      if (symlinkat(step->new.link, pending->dir, pending->temp)) return -1;
      return give_name(job->to.root, pending->dir, pending->temp);
    default:
      return make_new_directory(job->to.root, pending->dir, pending->temp, step->new.mode);
  }
}

static bool prepare_change(struct install *job, struct step *step, struct pending *pending) {
  bool has_content = step->old.kind == KIND_FILE && !changes_mode_only(step);
  int saved = has_content && job->saves ? save_old(job, step, pending->dir, pending->name) : 0;
  int made = saved == 0 ? make_new(job, step, pending) : 0;
  if (saved == 0 && made == 0) return true;
  if (saved < 0 || made < 0) fail_step(step, errno);
  else end_conflict(step, saved > 0 ? CONFLICT_CHANGED : CONFLICT_SOURCE);
  return false;
}

bool prepare_step(struct install *job, struct step *step, struct pending *pending) {
  struct target full;
  *pending = (struct pending){.step = step};
  bool make = job->flags & INSTALL_STAGE && step->new.kind != 0;
  const char *name;
  pending->dir = open_step_parent(&job->to, step->path, &full, &name, make);
  if (pending->dir < 0) {
    prepare_without_parent(job, step, errno);
    return false;
  }
  const char *slash = strrchr(step->path, '/');
  pending->name = slash ? slash + 1 : step->path;
  struct found *found = &pending->found;
  int is_new = -1, is_old = -1;
  if (find_current(pending->dir, pending->name, found) == 0) {
    errno = EOVERFLOW;
    if (!is_of_others(job->to.root, &found->st))
      is_new = is_side(pending->dir, pending->name, found, &step->new);
  }
  if (is_new == 0) is_old = is_side(pending->dir, pending->name, found, &step->old);
  // Without an atomic exchange, a repeated step may find nothing between its two sides.
  bool was_between = job->flags & INSTALL_REPEAT && found->kind == 0 && step->new.kind != 0 &&
                     (step->old.kind == KIND_DIRECTORY) != (step->new.kind == KIND_DIRECTORY);
  // A directory that an interrupted run opened to empty it, and then removed.
  bool was_removed = job->flags & INSTALL_REPEAT && found->kind == 0 &&
                     step->old.kind == KIND_DIRECTORY && step->old.mode == ANY_MODE &&
                     step->new.kind == KIND_DIRECTORY;
  bool goes_on = false;
  if (is_new < 0 || (is_new == 0 && is_old < 0)) fail_step(step, errno);
  else if (is_new || was_removed) end_step(step, STEP_ALREADY, 0);
  else if (!is_old && !was_between) end_unexpected(step, found);
  else if (job->flags & INSTALL_CHECK) check_step(job, step, pending);
  else goes_on = prepare_change(job, step, pending);
  if (!goes_on) close(pending->dir);
  return goes_on;
}

// A rename changes the ctime, so it is not compared; neither is anything of a directory, which may
// change as long as it is empty in the end.
static bool is_same(const struct found *found, const struct stat *now) {
  const struct stat *then = &found->st;
  if (then->st_ino != now->st_ino || (then->st_mode & S_IFMT) != (now->st_mode & S_IFMT))
    return false;
  return S_ISDIR(now->st_mode) ||
         (then->st_mode == now->st_mode && then->st_size == now->st_size &&
          mtime_ns(then) == mtime_ns(now));
}

static bool is_unsupported(int error) { return error == EINVAL || error == ENOSYS; }

static bool is_still_found(const struct pending *p) {
  struct stat now;
  if (fstatat(p->dir, p->name, &now, AT_SYMLINK_NOFOLLOW))
    return errno == ENOENT && p->found.kind == 0;
  return p->found.kind != 0 && is_same(&p->found, &now);
}

void drop_temp(const struct pending *p) {
  if (*p->temp && unlinkat(p->dir, p->temp, 0)) unlinkat(p->dir, p->temp, AT_REMOVEDIR);
}

// Each commit_ function ends the step.
static void commit_mode(struct pending *p) {
  struct step *step = p->step;
  struct stat now;
  int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  int fd = openat(p->dir, p->name, flags);
  // A directory keeps its setgid bit, which decides the group of what is made in it.
  if (fd < 0 || fstat(fd, &now)) fail_step(step, errno);
  else if (!is_same(&p->found, &now)) end_conflict(step, CONFLICT_CHANGED);
  else if (fchmod(fd, (S_ISDIR(now.st_mode) ? now.st_mode & 03000 : 0) | step->new.mode))
    fail_step(step, errno);
  else end_step(step, STEP_DONE, 0);
  if (fd >= 0) close(fd);
}

static void commit_new(struct pending *p) {
  int failed = renameat2(p->dir, p->temp, p->dir, p->name, RENAME_NOREPLACE);
  if (failed && is_unsupported(errno)) {
    errno = EEXIST;
    failed = is_still_found(p) ? renameat(p->dir, p->temp, p->dir, p->name) : -1;
  }
  if (!failed) end_step(p->step, STEP_DONE, 0);
  else if (errno == EEXIST) end_conflict(p->step, CONFLICT_APPEARED);
  else fail_step(p->step, errno);
}

static void commit_directory_removal(struct pending *p) {
  if (!is_still_found(p)) end_conflict(p->step, CONFLICT_CHANGED);
  else if (unlinkat(p->dir, p->name, AT_REMOVEDIR) == 0) end_step(p->step, STEP_DONE, 0);
  else if (errno == ENOTEMPTY || errno == EEXIST) end_conflict(p->step, CONFLICT_NOT_EMPTY);
  else fail_step(p->step, errno);
}

// Returns whether what was displaced to the temporary name is what was found.
static bool is_displaced(const struct pending *p, const char *temp) {
  struct stat now;
  return fstatat(p->dir, temp, &now, AT_SYMLINK_NOFOLLOW) == 0 && is_same(&p->found, &now);
}

// Gives what a person put there in the last moment a name that no later run removes.
static void keep_displaced(const struct pending *p, const char *temp) {
  char kept[TEMP_NAME_BYTES + 8];
  snprintf(kept, sizeof kept, "%s.kept", temp + 1);
  renameat(p->dir, temp, p->dir, kept);
}

static void commit_removal(const struct install *job, struct pending *p) {
  char temp[TEMP_NAME_BYTES];
  errno = EIO;
  int failed = make_temp_name(job, temp)
                   ? renameat2(p->dir, p->name, p->dir, temp, RENAME_NOREPLACE)
                   : -1;
  if (failed && is_unsupported(errno)) {
    if (!is_still_found(p)) end_conflict(p->step, CONFLICT_CHANGED);
    else if (unlinkat(p->dir, p->name, 0)) fail_step(p->step, errno);
    else end_step(p->step, STEP_DONE, 0);
  } else if (failed) {
    if (errno == ENOENT) end_step(p->step, STEP_ALREADY, 0);
    else fail_step(p->step, errno);
  } else if (is_displaced(p, temp)) {
    unlinkat(p->dir, temp, 0);
    end_step(p->step, STEP_DONE, 0);
  } else {
    if (renameat2(p->dir, temp, p->dir, p->name, RENAME_NOREPLACE)) keep_displaced(p, temp);
    end_conflict(p->step, CONFLICT_CHANGED);
  }
}

static void replace_plainly(struct pending *p) {
  bool was_dir = p->step->old.kind == KIND_DIRECTORY, is_dir = p->step->new.kind == KIND_DIRECTORY;
  int failed = 0;
  if (!is_still_found(p)) {
    end_conflict(p->step, CONFLICT_CHANGED);
    return;
  }
  if (was_dir != is_dir) failed = unlinkat(p->dir, p->name, was_dir ? AT_REMOVEDIR : 0);
  if (!failed) failed = renameat(p->dir, p->temp, p->dir, p->name);
  if (!failed) end_step(p->step, STEP_DONE, 0);
  else if (errno == ENOTEMPTY) end_conflict(p->step, CONFLICT_NOT_EMPTY);
  else fail_step(p->step, errno);
}

static void commit_replacement(struct pending *p) {
  if (renameat2(p->dir, p->temp, p->dir, p->name, RENAME_EXCHANGE)) {
    if (is_unsupported(errno)) replace_plainly(p);
    else if (errno == ENOENT) end_conflict(p->step, CONFLICT_REMOVED);
    else fail_step(p->step, errno);
    return;
  }
  bool is_dir = p->found.kind == KIND_DIRECTORY;
  bool is_found = is_displaced(p, p->temp);
  if (is_found && unlinkat(p->dir, p->temp, is_dir ? AT_REMOVEDIR : 0) == 0) {
    end_step(p->step, STEP_DONE, 0);
    return;
  }
  if (renameat2(p->dir, p->temp, p->dir, p->name, RENAME_EXCHANGE)) {
    keep_displaced(p, p->temp);
    p->temp[0] = 0;
  }
  end_conflict(p->step, is_found ? CONFLICT_NOT_EMPTY : CONFLICT_CHANGED);
}

// The directory is still the one at the step's path: a person has not renamed it meanwhile.
static bool has_same_parent(const struct install *job, const struct pending *p) {
  struct target full;
  const char *name;
  struct stat then, now;
  int dir = open_step_parent(&job->to, p->step->path, &full, &name, false);
  bool is_same_dir = dir >= 0 && fstat(dir, &now) == 0 && fstat(p->dir, &then) == 0 &&
                     now.st_ino == then.st_ino && now.st_dev == then.st_dev;
  if (dir >= 0) close(dir);
  return is_same_dir;
}

void commit_step(struct install *job, struct pending *p) {
  struct step *step = p->step;
  if (lock_directory(p->dir)) fail_step(step, errno);
  else if (!has_same_parent(job, p)) end_conflict(step, CONFLICT_CHANGED);
  else if (changes_mode_only(step)) commit_mode(p);
  else if (step->new.kind == 0)
    if (step->old.kind == KIND_DIRECTORY) commit_directory_removal(p);
    else commit_removal(job, p);
  else if (p->found.kind == 0) commit_new(p);
  else commit_replacement(p);
  if (step->outcome != STEP_DONE) drop_temp(p);
  close(p->dir);
}
