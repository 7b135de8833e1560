// How much of the processors a box may have at any time. Few boxes ask for it, and joining one more
// v1 group costs milliseconds, so there the group is made for those alone. On v2 a box's one group
// holds it like everything else.
#include "cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PERIOD_US 100000ull
#define QUOTA_US_MIN 1000ull  // the kernel takes no less

static struct tree tree;
static bool is_counted;  // v1, and that hierarchy counts time too: boxes have groups there anyway

void quota_find(void) {
  char text[512];
  memset(&tree, 0, sizeof tree);
  const struct tree *own = &trees[HELD_TREE];
  int dir = own->version == 2 ? open(own->base, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  // A group has the file only when the one above hands the controller out.
  if (dir >= 0 && cgroup_read(dir, "cpu.max", text, sizeof text) > 0 &&
      !cgroup_write(dir, "cgroup.subtree_control", "+cpu"))
    tree = *own;
  if (dir >= 0) close(dir);
  if (!tree.version && !cgroup_find_v1(&tree, "cpu")) tree.version = 0;
  is_counted = tree.version == 1 && !strcmp(tree.base, trees[HELD_CPU].base);
}

const char *quota_held(void) {
  return tree.version == 2 ? "v2" : tree.version == 1 ? "v1" : "none";
}

static void path_of(const struct cgroup *group, char *path, size_t size) {
  snprintf(path, size, "%s/%s", tree.base, group->name);
}

static int join(int dir, pid_t pid) {
  char text[16];
  snprintf(text, sizeof text, "%d", pid);
  return cgroup_write(dir, "cgroup.procs", text);
}

static int limit_v1(int dir, uint64_t quota_us) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)PERIOD_US);
  if (cgroup_write(dir, "cpu.cfs_period_us", text)) return -1;
  snprintf(text, sizeof text, "%llu", (unsigned long long)quota_us);
  return cgroup_write(dir, "cpu.cfs_quota_us", text);
}

static int set_v1(struct cgroup *group, pid_t init, uint64_t quota_us) {
  if (is_counted) return limit_v1(group->dirs[HELD_CPU], quota_us);
  char path[PATH_BYTES + 64];
  path_of(group, path, sizeof path);
  if (mkdir(path, 0755) && errno != EEXIST) return -1;
  group->quota = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (group->quota < 0 || limit_v1(group->quota, quota_us)) return -1;
  return join(group->quota, init);
}

// Where nothing holds it the box goes on without: whoever asks is told so in the feature list.
int quota_set(struct cgroup *group, pid_t init, uint64_t milli, struct failure *why) {
  if (!milli || !tree.version) return 0;
  uint64_t quota_us = milli * (PERIOD_US / 1000);
  if (quota_us < QUOTA_US_MIN) quota_us = QUOTA_US_MIN;
  char text[64];
  snprintf(text, sizeof text, "%llu %llu", (unsigned long long)quota_us, PERIOD_US);
  int bad = tree.version == 1 ? set_v1(group, init, quota_us)
                              : cgroup_write(group->dirs[HELD_TREE], "cpu.max", text);
  return bad ? fail(why, REFUSED_SETUP, "a share of the processors: %s", strerror(errno)) : 0;
}

// A command of an open box is in the box's group, not in one of its own.
int quota_join(struct cgroup *group, const struct cgroup *parent) {
  if (!parent || parent->quota < 0) return 0;
  group->joins[JOIN_QUOTA] = openat(parent->quota, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  return group->joins[JOIN_QUOTA] < 0 ? -1 : 0;
}

bool quota_remove(struct cgroup *group) {
  if (group->quota < 0) return true;
  char path[PATH_BYTES + 64];
  path_of(group, path, sizeof path);
  if (rmdir(path) && errno != ENOENT) return false;
  close(group->quota);
  group->quota = -1;
  return true;
}

void quota_sweep(void) {
  // Others are swept with the rest.
  if (tree.version == 1 && !is_counted) cgroup_sweep_tree(&tree);
}
