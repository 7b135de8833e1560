// Deletes a directory with everything in it, in a child of the warden. Agents can make trees of any
// depth and width, and directories that only they can enter. Every directory found inside is first
// moved up into the one that is deleted, so that no path is ever longer than two names: time is
// linear in the entries, and memory does not depend on them. A crash leaves a directory that can be
// deleted again.
#include "warden.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

struct tree_delete {
  int top;
  uint64_t moved;  // number in the name of the next directory that is moved up
  struct disk_usage *freed;
};

static bool is_dots(const char *name) {
  return !strcmp(name, ".") || !strcmp(name, "..");
}

static void count_freed(const struct statx *st, struct disk_usage *freed) {
  // Another hard link keeps the blocks.
  if (S_ISDIR(st->stx_mode) || st->stx_nlink <= 1) freed->bytes += st->stx_blocks * 512;
  freed->entries++;
}

// Returns 1 if it was deleted, 0 for a directory, -1 with errno.
static int delete_file(struct tree_delete *job, int dir, const char *name) {
  struct statx st;
  if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BASIC_STATS, &st))
    return errno == ENOENT ? 1 : -1;
  if (S_ISDIR(st.stx_mode)) return 0;
  if (unlinkat(dir, name, 0)) return errno == ENOENT ? 1 : -1;
  count_freed(&st, job->freed);
  return 1;
}

static int move_up(struct tree_delete *job, int dir, const char *name) {
  for (;;) {
    char unique[32];
    snprintf(unique, sizeof unique, ".moved-%llu", (unsigned long long)job->moved++);
    if (!syscall(SYS_renameat2, dir, name, job->top, unique, RENAME_NOREPLACE)) return 0;
    if (errno != EEXIST) return errno == ENOENT ? 0 : -1;
  }
}

static int empty_dir(struct tree_delete *job, int dir) {
  DIR *entries = open_dir(dir);
  if (!entries) return -1;
  int bad = 0;
  struct dirent *entry;
  while (!bad && (errno = 0, entry = readdir(entries))) {
    if (is_dots(entry->d_name)) continue;
    int done = delete_file(job, dirfd(entries), entry->d_name);
    bad = done < 0 || (done == 0 && move_up(job, dirfd(entries), entry->d_name));
  }
  bad = bad || errno;
  int error = errno;
  closedir(entries);
  errno = error;
  return bad ? -1 : 0;
}

// Deletes a directory of the top; its own directories have been moved beside it.
static int delete_dir(struct tree_delete *job, const char *name) {
  int dir = k_openat2(job->top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (dir < 0) return errno == ENOENT ? 0 : -1;
  struct statx st;
  int bad = statx(dir, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) || empty_dir(job, dir);
  int error = errno;
  close(dir);
  errno = error;
  if (bad || unlinkat(job->top, name, AT_REMOVEDIR)) return -1;
  count_freed(&st, job->freed);
  return 0;
}

// Returns how many entries it found, or -1 with errno.
static int64_t delete_entries(struct tree_delete *job) {
  DIR *entries = open_dir(job->top);
  if (!entries) return -1;
  int64_t found = 0;
  struct dirent *entry;
  while (found >= 0 && (errno = 0, entry = readdir(entries))) {
    if (is_dots(entry->d_name)) continue;
    found++;
    int done = delete_file(job, job->top, entry->d_name);
    if (done < 0 || (done == 0 && delete_dir(job, entry->d_name))) found = -1;
  }
  if (errno) found = -1;
  int error = errno;
  closedir(entries);
  errno = error;
  return found;
}

int delete_tree(int parent, const char *name, struct disk_usage *freed) {
  *freed = (struct disk_usage){0};
  int top = k_openat2(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (top < 0) return errno == ENOENT ? 0 : -1;
  struct tree_delete job = {.top = top, .freed = freed};
  int64_t found;
  // Directories that were moved up may be missed by the scan that moved them.
  do found = delete_entries(&job);
  while (found > 0);
  int error = errno;
  close(top);
  errno = error;
  if (found < 0) return -1;
  return unlinkat(parent, name, AT_REMOVEDIR) && errno != ENOENT ? -1 : 0;
}
