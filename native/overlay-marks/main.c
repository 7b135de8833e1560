// Reads and writes the marks of an overlay's upper directory, which Node cannot: attributes of
// directories, and whiteouts. Paths are relative to descriptor 3; no link is followed.
//   overlay-marks read DIR | write
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#define STATE_FD 3
#define PATH_BYTES 4096
#define VALUE_BYTES 4096
#define DEPTH_MAX 128
#define EXIT_USAGE 64
#define EXIT_FAILED 74

static const char *const spaces[] = {"trusted", "user"};
static char path[PATH_BYTES];

static int open_beneath(const char *name, int flags) {
  struct open_how how = {
      .flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
      .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
  };
  return (int)syscall(SYS_openat2, STATE_FD, *name ? name : ".", &how, sizeof how);
}

static void fail(const char *what) {
  fprintf(stderr, "overlay-marks: %s: %s\n", what, strerror(errno));
  exit(EXIT_FAILED);
}

static void put(const char *text) { fwrite(text, 1, strlen(text) + 1, stdout); }

static void read_marks(int dir) {
  for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
    char name[64], value[VALUE_BYTES + 1];
    snprintf(name, sizeof name, "%s.overlay.opaque", spaces[i]);
    if (fgetxattr(dir, name, value, VALUE_BYTES) == 1 && *value == 'y') {
      put("O");
      put(spaces[i]);
      put(path);
    }
    snprintf(name, sizeof name, "%s.overlay.redirect", spaces[i]);
    ssize_t size = fgetxattr(dir, name, value, VALUE_BYTES);
    if (size <= 0 || memchr(value, 0, (size_t)size)) continue;
    value[size] = 0;
    put("R");
    put(spaces[i]);
    put(path);
    put(value);
  }
}

// Closes dir.
static void walk(int dir, int depth) {
  read_marks(dir);
  DIR *entries = depth < DEPTH_MAX ? fdopendir(dir) : NULL;
  if (!entries) {
    close(dir);
    return;
  }
  size_t length = strlen(path);
  for (struct dirent *entry; (entry = readdir(entries));) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    int added = snprintf(path + length, sizeof path - length, "/%s", entry->d_name);
    if (added > 0 && (size_t)added < sizeof path - length) {
      int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
      int next = openat(dirfd(entries), entry->d_name, flags);
      // A directory that its owner has closed is not copied either.
      if (next >= 0) walk(next, depth + 1);
    }
    path[length] = 0;
  }
  closedir(entries);
}

// Reads one field. Returns false at the end of the input, if it is between two records.
static bool get(char *text, size_t capacity, bool may_end) {
  size_t size = 0;
  for (int byte; (byte = getchar()) != EOF;) {
    if (size == capacity) break;
    text[size++] = (char)byte;
    if (byte == 0) return true;
  }
  if (may_end && size == 0) return false;
  errno = EINVAL;
  fail("reading a record");
  return false;
}

static void mark_directory(const char *space, const char *name, const char *value) {
  char attribute[64];
  bool is_known = strcmp(space, spaces[0]) == 0 || strcmp(space, spaces[1]) == 0;
  int dir = is_known ? open_beneath(path, O_RDONLY | O_DIRECTORY) : -1;
  if (!is_known) errno = EINVAL;
  snprintf(attribute, sizeof attribute, "%s.overlay.%s", is_known ? space : "", name);
  if (dir < 0 || fsetxattr(dir, attribute, value, strlen(value), 0)) fail(path);
  close(dir);
}

static void make_whiteout(const char *owner) {
  unsigned uid, gid;
  char *slash = strrchr(path, '/');
  errno = EINVAL;
  if (!slash || sscanf(owner, "%u.%u", &uid, &gid) != 2) fail(path);
  *slash = 0;
  int dir = open_beneath(path, O_RDONLY | O_DIRECTORY);
  const char *name = slash + 1;
  if (dir < 0 || mknodat(dir, name, S_IFCHR, makedev(0, 0))) fail(name);
  if (geteuid() == 0 && fchownat(dir, name, uid, gid, AT_SYMLINK_NOFOLLOW)) fail(name);
  close(dir);
}

static void write_marks(void) {
  char kind[2], about[64], value[VALUE_BYTES];
  while (get(kind, sizeof kind, true)) {
    get(about, sizeof about, false);
    get(path, sizeof path, false);
    if (*kind == 'R') get(value, sizeof value, false);
    if (*kind == 'O') mark_directory(about, "opaque", "y");
    else if (*kind == 'R') mark_directory(about, "redirect", value);
    else if (*kind == 'W') make_whiteout(about);
    else {
      errno = EINVAL;
      fail(kind);
    }
  }
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "read") == 0 && strlen(argv[2]) < sizeof path) {
    int dir = open_beneath(strcpy(path, argv[2]), O_RDONLY | O_DIRECTORY);
    if (dir < 0) fail(path);
    walk(dir, 0);
  } else if (argc == 2 && strcmp(argv[1], "write") == 0) {
    write_marks();
  } else {
    fprintf(stderr, "usage: overlay-marks read DIR | write\n");
    return EXIT_USAGE;
  }
  if (fflush(stdout)) fail("writing");
  return 0;
}
