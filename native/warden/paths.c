// Before the fork: opens what a plan declares and works out what protecting a path means today -
// which component is a link, which is missing. The child then only mounts (mounts.c).
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 8

static const char *inside(const char *dir, const char *path) {
  size_t size = strlen(dir);
  if (strncmp(dir, path, size)) return NULL;
  if (!path[size]) return path + size;
  return path[size] == '/' ? path + size + 1 : NULL;
}

// The declared path that a name in the box comes from: the deepest, and of equals the last.
static int covering(const struct plan *plan, const char *path) {
  int best = -1;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind->kind > BIND_TMPFS || !inside(bind->dst, path)) continue;
    if (best < 0 || strlen(bind->dst) >= strlen(plan->binds[best].dst)) best = (int)i;
  }
  return best;
}

static int add_seal(struct paths *paths, enum seal_kind kind, unsigned bind, const char *path,
                    struct failure *why) {
  if (paths->seal_count == SEALS_MAX)
    return fail(why, REFUSED_PLAN, "too many protected paths, once links are followed");
  char *copy = strdup(path);
  if (!copy) return fail(why, REFUSED_OVERLOAD, "out of memory");
  paths->seals[paths->seal_count++] = (struct seal){kind, bind, copy};
  return 0;
}

static int hold_stub(struct paths *paths, int stub, struct failure *why) {
  if (stub < 0) return -1;
  if (paths->stub_count == SEALS_MAX) {
    stub_drop((unsigned)stub);
    return fail(why, REFUSED_PLAN, "too many missing protected paths");
  }
  paths->stubs[paths->stub_count++] = (unsigned)stub;
  return 0;
}

// Where a link found at `at` leads, with `rest` behind it; only words, nothing is opened.
static int follow(int dir, const char *name, const char *parent, const char *rest, char *out,
                  struct failure *why) {
  char target[PATH_BYTES];
  ssize_t size = readlinkat(dir, name, target, sizeof target - 1);
  if (size < 0) return fail(why, REFUSED_SETUP, "readlink %.200s: %s", name, strerror(errno));
  target[size] = 0;
  char joined[3 * PATH_BYTES];
  snprintf(joined, sizeof joined, "%s/%s/%s", target[0] == '/' ? "" : parent, target, rest);
  size_t used = 0;
  char *left = joined, *word;
  while ((word = strsep(&left, "/"))) {
    if (!*word || !strcmp(word, ".")) continue;
    if (!strcmp(word, "..")) {
      while (used && out[--used] != '/') {
      }
      continue;
    }
    size_t length = strlen(word);
    if (used + length + 2 > PATH_BYTES) return fail(why, REFUSED_PLAN, "a link is too long");
    out[used++] = '/';
    memcpy(out + used, word, length);
    used += length;
  }
  out[used] = 0;
  return 0;
}

static int protect(const struct plan *plan, struct paths *paths, const char *path, uint8_t kind,
                   int depth, struct failure *why);

int has_other_name(const char *path, const struct stat *about, struct failure *why) {
  if (!S_ISREG(about->st_mode) || about->st_nlink < 2) return 0;
  fail(why, REFUSED_SETUP, "%.200s has another name, by which it would stay open", path);
  snprintf(why->hint, sizeof why->hint,
           "make it a file of its own: cp -p FILE FILE.own && mv FILE.own FILE; or remove the other "
           "name (find -samefile)");
  return -1;
}

// One component at a time from the writable root down to `path`.
static int protect_walk(const struct plan *plan, struct paths *paths, unsigned bind,
                        const char *path, uint8_t kind, int depth, struct failure *why) {
  const struct bind *root = &plan->binds[bind];
  char box[PATH_BYTES], real[2 * PATH_BYTES], words[PATH_BYTES];
  snprintf(box, sizeof box, "%s", root->dst);
  snprintf(real, sizeof real, "%s", root->src);
  snprintf(words, sizeof words, "%s", inside(root->dst, path));
  int dir = fcntl(paths->fds[bind], F_DUPFD_CLOEXEC, 3), bad = 0;
  char *rest = words, *word;
  while (!bad && (word = strsep(&rest, "/")) && *word) {
    char parent[PATH_BYTES];
    memcpy(parent, box, sizeof parent);
    strncat(box, "/", sizeof box - strlen(box) - 1);
    strncat(box, word, sizeof box - strlen(box) - 1);
    strncat(real, "/", sizeof real - strlen(real) - 1);
    strncat(real, word, sizeof real - strlen(real) - 1);
    // A stub is removed by its name: one that does not fit whole would name another.
    if (strlen(real) >= PATH_BYTES) {
      bad = fail(why, REFUSED_PLAN, "%.200s: the path on the host is too long", box);
      break;
    }
    int known = stub_find(real);
    if (known >= 0) {
      stub_hold((unsigned)known);
      bad = hold_stub(paths, known, why);
      break;
    }
    int next = k_openat2(dir, word, O_PATH | O_NOFOLLOW | O_CLOEXEC, RESOLVE_BENEATH);
    struct stat about = {0};
    if (next < 0 && errno == ENOENT) {
      bool directory = rest || kind == BIND_PROTECT_DIR;
      bad = hold_stub(paths, stub_take(real, directory, dir, word, why), why);
      break;
    }
    if (next < 0 || fstat(next, &about)) {
      bad = fail(why, REFUSED_SETUP, "%.200s: %s", box, strerror(errno));
    } else if (S_ISLNK(about.st_mode)) {
      char target[PATH_BYTES];
      bad = follow(dir, word, parent, rest ? rest : "", target, why) ||
            add_seal(paths, kind == BIND_MASK ? SEAL_HIDDEN_LINK : SEAL_LINK, bind, box, why) ||
            protect(plan, paths, target, kind, depth + 1, why);
      close(next);
      close(dir);
      return bad;
    } else {
      bad = has_other_name(box, &about, why);
    }
    close(dir);
    dir = next;
    if (!S_ISDIR(about.st_mode)) break;  // a file where a directory was expected: seal the file
  }
  if (dir >= 0) close(dir);
  if (bad) return -1;
  return add_seal(paths, kind == BIND_MASK ? SEAL_MASK : SEAL_READONLY, bind, box, why);
}

