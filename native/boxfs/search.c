// Searches a tree by name or content, for a literal or a POSIX extended regular expression. Runs in
// a worker process (main.c), because regexec cannot be given a time limit.
//
// request: root, path, mode u8, flags u8, results max u32, ms u32, pattern, glob
// reply:   truncated u8, files u32, binary u32, unreadable u32, count u32,
//          then for each match: line u32, column u32, path, text
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum mode { MODE_NAMES = 0, MODE_LITERAL = 1, MODE_REGEX = 2 };
enum { SEARCH_IGNORE_CASE = 1, SEARCH_INCLUDE_IGNORED = 2 };  // ignored: .git, node_modules
enum truncation {
  NOT_TRUNCATED = 0,
  TRUNCATED_RESULTS = 1,
  TRUNCATED_TIME = 2,
  TRUNCATED_NAMES = 3
};

#define NAMES_PER_DIR 20000
#define RESULTS_MAX 2000
#define CHUNK 65536  // longer lines are matched in pieces

struct search {
  struct reply *reply;
  uint8_t mode, flags, truncated;
  uint32_t results_max, count, files, binary, unreadable;
  uint64_t deadline_ms;
  char pattern[PATTERN_MAX], glob[PATTERN_MAX];
  size_t pattern_size;
  regex_t regex;
  char *path;  // of the current entry, relative to the start of the search
  size_t path_size;
  uint8_t buffer[CHUNK + 1];
};

static bool is_stopped(struct search *search) {
  if (search->truncated == NOT_TRUNCATED && now_ms() > search->deadline_ms)
    search->truncated = TRUNCATED_TIME;
  return search->truncated == TRUNCATED_TIME || search->truncated == TRUNCATED_RESULTS;
}

static void add_match(struct search *search, uint32_t line, size_t column, const char *text,
                      size_t size) {
  if (search->count == search->results_max ||
      search->reply->size + search->path_size + LINE_BYTES_MAX + 64 > SEARCH_BYTES_MAX) {
    search->truncated = TRUNCATED_RESULTS;
    return;
  }
  // Show the part of a long line around the match.
  size_t first =
      size <= LINE_BYTES_MAX || column < LINE_BYTES_MAX / 2 ? 0 : column - LINE_BYTES_MAX / 2;
  size_t shown = size - first < LINE_BYTES_MAX ? size - first : LINE_BYTES_MAX;
  put_u32(search->reply, line);
  put_u32(search->reply, (uint32_t)column + 1);
  put_text(search->reply, search->path, search->path_size);
  put_text(search->reply, text + first, shown);
  search->count++;
}

static const char *find_ignoring_case(const char *text, size_t size, const char *what,
                                      size_t length) {
  for (size_t at = 0; at + length <= size; at++)
    if (strncasecmp(text + at, what, length) == 0) return text + at;
  return NULL;
}

// Matches a line without its terminator. Temporarily overwrites text[size].
static void match_line(struct search *search, uint32_t line, char *text, size_t size) {
  size_t column;
  if (size > 0 && text[size - 1] == '\r') size--;
  if (search->mode == MODE_LITERAL) {
    const char *found = search->flags & SEARCH_IGNORE_CASE
                            ? find_ignoring_case(text, size, search->pattern, search->pattern_size)
                            : memmem(text, size, search->pattern, search->pattern_size);
    if (!found) return;
    column = (size_t)(found - text);
  } else {
    char saved = text[size];
    regmatch_t match;
    text[size] = 0;
    int missed = regexec(&search->regex, text, 1, &match, 0);
    text[size] = saved;
    if (missed) return;
    column = (size_t)match.rm_so;
  }
  add_match(search, line, column, text, size);
}

static void search_file(struct search *search, int fd) {
  char *buffer = (char *)search->buffer;
  size_t buffered = 0;
  uint32_t line = 1;
  bool first = true;
  search->files++;
  while (!is_stopped(search)) {
    ssize_t got = read(fd, buffer + buffered, CHUNK - buffered);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) search->unreadable++;
    if (got <= 0) break;
    if (first && memchr(buffer, 0, (size_t)got)) {
      search->binary++;
      return;
    }
    first = false;
    buffered += (size_t)got;
    size_t at = 0;
    char *end;
    while (!is_stopped(search) && (end = memchr(buffer + at, '\n', buffered - at)) != NULL) {
      match_line(search, line++, buffer + at, (size_t)(end - buffer) - at);
      at = (size_t)(end - buffer) + 1;
    }
    if (at == 0 && buffered == CHUNK) {
      match_line(search, line, buffer, buffered);
      at = buffered;
    }
    memmove(buffer, buffer + at, buffered - at);
    buffered -= at;
  }
  if (buffered > 0 && !is_stopped(search)) match_line(search, line, buffer, buffered);
}

