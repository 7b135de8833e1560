// Control groups: v2, v1, or both at once (hybrid hosts), behind one interface. Only children of
// the warden's own groups are ever made, named after its run directory, so that a sweep finds them.
#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree {
  int version;  // 0: nothing holds it
  char base[PATH_BYTES];
};
static struct tree trees[HELD_COUNT];
static char own_name[32];
static char shared[PATH_BYTES];  // the group we stepped aside in, if we had to
static unsigned next_number;

static int write_at(int dir, const char *name, const char *text) {
  int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t done = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return done == (ssize_t)strlen(text) ? 0 : -1;
}

static int write_path(const char *dir, const char *name, const char *text) {
  int fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  int bad = write_at(fd, name, text);
  close(fd);
  return bad;
}

static ssize_t read_at(int dir, const char *name, char *text, size_t room) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, room - 1);
  close(fd);
  if (size >= 0) text[size] = 0;
  return size;
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
// group (a unit with Delegate=yes), it moves one down; if others are there too, nothing can be done.
static void share_parent(const char *parent) {
  static const char *const on = "+memory +pids";
  if (!write_path(parent, "cgroup.subtree_control", on) || errno != EBUSY) return;
  char place[PATH_BYTES];
  snprintf(place, sizeof place, "%.3900s/agentd-warden", parent);
  if (mkdir(place, 0755) && errno != EEXIST) return;
  if (!write_path(place, "cgroup.procs", "0") &&
      !write_path(parent, "cgroup.subtree_control", on)) {
    snprintf(shared, sizeof shared, "%s", parent);
    return;
  }
  write_path(parent, "cgroup.procs", "0");
  rmdir(place);
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
  share_parent(parent);
  int dir = open(own->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  bool all = read_at(dir, "cgroup.controllers", text, sizeof text) > 0;
  static const struct {
    enum held what;
    const char *controller, *on;
  } wanted[] = {{HELD_MEMORY, "memory", "+memory"}, {HELD_PIDS, "pids", "+pids"}};
  for (unsigned i = 0; all && i < 2; i++)
    if (has_word(text, wanted[i].controller) &&
        !write_at(dir, "cgroup.subtree_control", wanted[i].on))
      trees[wanted[i].what] = *own;
  close(dir);
  // Every v2 group counts its time, whether or not the controller is there.
  trees[HELD_CPU] = *own;
}

static void find_v1(enum held what, const char *controller) {
  char parent[PATH_BYTES];
  if (trees[what].version || !find_base(controller, parent)) return;
  make_own(&trees[what], parent, 1);
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
}

const char *cgroups_held(enum held what) {
  int version = trees[what].version;
  return version == 2 ? "v2" : version == 1 ? "v1" : "none";
}

static int set_limit(const struct cgroup *group, enum held what, const char *v1, const char *v2,
                     uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return write_at(group->dirs[what], trees[what].version == 2 ? v2 : v1, text);
}

// Of the things one v2 group holds, the first stands for all.
static int first_of(int what) {
  for (int i = 0; i < what; i++)
    if (trees[i].version == 2 && trees[what].version == 2) return i;
  return what;
}

static int open_groups(struct cgroup *group) {
  for (int i = 0; i < HELD_COUNT; i++) {
    if (!trees[i].version) continue;
    if (first_of(i) != i) {
      group->dirs[i] = group->dirs[first_of(i)];
      continue;
    }
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", trees[i].base, group->name);
    if (mkdir(path, 0755) && errno != EEXIST) return -1;
    group->dirs[i] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (group->dirs[i] < 0) return -1;
    if (trees[i].version != 1) continue;
    group->joins[i] = openat(group->dirs[i], "cgroup.procs", O_WRONLY | O_CLOEXEC);
    if (group->joins[i] < 0) return -1;
  }
  if (!group->nested) return 0;
  // Where v2 hands out controllers, a group has processes or children, never both.
  if (mkdirat(group->dirs[HELD_TREE], "init", 0755) && errno != EEXIST) return -1;
  group->leaf = openat(group->dirs[HELD_TREE], "init", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return group->leaf < 0 ? -1 : 0;
}

int group_make(struct cgroup *group, const struct cgroup *parent, bool nested,
               struct failure *why) {
  if (parent) snprintf(group->name, sizeof group->name, "%.20s/e%u", parent->name, next_number++);
  else snprintf(group->name, sizeof group->name, "b%u", next_number++);
  for (int i = 0; i < HELD_COUNT; i++) group->dirs[i] = group->joins[i] = -1;
  group->leaf = -1;
  group->nested = nested && trees[HELD_TREE].version == 2;
  if (!open_groups(group)) return 0;
  fail(why, REFUSED_SETUP, "making the cgroup %s: %s", group->name, strerror(errno));
  group_remove(group);
  return -1;
}

int group_limit(const struct cgroup *group, const uint64_t *limits, unsigned own_pids,
                struct failure *why) {
  int bad = 0;
  if (group->dirs[HELD_MEMORY] >= 0) {
    bool v2 = trees[HELD_MEMORY].version == 2;
    uint64_t bytes = limits[LIMIT_MEMORY_BYTES];
    // Swap would only make a box slower before it ends; hosts without it lack the files. In v1 it
    // may never be less than the memory: first for a higher limit, last for a lower one.
    for (int time = 0; time < 2 && !bad; time++) {
      set_limit(group, HELD_MEMORY, "memory.memsw.limit_in_bytes", "memory.swap.max",
                v2 ? 0 : bytes);
      if (time == 0)
        bad = set_limit(group, HELD_MEMORY, "memory.limit_in_bytes", "memory.max", bytes);
    }
    if (v2) write_at(group->dirs[HELD_MEMORY], "memory.oom.group", "1");
  }
  if (!bad && group->dirs[HELD_PIDS] >= 0)
    bad = set_limit(group, HELD_PIDS, "pids.max", "pids.max", limits[LIMIT_PIDS] + own_pids);
  return bad ? fail(why, REFUSED_SETUP, "limiting the cgroup %s: %s", group->name, strerror(errno))
             : 0;
}

// Before the first command of an open box: its commands get limits of their own below the box's.
void group_share(const struct cgroup *group) {
  if (trees[HELD_MEMORY].version == 2)
    write_at(group->dirs[HELD_MEMORY], "cgroup.subtree_control", "+memory");
  if (trees[HELD_PIDS].version == 2)
    write_at(group->dirs[HELD_PIDS], "cgroup.subtree_control", "+pids");
}

int group_clone_fd(const struct cgroup *group) {
  if (group->nested) return group->leaf;
  return trees[HELD_TREE].version == 2 ? group->dirs[HELD_TREE] : -1;
}

void group_joined(struct cgroup *group) {
  for (int i = 0; i < HELD_COUNT; i++) {
    if (group->joins[i] >= 0) close(group->joins[i]);
    group->joins[i] = -1;
  }
}

static int64_t number_after(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

int64_t group_cpu_ms(const struct cgroup *group) {
  char text[1024];
  int dir = group->dirs[HELD_CPU];
  if (dir < 0) return -1;
  if (trees[HELD_CPU].version == 2) {
    if (read_at(dir, "cpu.stat", text, sizeof text) <= 0) return -1;
    return number_after(text, "usage_usec ") / 1000;
  }
  if (read_at(dir, "cpuacct.usage", text, sizeof text) <= 0) return -1;
  return strtoll(text, NULL, 10) / 1000000;
}

int group_oom_kills(const struct cgroup *group) {
  char text[1024];
  int dir = group->dirs[HELD_MEMORY];
  if (dir < 0) return 0;
  const char *name = trees[HELD_MEMORY].version == 2 ? "memory.events" : "memory.oom_control";
  if (read_at(dir, name, text, sizeof text) <= 0) return 0;
  return (int)number_after(text, "oom_kill ");
}

int group_pids_refused(const struct cgroup *group) {
  char text[256];
  int dir = group->dirs[HELD_PIDS];
  if (dir < 0 || read_at(dir, "pids.events", text, sizeof text) <= 0) return 0;
  return (int)number_after(text, "max ");
}

static int kill_once(int dir) {
  int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
  int pid, count = 0;
  while (in && fscanf(in, "%d", &pid) == 1) {
    if (pid > 0 && pid != getpid()) kill(pid, SIGKILL);
    count++;
  }
  if (in) fclose(in);
  return count;
}

// Calls `act` on every group below `dir`, the deepest first.
static void below(int dir, void (*act)(int parent, const char *name)) {
  int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *list = copy < 0 ? NULL : fdopendir(copy);
  struct dirent *entry;
  while (list && (entry = readdir(list))) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int child = openat(dir, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (child < 0) continue;
    below(child, act);
    close(child);
    act(dir, entry->d_name);
  }
  if (list) closedir(list);
}

static void kill_listed(int dir) {
  for (int round = 0; round < 20 && kill_once(dir); round++) usleep(1000);
}
static void kill_child(int parent, const char *name) {
  int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  kill_listed(dir);
  close(dir);
}

static void kill_group(int dir, int version) {
  if (version == 2 && !write_at(dir, "cgroup.kill", "1")) return;
  // Frozen processes take SIGKILL when they thaw; nobody forks in between.
  bool frozen = version == 2 ? !write_at(dir, "cgroup.freeze", "1")
                             : !write_at(dir, "freezer.state", "FROZEN");
  kill_listed(dir);
  below(dir, kill_child);
  if (!frozen) return;
  write_at(dir, version == 2 ? "cgroup.freeze" : "freezer.state", version == 2 ? "0" : "THAWED");
}

void group_kill(const struct cgroup *group) {
  if (group->dirs[HELD_TREE] >= 0) kill_group(group->dirs[HELD_TREE], trees[HELD_TREE].version);
}

bool group_remove(struct cgroup *group) {
  bool gone = true;
  group_joined(group);
  if (group->leaf >= 0) {
    if (unlinkat(group->dirs[HELD_TREE], "init", AT_REMOVEDIR) && errno != ENOENT) return false;
    close(group->leaf);
    group->leaf = -1;
  }
  for (int i = 0; i < HELD_COUNT; i++) {
    if (!trees[i].version || first_of(i) != i) continue;
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", trees[i].base, group->name);
    if (rmdir(path) && errno != ENOENT) {
      gone = false;
      continue;
    }
    int dir = group->dirs[i];
    if (dir >= 0) close(dir);
    for (int same = i; same < HELD_COUNT; same++)
      if (group->dirs[same] == dir) group->dirs[same] = -1;
  }
  return gone;
}

struct leftover {
  struct cgroup group;
  struct leftover *next;
};
static struct leftover *leftovers;  // groups the kernel still holds

void group_abandon(struct cgroup *group) {
  if (!spares_joining() && group_remove(group)) return;
  struct leftover *left = malloc(sizeof *left);
  if (!left) return;  // the next start sweeps
  *left = (struct leftover){*group, leftovers};
  leftovers = left;
}

unsigned groups_settle(void) {
  unsigned left_over = 0;
  for (struct leftover **at = &leftovers; *at;) {
    struct leftover *left = *at;
    if (!spares_joining() && group_remove(&left->group)) {
      *at = left->next;
      free(left);
      continue;
    }
    if (!spares_joining()) group_kill(&left->group);
    left_over++;
    at = &left->next;
  }
  return left_over;
}

static void sweep_child(int parent, const char *name) {
  int box = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (box < 0) return;
  for (int tries = 0; tries < 200; tries++) {
    if (!unlinkat(parent, name, AT_REMOVEDIR) || errno == ENOENT) break;
    kill_listed(box);
    usleep(5000);
  }
  close(box);
}

// The janitor's last step, when nobody else is left: back to where the warden was started.
void cgroups_leave(void) {
  if (!*shared) return;
  char place[PATH_BYTES + 32];
  snprintf(place, sizeof place, "%s/agentd-warden", shared);
  write_path(shared, "cgroup.subtree_control", "-memory -pids");
  write_path(shared, "cgroup.procs", "0");
  for (int tries = 0; tries < 200 && rmdir(place) && errno == EBUSY; tries++) usleep(5000);
}

void cgroups_sweep(void) {
  for (int i = 0; i < HELD_COUNT; i++) {
    if (!trees[i].version) continue;
    int own = open(trees[i].base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (own < 0) continue;
    kill_group(own, trees[i].version);
    below(own, sweep_child);
    close(own);
    rmdir(trees[i].base);
  }
}
