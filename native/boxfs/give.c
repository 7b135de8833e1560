// In a box with an owner's rights (the warden's owner-rights.c), what this process makes in the
// directory of a person is given to that person, and what git has made there is given afterwards
// (OP_GIVE). Everywhere else new files belong to whom they should, and nothing here does anything.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "boxfs.h"

struct owner {
  uid_t uid;
  gid_t gid;
};

static bool has_rights(void) { return prctl(PR_CAPBSET_READ, CAP_CHOWN, 0, 0, 0) == 1; }

// Returns false where new files need no other owner.
static bool find_owner(unsigned root, struct owner *owner) {
  struct stat st;
  struct target top = {.root = root};
  if (!has_rights()) return false;
  int fd = open_target(&top, "", O_PATH);
  bool is_other = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid != geteuid();
  if (fd >= 0) close(fd);
  if (is_other) *owner = (struct owner){st.st_uid, st.st_gid};
  return is_other;
}

bool is_of_others(unsigned root, const struct stat *st) {
  struct owner owner;
  if (st->st_nlink == 0 || !find_owner(root, &owner)) return false;
  return st->st_uid != owner.uid && st->st_uid != geteuid();
}

// In a setgid directory the group is that of the directory already.
static gid_t group_for(int dir, const struct owner *owner) {
  struct stat st;
  return fstat(dir, &st) == 0 && st.st_mode & S_ISGID ? (gid_t)-1 : owner->gid;
}

int give_file(unsigned root, int fd) {
  struct owner owner;
  return find_owner(root, &owner) ? fchown(fd, owner.uid, owner.gid) : 0;
}

int give_name(unsigned root, int dir, const char *name) {
  struct owner owner;
  if (!find_owner(root, &owner)) return 0;
  return fchownat(dir, name, owner.uid, group_for(dir, &owner), AT_SYMLINK_NOFOLLOW);
}

struct giving {
  struct owner owner;
  uint64_t deadline_ms;
  uint32_t count;
  int error;
};

static void give_directory(struct giving *job, int dir, int depth);

static void give_entry(struct giving *job, int dir, const char *name, int depth) {
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
    if (errno != ENOENT) job->error = errno;
    return;
  }
  if (S_ISDIR(st.st_mode)) {
    int next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next >= 0) give_directory(job, next, depth + 1);
    else if (errno != ENOENT) job->error = errno;
  }
  // Last: a directory that is given may be closed to what is still to be done in it.
  if (job->error || st.st_uid != geteuid()) return;
  if (fchownat(dir, name, job->owner.uid, group_for(dir, &job->owner), AT_SYMLINK_NOFOLLOW) == 0)
    job->count++;
  else if (errno != ENOENT) job->error = errno;
}

// Closes dir.
static void give_directory(struct giving *job, int dir, int depth) {
  struct names names;
  int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
  if (depth > DEPTH_MAX) errno = ELOOP;
  if (depth > DEPTH_MAX || copy < 0 ||
      read_names(copy, CHANGE_NAMES_MAX, job->deadline_ms, &names)) {
    job->error = errno;
    close(dir);
    return;
  }
  if (names.truncated) job->error = EFBIG;
  for (size_t i = 0; i < names.count && !job->error; i++)
    give_entry(job, dir, names.list[i], depth);
  free_names(&names);
  close(dir);
}

// root u16, path → count u32. Gives what this user has in a directory to the owner of the root.
void do_give(struct request *req, struct reply *reply) {
  struct target target;
  struct giving job = {.deadline_ms = set_worker_deadline(0)};
  if (!get_target(req, &target, reply)) return;
  if (!is_fully_read(req)) return;
  if (find_owner(target.root, &job.owner)) {
    int dir = open_strictly(&target, target.path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (dir >= 0) give_directory(&job, dir, 0);
    else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) job.error = errno;
  }
  if (job.error) reply_errno(reply, job.error);
  else put_u32(reply, job.count);
}
