// Glob matching: * and ? within a component, ** across components, [a-z] and [!a-z]. A glob without
// a slash matches the last component of a path. Pure.
#include "boxfs.h"

#include <string.h>

#define STARS_MAX 8  // a ** may try every component of the path

// Returns the position after the set that starts behind '[', or NULL if it is not closed. Sets
// is_in if c is a member.
static const char *match_set(const char *set, char c, bool *is_in) {
  bool invert = *set == '!' || *set == '^', found = false;
  if (invert) set++;
  for (bool first = true; first || *set != ']'; first = false) {
    if (*set == 0) return NULL;
    unsigned char low = (unsigned char)*set++, high = low;
    if (set[0] == '-' && set[1] != ']' && set[1] != 0) {
      high = (unsigned char)set[1];
      set += 2;
    }
    if ((unsigned char)c >= low && (unsigned char)c <= high) found = true;
  }
  *is_in = found != invert;
  return set + 1;
}

// Matches one path component against one component of the glob. Only the last * is retried, so the
// steps are bounded by the product of the lengths.
static bool match_name(const char *glob, const char *glob_end, const char *name,
                       const char *name_end) {
  const char *star = NULL, *star_name = NULL;
  while (name < name_end || glob < glob_end) {
    if (glob < glob_end && *glob == '*') {
      star = ++glob;
      star_name = name;
      continue;
    }
    if (glob < glob_end && name < name_end) {
      bool is_in = false;
      const char *after = *glob == '[' ? match_set(glob + 1, *name, &is_in) : NULL;
      if (after && after <= glob_end ? is_in : *glob == '?' || *glob == *name) {
        glob = after && after <= glob_end ? after : glob + 1;
        name++;
        continue;
      }
    }
    if (!star || star_name >= name_end) return false;
    glob = star;
    name = ++star_name;
  }
  return true;
}

static bool match_path(const char *glob, const char *path, int stars) {
  for (;;) {
    const char *glob_end = glob + strcspn(glob, "/");
    if (glob_end - glob == 2 && glob[0] == '*' && glob[1] == '*') {
      if (*glob_end == 0) return true;
      if (stars == STARS_MAX) return false;
      for (const char *at = path; at; at = strchr(at, '/') ? strchr(at, '/') + 1 : NULL)
        if (match_path(glob_end + 1, at, stars + 1)) return true;
      return false;
    }
    const char *path_end = path + strcspn(path, "/");
    if (!match_name(glob, glob_end, path, path_end)) return false;
    if (*glob_end == 0 || *path_end == 0) return *glob_end == *path_end;
    glob = glob_end + 1;
    path = path_end + 1;
  }
}

bool glob_matches(const char *glob, const char *path) {
  if (!strchr(glob, '/')) {
    const char *slash = strrchr(path, '/');
    return match_path(glob, slash ? slash + 1 : path, 0);
  }
  return match_path(*glob == '/' ? glob + 1 : glob, path, 0);
}
