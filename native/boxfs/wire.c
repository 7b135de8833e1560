// Decodes requests and encodes replies; every access is bounds-checked.
#include "boxfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const uint8_t *get_bytes(struct request *req, size_t count) {
  if (req->malformed || (size_t)(req->end - req->cursor) < count) {
    req->malformed = true;
    return NULL;
  }
  const uint8_t *start = req->cursor;
  req->cursor += count;
  return start;
}

static uint64_t get_number(struct request *req, size_t count) {
  const uint8_t *bytes = get_bytes(req, count);
  uint64_t value = 0;
  for (size_t i = count; bytes && i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

uint8_t get_u8(struct request *req) { return (uint8_t)get_number(req, 1); }
uint16_t get_u16(struct request *req) { return (uint16_t)get_number(req, 2); }
uint32_t get_u32(struct request *req) { return (uint32_t)get_number(req, 4); }
uint64_t get_u64(struct request *req) { return get_number(req, 8); }

const uint8_t *get_data(struct request *req, uint32_t *size) {
  *size = get_u32(req);
  return get_bytes(req, *size);
}

bool get_text(struct request *req, char *text, size_t text_bytes) {
  size_t size = get_u16(req);
  const uint8_t *bytes = get_bytes(req, size);
  if (!bytes || size >= text_bytes || memchr(bytes, 0, size)) {
    req->malformed = true;
    text[0] = 0;
    return false;
  }
  memcpy(text, bytes, size);
  text[size] = 0;
  return true;
}

bool is_fully_read(const struct request *req) { return !req->malformed && req->cursor == req->end; }

bool reply_init(struct reply *reply) {
  *reply = (struct reply){.capacity = 4096};
  reply->bytes = malloc(reply->capacity);
  return reply->bytes != NULL;
}

void reply_free(struct reply *reply) { free(reply->bytes); }

uint8_t *reply_reserve(struct reply *reply, size_t count) {
  if (count > FRAME_MAX || reply->size + count > FRAME_MAX) return NULL;
  if (reply->size + count > reply->capacity) {
    size_t capacity =
        reply->capacity * 2 > reply->size + count ? reply->capacity * 2 : reply->size + count;
    uint8_t *grown = realloc(reply->bytes, capacity);
    if (!grown) return NULL;
    reply->bytes = grown;
    reply->capacity = capacity;
  }
  uint8_t *start = reply->bytes + reply->size;
  reply->size += count;
  return start;
}

void put_bytes(struct reply *reply, const void *bytes, size_t count) {
  if (count == 0) return;
  uint8_t *dest = reply_reserve(reply, count);
  if (dest) memcpy(dest, bytes, count);
  else reply_error(reply, TOO_LARGE, "reply is too large");
}

static void put_number(struct reply *reply, uint64_t value, size_t count) {
  uint8_t bytes[8];
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * i));
  put_bytes(reply, bytes, count);
}

void put_u8(struct reply *reply, uint8_t value) { put_number(reply, value, 1); }
void put_u16(struct reply *reply, uint16_t value) { put_number(reply, value, 2); }
void put_u32(struct reply *reply, uint32_t value) { put_number(reply, value, 4); }
void put_u64(struct reply *reply, uint64_t value) { put_number(reply, value, 8); }

void put_text(struct reply *reply, const char *text, size_t size) {
  if (size > UINT16_MAX) size = UINT16_MAX;
  put_u16(reply, (uint16_t)size);
  put_bytes(reply, text, size);
}

void patch_u32(struct reply *reply, size_t offset, uint32_t value) {
  if (offset + 4 > reply->size) return;
  for (size_t i = 0; i < 4; i++) reply->bytes[offset + i] = (uint8_t)(value >> (8 * i));
}

void reply_error(struct reply *reply, enum status status, const char *text) {
  reply->size = 0;
  reply->status = (uint8_t)status;
  // The initial capacity is enough for an error, so put_text does not recurse.
  put_text(reply, text, strlen(text));
}

enum status status_from_errno(int error) {
  switch (error) {
    case ENOENT: return NOT_FOUND;
    // EOVERFLOW: of a user whom a mount with mapped owners does not have.
    case EACCES: case EPERM: case EROFS: case EBUSY: case EOVERFLOW: return DENIED;
    case EXDEV: case ELOOP: return OUTSIDE;
    case EISDIR: return IS_DIRECTORY;
    case ENOTDIR: return NOT_DIRECTORY;
    case ENXIO: case ENODEV: return NOT_REGULAR;
    case EEXIST: return EXISTS;
    case ENOTEMPTY: return NOT_EMPTY;
    case EFBIG: case E2BIG: return TOO_LARGE;
    case ETIMEDOUT: return TOO_SLOW;
    case ENOSPC: case EDQUOT: return NO_SPACE;
    case ENAMETOOLONG: case EINVAL: case EILSEQ: return BAD_NAME;
    case EAGAIN: case EMFILE: case ENFILE: case ENOMEM: return BUSY;
    default: return BROKEN;
  }
}

void reply_errno(struct reply *reply, int error) {
  reply_error(reply, status_from_errno(error), strerror(error));
}
