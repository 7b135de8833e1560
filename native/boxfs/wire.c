// Reading requests and writing answers, byte by byte and never past an end.
#include "boxfs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const uint8_t *get_bytes(struct in *in, size_t count) {
  if (in->bad || (size_t)(in->end - in->at) < count) {
    in->bad = true;
    return NULL;
  }
  const uint8_t *here = in->at;
  in->at += count;
  return here;
}

static uint64_t get_number(struct in *in, size_t count) {
  const uint8_t *bytes = get_bytes(in, count);
  uint64_t value = 0;
  for (size_t i = count; bytes && i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

uint8_t get_u8(struct in *in) { return (uint8_t)get_number(in, 1); }
uint16_t get_u16(struct in *in) { return (uint16_t)get_number(in, 2); }
uint32_t get_u32(struct in *in) { return (uint32_t)get_number(in, 4); }
uint64_t get_u64(struct in *in) { return get_number(in, 8); }

const uint8_t *get_data(struct in *in, uint32_t *size) {
  *size = get_u32(in);
  return get_bytes(in, *size);
}

bool get_text(struct in *in, char *text, size_t text_bytes) {
  size_t size = get_u16(in);
  const uint8_t *bytes = get_bytes(in, size);
  if (!bytes || size >= text_bytes || memchr(bytes, 0, size)) {
    in->bad = true;
    text[0] = 0;
    return false;
  }
  memcpy(text, bytes, size);
  text[size] = 0;
  return true;
}

bool all_read(const struct in *in) { return !in->bad && in->at == in->end; }

bool out_init(struct out *out) {
  *out = (struct out){.room = 4096};
  out->bytes = malloc(out->room);
  return out->bytes != NULL;
}

void out_free(struct out *out) { free(out->bytes); }

uint8_t *put_room(struct out *out, size_t count) {
  if (count > FRAME_MAX || out->size + count > FRAME_MAX) return NULL;
  if (out->size + count > out->room) {
    size_t room = out->room * 2 > out->size + count ? out->room * 2 : out->size + count;
    uint8_t *more = realloc(out->bytes, room);
    if (!more) return NULL;
    out->bytes = more;
    out->room = room;
  }
  uint8_t *here = out->bytes + out->size;
  out->size += count;
  return here;
}

void put_bytes(struct out *out, const void *bytes, size_t count) {
  if (count == 0) return;
  uint8_t *room = put_room(out, count);
  if (room) memcpy(room, bytes, count);
  else refuse(out, TOO_LARGE, "the answer is too large");
}

static void put_number(struct out *out, uint64_t value, size_t count) {
  uint8_t bytes[8];
  for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)(value >> (8 * i));
  put_bytes(out, bytes, count);
}

void put_u8(struct out *out, uint8_t value) { put_number(out, value, 1); }
void put_u16(struct out *out, uint16_t value) { put_number(out, value, 2); }
void put_u32(struct out *out, uint32_t value) { put_number(out, value, 4); }
void put_u64(struct out *out, uint64_t value) { put_number(out, value, 8); }

void put_text(struct out *out, const char *text, size_t size) {
  if (size > UINT16_MAX) size = UINT16_MAX;
  put_u16(out, (uint16_t)size);
  put_bytes(out, text, size);
}

void set_u32(struct out *out, size_t at, uint32_t value) {
  if (at + 4 > out->size) return;
  for (size_t i = 0; i < 4; i++) out->bytes[at + i] = (uint8_t)(value >> (8 * i));
}

void refuse(struct out *out, enum status status, const char *text) {
  out->size = 0;
  out->status = (uint8_t)status;
  // out has room for this from the start, so it cannot come back here.
  put_text(out, text, strlen(text));
}

static enum status status_of(int error) {
  switch (error) {
    case ENOENT: return NOT_FOUND;
    case EACCES: case EPERM: case EROFS: case EBUSY: return DENIED;
    case EXDEV: case ELOOP: return OUTSIDE;
    case EISDIR: return IS_DIRECTORY;
    case ENOTDIR: return NOT_DIRECTORY;
    case ENXIO: case ENODEV: return NOT_REGULAR;
    case EEXIST: return EXISTS;
    case ENOTEMPTY: return NOT_EMPTY;
    case EFBIG: case EOVERFLOW: case E2BIG: return TOO_LARGE;
    case ETIMEDOUT: return TOO_SLOW;
    case ENOSPC: case EDQUOT: return NO_SPACE;
    case ENAMETOOLONG: case EINVAL: case EILSEQ: return BAD_NAME;
    case EAGAIN: case EMFILE: case ENFILE: case ENOMEM: return BUSY;
    default: return BROKEN;
  }
}

void refuse_errno(struct out *out, int error) { refuse(out, status_of(error), strerror(error)); }