static bool passes_filters(const struct search *search) {
  if (search->glob[0] && !glob_matches(search->glob, search->path)) return false;
  if (search->mode != MODE_NAMES || search->pattern_size == 0) return true;
  const char *slash = strrchr(search->path, '/');
  const char *name = slash ? slash + 1 : search->path;
  return (search->flags & SEARCH_IGNORE_CASE ? strcasestr(name, search->pattern)
                                             : strstr(name, search->pattern)) != NULL;
}

static void visit_file(struct search *search, int fd, const struct stat *st) {
  if (!S_ISREG(st->st_mode) || !passes_filters(search)) return;
  if (search->mode == MODE_NAMES) add_match(search, 0, 0, "", 0);
  else search_file(search, fd);
}

static void walk(struct search *search, int dir, int depth);

static void visit(struct search *search, int dir, const char *name, int depth) {
  size_t before = search->path_size, size = strlen(name);
  if (before + size + 2 > PATH_BYTES) return;
  if (before > 0) search->path[search->path_size++] = '/';
  memcpy(search->path + search->path_size, name, size + 1);
  search->path_size += size;
  struct stat st;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st)) {
    // Symbolic links are not followed; entries that are gone or unreadable are skipped.
    if (errno != ELOOP && errno != ENOENT && errno != ENXIO) search->unreadable++;
  } else if (!S_ISDIR(st.st_mode)) {
    visit_file(search, fd, &st);
  } else {
    bool skip = !(search->flags & SEARCH_INCLUDE_IGNORED) &&
                (strcmp(name, ".git") == 0 || strcmp(name, "node_modules") == 0);
    if (!skip && depth >= DEPTH_MAX) search->truncated = TRUNCATED_NAMES;
    else if (!skip) walk(search, fd, depth + 1);
  }
  if (fd >= 0) close(fd);
  search->path_size = before;
  search->path[before] = 0;
}

static void walk(struct search *search, int dir, int depth) {
  struct names names;
  int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || read_names(copy, NAMES_PER_DIR, search->deadline_ms, &names)) {
    if (errno == ETIMEDOUT) search->truncated = TRUNCATED_TIME;
    else search->unreadable++;
    return;
  }
  if (names.truncated) search->truncated = TRUNCATED_NAMES;
  for (size_t i = 0; i < names.count && !is_stopped(search); i++)
    visit(search, dir, names.list[i], depth);
  free_names(&names);
}

static bool parse_search(struct search *search, struct request *req, struct reply *reply) {
  search->mode = get_u8(req);
  search->flags = get_u8(req);
  search->results_max = get_u32(req);
  uint32_t limit_ms = get_u32(req);
  get_text(req, search->pattern, sizeof search->pattern);
  get_text(req, search->glob, sizeof search->glob);
  if (!is_fully_read(req) || search->mode > MODE_REGEX) {
    reply_error(reply, BAD_REQUEST, "malformed search request");
    return false;
  }
  search->pattern_size = strlen(search->pattern);
  if (search->mode != MODE_NAMES && search->pattern_size == 0) {
    reply_error(reply, BAD_PATTERN, "the pattern is empty");
    return false;
  }
  if (search->results_max == 0 || search->results_max > RESULTS_MAX)
    search->results_max = RESULTS_MAX;
  search->deadline_ms = set_worker_deadline(limit_ms);
  if (search->mode != MODE_REGEX) return true;
  int flags = REG_EXTENDED | (search->flags & SEARCH_IGNORE_CASE ? REG_ICASE : 0);
  int error = regcomp(&search->regex, search->pattern, flags);
  if (error == 0) return true;
  char text[200];
  regerror(error, &search->regex, text, sizeof text);
  reply_error(reply, BAD_PATTERN, text);
  return false;
}

// Frees nothing: the worker process exits afterwards.
void do_search(struct request *req, struct reply *reply) {
  struct target target;
  struct stat st;
  if (!get_target(req, &target, reply)) return;
  struct search *search = calloc(1, sizeof *search);
  char *path = calloc(1, PATH_BYTES);
  if (!search || !path) {
    reply_errno(reply, ENOMEM);
    return;
  }
  search->reply = reply;
  search->path = path;
  if (!parse_search(search, req, reply)) return;
  int fd = open_target(&target, target.path, O_RDONLY | O_NONBLOCK);
  if (fd < 0 || fstat(fd, &st)) {
    reply_errno(reply, errno);
    return;
  }
  for (int i = 0; i < 17; i++) put_u8(reply, 0);
  if (S_ISDIR(st.st_mode)) walk(search, fd, 0);
  else visit_file(search, fd, &st);
  if (reply->status != DONE) return;
  reply->bytes[0] = search->truncated;
  patch_u32(reply, 1, search->files);
  patch_u32(reply, 5, search->binary);
  patch_u32(reply, 9, search->unreadable);
  patch_u32(reply, 13, search->count);
}
