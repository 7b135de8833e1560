// Fuzzes the keeper's parser of requests and its rules: `fuzz-grant-request <seconds> <seed>`
// mutates requests. `fuzz-grant-request rules <passwd>` reads paths, one per line, and prints for
// each whether the rules refuse it.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../native/keeper/grant-request.h"

static const char *const own[] = {"/var/tmp/state", "/tmp/r/abc", "/tmp/r/abc.warden", NULL};

static void check(const char *bytes, size_t size, const char *passwd) {
  struct grant_request request;
  // Copies of exactly this size, so that the sanitizer sees a read past the end.
  char *copy = malloc(size ? size : 1), why[256];
  memcpy(copy, bytes, size);
  enum request_state state = grant_request_parse(copy, size, &request);
  if (state == REQUEST_COMPLETE) {
    size_t length = strlen(request.path);
    if (length + 2 != size || length >= PATH_MAX) abort();
    if (request.op == GRANT_LIST ? length != 0 : request.path[0] != '/') abort();
    if (strstr(request.path, "/../") || strstr(request.path, "//")) abort();
    if (strchr(request.path, '\n')) abort();
    if (request.op == GRANT_ADD &&
        grant_path_is_refused(request.path, own, passwd, why, sizeof why) &&
        (!why[0] || strlen(why) >= sizeof why))
      abort();
  } else if (state == REQUEST_PARTIAL && size > GRANT_REQUEST_MAX) {
    abort();
  }
  free(copy);
}

static int print_rules(const char *passwd) {
  char line[PATH_MAX], why[1024];
  while (fgets(line, sizeof line, stdin)) {
    line[strcspn(line, "\n")] = 0;
    bool refused = grant_path_is_refused(line, own, passwd, why, sizeof why);
    printf("%d %s\n", refused, line);
  }
  return 0;
}

static uint64_t state;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return below ? (uint32_t)(state >> 33) % below : 0;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  if (!strcmp(argv[1], "rules")) return print_rules(argv[2]);
  static const char *const parts[] = {"/home", "/alice", "/etc", "/..", "/.", "//", "/var/tmp/state",
                                      "\n", "/tmp/r/abc", "/x", ":", "\x7f", "/root", "/"};
  static char bytes[2 * GRANT_REQUEST_MAX], passwd[256];
  state = strtoull(argv[2], NULL, 10);
  time_t until = time(NULL) + atoi(argv[1]);
  unsigned long tried = 0;
  while (time(NULL) < until)
    for (int i = 0; i < 1000; i++, tried++) {
      size_t size = 0;
      bytes[size++] = (char)draw(5);
      for (uint32_t count = draw(draw(50) ? 8 : 3000); count; count--) {
        const char *part = parts[draw(sizeof parts / sizeof *parts)];
        if (size + strlen(part) + 2 >= sizeof bytes) break;
        memcpy(bytes + size, part, strlen(part));
        size += strlen(part);
      }
      if (draw(8)) bytes[size++] = 0;
      if (!draw(10)) bytes[draw((uint32_t)size)] = (char)draw(256);
      if (!draw(10)) size = draw((uint32_t)size + 1);
      for (size_t at = 0; at + 1 < sizeof passwd; at++) passwd[at] = ":::/ax\nhome"[draw(11)];
      check(bytes, size, passwd);
    }
  printf("%lu requests\n", tried);
  return 0;
}
