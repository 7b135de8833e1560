// Searching a tree by name or by content: a literal, or a POSIX extended regular expression. Runs
// in a process of its own (main.c): a regular expression knows no limit from inside.
//
// request: root, path, mode u8, flags u8, results max u32, ms u32, pattern, glob
// answer:  cut u8, files u32, binary u32, unreadable u32, count u32,
//          then for each: line u32, column u32, path, text
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum mode { MODE_NAMES = 0, MODE_LITERAL = 1, MODE_REGEX = 2 };
enum { SEARCH_ANY_CASE = 1, SEARCH_ALL = 2 };  // all: .git and node_modules too
enum cut { CUT_NOT = 0, CUT_RESULTS = 1, CUT_TIME = 2, CUT_NAMES = 3 };

#define NAMES_PER_DIR 20000
#define RESULTS_MAX 2000
#define CHUNK 65536  // a longer line is looked at in pieces

struct hunt {
  struct out *out;
  uint8_t mode, flags, cut;
  uint32_t results_max, count, files, binary, unreadable;
  uint64_t deadline_ms;
  char pattern[PATTERN_MAX], glob[PATTERN_MAX];
  size_t pattern_size;
  regex_t regex;
  char *path;  // of what is being looked at, from where the search began
  size_t path_size;
  uint8_t buffer[CHUNK + 1];
};

static bool is_over(struct hunt *hunt) {
  if (hunt->cut == CUT_NOT && now_ms() > hunt->deadline_ms) hunt->cut = CUT_TIME;
  return hunt->cut == CUT_TIME || hunt->cut == CUT_RESULTS;
}

static void put_found(struct hunt *hunt, uint32_t line, size_t column, const char *text,
                      size_t size) {
  if (hunt->count == hunt->results_max ||
      hunt->out->size + hunt->path_size + LINE_MAX_SHOWN + 64 > RESULT_MAX) {
    hunt->cut = CUT_RESULTS;
    return;
  }
  // A long line is shown around what was found.
  size_t from = size <= LINE_MAX_SHOWN || column < LINE_MAX_SHOWN / 2 ? 0
                                                                      : column - LINE_MAX_SHOWN / 2;
  size_t shown = size - from < LINE_MAX_SHOWN ? size - from : LINE_MAX_SHOWN;
  put_u32(hunt->out, line);
  put_u32(hunt->out, (uint32_t)column + 1);
  put_text(hunt->out, hunt->path, hunt->path_size);
  put_text(hunt->out, text + from, shown);
  hunt->count++;
}

static const char *find_any_case(const char *text, size_t size, const char *what, size_t length) {
  for (size_t at = 0; at + length <= size; at++)
    if (strncasecmp(text + at, what, length) == 0) return text + at;
  return NULL;
}

// A line without its end; text[size] is the hunt's own to overwrite.
static void try_line(struct hunt *hunt, uint32_t line, char *text, size_t size) {
  size_t column;
  if (size > 0 && text[size - 1] == '\r') size--;
  if (hunt->mode == MODE_LITERAL) {
    const char *found = hunt->flags & SEARCH_ANY_CASE
                            ? find_any_case(text, size, hunt->pattern, hunt->pattern_size)
                            : memmem(text, size, hunt->pattern, hunt->pattern_size);
    if (!found) return;
    column = (size_t)(found - text);
  } else {
    char kept = text[size];
    regmatch_t match;
    text[size] = 0;
    int missed = regexec(&hunt->regex, text, 1, &match, 0);
    text[size] = kept;
    if (missed) return;
    column = (size_t)match.rm_so;
  }
  put_found(hunt, line, column, text, size);
}

static void search_file(struct hunt *hunt, int fd) {
  char *buffer = (char *)hunt->buffer;
  size_t held = 0;
  uint32_t line = 1;
  bool first = true;
  hunt->files++;
  while (!is_over(hunt)) {
    ssize_t got = read(fd, buffer + held, CHUNK - held);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) hunt->unreadable++;
    if (got <= 0) break;
    if (first && memchr(buffer, 0, (size_t)got)) {
      hunt->binary++;
      return;
    }
    first = false;
    held += (size_t)got;
    size_t at = 0;
    char *end;
    while (!is_over(hunt) && (end = memchr(buffer + at, '\n', held - at)) != NULL) {
      try_line(hunt, line++, buffer + at, (size_t)(end - buffer) - at);
      at = (size_t)(end - buffer) + 1;
    }
    if (at == 0 && held == CHUNK) {
      try_line(hunt, line, buffer, held);
      at = held;
    }
    memmove(buffer, buffer + at, held - at);
    held -= at;
  }
  if (held > 0 && !is_over(hunt)) try_line(hunt, line, buffer, held);
}

