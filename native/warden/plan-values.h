// Numbers, strings and paths of the wire, for the decoders of plans and of other requests.
#pragma once
#include <stdint.h>
#include <string.h>

static inline uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t u32(const uint8_t *p) { return u16(p) | (uint32_t)u16(p + 2) << 16; }
static inline uint64_t u64(const uint8_t *p) { return u32(p) | (uint64_t)u32(p + 4) << 32; }

// Returns the field as a string, or NULL unless it has exactly one NUL, at its end.
static inline const char *as_string(const uint8_t *value, size_t size) {
  if (size == 0 || value[size - 1] != 0) return NULL;
  if (memchr(value, 0, size - 1)) return NULL;
  return (const char *)value;
}

static inline int is_normalized_path(const char *path) {
  size_t size = strlen(path);
  if (path[0] != '/' || size >= PATH_BYTES) return 0;
  if (size == 1) return 1;
  for (const char *at = path; *at;) {
    const char *component = at + 1;
    size_t length = strcspn(component, "/");
    if (length == 0 || length > 255) return 0;
    if (length == 1 && component[0] == '.') return 0;
    if (length == 2 && component[0] == '.' && component[1] == '.') return 0;
    at = component + length;
  }
  return 1;
}
