// What cgroup-find.c found and cgroup.c uses: one tree for each thing that can be held.
#pragma once
#include "warden.h"

struct tree {
  int version;  // 0: nothing holds it
  char base[PATH_BYTES];
};
extern struct tree trees[HELD_COUNT];

// The warden's own group in a v1 hierarchy.
bool cgroup_find_v1(struct tree *tree, const char *controller);
const char *cgroup_own_name(void);  // in every path of a group of ours
void cgroup_sweep_tree(const struct tree *tree);

int cgroup_write(int dir, const char *name, const char *text);
ssize_t cgroup_read(int dir, const char *name, char *text, size_t room);
