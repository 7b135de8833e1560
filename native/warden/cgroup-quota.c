// The CPU quota of a box. Few boxes have one, and joining one more v1 cgroup costs milliseconds, so
// on v1 the cgroup is created for those only. On v2 a box has a single cgroup for everything.
#include "cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PERIOD_US 100000ull
#define QUOTA_US_MIN 1000ull  // the kernel's minimum

static struct tree tree;
static bool shares_cpu_dir;  // v1: cpu and cpuacct are one hierarchy, where every box has a cgroup

void quota_detect(void) {
  char text[512];
  memset(&tree, 0, sizeof tree);
  const struct tree *base = &trees[CGROUP_TREE];
  int dir = base->version == 2 ? open(base->base, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  // A cgroup has this file only if its parent delegates the controller.
  if (dir >= 0 && cgroup_read(dir, "cpu.max", text, sizeof text) > 0 &&
      !write_file(dir, "cgroup.subtree_control", "+cpu"))
    tree = *base;
  if (dir >= 0) close(dir);
  if (!tree.version && !cgroup_detect_v1(&tree, "cpu")) tree.version = 0;
  shares_cpu_dir = tree.version == 1 && !strcmp(tree.base, trees[CGROUP_CPU].base);
}

const char *quota_version(void) {
  return tree.version == 2 ? "v2" : tree.version == 1 ? "v1" : "none";
}

static void get_path(const struct cgroup *cgroup, char *path, size_t size) {
  snprintf(path, size, "%s/%s", tree.base, cgroup->name);
}

static int add_process(int dir, pid_t pid) {
  char text[16];
  snprintf(text, sizeof text, "%d", pid);
  return write_file(dir, "cgroup.procs", text);
}

static int write_quota_v1(int dir, uint64_t quota_us) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)PERIOD_US);
  if (write_file(dir, "cpu.cfs_period_us", text)) return -1;
  snprintf(text, sizeof text, "%llu", (unsigned long long)quota_us);
  return write_file(dir, "cpu.cfs_quota_us", text);
}

static int set_v1(struct cgroup *cgroup, pid_t init, uint64_t quota_us) {
  if (shares_cpu_dir) return write_quota_v1(cgroup->dirs[CGROUP_CPU], quota_us);
  char path[PATH_BYTES + 64];
  get_path(cgroup, path, sizeof path);
  if (mkdir(path, 0755) && errno != EEXIST) return -1;
  cgroup->quota_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (cgroup->quota_fd < 0 || write_quota_v1(cgroup->quota_fd, quota_us)) return -1;
  return add_process(cgroup->quota_fd, init);
}

// Without the controller the box runs without a quota, as the feature list shows.
int quota_set(struct cgroup *cgroup, pid_t init, uint64_t milli, struct failure *err) {
  if (!milli || !tree.version) return 0;
  uint64_t quota_us = milli * (PERIOD_US / 1000);
  if (quota_us < QUOTA_US_MIN) quota_us = QUOTA_US_MIN;
  char text[64];
  snprintf(text, sizeof text, "%llu %llu", (unsigned long long)quota_us, PERIOD_US);
  int bad = tree.version == 1 ? set_v1(cgroup, init, quota_us)
                              : write_file(cgroup->dirs[CGROUP_TREE], "cpu.max", text);
  return bad ? fail(err, REFUSED_SETUP, "setting the CPU quota: %s", strerror(errno)) : 0;
}

// A command in an open box joins the box's quota cgroup.
int quota_join(struct cgroup *cgroup, const struct cgroup *parent) {
  if (!parent || parent->quota_fd < 0) return 0;
  cgroup->join_fds[JOIN_QUOTA] = cgroup_open_join(parent->quota_fd);
  return cgroup->join_fds[JOIN_QUOTA] < 0 ? -1 : 0;
}

bool quota_remove(struct cgroup *cgroup) {
  if (cgroup->quota_fd < 0) return true;
  char path[PATH_BYTES + 64];
  get_path(cgroup, path, sizeof path);
  if (rmdir(path) && errno != ENOENT) return false;
  close(cgroup->quota_fd);
  cgroup->quota_fd = -1;
  return true;
}

void quota_sweep(void) {
  // Otherwise cgroups_sweep has removed it.
  if (tree.version == 1 && !shares_cpu_dir) cgroup_sweep_tree(&tree);
}
