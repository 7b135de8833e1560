// Before the fork: opens the declared paths, and resolves each protected path to the seals and
// stubs it needs (a component may be a symbolic link or missing). The child only mounts (mounts.c).
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINKS_MAX 8

static const char *relative_to(const char *dir, const char *path) {
  size_t size = strlen(dir);
  if (strncmp(dir, path, size)) return NULL;
  if (!path[size]) return path + size;
  return path[size] == '/' ? path + size + 1 : NULL;
}

const char *split_path(const char *path, char parent[PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  snprintf(parent, PATH_BYTES, "%.*s", slash > path ? (int)(slash - path) : 1, path);
  return slash + 1;
}

// Returns the bind that contains a path in the box: the deepest, the last among equals, or -1.
static int find_bind(const struct plan *plan, const char *path) {
  int best = -1;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    bool has_files = bind_is_mounted(bind) || bind->kind == BIND_TMPFS;
    if (!has_files || !relative_to(bind->dst, path)) continue;
    if (best < 0 || strlen(bind->dst) >= strlen(plan->binds[best].dst)) best = (int)i;
  }
  return best;
}

static int add_seal(struct paths *paths, enum seal_kind kind, unsigned bind, const char *path,
                    struct failure *err) {
  if (paths->seal_count == SEALS_MAX)
    return fail(err, REFUSED_PLAN, "more than %d protected paths, links included", SEALS_MAX);
  char *copy = strdup(path);
  if (!copy) return fail(err, REFUSED_OVERLOAD, "out of memory");
  paths->seals[paths->seal_count++] = (struct seal){kind, bind, copy};
  return 0;
}

static int add_stub(struct paths *paths, int stub, struct failure *err) {
  if (stub < 0) return -1;
  if (paths->stub_count == SEALS_MAX) {
    stub_unref((unsigned)stub);
    return fail(err, REFUSED_PLAN, "more than %d missing protected paths", SEALS_MAX);
  }
  paths->stubs[paths->stub_count++] = (unsigned)stub;
  return 0;
}

// A stub in a layer is removed with the layer.
static int create_stub(struct paths *paths, struct layer *layer, const char *path, bool directory,
                       int dir, const char *name, struct failure *err) {
  int stub = stub_create(path, directory, dir, name, err);
  if (add_stub(paths, stub, err)) return -1;
  return layer ? layer_keep_stub(layer, (unsigned)stub, err) : 0;
}

// Resolves the link `name` in `parent`, followed by `rest`, lexically; opens nothing.
static int resolve_link(int dir, const char *name, const char *parent, const char *rest, char *out,
                        struct failure *err) {
  char target[PATH_BYTES];
  ssize_t size = readlinkat(dir, name, target, sizeof target - 1);
  if (size < 0) return fail(err, REFUSED_SETUP, "readlink %.200s: %s", name, strerror(errno));
  target[size] = 0;
  char joined[3 * PATH_BYTES];
  snprintf(joined, sizeof joined, "%s/%s/%s", target[0] == '/' ? "" : parent, target, rest);
  size_t used = 0;
  char *remaining = joined, *component;
  while ((component = strsep(&remaining, "/"))) {
    if (!*component || !strcmp(component, ".")) continue;
    if (!strcmp(component, "..")) {
      while (used && out[--used] != '/') {
      }
      continue;
    }
    size_t length = strlen(component);
    if (used + length + 2 > PATH_BYTES)
      return fail(err, REFUSED_PLAN, "the target of a symbolic link is too long");
    out[used++] = '/';
    memcpy(out + used, component, length);
    used += length;
  }
  out[used] = 0;
  return 0;
}

static int protect(const struct plan *plan, struct paths *paths, const char *path, uint8_t kind,
                   int depth, struct failure *err);

int check_hard_links(const char *path, const struct stat *st, struct failure *err) {
  if (!S_ISREG(st->st_mode) || st->st_nlink < 2) return 0;
  fail(err, REFUSED_SETUP, "%.200s has another hard link, which would stay accessible", path);
  snprintf(err->hint, sizeof err->hint,
           "replace it by a copy: cp -p FILE FILE.own && mv FILE.own FILE; or remove the other "
           "link (find -samefile)");
  return -1;
}

