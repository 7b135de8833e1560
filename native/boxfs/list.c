// Directory listings: a sorted page for OP_LIST, and all names, sorted, for search and delete.
// Memory is bounded by the page size, not by the size of the directory.
#include "boxfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A max-heap of the `max` smallest names after `after`.
struct heap {
  char **list;
  size_t count, max;
  const char *after;
  bool truncated;
};

static void sift_down(struct heap *heap, size_t at) {
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

static void sift_up(struct heap *heap, size_t at) {
  for (size_t parent; at > 0; at = parent) {
    parent = (at - 1) / 2;
    if (strcmp(heap->list[parent], heap->list[at]) >= 0) return;
    char *swap = heap->list[at];
    heap->list[at] = heap->list[parent];
    heap->list[parent] = swap;
  }
}

static int heap_add(struct heap *heap, const char *name) {
  if (strcmp(name, heap->after) <= 0 && *heap->after) return 0;
  if (heap->count == heap->max) {
    heap->truncated = true;
    if (strcmp(name, heap->list[0]) >= 0) return 0;
  }
  char *copy = strdup(name);
  if (!copy) return -1;
  if (heap->count == heap->max) {
    free(heap->list[0]);
    heap->list[0] = copy;
    sift_down(heap, 0);
  } else {
    heap->list[heap->count] = copy;
    sift_up(heap, heap->count++);
  }
  return 0;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

// Closes fd. Returns 0, or -1 with errno, ETIMEDOUT if the deadline passed.
static int collect_names(int fd, struct heap *heap, uint64_t deadline_ms) {
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close(fd);
    return -1;
  }
  struct dirent *entry;
  int error = 0;
  for (unsigned seen = 0; error == 0 && (errno = 0, entry = readdir(dir)) != NULL; seen++) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (heap_add(heap, entry->d_name)) error = ENOMEM;
    else if (seen % 256 == 255 && now_ms() > deadline_ms) error = ETIMEDOUT;
  }
  if (error == 0) error = errno;
  closedir(dir);
  errno = error;
  if (error) return -1;
  qsort(heap->list, heap->count, sizeof *heap->list, compare_names);
  return 0;
}

int read_names(int dir, size_t max, uint64_t deadline_ms, struct names *names) {
  struct heap heap = {.list = calloc(max, sizeof *heap.list), .max = max, .after = ""};
  int failed = heap.list ? collect_names(dir, &heap, deadline_ms) : -1;
  if (!heap.list) close(dir);
  *names = (struct names){.list = heap.list, .count = heap.count, .truncated = heap.truncated};
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

static void put_entries(struct reply *reply, int dir, const struct heap *heap) {
  size_t at = reply->size;
  uint32_t count = 0;
  put_u32(reply, 0);
  for (size_t i = 0; i < heap->count; i++) {
    struct stat st;
    // Deleted since it was listed.
    if (fstatat(dir, heap->list[i], &st, AT_SYMLINK_NOFOLLOW)) continue;
    put_u8(reply, file_kind(st.st_mode));
    put_u32(reply, st.st_mode & 07777);
    put_u64(reply, (uint64_t)st.st_size);
    put_u64(reply, mtime_ns(&st));
    put_text(reply, heap->list[i], strlen(heap->list[i]));
    count++;
  }
  patch_u32(reply, at, count);
}

void do_list(struct request *req, struct reply *reply) {
  struct target target;
  char after[PATH_BYTES];
  if (!get_target(req, &target, reply)) return;
  uint32_t limit = get_u32(req);
  get_text(req, after, sizeof after);
  if (!is_fully_read(req)) return;
  if (limit == 0 || limit > LIST_MAX) limit = LIST_MAX;
  int dir = open_target(&target, target.path, O_RDONLY | O_DIRECTORY);
  int copy = dir < 0 ? -1 : fcntl(dir, F_DUPFD_CLOEXEC, 3);
  struct heap heap = {.list = calloc(limit, sizeof *heap.list), .max = limit, .after = after};
  if (copy < 0 || !heap.list) {
    reply_errno(reply, errno);
    if (copy >= 0) close(copy);
  } else if (collect_names(copy, &heap, now_ms() + REQUEST_TIMEOUT_MS)) {
    reply_errno(reply, errno);
  } else {
    put_u8(reply, heap.truncated);
    put_entries(reply, dir, &heap);
  }
  if (dir >= 0) close(dir);
  struct names names = {.list = heap.list, .count = heap.count};
  free_names(&names);
}
