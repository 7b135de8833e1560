// Grants: directories that a person lets agents work in, although no line of the bounds names them.
// Each is one file in DIR/grants, which only root (or, without root, the warden's user) can write:
// "path\ndevice inode owner\n", with " read" after the owner for one that allows no writing. Read
// at every use, so that a revoked grant allows nothing more.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define GRANTS_MAX 4096
#define GRANT_BYTES (PATH_BYTES + 80)

struct grant {
  char path[PATH_BYTES];
  dev_t device;
  ino_t inode;
  uid_t owner;
  bool only_read;
};

static bool is_trusted(const struct stat *st) {
  return (st->st_uid == 0 || st->st_uid == getuid()) && !(st->st_mode & (S_IWGRP | S_IWOTH));
}

// Reads digits up to `end`, which follows them.
static int parse_field(char **at, char end, unsigned long long *number) {
  if (**at < '0' || **at > '9') return -1;
  char *after;
  errno = 0;
  *number = strtoull(*at, &after, 10);
  if (errno || *after != end) return -1;
  *at = after + 1;
  return 0;
}

static int parse_grant(char *text, size_t size, struct grant *grant) {
  char *line = memchr(text, '\n', size), *at;
  unsigned long long device, inode, owner;
  if (!line || memchr(text, 0, size)) return -1;
  *line = 0;
  // "/" would allow everything.
  if (text[0] != '/' || !text[1] || line - text >= PATH_BYTES) return -1;
  at = line + 1;
  if (parse_field(&at, ' ', &device) || parse_field(&at, ' ', &inode)) return -1;
  grant->only_read = strchr(at, ' ');
  if (parse_field(&at, grant->only_read ? ' ' : '\n', &owner) || owner >= UINT32_MAX ||
      strcmp(at, grant->only_read ? "read\n" : ""))
    return -1;
  memcpy(grant->path, text, (size_t)(line - text) + 1);
  grant->device = (dev_t)device;
  grant->inode = (ino_t)inode;
  grant->owner = (uid_t)owner;
  return 0;
}

static int read_grant(int dir, const char *name, struct grant *grant) {
  char text[GRANT_BYTES + 1];
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = -1;
  if (!fstat(fd, &st) && S_ISREG(st.st_mode) && is_trusted(&st)) size = read(fd, text, GRANT_BYTES);
  close(fd);
  if (size < 0) return -1;
  text[size] = 0;
  return parse_grant(text, (size_t)size, grant);
}

// The directory may be a link in DIR, which is as trusted as DIR itself.
static DIR *open_grants(void) {
  char path[PATH_BYTES];
  struct stat st;
  snprintf(path, sizeof path, "%s/grants", host.run_dir);
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return NULL;
  DIR *entries = !fstat(fd, &st) && is_trusted(&st) ? fdopendir(fd) : NULL;
  if (!entries) close(fd);
  return entries;
}

// Calls `visit` for each grant until it returns true.
static bool find_grant(bool (*visit)(int dir, const char *name, const struct grant *grant,
                                     void *data),
                       void *data) {
  DIR *entries = open_grants();
  if (!entries) return false;
  struct grant grant;
  struct dirent *entry;
  bool found = false;
  // A name that starts with a dot is not complete.
  for (unsigned count = 0; !found && count < GRANTS_MAX && (entry = readdir(entries)); count++)
    if (entry->d_name[0] != '.' && !read_grant(dirfd(entries), entry->d_name, &grant))
      found = visit(dirfd(entries), entry->d_name, &grant, data);
  closedir(entries);
  return found;
}

struct search {
  const char *path;
  bool writes;
  int fd;
  struct failure *err;  // why the last grant that covers the path does not allow it
  bool covered;
};

static bool open_below(int dir, const char *name, const struct grant *grant, void *data) {
  (void)dir, (void)name;
  struct search *search = data;
  size_t size = strlen(grant->path);
  if (strncmp(grant->path, search->path, size)) return false;
  const char *rest = search->path + size;
  if (*rest && *rest++ != '/') return false;
  if (search->writes && grant->only_read) return false;
  search->covered = true;
  int top = k_openat2(AT_FDCWD, grant->path, O_PATH | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  struct stat st;
  if (top < 0 || fstat(top, &st)) {
    fail(search->err, REFUSED_BOUNDS, "%.200s, which was granted: %s", grant->path,
         strerror(errno));
    if (top >= 0) close(top);
    return false;
  }
  if (st.st_dev != grant->device || st.st_ino != grant->inode || st.st_uid != grant->owner) {
    close(top);
    fail(search->err, REFUSED_BOUNDS, "%.200s is no longer the directory that was granted",
         grant->path);
    return false;
  }
  if (*rest) {
    search->fd = k_openat2(top, rest, O_PATH | O_CLOEXEC,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
    int error = errno;
    close(top);
    if (search->fd < 0 && error == ELOOP)
      fail(search->err, REFUSED_BOUNDS, "%.200s contains a symbolic link: use the real path",
           search->path);
    else if (search->fd < 0)
      fail(search->err, REFUSED_SETUP, "%.200s: %s", search->path, strerror(error));
  } else {
    search->fd = top;
  }
  return search->fd >= 0;
}

int grants_open(const char *path, bool writes, struct failure *err) {
  struct search search = {path, writes, -1, err, false};
  if (find_grant(open_below, &search)) return search.fd;
  return search.covered ? -1 : NOT_GRANTED;
}

// ── revoking, which sandboxd may do: it only takes away ──

struct removal {
  const char *path;
  uint32_t count;
};

static bool remove_named(int dir, const char *name, const struct grant *grant, void *data) {
  struct removal *removal = data;
  if (!strcmp(grant->path, removal->path) && !unlinkat(dir, name, 0)) removal->count++;
  return false;
}

uint32_t grants_revoke(const char *path) {
  struct removal removal = {path, 0};
  find_grant(remove_named, &removal);
  return removal.count;
}
