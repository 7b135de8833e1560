// Deleting: one name, an empty directory, or a whole tree when that was asked for. Every step goes
// from the descriptor of the directory that holds the name, so a link put in its place is removed
// as a link and never followed.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define NAMES_AT_ONCE 4096

struct felling {
  uint64_t deadline_ms;
  uint32_t count;
  bool left;  // something could not be removed, or time was up
  int error;
};

static void note(struct felling *felling, int error) {
  felling->left = true;
  if (felling->error == 0) felling->error = error;
}

static void fell(struct felling *felling, int parent, const char *name, int depth);

static void fell_inside(struct felling *felling, int dir, int depth) {
  for (;;) {
    struct names names;
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (copy < 0 || read_names(copy, NAMES_AT_ONCE, felling->deadline_ms, &names)) {
      note(felling, errno);
      return;
    }
    uint32_t before = felling->count;
    for (size_t i = 0; i < names.count && now_ms() <= felling->deadline_ms; i++)
      fell(felling, dir, names.list[i], depth + 1);
    bool more = names.cut && felling->count > before;
    free_names(&names);
    if (now_ms() > felling->deadline_ms) note(felling, ETIMEDOUT);
    if (!more || felling->left) return;
  }
}

static void fell(struct felling *felling, int parent, const char *name, int depth) {
  if (unlinkat(parent, name, 0) == 0) {
    felling->count++;
    return;
  }
  // EISDIR on Linux, EPERM elsewhere: then it may be a directory.
  if (errno == ENOENT) return;
  int error = errno;
  int dir = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (dir < 0) {
    note(felling, errno == ENOTDIR || errno == ELOOP ? error : errno);
    return;
  }
  if (depth >= DEPTH_MAX) note(felling, E2BIG);
  else fell_inside(felling, dir, depth);
  close(dir);
  if (unlinkat(parent, name, AT_REMOVEDIR) == 0) felling->count++;
  else if (errno != ENOENT) note(felling, errno);
}

static void delete_tree(struct out *out, int dir, const char *name, uint64_t deadline_ms) {
  struct felling felling = {.deadline_ms = deadline_ms};
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) {
    refuse_errno(out, errno);
    return;
  }
  fell(&felling, dir, name, 0);
  // Nothing happened: say why. Something did: say how much, and that there is more.
  if (felling.count == 0 && felling.left) {
    refuse_errno(out, felling.error);
    return;
  }
  put_u32(out, felling.count);
  put_u8(out, felling.left);
}

static void delete_one(struct out *out, int dir, const char *name) {
  struct stat st;
  if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
      unlinkat(dir, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0)) {
    refuse_errno(out, errno);
    return;
  }
  put_u32(out, 1);
  put_u8(out, 0);
}

void do_delete(struct in *in, struct out *out) {
  struct place place;
  const char *name;
  if (!get_place(in, &place, out)) return;
  uint8_t flags = get_u8(in);
  uint32_t limit_ms = get_u32(in);
  const uint8_t *expected = flags & DELETE_EXPECT ? get_bytes(in, 32) : NULL;
  if (!all_read(in)) return;
  if (!root_is_writable(place.root)) {
    refuse(out, READ_ONLY, "may be read only");
    return;
  }
  int dir = open_parent(&place, expected ? O_RDONLY : O_PATH, &name);
  if (dir < 0 || (expected && lock_directory(dir))) {
    refuse_errno(out, errno);
    if (dir >= 0) close(dir);
    return;
  }
  if (expected && !holds(dir, name, expected, out)) {
    close(dir);
    return;
  }
  if (flags & DELETE_TREE) delete_tree(out, dir, name, bound_worker(limit_ms));
  else delete_one(out, dir, name);
  close(dir);
}