static bool wants(const struct hunt *hunt) {
  if (hunt->glob[0] && !glob_matches(hunt->glob, hunt->path)) return false;
  if (hunt->mode != MODE_NAMES || hunt->pattern_size == 0) return true;
  const char *slash = strrchr(hunt->path, '/');
  const char *name = slash ? slash + 1 : hunt->path;
  return (hunt->flags & SEARCH_ANY_CASE ? strcasestr(name, hunt->pattern)
                                        : strstr(name, hunt->pattern)) != NULL;
}

static void visit_file(struct hunt *hunt, int fd, const struct stat *st) {
  if (!S_ISREG(st->st_mode) || !wants(hunt)) return;
  if (hunt->mode == MODE_NAMES) put_found(hunt, 0, 0, "", 0);
  else search_file(hunt, fd);
}

static void walk(struct hunt *hunt, int dir, int depth);

static void visit(struct hunt *hunt, int dir, const char *name, int depth) {
  size_t before = hunt->path_size, size = strlen(name);
  if (before + size + 2 > PATH_BYTES) return;
  if (before > 0) hunt->path[hunt->path_size++] = '/';
  memcpy(hunt->path + hunt->path_size, name, size + 1);
  hunt->path_size += size;
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st)) {
    // Links are not followed, and what has gone or cannot be opened is no reason to stop.
    if (errno != ELOOP && errno != ENOENT && errno != ENXIO) hunt->unreadable++;
  } else if (!S_ISDIR(st.st_mode)) {
    visit_file(hunt, fd, &st);
  } else {
    bool skip = !(hunt->flags & SEARCH_ALL) &&
                (strcmp(name, ".git") == 0 || strcmp(name, "node_modules") == 0);
    if (!skip && depth >= DEPTH_MAX) hunt->cut = CUT_NAMES;
    else if (!skip) walk(hunt, fd, depth + 1);
  }
  if (fd >= 0) close(fd);
  hunt->path_size = before;
  hunt->path[before] = 0;
}

static void walk(struct hunt *hunt, int dir, int depth) {
  struct names names;
  int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || read_names(copy, NAMES_PER_DIR, hunt->deadline_ms, &names)) {
    if (errno == ETIMEDOUT) hunt->cut = CUT_TIME;
    else hunt->unreadable++;
    return;
  }
  if (names.cut) hunt->cut = CUT_NAMES;
  for (size_t i = 0; i < names.count && !is_over(hunt); i++) visit(hunt, dir, names.list[i], depth);
  free_names(&names);
}

static bool prepare(struct hunt *hunt, struct in *in, struct out *out) {
  hunt->mode = get_u8(in);
  hunt->flags = get_u8(in);
  hunt->results_max = get_u32(in);
  uint32_t limit_ms = get_u32(in);
  get_text(in, hunt->pattern, sizeof hunt->pattern);
  get_text(in, hunt->glob, sizeof hunt->glob);
  if (!all_read(in) || hunt->mode > MODE_REGEX) {
    refuse(out, BAD_REQUEST, "not a search");
    return false;
  }
  hunt->pattern_size = strlen(hunt->pattern);
  if (hunt->mode != MODE_NAMES && hunt->pattern_size == 0) {
    refuse(out, BAD_PATTERN, "the pattern is empty");
    return false;
  }
  if (hunt->results_max == 0 || hunt->results_max > RESULTS_MAX) hunt->results_max = RESULTS_MAX;
  hunt->deadline_ms = bound_worker(limit_ms);
  if (hunt->mode != MODE_REGEX) return true;
  int flags = REG_EXTENDED | (hunt->flags & SEARCH_ANY_CASE ? REG_ICASE : 0);
  int error = regcomp(&hunt->regex, hunt->pattern, flags);
  if (error == 0) return true;
  char text[200];
  regerror(error, &hunt->regex, text, sizeof text);
  refuse(out, BAD_PATTERN, text);
  return false;
}

// Nothing is freed at the end: the process ends with it.
void do_search(struct in *in, struct out *out) {
  struct place place;
  struct stat st;
  if (!get_place(in, &place, out)) return;
  struct hunt *hunt = calloc(1, sizeof *hunt);
  char *path = calloc(1, PATH_BYTES);
  if (!hunt || !path) {
    refuse_errno(out, ENOMEM);
    return;
  }
  hunt->out = out;
  hunt->path = path;
  if (!prepare(hunt, in, out)) return;
  int fd = open_place(&place, place.path, O_RDONLY | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st)) {
    refuse_errno(out, errno);
    return;
  }
  for (int i = 0; i < 17; i++) put_u8(out, 0);
  if (S_ISDIR(st.st_mode)) walk(hunt, fd, 0);
  else visit_file(hunt, fd, &st);
  if (out->status != DONE) return;
  out->bytes[0] = hunt->cut;
  set_u32(out, 1, hunt->files);
  set_u32(out, 5, hunt->binary);
  set_u32(out, 9, hunt->unreadable);
  set_u32(out, 13, hunt->count);
}