// The same below what is only read, where nothing has to be made: a name that is missing, or comes
// later, is the freezer's (freeze.c). Only links are looked for, and hidden with what they lead to.
static int mask_walk(const struct plan *plan, struct paths *paths, unsigned bind, const char *path,
                     int depth, struct failure *why) {
  char box[PATH_BYTES], words[PATH_BYTES], target[PATH_BYTES];
  snprintf(box, sizeof box, "%s", plan->binds[bind].dst);
  snprintf(words, sizeof words, "%s", inside(plan->binds[bind].dst, path));
  int dir = fcntl(paths->fds[bind], F_DUPFD_CLOEXEC, 3), bad = 0;
  char *rest = words, *word;
  bool linked = false;
  while (!bad && !linked && dir >= 0 && (word = strsep(&rest, "/")) && *word) {
    char parent[PATH_BYTES];
    memcpy(parent, box, sizeof parent);
    strncat(box, "/", sizeof box - strlen(box) - 1);
    strncat(box, word, sizeof box - strlen(box) - 1);
    int next = k_openat2(dir, word, O_PATH | O_NOFOLLOW | O_CLOEXEC, RESOLVE_BENEATH);
    struct stat about = {0};
    linked = next >= 0 && !fstat(next, &about) && S_ISLNK(about.st_mode);
    if (linked)
      bad = follow(dir, word, parent, rest ? rest : "", target, why) ||
            add_seal(paths, SEAL_HIDDEN_LINK, bind, box, why) ||
            protect(plan, paths, target, BIND_MASK, depth + 1, why);
    close(dir);
    dir = next;
  }
  if (dir >= 0) close(dir);
  if (bad) return -1;
  return linked ? 0 : add_seal(paths, SEAL_MASK, bind, path, why);
}

static int protect(const struct plan *plan, struct paths *paths, const char *path, uint8_t kind,
                   int depth, struct failure *why) {
  if (depth > LINKS_MAX) return fail(why, REFUSED_SETUP, "%.200s: too many links", path);
  int bind = covering(plan, path);
  if (bind < 0) return 0;  // not in the box at all
  const struct bind *root = &plan->binds[bind];
  if (!*inside(root->dst, path) && kind != BIND_MASK)
    return fail(why, REFUSED_PLAN, "%.200s is declared and protected: declare it read-only", path);
  if (root->kind == BIND_RW)
    return protect_walk(plan, paths, (unsigned)bind, path, kind, depth, why);
  if (root->kind == BIND_TMPFS)
    return fail(why, REFUSED_PLAN, "%.200s is the box's own: it cannot be protected", path);
  return kind == BIND_MASK ? mask_walk(plan, paths, (unsigned)bind, path, depth, why) : 0;
}

int paths_open(const struct bounds *b, const struct plan *plan, struct paths *paths,
               struct failure *why) {
  for (unsigned i = 0; i < BINDS_MAX; i++) paths->fds[i] = -1;
  paths->seal_count = paths->stub_count = 0;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind->kind != BIND_RO && bind->kind != BIND_RW) continue;
    int fd = bounds_open(b, bind->src, bind->kind == BIND_RW ? PREFIX_WRITE : PREFIX_READ, why);
    if (fd < 0) return -1;
    if (plan->level == LEVEL_2) {
      int tree = k_open_tree(
          fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
      int error = errno;
      close(fd);
      if (tree < 0)
        return fail(why, REFUSED_SETUP, "open_tree %.200s: %s", bind->src, strerror(error));
      fd = tree;
    }
    paths->fds[i] = fd;
  }
  for (unsigned i = 0; i < plan->bind_count && GUARDED(plan, GUARD_PROTECT); i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind->kind < BIND_MASK) continue;
    if (protect(plan, paths, bind->dst, bind->kind, 0, why)) return -1;
  }
  return 0;
}

void paths_close(const struct plan *plan, struct paths *paths) {
  for (unsigned i = 0; i < plan->bind_count; i++)
    if (paths->fds[i] >= 0) close(paths->fds[i]);
  for (unsigned i = 0; i < paths->seal_count; i++) free(paths->seals[i].path);
  paths->seal_count = 0;
}

void paths_release(struct paths *paths) {
  for (unsigned i = 0; i < paths->stub_count; i++) stub_drop(paths->stubs[i]);
  paths->stub_count = 0;
}
