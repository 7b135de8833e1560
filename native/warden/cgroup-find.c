// Where this host lets the warden make cgroups: which trees there are, v1 or v2, and its own
// group in each. Making boxes' groups is cgroup.c's.
#include "cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct tree trees[HELD_COUNT];
static char own_name[32];
static char shared[PATH_BYTES];  // the group we stepped aside in, if we had to

const char *cgroup_own_name(void) { return own_name; }

static int write_path(const char *dir, const char *name, const char *text) {
  int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = cgroup_write(fd, name, text);
  close(fd);
  return bad;
}

static bool has_word(const char *list, const char *word) {
  size_t size = strlen(word);
  for (const char *at = list; (at = strstr(at, word)); at += size) {
    bool starts = at == list || at[-1] == ',' || at[-1] == ' ';
    if (starts && (!at[size] || strchr(", \n", at[size]))) return true;
  }
  return false;
}

// The warden's own group in one hierarchy: "" for v2, else a v1 controller's name.
static bool own_group(const char *controller, char *out, size_t room) {
  FILE *in = fopen("/proc/self/cgroup", "re");
  if (!in) return false;
  char line[PATH_BYTES];
  bool found = false;
  while (!found && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = 0;
    char *names = strchr(line, ':');
    char *path = names ? strchr(names + 1, ':') : NULL;
    if (!path) continue;
    *path++ = 0;
    names++;
    found = *controller ? has_word(names, controller) : !*names;
    if (found) snprintf(out, room, "%s", strcmp(path, "/") ? path : "");
  }
  fclose(in);
  return found;
}

// Where a hierarchy is mounted, from the words after " - " in mountinfo: type, source, options.
static bool mount_point(const char *controller, char *out, size_t room) {
  FILE *in = fopen("/proc/self/mountinfo", "re");
  if (!in) return false;
  char line[PATH_BYTES];
  bool found = false;
  while (!found && fgets(line, sizeof line, in)) {
    char point[1024], type[32], options[1024];
    char *tail = strstr(line, " - ");
    if (!tail || sscanf(line, "%*s %*s %*s %*s %1023s", point) != 1) continue;
    if (sscanf(tail, " - %31s %*s %1023s", type, options) != 2) continue;
    found = *controller ? !strcmp(type, "cgroup") && has_word(options, controller)
                        : !strcmp(type, "cgroup2");
    if (found) snprintf(out, room, "%s", point);
  }
  fclose(in);
  return found;
}

static bool find_base(const char *controller, char *base) {
  char point[1024], group[1024];
  if (!mount_point(controller, point, sizeof point)) return false;
  if (!own_group(controller, group, sizeof group)) return false;
  // Without a cgroup mount of its own a container sees the host's path: then try the root.
  snprintf(base, PATH_BYTES, "%s%s", point, group);
  if (access(base, F_OK)) snprintf(base, PATH_BYTES, "%s", point);
  return true;
}

static bool make_own(struct tree *tree, const char *parent, int version) {
  snprintf(tree->base, sizeof tree->base, "%.3900s/%s", parent, own_name);
  if (mkdir(tree->base, 0755) && errno != EEXIST) return false;
  tree->version = version;
  return true;
}

// A v2 group that hands out controllers has no processes of its own: if the warden is alone in its
// group (a unit with Delegate=yes), it moves one down; with others in there nothing can be done.
static bool share_parent(const char *parent) {
  static const char *const on = "+memory +pids";
  if (!write_path(parent, "cgroup.subtree_control", on)) return true;
  char place[PATH_BYTES];
  snprintf(place, sizeof place, "%.3900s/agentd-warden", parent);
  if (errno != EBUSY || (mkdir(place, 0755) && errno != EEXIST)) return false;
  if (!write_path(place, "cgroup.procs", "0") &&
      !write_path(parent, "cgroup.subtree_control", on)) {
    snprintf(shared, sizeof shared, "%s", parent);
    return true;
  }
  write_path(parent, "cgroup.procs", "0");
  rmdir(place);
  return false;
}

static void find_v2(void) {
  char parent[PATH_BYTES], text[512];
  if (!find_base("", parent)) return;
  // Where we stepped aside before, the group around is the one to share.
  char *own_place = strstr(parent, "/agentd-warden");
  if (own_place && !own_place[14]) *own_place = 0;
  if (own_place) snprintf(shared, sizeof shared, "%s", parent);
  if (!make_own(&trees[HELD_TREE], parent, 2)) return;
  struct tree *own = &trees[HELD_TREE];
  // By itself: where it is not to be had, the others still are. And never in a group with processes
  // of its own: there the kernel takes it, and lets nobody into the groups below any more.
  if (share_parent(parent)) write_path(parent, "cgroup.subtree_control", "+cpu");
  int dir = open(own->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  bool all = cgroup_read(dir, "cgroup.controllers", text, sizeof text) > 0;
  static const struct {
    enum held what;
    const char *controller, *on;
  } wanted[] = {{HELD_MEMORY, "memory", "+memory"}, {HELD_PIDS, "pids", "+pids"}};
  for (unsigned i = 0; all && i < 2; i++)
    if (has_word(text, wanted[i].controller) &&
        !cgroup_write(dir, "cgroup.subtree_control", wanted[i].on))
      trees[wanted[i].what] = *own;
  close(dir);
  // Every v2 group counts its time, whether or not the controller is there.
  trees[HELD_CPU] = *own;
}

bool cgroup_find_v1(struct tree *tree, const char *controller) {
  char parent[PATH_BYTES];
  return find_base(controller, parent) && make_own(tree, parent, 1);
}

static void find_v1(enum held what, const char *controller) {
  if (!trees[what].version) cgroup_find_v1(&trees[what], controller);
}

void cgroups_find(const char *run) {
  memset(trees, 0, sizeof trees);
  uint64_t hash = 1469598103934665603ull;
  for (const char *at = run; *at; at++) hash = (hash ^ (uint8_t)*at) * 1099511628211ull;
  snprintf(own_name, sizeof own_name, "agentd-%016llx", (unsigned long long)hash);
  find_v2();
  find_v1(HELD_MEMORY, "memory");
  if (trees[HELD_MEMORY].version == 1)
    write_path(trees[HELD_MEMORY].base, "memory.use_hierarchy", "1");  // newer kernels always do
  find_v1(HELD_PIDS, "pids");
  find_v1(HELD_CPU, "cpuacct");
  if (!trees[HELD_TREE].version) find_v1(HELD_TREE, "freezer");
  quota_find();
}

// The janitor's last step, when nobody else is left: back to where the warden was started.
void cgroups_leave(void) {
  if (!*shared) return;
  char place[PATH_BYTES + 32];
  snprintf(place, sizeof place, "%s/agentd-warden", shared);
  write_path(shared, "cgroup.subtree_control", "-memory -pids");
  write_path(shared, "cgroup.subtree_control", "-cpu");
  write_path(shared, "cgroup.procs", "0");
  for (int tries = 0; tries < 200 && rmdir(place) && errno == EBUSY; tries++) usleep(5000);
}
