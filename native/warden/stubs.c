// Stubs: a missing protected path can be covered only if something exists there, so an empty file
// or directory is created for as long as a box needs it. A journal lists them, so that the janitor
// or the next warden can remove them after a crash. A stub that was modified is kept.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct stub {
  char *path;
  bool directory;
  unsigned refs;
  struct timespec mtime;  // a file modified later is kept
};
static struct stub *stubs;
static unsigned stub_count, stub_capacity;

#define STUB_MODE 0444

static void journal_path(const char *run_dir, char *out, size_t size, const char *suffix) {
  snprintf(out, size, "%s/stubs%s", run_dir, suffix);
}

// Rewrites the whole journal: it is short, and a rename is atomic.
static int journal_write(void) {
  char path[PATH_BYTES], temp[PATH_BYTES];
  journal_path(host.run_dir, path, sizeof path, "");
  journal_path(host.run_dir, temp, sizeof temp, ".new");
  FILE *file = fopen(temp, "we");
  if (!file) return -1;
  for (unsigned i = 0; i < stub_count; i++)
    if (stubs[i].refs) fprintf(file, "%c%s%c", stubs[i].directory ? 'd' : 'f', stubs[i].path, 0);
  if (fclose(file)) return -1;
  return rename(temp, path);
}

// The content of a new stub. git fails on an empty commondir; one that names its own directory has
// the same meaning as none.
static const char *stub_text(const char *path) {
  const char *name = strrchr(path, '/');
  return name && !strcmp(name, "/commondir") ? ".\n" : "";
}

// Removes a stub unless it was modified. Resolves its directory without symbolic links, because an
// agent may have replaced that by one.
static void stub_remove(const char *path, bool directory, const struct timespec *mtime) {
  char parent[PATH_BYTES];
  const char *name = split_path(path, parent);
  int dir = k_openat2(AT_FDCWD, parent, O_PATH | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (dir < 0) return;
  struct stat st;
  if (directory)
    unlinkat(dir, name, AT_REMOVEDIR);
  else if (!fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
           (size_t)st.st_size == strlen(stub_text(path)) && (st.st_mode & 07777) == STUB_MODE &&
           (!mtime || (st.st_mtim.tv_sec == mtime->tv_sec && st.st_mtim.tv_nsec == mtime->tv_nsec)))
    unlinkat(dir, name, 0);
  close(dir);
}

int stub_find(const char *path) {
  for (unsigned i = 0; i < stub_count; i++)
    if (stubs[i].refs && !strcmp(stubs[i].path, path)) return (int)i;
  return -1;
}

void stub_ref(unsigned stub) { stubs[stub].refs++; }

void stub_unref(unsigned stub) {
  struct stub *s = &stubs[stub];
  if (--s->refs) return;
  stub_remove(s->path, s->directory, &s->mtime);
  free(s->path);
  s->path = NULL;
  journal_write();
}

int stub_create(const char *path, bool directory, int parent, const char *name,
                struct failure *err) {
  unsigned slot = 0;
  while (slot < stub_count && stubs[slot].refs) slot++;
  if (slot == stub_capacity) {
    unsigned capacity = stub_capacity ? stub_capacity * 2 : 32;
    struct stub *grown = realloc(stubs, capacity * sizeof *grown);
    if (!grown) return fail(err, REFUSED_OVERLOAD, "out of memory");
    stubs = grown;
    stub_capacity = capacity;
  }
  stubs[slot] = (struct stub){.path = strdup(path), .directory = directory, .refs = 1};
  if (slot == stub_count) stub_count++;
  // Journal first: a stub that it does not list would never be removed.
  int bad = !stubs[slot].path || journal_write();
  if (!bad && directory) bad = mkdirat(parent, name, 0555);
  if (!bad && !directory) {
    int fd = openat(parent, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, STUB_MODE);
    bad = fd < 0;
    if (fd >= 0) {
      const char *text = stub_text(path);
      ssize_t length = (ssize_t)strlen(text);
      struct stat st = {0};
      bad = write(fd, text, (size_t)length) != length || fstat(fd, &st);
      stubs[slot].mtime = st.st_mtim;
      fchmod(fd, STUB_MODE);
      close(fd);
    }
  }
  if (bad) {
    fail(err, REFUSED_SETUP, "creating a stub for %.200s: %s", path, strerror(errno));
    stubs[slot].refs = 0;
    free(stubs[slot].path);
    stubs[slot].path = NULL;
    journal_write();
    return -1;
  }
  return (int)slot;
}

void stubs_sweep(const char *run_dir) {
  char path[PATH_BYTES];
  journal_path(run_dir, path, sizeof path, "");
  FILE *file = fopen(path, "re");
  if (!file) return;
  char *line = NULL;
  size_t capacity = 0;
  while (getdelim(&line, &capacity, 0, file) > 1) stub_remove(line + 1, line[0] == 'd', NULL);
  free(line);
  fclose(file);
  unlink(path);
}
