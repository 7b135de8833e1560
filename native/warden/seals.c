// Checks that the seals of a box still cover their paths. If a covered file is replaced on the
// host, the kernel drops the mount and reports it (box.c). If a directory above it is renamed, the
// mount moves along without a report, so the paths are checked before each command and while one
// runs.
#include "box.h"
#include "init.h"

#include <stdlib.h>
#include <string.h>

#define CHECK_INTERVAL_US 100000

int seals_record(struct box *box, const struct plan *plan) {
  const struct paths *paths = &box->paths;
  box->sealed_paths = calloc(paths->seal_count + 1, sizeof *box->sealed_paths);
  if (!box->sealed_paths) return -1;
  for (unsigned i = 0; i < paths->seal_count; i++) {
    const struct seal *seal = &paths->seals[i];
    // Below a read-only bind, seals are on file systems of the box (freeze.c).
    if (!bind_is_writable(&plan->binds[seal->bind])) continue;
    if (is_below_mask(paths->seals, paths->seal_count, seal->path)) continue;
    if (!(box->sealed_paths[box->sealed_count++] = strdup(seal->path))) return -1;
  }
  return 0;
}

void seals_free(struct box *box) {
  for (unsigned i = 0; i < box->sealed_count; i++) free(box->sealed_paths[i]);
  free(box->sealed_paths);
  box->sealed_paths = NULL;
  box->sealed_count = 0;
  if (box->root_fd > 0) close(box->root_fd);
  box->root_fd = 0;
}

// Looks the path up from the box's root, as its commands do.
static bool is_covered(const struct box *box, const char *path) {
  int fd = k_openat2(box->root_fd, path + 1, O_PATH | O_CLOEXEC,
                     RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS);
  bool covered = fd >= 0 && is_mount_root(fd);
  if (fd >= 0) close(fd);
  return covered;
}

bool seals_intact(struct box *box, int64_t now) {
  box->seal_check_us = now + CHECK_INTERVAL_US;
  if (box->root_fd <= 0) return true;  // no path is sealed, or the box is not built yet
  for (unsigned i = 0; i < box->sealed_count; i++)
    if (!is_covered(box, box->sealed_paths[i])) return false;
  return true;
}

void seals_check(struct box *box, int64_t now) {
  struct box *target = box->parent ? box->parent : box;
  if (target->reaped || target->ended_by != ENDED_ITSELF || now < target->seal_check_us) return;
  if (!seals_intact(target, now)) box_kill(target, ENDED_SEAL);
}
