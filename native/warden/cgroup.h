// What cgroup-find.c found and cgroup.c uses: one tree for each thing that can be held.
#pragma once
#include "warden.h"

struct tree {
  int version;  // 0: nothing holds it
  char base[PATH_BYTES];
};
extern struct tree trees[HELD_COUNT];

int cgroup_write(int dir, const char *name, const char *text);
ssize_t cgroup_read(int dir, const char *name, char *text, size_t room);
