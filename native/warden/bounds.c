// The bounds file, which only root (or, without root, the warden's user) can write. A plan outside
// the bounds is refused.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct bounds bounds;

static int parse_id(const char *text, uint32_t *id) {
  char *end;
  errno = 0;
  unsigned long long number = strtoull(text, &end, 10);
  if (errno || end == text || *end || number >= UINT32_MAX) return -1;
  *id = (uint32_t)number;
  return 0;
}

static int add_prefix(struct bounds *b, const char *path, enum prefix_use use,
                      struct failure *err) {
  if (b->prefix_count == PREFIXES_MAX)
    return fail(err, REFUSED_BOUNDS, "more than %d path lines", PREFIXES_MAX);
  struct prefix *prefix = &b->prefixes[b->prefix_count];
  if (path[0] != '/' || strlen(path) >= sizeof prefix->path)
    return fail(err, REFUSED_BOUNDS, "%.200s is not an absolute path", path);
  // "/" would bound nothing.
  if (use != PREFIX_READ && use != PREFIX_RELAY && !path[1])
    return fail(err, REFUSED_BOUNDS, "/ is allowed for reading only");
  strcpy(prefix->path, path);
  prefix->use = use;
  b->prefix_count++;
  return 0;
}

static int add_range(struct id_ranges *ranges, uint32_t first, uint32_t last,
                     struct failure *err) {
  if (ranges->count == RANGES_MAX)
    return fail(err, REFUSED_BOUNDS, "more than %d ranges of ids", RANGES_MAX);
  ranges->of[ranges->count].first = first;
  ranges->of[ranges->count++].last = last;
  return 0;
}

static bool is_in_ranges(const struct id_ranges *ranges, uint32_t id) {
  for (unsigned i = 0; i < ranges->count; i++)
    if (id >= ranges->of[i].first && id <= ranges->of[i].last) return true;
  return false;
}

static int parse_line(struct bounds *b, char *line, struct failure *err) {
  char *rest = line, *key = strsep(&rest, " ");
  if (!*key || *key == '#') return 0;
  if (!rest || !*rest) return fail(err, REFUSED_BOUNDS, "%.50s has no value", key);
  if (!strcmp(key, "ro")) return add_prefix(b, rest, PREFIX_READ, err);
  if (!strcmp(key, "rw")) return add_prefix(b, rest, PREFIX_WRITE, err);
  if (!strcmp(key, "relay")) return add_prefix(b, rest, PREFIX_RELAY, err);
  if (!strcmp(key, "own")) return add_prefix(b, rest, PREFIX_CHOWN, err);
  if (!strcmp(key, "share")) return add_prefix(b, rest, PREFIX_SHARE, err);
  if (!strcmp(key, "delete")) return add_prefix(b, rest, PREFIX_DELETE, err);
  uint32_t first, last;
  char *value = strsep(&rest, " ");
  if (parse_id(value, &first)) return fail(err, REFUSED_BOUNDS, "%.50s is not a number", value);
  last = first;
  if (rest && parse_id(rest, &last))
    return fail(err, REFUSED_BOUNDS, "%.50s has an invalid range", key);
  if (!strcmp(key, "client_uid")) {
    b->client_uid = first;
  } else if (!strcmp(key, "client_gid")) {
    b->client_gid = first;
  } else if (!strcmp(key, "client_pid")) {
    b->client_pid = (pid_t)first;
  } else if (!strcmp(key, "grants")) {
    b->no_grants = !first;
  } else if (!strcmp(key, "boxes")) {
    b->boxes_max = first > 4096 ? 4096 : first;
  } else if (first == 0 || last < first) {
    return fail(err, REFUSED_BOUNDS, "%.50s has an invalid range", key);
  } else if (!strcmp(key, "uid")) {
    return add_range(&b->uids, first, last, err);
  } else if (!strcmp(key, "gid")) {
    return add_range(&b->gids, first, last, err);
  } else if (!strcmp(key, "group") && b->group_count < GROUPS_MAX) {
    b->groups[b->group_count++] = first;
  } else {
    return fail(err, REFUSED_BOUNDS, "unknown key %.50s", key);
  }
  return 0;
}

int bounds_read(const char *file, struct bounds *b, struct failure *err) {
  memset(b, 0, sizeof *b);
  b->boxes_max = 256;
  b->client_uid = getuid();
  FILE *in = fopen(file, "re");
  if (!in) return fail(err, REFUSED_BOUNDS, "%.200s: %s", file, strerror(errno));
  struct stat st;
  if (fstat(fileno(in), &st) || (st.st_uid != 0 && st.st_uid != getuid()) ||
      st.st_mode & (S_IWGRP | S_IWOTH)) {
    fclose(in);
    return fail(err, REFUSED_BOUNDS, "%.200s must be owned by root and writable by root only",
                file);
  }
  char line[PATH_BYTES + 64];
  int bad = 0;
  while (!bad && fgets(line, sizeof line, in)) {
    line[strcspn(line, "\n")] = 0;
    bad = parse_line(b, line, err);
  }
  fclose(in);
  if (!bad && (!b->uids.count || !b->gids.count))
    return fail(err, REFUSED_BOUNDS, "%.200s has no uid or gid range", file);
  return bad;
}

static bool is_group_allowed(const struct bounds *b, uint32_t group) {
  // The daemons' group can read their files: no box may have it.
  if (host.root && b->client_gid && group == b->client_gid) return false;
  if (is_in_ranges(&b->gids, group)) return true;
  for (unsigned i = 0; i < b->group_count; i++)
    if (b->groups[i] == group) return true;
  return false;
}