// Walks from a writable bind down to `path`, one component at a time.
static int protect_walk(const struct plan *plan, struct paths *paths, unsigned bind,
                        const char *path, uint8_t kind, int depth, struct failure *err) {
  const struct bind *root = &plan->binds[bind];
  struct layer *layer = root->kind == BIND_LAYER ? paths->layers[root->layer] : NULL;
  char box_path[PATH_BYTES], host_path[2 * PATH_BYTES], components[PATH_BYTES];
  snprintf(box_path, sizeof box_path, "%s", root->dst);
  snprintf(host_path, sizeof host_path, "%s", layer ? layer_upper(layer) : root->src);
  snprintf(components, sizeof components, "%s", relative_to(root->dst, path));
  // Through an owned bind, root could not create a stub: it is none of the mapped users there.
  int from = paths->host_fds[bind] >= 0 ? paths->host_fds[bind] : paths->fds[bind];
  int dir = fcntl(from, F_DUPFD_CLOEXEC, 3), bad = 0;
  char *rest = components, *name;
  while (!bad && (name = strsep(&rest, "/")) && *name) {
    char parent[PATH_BYTES];
    memcpy(parent, box_path, sizeof parent);
    strncat(box_path, "/", sizeof box_path - strlen(box_path) - 1);
    strncat(box_path, name, sizeof box_path - strlen(box_path) - 1);
    strncat(host_path, "/", sizeof host_path - strlen(host_path) - 1);
    strncat(host_path, name, sizeof host_path - strlen(host_path) - 1);
    // A stub is removed by its path; a truncated one would name another file.
    if (strlen(host_path) >= PATH_BYTES) {
      bad = fail(err, REFUSED_PLAN, "%.200s: its path on the host is too long", box_path);
      break;
    }
    int stub = stub_find(host_path);
    if (stub >= 0) {
      stub_ref((unsigned)stub);
      bad = add_stub(paths, stub, err);
      break;
    }
    int next = k_openat2(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, RESOLVE_BENEATH);
    struct stat st = {0};
    if (next < 0 && errno == ENOENT) {
      bool directory = rest || kind == BIND_PROTECT_DIR;
      bad = create_stub(paths, layer, host_path, directory, dir, name, err);
      break;
    }
    if (next < 0 || fstat(next, &st)) {
      bad = fail(err, REFUSED_SETUP, "%.200s: %s", box_path, strerror(errno));
    } else if (S_ISLNK(st.st_mode)) {
      char target[PATH_BYTES];
      bad =
          resolve_link(dir, name, parent, rest ? rest : "", target, err) ||
          add_seal(paths, kind == BIND_MASK ? SEAL_HIDDEN_LINK : SEAL_LINK, bind, box_path, err) ||
          protect(plan, paths, target, kind, depth + 1, err);
      close(next);
      close(dir);
      return bad;
    } else {
      bad = check_hard_links(box_path, &st, err);
    }
    close(dir);
    dir = next;
    if (!S_ISDIR(st.st_mode)) break;  // a file instead of a directory: seal the file
  }
  if (dir >= 0) close(dir);
  if (bad) return -1;
  return add_seal(paths, kind == BIND_MASK ? SEAL_MASK : SEAL_READONLY, bind, box_path, err);
}

// The same below a read-only bind, where no stub is needed: freeze.c handles names that are missing
// or appear later. Looks only for symbolic links, and hides them together with their targets.
static int mask_walk(const struct plan *plan, struct paths *paths, unsigned bind, const char *path,
                     int depth, struct failure *err) {
  char box_path[PATH_BYTES], components[PATH_BYTES], target[PATH_BYTES];
  snprintf(box_path, sizeof box_path, "%s", plan->binds[bind].dst);
  snprintf(components, sizeof components, "%s", relative_to(plan->binds[bind].dst, path));
  int dir = fcntl(paths->fds[bind], F_DUPFD_CLOEXEC, 3), bad = 0;
  char *rest = components, *name;
  bool linked = false;
  while (!bad && !linked && dir >= 0 && (name = strsep(&rest, "/")) && *name) {
    char parent[PATH_BYTES];
    memcpy(parent, box_path, sizeof parent);
    strncat(box_path, "/", sizeof box_path - strlen(box_path) - 1);
    strncat(box_path, name, sizeof box_path - strlen(box_path) - 1);
    int next = k_openat2(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, RESOLVE_BENEATH);
    struct stat st = {0};
    linked = next >= 0 && !fstat(next, &st) && S_ISLNK(st.st_mode);
    if (linked)
      bad = resolve_link(dir, name, parent, rest ? rest : "", target, err) ||
            add_seal(paths, SEAL_HIDDEN_LINK, bind, box_path, err) ||
            protect(plan, paths, target, BIND_MASK, depth + 1, err);
    close(dir);
    dir = next;
  }
  if (dir >= 0) close(dir);
  if (bad) return -1;
  return linked ? 0 : add_seal(paths, SEAL_MASK, bind, path, err);
}

