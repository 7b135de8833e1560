// The request of a person for a grant, and the paths that are never granted. Pure, so that a fuzzer
// can drive it alone.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

// GRANT_READ: boxes may read the directory, not work in it.
enum grant_op { GRANT_ADD = 1, GRANT_REVOKE = 2, GRANT_LIST = 3, GRANT_READ = 4 };
#define GRANT_REQUEST_MAX (1 + PATH_MAX)

// u8 op, path NUL; GRANT_LIST has an empty path. The path points into the bytes.
struct grant_request {
  enum grant_op op;
  const char *path;
};
enum request_state { REQUEST_PARTIAL, REQUEST_COMPLETE, REQUEST_MALFORMED };
enum request_state grant_request_parse(const char *bytes, size_t size,
                                       struct grant_request *request);

// Writes "message\nhint" and returns true if no one may grant this path. `own`: the directories of
// this runtime, NULL at the end. `passwd`: the text of the host's passwd.
bool grant_path_is_refused(const char *path, const char *const *own, const char *passwd, char *why,
                           size_t size);
