// Names of directories: a sorted page of one for people to read, and whole sorted directories for
// the walks of search and delete. However large a directory is, what is kept of it is not.
#include "boxfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The `max` smallest names seen so far that come after `after`, the largest on top.
struct heap {
  char **list;
  size_t count, max;
  const char *after;
  bool cut;
};

static void sink(struct heap *heap, size_t at) {
  for (;;) {
    size_t child = 2 * at + 1;
    if (child >= heap->count) return;
    if (child + 1 < heap->count && strcmp(heap->list[child + 1], heap->list[child]) > 0) child++;
    if (strcmp(heap->list[child], heap->list[at]) <= 0) return;
    char *swap = heap->list[at];
    heap->list[at] = heap->list[child];
    heap->list[child] = swap;
    at = child;
  }
}

static void rise(struct heap *heap, size_t at) {
  for (size_t up; at > 0; at = up) {
    up = (at - 1) / 2;
    if (strcmp(heap->list[up], heap->list[at]) >= 0) return;
    char *swap = heap->list[at];
    heap->list[at] = heap->list[up];
    heap->list[up] = swap;
  }
}

static int keep(struct heap *heap, const char *name) {
  if (strcmp(name, heap->after) <= 0 && *heap->after) return 0;
  if (heap->count == heap->max) {
    heap->cut = true;
    if (strcmp(name, heap->list[0]) >= 0) return 0;
  }
  char *copy = strdup(name);
  if (!copy) return -1;
  if (heap->count == heap->max) {
    free(heap->list[0]);
    heap->list[0] = copy;
    sink(heap, 0);
  } else {
    heap->list[heap->count] = copy;
    rise(heap, heap->count++);
  }
  return 0;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// Takes the descriptor. 0, or -1 with errno; ETIMEDOUT when the deadline came first.
static int gather(int fd, struct heap *heap, uint64_t deadline_ms) {
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return -1;
  }
  struct dirent *entry;
  int error = 0;
  for (unsigned seen = 0; error == 0 && (errno = 0, entry = readdir(dir)) != NULL; seen++) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (keep(heap, entry->d_name)) error = ENOMEM;
    else if (seen % 256 == 255 && now_ms() > deadline_ms) error = ETIMEDOUT;
  }
  if (error == 0) error = errno;
  closedir(dir);
  errno = error;
  if (error) return -1;
  qsort(heap->list, heap->count, sizeof *heap->list, by_name);
  return 0;
}

int read_names(int dir, size_t max, uint64_t deadline_ms, struct names *names) {
  struct heap heap = {.list = calloc(max, sizeof *heap.list), .max = max, .after = ""};
  int failed = heap.list ? gather(dir, &heap, deadline_ms) : -1;
  if (!heap.list) close(dir);
  *names = (struct names){.list = heap.list, .count = heap.count, .cut = heap.cut};
  int error = errno;
  if (failed) free_names(names);
  errno = error;
  return failed;
}

void free_names(struct names *names) {
  for (size_t i = 0; names->list && i < names->count; i++) free(names->list[i]);
  free(names->list);
  *names = (struct names){0};
}

static void put_entries(struct out *out, int dir, const struct heap *heap) {
  size_t at = out->size;
  uint32_t count = 0;
  put_u32(out, 0);
  for (size_t i = 0; i < heap->count; i++) {
    struct stat st;
    // Gone since it was read: then it is not there.
    if (fstatat(dir, heap->list[i], &st, AT_SYMLINK_NOFOLLOW)) continue;
    put_u8(out, kind_of(st.st_mode));
    put_u32(out, st.st_mode & 07777);
    put_u64(out, (uint64_t)st.st_size);
    put_u64(out, mtime_ns(&st));
    put_text(out, heap->list[i], strlen(heap->list[i]));
    count++;
  }
  set_u32(out, at, count);
}

void do_list(struct in *in, struct out *out) {
  struct place place;
  char after[PATH_BYTES];
  if (!get_place(in, &place, out)) return;
  uint32_t limit = get_u32(in);
  get_text(in, after, sizeof after);
  if (!all_read(in)) return;
  if (limit == 0 || limit > LIST_MAX) limit = LIST_MAX;
  int dir = open_place(&place, place.path, O_RDONLY | O_DIRECTORY);
  int copy = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 3);
  struct heap heap = {.list = calloc(limit, sizeof *heap.list), .max = limit, .after = after};
  if (copy < 0 || !heap.list) {
    refuse_errno(out, errno);
    if (copy >= 0) close(copy);
  } else if (gather(copy, &heap, now_ms() + QUICK_MS)) {
    refuse_errno(out, errno);
  } else {
    put_u8(out, heap.cut);
    put_entries(out, dir, &heap);
  }
  if (dir >= 0) close(dir);
  struct names names = {.list = heap.list, .count = heap.count};
  free_names(&names);
}