int bounds_check_user(const struct bounds *b, uint32_t uid, struct failure *err) {
  if (!is_in_ranges(&b->uids, uid))
    return fail(err, REFUSED_BOUNDS, "uid %u is not in the range of boxes", uid);
  // No box may run as the daemons' user.
  if (host.root && uid == b->client_uid)
    return fail(err, REFUSED_BOUNDS, "uid %u is the daemons' user", uid);
  return 0;
}

int bounds_check_group(const struct bounds *b, uint32_t gid, struct failure *err) {
  return is_group_allowed(b, gid) ? 0 : fail(err, REFUSED_BOUNDS, "gid %u is not allowed", gid);
}

int bounds_check(const struct bounds *b, const struct plan *plan, struct failure *err) {
  if (bounds_check_user(b, plan->uid, err) || bounds_check_group(b, plan->gid, err)) return -1;
  for (unsigned i = 0; i < plan->group_count; i++)
    if (!is_group_allowed(b, plan->groups[i]))
      return fail(err, REFUSED_BOUNDS, "group %u is not allowed", plan->groups[i]);
  if (!host.root && (plan->uid != host.uid || plan->gid != host.gid || plan->group_count))
    return fail(err, REFUSED_HOST, "without root every box runs as uid %u, gid %u", host.uid,
                host.gid);
  return 0;
}

bool is_below(const char *prefix, const char *path) {
  size_t size = strlen(prefix);
  if (size == 1) return true;
  return !strncmp(prefix, path, size) && (!path[size] || path[size] == '/');
}

// Resolved from / each time, so that a prefix that was removed and recreated is found. Symbolic
// links are rejected, so the path that is opened is the path that was checked.
static int open_real(const char *path, struct failure *err) {
  int fd = k_openat2(AT_FDCWD, path, O_PATH | O_CLOEXEC,
                     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (fd < 0 && (errno == ELOOP))
    return fail(err, REFUSED_BOUNDS, "%.200s contains a symbolic link: use the real path", path);
  if (fd < 0) return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  return fd;
}

int bounds_open(const struct bounds *b, const char *path, enum prefix_use use,
                struct failure *err) {
  bool allowed = false;
  for (unsigned i = 0; i < b->prefix_count; i++) {
    const struct prefix *prefix = &b->prefixes[i];
    // Writable implies readable; a relay prefix implies neither.
    if (prefix->use != use && !(use == PREFIX_READ && prefix->use == PREFIX_WRITE)) continue;
    // A home is below the prefix, never the prefix itself.
    if (use == PREFIX_CHOWN && !strcmp(prefix->path, path)) continue;
    if (is_below(prefix->path, path)) allowed = true;
  }
  if (!allowed && (use == PREFIX_CHOWN || use == PREFIX_SHARE))
    return fail(err, REFUSED_BOUNDS, "%.200s is outside the bounds for chown and share", path);
  if (!allowed && !b->no_grants && (use == PREFIX_READ || use == PREFIX_WRITE)) {
    int fd = grants_open(path, use == PREFIX_WRITE, err);
    if (fd != NOT_GRANTED) return fd;
  }
  if (!allowed)
    return fail(err, REFUSED_BOUNDS, "%.200s is outside the bounds of a box%s", path,
                use == PREFIX_WRITE   ? " for writing"
                : use == PREFIX_RELAY ? " as the socket of a relay"
                                      : "");
  return open_real(path, err);
}

int bounds_open_below(const struct bounds *b, const char *path, struct failure *err) {
  for (unsigned i = 0; i < b->prefix_count; i++) {
    const struct prefix *prefix = &b->prefixes[i];
    if (prefix->use == PREFIX_WRITE && strcmp(prefix->path, path) && is_below(prefix->path, path))
      return open_real(path, err);
  }
  return fail(err, REFUSED_BOUNDS, "%.200s is not below a path that boxes may write", path);
}

int bounds_delete_dir(const struct bounds *b, const char *path, const char **name,
                      struct failure *err) {
  char parent[PATH_BYTES];
  *name = split_path(path, parent);
  for (unsigned i = 0; i < b->prefix_count; i++) {
    const struct prefix *prefix = &b->prefixes[i];
    if (prefix->use != PREFIX_DELETE || strcmp(prefix->path, parent)) continue;
    int fd = k_openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC,
                       RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    return fd >= 0 ? fd : fail(err, REFUSED_SETUP, "%.200s: %s", parent, strerror(errno));
  }
  return fail(err, REFUSED_BOUNDS, "%.200s is outside the bounds for deleting", path);
}

int bounds_relay_dir(const struct bounds *b, const char *path, const char **rest) {
  for (unsigned i = 0; i < b->prefix_count; i++) {
    const struct prefix *prefix = &b->prefixes[i];
    if (prefix->use != PREFIX_RELAY || !is_below(prefix->path, path)) continue;
    char dir[PATH_BYTES];
    size_t size = (size_t)(strrchr(prefix->path, '/') - prefix->path);
    snprintf(dir, sizeof dir, "%.*s", size ? (int)size : 1, prefix->path);
    *rest = path + size + 1;
    return k_openat2(AT_FDCWD, dir, O_PATH | O_DIRECTORY | O_CLOEXEC,
                     RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  }
  return -1;
}
