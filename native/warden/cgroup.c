// One interface to cgroup v2, v1 and both at once (hybrid hosts). Creates cgroups only below the
// warden's own, which is named after its run directory, so that a sweep finds them.
#include "cgroup.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static unsigned next_number;

ssize_t cgroup_read(int dir, const char *name, char *text, size_t capacity) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, capacity - 1);
  close(fd);
  if (size >= 0) text[size] = 0;
  return size;
}

const char *cgroups_version(enum cgroup_resource resource) {
  int version = trees[resource].version;
  return version == 2 ? "v2" : version == 1 ? "v1" : "none";
}

static int set_limit(const struct cgroup *cgroup, enum cgroup_resource resource, const char *v1,
                     const char *v2, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)value);
  return write_file(cgroup->dirs[resource], trees[resource].version == 2 ? v2 : v1, text);
}

// Resources on v2 share one directory. Returns the first resource that uses it.
static int first_sharing(int resource) {
  for (int i = 0; i < resource; i++)
    if (trees[i].version == 2 && trees[resource].version == 2) return i;
  return resource;
}

// For a thread that moves itself, as through "tasks", the kernel needs no lock against all forks
// and exits; through "cgroup.procs" it takes that, which waits for every CPU (5-25 ms). A process
// that joins has one thread, so that all of it moves.
int cgroup_open_join(int dir) { return openat(dir, "tasks", O_WRONLY | O_CLOEXEC); }

static int open_dirs(struct cgroup *cgroup) {
  for (int i = 0; i < CGROUP_RESOURCES; i++) {
    if (!trees[i].version) continue;
    if (first_sharing(i) != i) {
      cgroup->dirs[i] = cgroup->dirs[first_sharing(i)];
      continue;
    }
    char path[PATH_BYTES + 64];
    snprintf(path, sizeof path, "%s/%s", trees[i].base, cgroup->name);
    if (mkdir(path, 0755) && errno != EEXIST) return -1;
    cgroup->dirs[i] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cgroup->dirs[i] < 0) return -1;
    if (trees[i].version != 1) continue;
    cgroup->join_fds[i] = cgroup_open_join(cgroup->dirs[i]);
    if (cgroup->join_fds[i] < 0) return -1;
  }
  if (!cgroup->nested) return 0;
  // A v2 cgroup that delegates controllers cannot have both processes and children.
  if (mkdirat(cgroup->dirs[CGROUP_TREE], "init", 0755) && errno != EEXIST) return -1;
  cgroup->leaf_fd = openat(cgroup->dirs[CGROUP_TREE], "init", O_PATH | O_DIRECTORY | O_CLOEXEC);
  return cgroup->leaf_fd < 0 ? -1 : 0;
}

int cgroup_create(struct cgroup *cgroup, const struct cgroup *parent, bool nested,
                  struct failure *err) {
  if (parent) snprintf(cgroup->name, sizeof cgroup->name, "%.20s/e%u", parent->name, next_number++);
  else snprintf(cgroup->name, sizeof cgroup->name, "b%u", next_number++);
  for (int i = 0; i < CGROUP_RESOURCES; i++) cgroup->dirs[i] = -1;
  for (int i = 0; i < JOIN_COUNT; i++) cgroup->join_fds[i] = -1;
  cgroup->leaf_fd = cgroup->quota_fd = -1;
  cgroup->nested = nested && trees[CGROUP_TREE].version == 2;
  if (!open_dirs(cgroup) && !quota_join(cgroup, parent)) return 0;
  fail(err, REFUSED_SETUP, "creating cgroup %s: %s", cgroup->name, strerror(errno));
  cgroup_remove_later(cgroup);
  return -1;
}