static int protect(const struct plan *plan, struct paths *paths, const char *path, uint8_t kind,
                   int depth, struct failure *err) {
  if (depth > LINKS_MAX) return fail(err, REFUSED_SETUP, "%.200s: too many symbolic links", path);
  int bind = find_bind(plan, path);
  if (bind < 0) return 0;  // not in the box
  const struct bind *root = &plan->binds[bind];
  if (!*relative_to(root->dst, path) && kind != BIND_MASK)
    return fail(err, REFUSED_PLAN, "%.200s is both declared and protected: declare it read-only",
                path);
  if (bind_is_writable(root))
    return protect_walk(plan, paths, (unsigned)bind, path, kind, depth, err);
  if (root->kind == BIND_TMPFS)
    return fail(err, REFUSED_PLAN, "%.200s is private to the box and cannot be protected", path);
  return kind == BIND_MASK ? mask_walk(plan, paths, (unsigned)bind, path, depth, err) : 0;
}

static int open_owned(int fd, const struct stat *st, const struct plan *plan, struct paths *paths,
                      struct failure *err) {
  struct owner from = {st->st_uid, st->st_gid}, to = {plan->uid, plan->gid};
  int tree = idmap_clone(fd, from, to, true, err);
  if (tree >= 0 || !plan->wants_rights || err->code != REFUSED_HOST) return tree;
  return rights_clone(fd, st->st_uid, plan, paths, err);
}

// Opens the source of a bind; at level 2 as a detached copy of its mount.
static int open_source(const struct bounds *b, const struct plan *plan, unsigned i,
                       struct paths *paths, struct failure *err) {
  const struct bind *bind = &plan->binds[i];
  if (bind->kind == BIND_LAYER) {
    int copy = layer_clone(paths->layers[bind->layer]);
    return copy >= 0 ? copy : fail(err, REFUSED_SETUP, "copying the layer: %s", strerror(errno));
  }
  bool owned = bind->flags & BIND_OWNED && host.root;
  // Whoever sees private files of their owner needs a path that is meant for changes.
  bool writable = bind->kind == BIND_RW || bind->flags & BIND_OWNED;
  int fd = bounds_open(b, bind->src, writable ? PREFIX_WRITE : PREFIX_READ, err);
  if (fd < 0 || plan->level != LEVEL_2) return fd;
  if (bind->kind == BIND_RW && is_layer_dir(bind->src)) {
    close(fd);
    return fail(err, REFUSED_BOX, "%.200s is in use by a layer: close that first", bind->src);
  }
  struct stat st;
  int tree = -1;
  if (owned && fstat(fd, &st)) fail(err, REFUSED_SETUP, "%.200s: %s", bind->src, strerror(errno));
  else if (owned) tree = open_owned(fd, &st, plan, paths, err);
  else tree = k_open_tree(fd, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
  if (tree < 0 && !owned)
    fail(err, REFUSED_SETUP, "open_tree %.200s: %s", bind->src, strerror(errno));
  if (owned) paths->host_fds[i] = fd;
  else close(fd);
  return tree;
}

int paths_open(const struct bounds *b, const struct plan *plan, struct layer *const *layers,
               struct paths *paths, struct failure *err) {
  for (unsigned i = 0; i < BINDS_MAX; i++) paths->fds[i] = paths->host_fds[i] = -1;
  paths->seal_count = paths->stub_count = 0;
  paths->layers = layers;
  paths->has_rights = false;
  paths->rights_ns = -1;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    if (!bind_is_mounted(&plan->binds[i])) continue;
    paths->fds[i] = open_source(b, plan, i, paths, err);
    if (paths->fds[i] < 0) return -1;
  }
  if (paths->has_rights && rights_prepare(b, plan, paths, err)) return -1;
  for (unsigned i = 0; i < plan->bind_count && GUARDED(plan, GUARD_PROTECT); i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind_is_seal(bind) && protect(plan, paths, bind->dst, bind->kind, 0, err)) return -1;
  }
  return 0;
}

void paths_close(const struct plan *plan, struct paths *paths) {
  for (unsigned i = 0; i < plan->bind_count; i++) {
    k_close(paths->fds[i]);
    k_close(paths->host_fds[i]);
  }
  k_close(paths->rights_ns);
  for (unsigned i = 0; i < paths->seal_count; i++) free(paths->seals[i].path);
  paths->seal_count = 0;
}

void paths_drop_stubs(struct paths *paths) {
  for (unsigned i = 0; i < paths->stub_count; i++) stub_unref(paths->stubs[i]);
  paths->stub_count = 0;
}
