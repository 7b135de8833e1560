// Stubs: a missing protected path can only be covered when something is there, so an empty file or
// directory is made for as long as a box needs it. A journal names them all, so that whoever
// comes after a crash can take them away; only what nobody has written is ever removed.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct stub {
  char *path;
  bool directory;
  unsigned holders;
  struct timespec made;  // a file that was written since is somebody's
};
static struct stub *stubs;
static unsigned stub_count, stub_room;

#define STUB_MODE 0444

static void journal_path(const char *run, char *out, size_t size, const char *end) {
  snprintf(out, size, "%s/stubs%s", run, end);
}

// The whole journal each time: it is short, and a rename leaves the old or the new one.
static int journal_write(void) {
  char path[PATH_BYTES], fresh[PATH_BYTES];
  journal_path(host.run, path, sizeof path, "");
  journal_path(host.run, fresh, sizeof fresh, ".new");
  FILE *out = fopen(fresh, "we");
  if (!out) return -1;
  for (unsigned i = 0; i < stub_count; i++)
    if (stubs[i].holders) fprintf(out, "%c%s%c", stubs[i].directory ? 'd' : 'f', stubs[i].path, 0);
  if (fclose(out)) return -1;
  return rename(fresh, path);
}

// What stands in a stub. git dies of an empty commondir; one that names its own directory says what
// its absence says.
static const char *stub_text(const char *path) {
  const char *name = strrchr(path, '/');
  return name && !strcmp(name, "/commondir") ? ".\n" : "";
}

// Removes a stub nobody has put anything into. By its directory: an agent may have put a link where
// that was.
static void stub_remove(const char *path, bool directory, const struct timespec *made) {
  char up[PATH_BYTES];
  snprintf(up, sizeof up, "%s", path);
  char *name = strrchr(up, '/');
  *name++ = 0;
  int dir = k_openat2(AT_FDCWD, *up ? up : "/", O_PATH | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
  if (dir < 0) return;
  struct stat about;
  if (directory)
    unlinkat(dir, name, AT_REMOVEDIR);
  else if (!fstatat(dir, name, &about, AT_SYMLINK_NOFOLLOW) && S_ISREG(about.st_mode) &&
           (size_t)about.st_size == strlen(stub_text(path)) &&
           (about.st_mode & 07777) == STUB_MODE &&
           (!made || (about.st_mtim.tv_sec == made->tv_sec &&
                      about.st_mtim.tv_nsec == made->tv_nsec)))
    unlinkat(dir, name, 0);
  close(dir);
}

int stub_find(const char *path) {
  for (unsigned i = 0; i < stub_count; i++)
    if (stubs[i].holders && !strcmp(stubs[i].path, path)) return (int)i;
  return -1;
}

void stub_hold(unsigned stub) { stubs[stub].holders++; }

void stub_drop(unsigned stub) {
  struct stub *s = &stubs[stub];
  if (--s->holders) return;
  stub_remove(s->path, s->directory, &s->made);
  free(s->path);
  s->path = NULL;
  journal_write();
}

int stub_take(const char *path, bool directory, int parent, const char *name,
              struct failure *why) {
  unsigned at = 0;
  while (at < stub_count && stubs[at].holders) at++;
  if (at == stub_room) {
    unsigned room = stub_room ? stub_room * 2 : 32;
    struct stub *more = realloc(stubs, room * sizeof *more);
    if (!more) return fail(why, REFUSED_OVERLOAD, "out of memory");
    stubs = more;
    stub_room = room;
  }
  stubs[at] = (struct stub){.path = strdup(path), .directory = directory, .holders = 1};
  if (at == stub_count) stub_count++;
  // Journal first: a stub nobody knows of would stay for ever.
  int bad = !stubs[at].path || journal_write();
  if (!bad && directory) bad = mkdirat(parent, name, 0555);
  if (!bad && !directory) {
    int fd = openat(parent, name, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, STUB_MODE);
    bad = fd < 0;
    if (fd >= 0) {
      const char *text = stub_text(path);
      ssize_t length = (ssize_t)strlen(text);
      struct stat about = {0};
      bad = write(fd, text, (size_t)length) != length || fstat(fd, &about);
      stubs[at].made = about.st_mtim;
      fchmod(fd, STUB_MODE);
      close(fd);
    }
  }
  if (bad) {
    fail(why, REFUSED_SETUP, "covering the missing %.200s: %s", path, strerror(errno));
    stubs[at].holders = 0;
    free(stubs[at].path);
    stubs[at].path = NULL;
    journal_write();
    return -1;
  }
  return (int)at;
}

void stubs_sweep(const char *run) {
  char path[PATH_BYTES];
  journal_path(run, path, sizeof path, "");
  FILE *in = fopen(path, "re");
  if (!in) return;
  char *line = NULL;
  size_t room = 0;
  while (getdelim(&line, &room, 0, in) > 1) stub_remove(line + 1, line[0] == 'd', NULL);
  free(line);
  fclose(in);
  unlink(path);
}