int cgroup_set_limits(const struct cgroup *cgroup, const uint64_t *limits, unsigned own_pids,
                      struct failure *err) {
  int bad = 0;
  if (cgroup->dirs[CGROUP_MEMORY] >= 0) {
    bool v2 = trees[CGROUP_MEMORY].version == 2;
    uint64_t bytes = limits[LIMIT_MEMORY_BYTES];
    // Swap would only slow a box down before it is killed; hosts without swap accounting lack these
    // files. On v1 memsw must never be below the memory limit: write it first to raise, last to
    // lower.
    for (int pass = 0; pass < 2 && !bad; pass++) {
      set_limit(cgroup, CGROUP_MEMORY, "memory.memsw.limit_in_bytes", "memory.swap.max",
                v2 ? 0 : bytes);
      if (pass == 0)
        bad = set_limit(cgroup, CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", bytes);
    }
    if (v2) write_file(cgroup->dirs[CGROUP_MEMORY], "memory.oom.group", "1");
  }
  if (!bad && cgroup->dirs[CGROUP_PIDS] >= 0)
    bad = set_limit(cgroup, CGROUP_PIDS, "pids.max", "pids.max", limits[LIMIT_PIDS] + own_pids);
  return bad ? fail(err, REFUSED_SETUP, "limiting cgroup %s: %s", cgroup->name, strerror(errno))
             : 0;
}

// Before the first command of an open box: lets commands have limits below the box's.
void cgroup_delegate(const struct cgroup *cgroup) {
  if (trees[CGROUP_MEMORY].version == 2)
    write_file(cgroup->dirs[CGROUP_MEMORY], "cgroup.subtree_control", "+memory");
  if (trees[CGROUP_PIDS].version == 2)
    write_file(cgroup->dirs[CGROUP_PIDS], "cgroup.subtree_control", "+pids");
}

int cgroup_clone_fd(const struct cgroup *cgroup) {
  if (cgroup->nested) return cgroup->leaf_fd;
  return trees[CGROUP_TREE].version == 2 ? cgroup->dirs[CGROUP_TREE] : -1;
}

void cgroup_close_join_fds(struct cgroup *cgroup) {
  for (int i = 0; i < JOIN_COUNT; i++) {
    if (cgroup->join_fds[i] >= 0) close(cgroup->join_fds[i]);
    cgroup->join_fds[i] = -1;
  }
}

static int64_t parse_field(const char *text, const char *name) {
  const char *at = strstr(text, name);
  return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

int64_t cgroup_cpu_ms(const struct cgroup *cgroup) {
  char text[1024];
  int dir = cgroup->dirs[CGROUP_CPU];
  if (dir < 0) return -1;
  if (trees[CGROUP_CPU].version == 2) {
    if (cgroup_read(dir, "cpu.stat", text, sizeof text) <= 0) return -1;
    return parse_field(text, "usage_usec ") / 1000;
  }
  if (cgroup_read(dir, "cpuacct.usage", text, sizeof text) <= 0) return -1;
  return strtoll(text, NULL, 10) / 1000000;
}

int cgroup_oom_kills(const struct cgroup *cgroup) {
  char text[1024];
  int dir = cgroup->dirs[CGROUP_MEMORY];
  if (dir < 0) return 0;
  const char *name = trees[CGROUP_MEMORY].version == 2 ? "memory.events" : "memory.oom_control";
  if (cgroup_read(dir, name, text, sizeof text) <= 0) return 0;
  return (int)parse_field(text, "oom_kill ");
}

int cgroup_pids_max_hits(const struct cgroup *cgroup) {
  char text[256];
  int dir = cgroup->dirs[CGROUP_PIDS];
  if (dir < 0 || cgroup_read(dir, "pids.events", text, sizeof text) <= 0) return 0;
  return (int)parse_field(text, "max ");
}

static bool is_in_our_cgroup(pid_t pid) {
  char path[32], text[4096];
  snprintf(path, sizeof path, "%d/cgroup", pid);
  return cgroup_read(host.proc_fd, path, text, sizeof text) > 0 && strstr(text, cgroup_base_name());
}

// Uses a pidfd: the pid may have been reused since it was listed, and root would kill an unrelated
// process. The cgroup is checked while the pidfd is open.
static void kill_if_ours(pid_t pid) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return;
  if (is_in_our_cgroup(pid)) syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
  close(fd);
}

static int kill_members_once(int dir) {
  int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
  FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
  int pid, count = 0;
  while (file && fscanf(file, "%d", &pid) == 1) {
    if (pid > 0 && pid != getpid()) kill_if_ours(pid);
    count++;
  }
  if (file) fclose(file);
  return count;
}

// Calls `visit` for every cgroup below `dir`, deepest first.
static void for_each_descendant(int dir, void (*visit)(int parent, const char *name)) {
  DIR *list = open_dir(dir);
  struct dirent *entry;
  while (list && (entry = readdir(list))) {
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    int child = openat(dir, entry->d_name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (child < 0) continue;
    for_each_descendant(child, visit);
    close(child);
    visit(dir, entry->d_name);
  }
  if (list) closedir(list);
}

static void kill_members(int dir) {
  for (int round = 0; round < 20 && kill_members_once(dir); round++) usleep(1000);
}
static void kill_child(int parent, const char *name) {
  int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  kill_members(dir);
  close(dir);
}

static void kill_tree(int dir, int version) {
  if (version == 2 && !write_file(dir, "cgroup.kill", "1")) return;
  // Frozen processes cannot fork; they receive SIGKILL when they thaw.
  bool frozen = version == 2 ? !write_file(dir, "cgroup.freeze", "1")
                             : !write_file(dir, "freezer.state", "FROZEN");
  kill_members(dir);
  for_each_descendant(dir, kill_child);
  if (!frozen) return;
  if (version == 2) write_file(dir, "cgroup.freeze", "0");
  else write_file(dir, "freezer.state", "THAWED");
}

void cgroup_kill(const struct cgroup *cgroup) {
  if (cgroup->dirs[CGROUP_TREE] >= 0)
    kill_tree(cgroup->dirs[CGROUP_TREE], trees[CGROUP_TREE].version);
}

bool cgroup_remove(struct cgroup *cgroup) {
  cgroup_close_join_fds(cgroup);
  bool removed = quota_remove(cgroup);
  char path[PATH_BYTES + 64];
  if (cgroup->nested) {
    snprintf(path, sizeof path, "%s/%s/init", trees[CGROUP_TREE].base, cgroup->name);
    if (rmdir(path) && errno != ENOENT) return false;
    if (cgroup->leaf_fd >= 0) close(cgroup->leaf_fd);
    cgroup->leaf_fd = -1;
  }
  for (int i = 0; i < CGROUP_RESOURCES; i++) {
    if (!trees[i].version || first_sharing(i) != i) continue;
    snprintf(path, sizeof path, "%s/%s", trees[i].base, cgroup->name);
    if (rmdir(path) && errno != ENOENT) {
      removed = false;
      continue;
    }
    int dir = cgroup->dirs[i];
    if (dir >= 0) close(dir);
    for (int other = i; other < CGROUP_RESOURCES; other++)
      if (cgroup->dirs[other] == dir) cgroup->dirs[other] = -1;
  }
  return removed;
}

struct pending_removal {
  struct cgroup cgroup;
  struct pending_removal *next;
};
static struct pending_removal *pending;  // not empty yet

void cgroup_remove_later(struct cgroup *cgroup) {
  if (!spares_joining() && cgroup_remove(cgroup)) return;
  struct pending_removal *item = malloc(sizeof *item);
  if (!item) return;  // the next warden sweeps it
  *item = (struct pending_removal){*cgroup, pending};
  pending = item;
}

unsigned cgroups_retry_removal(void) {
  unsigned count = 0;
  for (struct pending_removal **at = &pending; *at;) {
    struct pending_removal *item = *at;
    if (!spares_joining() && cgroup_remove(&item->cgroup)) {
      *at = item->next;
      free(item);
      continue;
    }
    if (!spares_joining()) cgroup_kill(&item->cgroup);
    count++;
    at = &item->next;
  }
  return count;
}

static void sweep_child(int parent, const char *name) {
  int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return;
  for (int tries = 0; tries < 200; tries++) {
    if (!unlinkat(parent, name, AT_REMOVEDIR) || errno == ENOENT) break;
    kill_members(dir);
    usleep(5000);
  }
  close(dir);
}

void cgroup_sweep_tree(const struct tree *tree) {
  int base_fd = tree->version ? open(tree->base, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
  if (base_fd < 0) return;
  kill_tree(base_fd, tree->version);
  for_each_descendant(base_fd, sweep_child);
  close(base_fd);
  rmdir(tree->base);
}

void cgroups_sweep(void) {
  for (int i = 0; i < CGROUP_RESOURCES; i++) cgroup_sweep_tree(&trees[i]);
  quota_sweep();
}
