// Process trees from /proc/<pid>/task/*/children: the last resort to kill a box without cgroup and
// pid namespace, and to measure one without cgroup accounting.
#include "warden.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TREE_MAX 8192

// Reads /proc/<pid>/stat. Returns the fields after the name, which may contain any character.
static const char *read_stat(pid_t pid, char *text, size_t capacity) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  size_t size = file ? fread(text, 1, capacity - 1, file) : 0;
  if (file) fclose(file);
  text[size] = 0;
  const char *end = strrchr(text, ')');
  return end ? end + 1 : "";
}

pid_t parent_pid(pid_t pid) {
  char text[1024];
  int parent;
  return sscanf(read_stat(pid, text, sizeof text), " %*c %d", &parent) == 1 ? parent : 0;
}

unsigned child_pids(pid_t pid, pid_t *out, unsigned capacity) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/task", pid);
  DIR *tasks = opendir(path);
  if (!tasks) return 0;
  unsigned count = 0;
  struct dirent *task;
  while ((task = readdir(tasks))) {
    if (task->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, task->d_name);
    FILE *file = fopen(path, "re");
    int child;
    while (file && count < capacity && fscanf(file, "%d", &child) == 1) out[count++] = child;
    if (file) fclose(file);
  }
  closedir(tasks);
  return count;
}

// Breadth-first; the first entry is the root itself.
static unsigned collect_tree(pid_t root, pid_t *out) {
  unsigned count = 1;
  out[0] = root;
  for (unsigned at = 0; at < count; at++)
    count += child_pids(out[at], out + count, TREE_MAX - count);
  return count;
}

// Uses a pidfd, and only while its parent is in this tree: the pid may have been reused by an
// unrelated process.
static void signal_if_descendant(const pid_t *tree, unsigned count, pid_t pid, int number) {
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
  if (fd < 0) return;
  pid_t parent = parent_pid(pid);
  bool is_descendant = false;
  for (unsigned i = 0; i < count && !is_descendant; i++) is_descendant = tree[i] == parent;
  if (is_descendant) syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
  close(fd);
}

void tree_kill(pid_t root, bool include_root) {
  static pid_t tree[TREE_MAX];
  // Stop everything first, so that nothing forks meanwhile; repeat until no new process is found.
  unsigned before = 0;
  for (int round = 0; round < 50; round++) {
    unsigned count = collect_tree(root, tree);
    for (unsigned i = 1; i < count; i++) signal_if_descendant(tree, count, tree[i], SIGSTOP);
    if (count == before) break;
    before = count;
  }
  unsigned count = collect_tree(root, tree);
  // Deepest first: a process whose parent has died gets another parent.
  for (unsigned i = count - 1; i > 0; i--) signal_if_descendant(tree, count, tree[i], SIGKILL);
  if (include_root) kill(root, SIGKILL);
}

void tree_usage(pid_t root, int64_t *cpu_ms, int64_t *rss_bytes, int *count) {
  static pid_t tree[TREE_MAX];
  unsigned size = collect_tree(root, tree);
  int64_t ticks = 0, pages = 0;
  for (unsigned i = 0; i < size; i++) {
    char text[1024];
    long long user, system, child_user, child_system, rss;
    if (sscanf(read_stat(tree[i], text, sizeof text),
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld %*d %*d %*d %*d"
               " %*u %*u %lld",
               &user, &system, &child_user, &child_system, &rss) != 5)
      continue;
    ticks += user + system + child_user + child_system;
    pages += rss;
  }
  *cpu_ms = ticks * 1000 / sysconf(_SC_CLK_TCK);
  *rss_bytes = pages * sysconf(_SC_PAGESIZE);
  *count = (int)size - 1;
}
