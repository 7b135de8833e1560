// The request of a person for a grant, and the paths that are never granted: homes, what is the
// system's or this runtime's, and whatever contains them. The rules are those of
// src/clients/agentctl/grants/rules.ts; a test compares both.
#include "grant-request.h"

#include <stdio.h>
#include <string.h>

// Absolute, without empty components, "." and "..", and without control characters.
static bool is_normalized(const char *path) {
  if (path[0] != '/' || !path[1]) return path[0] == '/';
  for (const char *at = path; *at; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f) return false;
  for (const char *at = path; *at;) {
    const char *name = at + 1;
    size_t length = strcspn(name, "/");
    if (!length || length > NAME_MAX) return false;
    if (name[0] == '.' && (length == 1 || (length == 2 && name[1] == '.'))) return false;
    at = name + length;
  }
  return true;
}

enum request_state grant_request_parse(const char *bytes, size_t size,
                                       struct grant_request *request) {
  if (!size) return REQUEST_PARTIAL;
  if (bytes[0] < GRANT_ADD || bytes[0] > GRANT_READ) return REQUEST_MALFORMED;
  const char *end = memchr(bytes + 1, 0, size - 1);
  if (!end) return size >= GRANT_REQUEST_MAX ? REQUEST_MALFORMED : REQUEST_PARTIAL;
  if (end + 1 != bytes + size || size > GRANT_REQUEST_MAX) return REQUEST_MALFORMED;
  request->op = (enum grant_op)bytes[0];
  request->path = bytes + 1;
  if (request->op == GRANT_LIST) return *request->path ? REQUEST_MALFORMED : REQUEST_COMPLETE;
  return is_normalized(request->path) ? REQUEST_COMPLETE : REQUEST_MALFORMED;
}

static const char *const system_trees[] = {
    "/bin",       "/boot",        "/dev",       "/etc",      "/lib",      "/lib32",
    "/lib64",     "/libx32",      "/lost+found", "/nix",     "/proc",     "/run",
    "/sbin",      "/snap",        "/sys",       "/usr",      "/var/backups", "/var/cache",
    "/var/lib",   "/var/lock",    "/var/log",   "/var/mail", "/var/run",  "/var/spool",
    NULL};
static const char *const shared_dirs[] = {"/home", "/media", "/mnt", "/opt",     "/root",
                                          "/srv",  "/tmp",   "/var", "/var/tmp", NULL};
#define PROJECT_HINT "Name one directory in it, such as that of a project."

static bool is_within(const char *path, size_t path_size, const char *root, size_t root_size) {
  if (root_size == 1 && root[0] == '/') return true;
  return path_size >= root_size && !strncmp(path, root, root_size) &&
         (path_size == root_size || path[root_size] == '/');
}

static bool is_below(const char *path, const char *root) {
  return is_within(path, strlen(path), root, strlen(root));
}

// Writes what the message consists of: why, then the hint.
static bool refuse(char *why, size_t size, const char *path, const char *text, const char *other,
                   const char *hint) {
  snprintf(why, size, "agents may not be let into %.500s: %s%.500s\n%s", path, text, other, hint);
  return true;
}

// Returns whether the path is, or contains, the home of an account; `home` is that one.
static bool concerns_home(const char *path, const char *passwd, char *home, size_t size) {
  for (const char *line = passwd; *line;) {
    size_t line_size = strcspn(line, "\n");
    const char *field = line, *end = line + line_size;
    for (int at = 0; at < 5 && field; at++) {
      field = memchr(field, ':', (size_t)(end - field));
      if (field) field++;
    }
    if (field) {
      size_t length = strcspn(field, ":\n");
      while (length > 1 && field[length - 1] == '/') length--;
      if (length > 1 && length < size && field[0] == '/' &&
          is_within(field, length, path, strlen(path))) {
        memcpy(home, field, length);
        home[length] = 0;
        return true;
      }
    }
    line = *end ? end + 1 : end;
  }
  return false;
}

bool grant_path_is_refused(const char *path, const char *const *own, const char *passwd, char *why,
                           size_t size) {
  char home[PATH_MAX];
  for (; *own; own++) {
    if (is_below(path, *own))
      return refuse(why, size, path, "it is agentd's own: ", *own, "Name another directory.");
    if (is_below(*own, path))
      return refuse(why, size, path, "it contains what is agentd's own: ", *own, PROJECT_HINT);
  }
  for (unsigned i = 0; system_trees[i]; i++)
    if (is_below(path, system_trees[i]))
      return refuse(why, size, path, "it is the system's: ", system_trees[i],
                    "An operator can allow it: sandboxd.workspace_roots in agentd.yaml.");
  if (!strncmp(path, "/home/", 6) && !strchr(path + 6, '/'))
    return refuse(why, size, path, "it is a home directory", "", PROJECT_HINT);
  if (concerns_home(path, passwd, home, sizeof home))
    return strcmp(home, path)
               ? refuse(why, size, path, "it contains ", home, PROJECT_HINT)
               : refuse(why, size, path, "it is a home directory", "", PROJECT_HINT);
  for (unsigned i = 0; system_trees[i]; i++)
    if (is_below(system_trees[i], path))
      return refuse(why, size, path, "it contains ", system_trees[i], PROJECT_HINT);
  for (unsigned i = 0; shared_dirs[i]; i++)
    if (!strcmp(shared_dirs[i], path))
      return refuse(why, size, path, "it is not one person's", "", PROJECT_HINT);
  return false;
}
