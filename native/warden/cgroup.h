// The cgroup hierarchies that cgroup-detect.c found and cgroup.c uses, one per resource.
#pragma once
#include "warden.h"

struct tree {
  int version;  // 0: not available
  char base[PATH_BYTES];
};
extern struct tree trees[CGROUP_RESOURCES];

// Finds a v1 hierarchy and creates the warden's cgroup in it.
bool cgroup_detect_v1(struct tree *tree, const char *controller);
const char *cgroup_base_name(void);  // part of the path of every cgroup of this warden
void cgroup_sweep_tree(const struct tree *tree);

int cgroup_open_join(int dir);  // of v1, for a process that writes "0"
ssize_t cgroup_read(int dir, const char *name, char *text, size_t capacity);
