// How much is in a directory, by walking it: agents can make directories that nobody else can look
// into, deep ones and many, and change them meanwhile. So each is opened once, from the one above
// it, and left by "..": the walk takes as long as there are entries, however they are nested, and
// no more memory than their names. Runs in a child of the warden.
#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <linux/stat.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// An empty file takes an inode, and those run out too.
#define ENTRY_BYTES 4096
#define TEXT_MAX (256u << 20)
// How often the way back up may be lost: to find it again takes as many steps as it is deep.
#define LOST_MAX 64

struct text {  // words, one after the other, each with its NUL
  char *bytes;
  size_t used, room;
};
struct storey {  // a directory that is being walked, and those above it
  dev_t device;
  ino_t inode;
  size_t name;     // its own, in `way`
  size_t waiting;  // where the directories in it that are still to be looked into begin
};
struct tour {
  int top, at;  // where it began, and the directory of the last storey
  struct storey *storeys;
  size_t depth, room;
  struct text way, waiting;
  unsigned lost;
  struct amount *amount;
};

static int push(struct text *text, const char *word) {
  size_t size = strlen(word) + 1;
  if (text->used + size > text->room) {
    size_t room = text->room ? text->room * 2 : 64 * 1024;
    char *more = room > TEXT_MAX ? NULL : realloc(text->bytes, room);
    if (!more) {
      errno = ENOMEM;
      return -1;
    }
    text->bytes = more;
    text->room = room;
  }
  memcpy(text->bytes + text->used, word, size);
  text->used += size;
  return 0;
}

static void pop(struct text *text, char *word, size_t room) {
  size_t start = text->used - 1;
  while (start && text->bytes[start - 1]) start--;
  size_t size = text->used - start;
  memcpy(word, text->bytes + start, size < room ? size : room);
  word[room - 1] = 0;
  text->used = start;
}

static void count(const struct statx *about, struct amount *amount) {
  uint64_t bytes = about->stx_blocks * 512;
  // Each of its names has its part.
  if (!S_ISDIR(about->stx_mode) && about->stx_nlink > 1) bytes /= about->stx_nlink;
  amount->bytes += bytes < ENTRY_BYTES ? ENTRY_BYTES : bytes;
  amount->entries++;
}

static int look(int dir, const char *name, struct statx *about) {
  return statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name ? 0 : AT_EMPTY_PATH),
               STATX_BASIC_STATS, about);
}

static int list(struct tour *tour) {
  int fd = openat(tour->at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries) {
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
  }
  int bad = 0;
  struct dirent *entry;
  while (!bad && (errno = 0, entry = readdir(entries))) {
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    struct statx about;
    if (look(dirfd(entries), entry->d_name, &about)) {
      bad = errno != ENOENT;
      continue;
    }
    // What the host has mounted there. Not by its device: an agent can make a volume of its own.
    if (about.stx_attributes & STATX_ATTR_MOUNT_ROOT) continue;
    count(&about, tour->amount);
    if (S_ISDIR(about.stx_mode)) bad = push(&tour->waiting, entry->d_name);
  }
  bad = bad || errno;
  int error = errno;
  closedir(entries);
  errno = error;
  return bad ? -1 : 0;
}

// Takes the descriptor.
static int go_into(struct tour *tour, int fd, const char *name) {
  struct stat about;
  if (tour->at >= 0) close(tour->at);
  tour->at = fd;
  if (tour->depth == tour->room) {
    size_t room = tour->room ? tour->room * 2 : 256;
    struct storey *more = realloc(tour->storeys, room * sizeof *more);
    if (!more) return -1;
    tour->storeys = more;
    tour->room = room;
  }
  size_t before = tour->way.used;
  if (fstat(fd, &about) || push(&tour->way, name)) return -1;
  tour->storeys[tour->depth++] =
      (struct storey){about.st_dev, about.st_ino, before, tour->waiting.used};
  return list(tour);
}

static bool is_storey(int fd, const struct storey *one) {
  struct stat about;
  return !fstat(fd, &about) && about.st_dev == one->device && about.st_ino == one->inode;
}

static int open_below(int dir, const char *name) {
  return k_openat2(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
}

// Leaves the last storeys, of which `depth` stay.
static void leave(struct tour *tour, size_t depth) {
  tour->way.used = tour->storeys[depth].name;
  tour->waiting.used = tour->storeys[depth].waiting;
  tour->depth = depth;
}

// A directory was moved while we were in it: down again from the top, as far as it is the same.
static int find_again(struct tour *tour) {
  if (++tour->lost > LOST_MAX) {
    errno = EAGAIN;
    return -1;
  }
  int dir = openat(tour->top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (size_t depth = 1; dir >= 0 && depth < tour->depth; depth++) {
    const struct storey *one = &tour->storeys[depth];
    int next = open_below(dir, tour->way.bytes + one->name);
    if (next < 0 || !is_storey(next, one)) {
      if (next >= 0) close(next);
      leave(tour, depth);
      break;
    }
    close(dir);
    dir = next;
  }
  return dir;
}

static int go_up(struct tour *tour) {
  leave(tour, tour->depth - 1);
  if (!tour->depth) return 0;
  int up = openat(tour->at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (up >= 0 && !is_storey(up, &tour->storeys[tour->depth - 1])) {
    close(up);
    up = -1;
  }
  close(tour->at);
  tour->at = up >= 0 ? up : find_again(tour);
  return tour->at < 0 ? -1 : 0;
}

static int step(struct tour *tour) {
  if (tour->waiting.used == tour->storeys[tour->depth - 1].waiting) return go_up(tour);
  char name[NAME_MAX + 1];
  pop(&tour->waiting, name, sizeof name);
  int fd = open_below(tour->at, name);
  if (fd >= 0) return go_into(tour, fd, name);
  // Gone or moved meanwhile, or a file system of its own.
  return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV ? 0 : -1;
}

int measure_tree(int top, struct amount *amount) {
  struct tour tour = {.top = top, .at = -1, .amount = amount};
  struct statx about;
  *amount = (struct amount){0};
  if (look(top, "", &about)) return -1;
  if (!S_ISDIR(about.stx_mode)) {
    count(&about, amount);
    return 0;
  }
  int fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int bad = fd < 0 || go_into(&tour, fd, "");
  while (!bad && tour.depth) bad = step(&tour);
  int error = errno;
  if (tour.at >= 0) close(tour.at);
  free(tour.storeys);
  free(tour.way.bytes);
  free(tour.waiting.bytes);
  errno = error;
  return bad ? -1 : 0;
}
