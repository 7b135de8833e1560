// Finds where this host lets the warden create cgroups: the hierarchies, v1 or v2, and the warden's
// cgroup in each. cgroup.c creates the cgroups of boxes.
#include "cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct tree trees[CGROUP_RESOURCES];
static char base_name[32];
static char delegated_parent[PATH_BYTES];  // the cgroup the warden moved out of, or ""

const char *cgroup_base_name(void) { return base_name; }

static int write_path(const char *dir, const char *name, const char *text) {
  int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = write_file(fd, name, text);
  close(fd);
  return bad;
}

static bool list_contains(const char *list, const char *item) {
  size_t size = strlen(item);
  for (const char *at = list; (at = strstr(at, item)); at += size) {
    bool starts = at == list || at[-1] == ',' || at[-1] == ' ';
    if (starts && (!at[size] || strchr(", \n", at[size]))) return true;
  }
  return false;
}

// Finds the cgroup of this process. controller: "" for v2, or the name of a v1 controller.
static bool find_own_cgroup(const char *controller, char *out, size_t capacity) {
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return false;
  char line[PATH_BYTES];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *names = strchr(line, ':');
    char *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    names++;
    found = *controller ? list_contains(names, controller) : !*names;
    if (found) snprintf(out, capacity, "%s", strcmp(path, "/") ? path : "");
  }
  fclose(file);
  return found;
}

// Finds where a hierarchy is mounted. The fields after " - " in mountinfo are type, source,
// options.
static bool find_mount_point(const char *controller, char *out, size_t capacity) {
  FILE *file = fopen("/proc/self/mountinfo", "re");
  if (!file) return false;
  char line[PATH_BYTES];
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    char point[1024], type[32], options[1024];
    char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %*s %1023s", point) != 1) continue;
    if (sscanf(tail, " - %31s %*s %1023s", type, options) != 2) continue;
    found = *controller ? !strcmp(type, "cgroup") && list_contains(options, controller)
                        : !strcmp(type, "cgroup2");
    if (found) snprintf(out, capacity, "%s", point);
  }
  fclose(file);
  return found;
}

static bool find_parent(const char *controller, char *base) {
  char point[1024], cgroup[1024];
  if (!find_mount_point(controller, point, sizeof point)) return false;
  if (!find_own_cgroup(controller, cgroup, sizeof cgroup)) return false;
  // A container without its own cgroup mount sees the host's path: try the root of the mount.
  snprintf(base, PATH_BYTES, "%s%s", point, cgroup);
  if (access(base, F_OK)) snprintf(base, PATH_BYTES, "%s", point);
  return true;
}

static bool create_base(struct tree *tree, const char *parent, int version) {
  snprintf(tree->base, sizeof tree->base, "%.3900s/%s", parent, base_name);
  if (mkdir(tree->base, 0755) && errno != EEXIST) return false;
  tree->version = version;
  return true;
}

// A v2 cgroup that delegates controllers cannot have processes. If the warden is alone in its
// cgroup (a unit with Delegate=yes), it moves into a child; otherwise delegation is not possible.
static bool delegate_parent(const char *parent) {
  static const char *const enable = "+memory +pids";
  if (!write_path(parent, "cgroup.subtree_control", enable)) return true;
  char child[PATH_BYTES];
  snprintf(child, sizeof child, "%.3900s/agentd-warden", parent);
  if (errno != EBUSY || (mkdir(child, 0755) && errno != EEXIST)) return false;
  if (!write_path(child, "cgroup.procs", "0") &&
      !write_path(parent, "cgroup.subtree_control", enable)) {
    snprintf(delegated_parent, sizeof delegated_parent, "%s", parent);
    return true;
  }
  write_path(parent, "cgroup.procs", "0");
  rmdir(child);
  return false;
}

static void detect_v2(void) {
  char parent[PATH_BYTES], text[512];
  if (!find_parent("", parent)) return;
  // If the warden moved into the child earlier, the parent is the cgroup to delegate.
  char *suffix = strstr(parent, "/agentd-warden");
  if (suffix && !suffix[14]) *suffix = 0;
  if (suffix) snprintf(delegated_parent, sizeof delegated_parent, "%s", parent);
  if (!create_base(&trees[CGROUP_TREE], parent, 2)) return;
  struct tree *base = &trees[CGROUP_TREE];
  // +cpu separately: without it the other controllers still work. Never in a cgroup with processes:
  // the kernel accepts it there, and then lets no process into the child cgroups.
  if (delegate_parent(parent)) write_path(parent, "cgroup.subtree_control", "+cpu");
  int dir = open(base->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  bool readable = cgroup_read(dir, "cgroup.controllers", text, sizeof text) > 0;
  static const struct {
    enum cgroup_resource resource;
    const char *controller, *enable;
  } controllers[] = {{CGROUP_MEMORY, "memory", "+memory"}, {CGROUP_PIDS, "pids", "+pids"}};
  for (unsigned i = 0; readable && i < 2; i++)
    if (list_contains(text, controllers[i].controller) &&
        !write_file(dir, "cgroup.subtree_control", controllers[i].enable))
      trees[controllers[i].resource] = *base;
  close(dir);
  // Every v2 cgroup accounts CPU time, even without the controller.
  trees[CGROUP_CPU] = *base;
}

bool cgroup_detect_v1(struct tree *tree, const char *controller) {
  char parent[PATH_BYTES];
  return find_parent(controller, parent) && create_base(tree, parent, 1);
}

static void detect_v1(enum cgroup_resource resource, const char *controller) {
  if (!trees[resource].version) cgroup_detect_v1(&trees[resource], controller);
}

void cgroups_detect(const char *run_dir) {
  memset(trees, 0, sizeof trees);
  uint64_t hash = 1469598103934665603ull;
  for (const char *at = run_dir; *at; at++) hash = (hash ^ (uint8_t)*at) * 1099511628211ull;
  snprintf(base_name, sizeof base_name, "agentd-%016llx", (unsigned long long)hash);
  detect_v2();
  detect_v1(CGROUP_MEMORY, "memory");
  if (trees[CGROUP_MEMORY].version == 1)
    write_path(trees[CGROUP_MEMORY].base, "memory.use_hierarchy", "1");  // newer kernels: always
  detect_v1(CGROUP_PIDS, "pids");
  detect_v1(CGROUP_CPU, "cpuacct");
  if (!trees[CGROUP_TREE].version) detect_v1(CGROUP_TREE, "freezer");
  quota_detect();
}

// The janitor's last step: moves back into the cgroup in which the warden was started.
void cgroups_restore_parent(void) {
  if (!*delegated_parent) return;
  char child[PATH_BYTES + 32];
  snprintf(child, sizeof child, "%s/agentd-warden", delegated_parent);
  write_path(delegated_parent, "cgroup.subtree_control", "-memory -pids");
  write_path(delegated_parent, "cgroup.subtree_control", "-cpu");
  write_path(delegated_parent, "cgroup.procs", "0");
  for (int tries = 0; tries < 200 && rmdir(child) && errno == EBUSY; tries++) usleep(5000);
}
