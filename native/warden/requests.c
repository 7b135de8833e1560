// Decodes frame headers and the bodies of requests other than plans, with the same rules (plan.c).
#include "plan.h"

#include <stdbool.h>

#include "plan-values.h"

int parse_frame_header(const uint8_t *bytes, struct frame_header *header, struct failure *err) {
  if (u32(bytes) != WARDEN_MAGIC) return fail(err, REFUSED_FRAME, "not a warden frame");
  if (bytes[4] != WARDEN_VERSION)
    return fail(err, REFUSED_FRAME, "version %u is not supported, only %u", bytes[4],
                WARDEN_VERSION);
  if (u16(bytes + 6)) return fail(err, REFUSED_FRAME, "the reserved bytes are not zero");
  header->type = bytes[5];
  header->length = u32(bytes + 8);
  uint32_t max = 0;
  switch (header->type) {
    case FRAME_PLAN:
    case FRAME_OPEN:
    case FRAME_EXEC: max = FRAME_MAX; break;
    case FRAME_STDIN: max = STDIN_WINDOW; break;
    case FRAME_SIGNAL: max = 1; break;
    case FRAME_WINSIZE: max = WINSIZE_BYTES; break;
    case FRAME_DIRECTORY: max = DIR_HEADER_BYTES + PATH_BYTES; break;
    case FRAME_LAYER: max = LAYER_HEADER_BYTES + (SEALED_MAX + 2) * PATH_BYTES; break;
    case FRAME_STDIN_END:
    case FRAME_KILL:
    case FRAME_CLOSE:
    case FRAME_FEATURES: break;
    default: return fail(err, REFUSED_FRAME, "unknown frame type %u", header->type);
  }
  if (header->length > max)
    return fail(err, REFUSED_FRAME, "a frame of type %u has up to %u bytes, not %u", header->type,
                max, header->length);
  return 0;
}

int parse_winsize(const uint8_t *bytes, size_t size, uint16_t *columns, uint16_t *rows) {
  if (size != WINSIZE_BYTES) return -1;
  *columns = u16(bytes);
  *rows = u16(bytes + 2);
  return *columns && *rows ? 0 : -1;
}

int parse_dir_request(const uint8_t *bytes, size_t size, struct dir_request *request,
                      struct failure *err) {
  if (size < DIR_HEADER_BYTES + 2)
    return fail(err, REFUSED_PLAN, "the directory request is truncated");
  request->op = bytes[0];
  request->uid = u32(bytes + 4);
  request->gid = u32(bytes + 8);
  request->path = as_string(bytes + DIR_HEADER_BYTES, size - DIR_HEADER_BYTES);
  if (request->op < DIR_CHOWN || request->op > DIR_REVOKE || bytes[1] || u16(bytes + 2))
    return fail(err, REFUSED_PLAN, "unknown directory operation");
  if (!request->path || !is_normalized_path(request->path) || !request->path[1])
    return fail(err, REFUSED_PLAN, "the directory is not an absolute, normalized path");
  if (request->op == DIR_MEASURE)
    return request->uid ? fail(err, REFUSED_PLAN, "measuring takes no uid") : 0;
  if (request->op >= DIR_DELETE)
    return request->uid || request->gid ? fail(err, REFUSED_PLAN, "this takes no uid or gid") : 0;
  uint32_t unset = UINT32_MAX;
  if (request->gid == 0 || request->gid == unset || request->uid == unset ||
      (request->uid == 0) != (request->op == DIR_SHARE))
    return fail(err, REFUSED_PLAN, "uid or gid is invalid");
  return 0;
}

// Takes the next of several strings, each with its NUL: a normalized path that is not /.
static const char *next_path(const uint8_t **at, const uint8_t *end) {
  const uint8_t *nul = memchr(*at, 0, (size_t)(end - *at));
  const char *path = (const char *)*at;
  if (!nul || !is_normalized_path(path) || !path[1]) return NULL;
  *at = nul + 1;
  return path;
}

int parse_layer_request(const uint8_t *bytes, size_t size, struct layer_request *request,
                        struct failure *err) {
  if (size < LAYER_HEADER_BYTES) return fail(err, REFUSED_PLAN, "the layer request is truncated");
  const uint8_t *at = bytes + LAYER_HEADER_BYTES, *end = bytes + size;
  uint32_t unset = UINT32_MAX;
  request->uid = u32(bytes);
  request->gid = u32(bytes + 4);
  request->sealed_count = bytes[8];
  request->kind = bytes[9];
  if (!request->uid || !request->gid || request->uid == unset || request->gid == unset)
    return fail(err, REFUSED_PLAN, "uid and gid are required and must not be 0");
  if (request->sealed_count > SEALED_MAX)
    return fail(err, REFUSED_PLAN, "more than %d sealed layers", SEALED_MAX);
  if (request->kind > LAYER_COPY || (request->kind == LAYER_COPY && request->sealed_count))
    return fail(err, REFUSED_PLAN, "unknown kind of layer, or a copy with sealed layers");
  bool valid = !u16(bytes + 10) && (request->lower = next_path(&at, end));
  for (unsigned i = 0; valid && i < request->sealed_count; i++)
    valid = (request->sealed[i] = next_path(&at, end));
  valid = valid && (request->dir = next_path(&at, end)) && at == end;
  return valid ? 0
               : fail(err, REFUSED_PLAN, "a path of the layer is not absolute and normalized");
}
