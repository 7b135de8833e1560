// A box that acts on a person's files where the file system has no mapped mounts (a container's own
// root is an overlay). It keeps its user and gets a user namespace that maps one more: the owner of
// its owned binds. The kernel then gives three capabilities force on the files of these two users,
// whatever their group, and on no others: it reads and writes them as the owner could, and makes
// new ones the owner's. agentd's own programs alone run in such a box, never an agent's. Nothing
// else that belongs to the owner may be in it.
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const program_dirs[] = {"/usr",   "/bin",   "/sbin",  "/lib",
                                           "/lib32", "/lib64", "/libx32"};

int rights_clone(int fd, uint32_t uid, const struct plan *plan, struct paths *paths,
                 struct failure *err) {
  if (paths->has_rights && paths->rights_uid != uid)
    return fail(err, REFUSED_PLAN, "the rights of two owners in one box, uid %u and uid %u",
                paths->rights_uid, uid);
  if (uid == bounds.client_uid && uid != 0)
    return fail(err, REFUSED_BOUNDS, "uid %u is the daemons' user", uid);
  if (!GUARDED(plan, GUARD_USERNS) || !GUARDED(plan, GUARD_CAPS))
    return fail(err, REFUSED_PLAN, "an owner's rights need their guards");
  // Without what is mounted inside: that may be another file system, with other owners.
  int tree = k_open_tree(fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
  if (tree < 0) return fail(err, REFUSED_SETUP, "open_tree: %s", strerror(errno));
  paths->has_rights = true;
  paths->rights_uid = uid;
  *err = (struct failure){0};
  return tree;
}

static bool is_of_programs(const char *path) {
  for (size_t i = 0; i < sizeof program_dirs / sizeof *program_dirs; i++)
    if (is_below(program_dirs[i], path)) return true;
  return false;
}

// These rights must open nothing else that is closed to the box's own user.
static int check_bind(const struct bounds *b, const struct bind *bind, int fd,
                      struct failure *err) {
  struct stat st;
  if (bind->kind == BIND_LAYER || bind->flags & BIND_OWNED) return 0;
  struct failure outside = {0};
  int own = bounds_open(b, bind->src, PREFIX_CHOWN, &outside);
  k_close(own);
  if (own >= 0) return 0;
  if (fstat(fd, &st)) return fail(err, REFUSED_SETUP, "%.200s: %s", bind->src, strerror(errno));
  bool is_public = S_ISREG(st.st_mode) ? st.st_mode & S_IROTH : is_of_programs(bind->src);
  if (bind->kind == BIND_RO && is_public) return 0;
  return fail(err, REFUSED_PLAN, "%.200s cannot be in a box with an owner's rights", bind->src);
}

int rights_prepare(const struct bounds *b, const struct plan *plan, struct paths *paths,
                   struct failure *err) {
  for (unsigned i = 0; i < plan->bind_count; i++)
    if (bind_is_mounted(&plan->binds[i]) && check_bind(b, &plan->binds[i], paths->fds[i], err))
      return -1;
  char uids[64];
  snprintf(uids, sizeof uids, "%u %u 1\n%u %u 1\n", plan->uid, plan->uid, paths->rights_uid,
           paths->rights_uid);
  // All groups: the owner's files may have any, and none of these rights is about a group.
  paths->rights_ns = user_namespace_create(uids, "0 0 4294967295\n");
  if (paths->rights_ns >= 0) return 0;
  return fail(err, REFUSED_HOST, "creating the owner's user namespace: %s", strerror(errno));
}
