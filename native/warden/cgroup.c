// Control groups: v2, v1, or both at once (hybrid hosts), behind one interface. Only children of
// the warden's own groups are ever made, named after its run directory, so that a sweep finds them.
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned next_number;

int cgroup_write(int dir, const char *name, const char *text) {
  int fd = openat(dir, name, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t done = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return done == (ssize_t)strlen(text) ? 0 : -1;
}

ssize_t cgroup_read(int dir, const char *name, char *text, size_t room) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, room - 1);
  close(fd);
  if (size >= 0) text[size] = 0;
  return size;
}

const char *cgroups_held(enum held what) {
  int version = trees[what].version;
  return version == 2 ? "v2" : version == 1 ? "v1" : "none";
}

static int set_limit(const struct cgroup *group, enum held what, const char *v1, const char *v2,
                     uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return cgroup_write(group->dirs[what], trees[what].version == 2 ? v2 : v1, text);
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
  for (int i = 0; i < HELD_COUNT; i++) group->dirs[i] = -1;
  for (int i = 0; i < JOINS; i++) group->joins[i] = -1;
  group->leaf = group->quota = -1;
  group->nested = nested && trees[HELD_TREE].version == 2;
  if (!open_groups(group) && !quota_join(group, parent)) return 0;
  fail(why, REFUSED_SETUP, "making the cgroup %s: %s", group->name, strerror(errno));
  group_abandon(group);
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
    if (v2) cgroup_write(group->dirs[HELD_MEMORY], "memory.oom.group", "1");
  }
  if (!bad && group->dirs[HELD_PIDS] >= 0)
    bad = set_limit(group, HELD_PIDS, "pids.max", "pids.max", limits[LIMIT_PIDS] + own_pids);
  return bad ? fail(why, REFUSED_SETUP, "limiting the cgroup %s: %s", group->name, strerror(errno))
             : 0;
}

// Before the first command of an open box: its commands get limits of their own below the box's.
void group_share(const struct cgroup *group) {
  if (trees[HELD_MEMORY].version == 2)
    cgroup_write(group->dirs[HELD_MEMORY], "cgroup.subtree_control", "+memory");
  if (trees[HELD_PIDS].version == 2)
    cgroup_write(group->dirs[HELD_PIDS], "cgroup.subtree_control", "+pids");
}

int group_clone_fd(const struct cgroup *group) {
  if (group->nested) return group->leaf;
  return trees[HELD_TREE].version == 2 ? group->dirs[HELD_TREE] : -1;
}

void group_joined(struct cgroup *group) {
  for (int i = 0; i < JOINS; i++) {
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
    if (cgroup_read(dir, "cpu.stat", text, sizeof text) <= 0) return -1;
    return number_after(text, "usage_usec ") / 1000;
  }
  if (cgroup_read(dir, "cpuacct.usage", text, sizeof text) <= 0) return -1;
  return strtoll(text, NULL, 10) / 1000000;
}

int group_oom_kills(const struct cgroup *group) {
  char text[1024];
  int dir = group->dirs[HELD_MEMORY];
  if (dir < 0) return 0;
  const char *name = trees[HELD_MEMORY].version == 2 ? "memory.events" : "memory.oom_control";
  if (cgroup_read(dir, name, text, sizeof text) <= 0) return 0;
  return (int)number_after(text, "oom_kill ");
}

int group_pids_refused(const struct cgroup *group) {
  char text[256];
  int dir = group->dirs[HELD_PIDS];
  if (dir < 0 || cgroup_read(dir, "pids.events", text, sizeof text) <= 0) return 0;
  return (int)number_after(text, "max ");
}

static bool is_ours(pid_t pid) {
  char path[32], text[4096];
  snprintf(path, sizeof path, "%d/cgroup", pid);
  return cgroup_read(host.proc, path, text, sizeof text) > 0 && strstr(text, cgroup_own_name());
}

// By descriptor: a number that was listed may by now be the number of somebody else, whom we would
// end as root. Whoever has it when we look is in a group of ours, or is let be.
static void end_listed(pid_t pid) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return;
  if (is_ours(pid)) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
  close(fd);
}

static int kill_once(int dir) {
  int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
  int pid, count = 0;
  while (in && fscanf(in, "%d", &pid) == 1) {
    if (pid > 0 && pid != getpid()) end_listed(pid);
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
  if (version == 2 && !cgroup_write(dir, "cgroup.kill", "1")) return;
  // Frozen processes take SIGKILL when they thaw; nobody forks in between.
  bool frozen = version == 2 ? !cgroup_write(dir, "cgroup.freeze", "1")
                             : !cgroup_write(dir, "freezer.state", "FROZEN");
  kill_listed(dir);
  below(dir, kill_child);
  if (!frozen) return;
  if (version == 2) cgroup_write(dir, "cgroup.freeze", "0");
  else cgroup_write(dir, "freezer.state", "THAWED");
}

void group_kill(const struct cgroup *group) {
  if (group->dirs[HELD_TREE] >= 0) kill_group(group->dirs[HELD_TREE], trees[HELD_TREE].version);
}

bool group_remove(struct cgroup *group) {
  group_joined(group);
  bool gone = quota_remove(group);
  char path[PATH_BYTES + 64];
  if (group->nested) {
    snprintf(path, sizeof path, "%s/%s/init", trees[HELD_TREE].base, group->name);
    if (rmdir(path) && errno != ENOENT) return false;
    if (group->leaf >= 0) close(group->leaf);
    group->leaf = -1;
  }
  for (int i = 0; i < HELD_COUNT; i++) {
    if (!trees[i].version || first_of(i) != i) continue;
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

void cgroup_sweep_tree(const struct tree *tree) {
  int own = tree->version ? open(tree->base, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  if (own < 0) return;
  kill_group(own, tree->version);
  below(own, sweep_child);
  close(own);
  rmdir(tree->base);
}

void cgroups_sweep(void) {
  for (int i = 0; i < HELD_COUNT; i++) cgroup_sweep_tree(&trees[i]);
  quota_sweep();
}
