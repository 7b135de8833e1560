// Reads what is at each of many paths in two roots, for a diff: a file's first bytes, or a link's
// target. No link is followed, so each side is what a list of changes named.
#include "boxfs.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static void begin_side(struct reply *reply, uint8_t kind) {
  put_u8(reply, kind);
  put_u8(reply, 0);
  put_u32(reply, 0);
}

// Writes what begin_side left open: whether there was more than size bytes, and the size.
static void end_side(struct reply *reply, size_t at, bool is_cut, uint32_t size) {
  if (reply->status != DONE) return;
  reply->bytes[at + 1] = is_cut;
  patch_u32(reply, at + 2, size);
}

static void read_file_side(struct reply *reply, int fd, const struct stat *st, uint32_t bytes_max) {
  size_t at = reply->size;
  begin_side(reply, KIND_FILE);
  uint64_t known = (uint64_t)st->st_size;
  uint32_t length = known < bytes_max ? (uint32_t)known : bytes_max;
  uint8_t *data = length > 0 ? reply_reserve(reply, length) : NULL;
  if (length > 0 && !data) {
    reply_error(reply, TOO_LARGE, "reply is too large");
    return;
  }
  ssize_t got = length > 0 ? read_full(fd, data, length, 0) : 0;
  if (got < 0) got = 0;
  reply->size -= length - (size_t)got;
  end_side(reply, at, (uint64_t)got < known, (uint32_t)got);
}

static void read_link_side(struct reply *reply, int fd, uint32_t bytes_max) {
  char target[PATH_BYTES];
  size_t at = reply->size;
  ssize_t size = readlinkat(fd, "", target, sizeof target);
  begin_side(reply, KIND_LINK);
  if (size < 0) size = 0;
  uint32_t length = (size_t)size < bytes_max ? (uint32_t)size : bytes_max;
  put_bytes(reply, target, length);
  end_side(reply, at, length < (size_t)size, length);
}

static void read_side(struct reply *reply, const struct target *target, uint32_t bytes_max) {
  struct stat st;
  // The type is known before the file is opened: opening a device or a pipe can have effects.
  int fd = *target->path ? open_strictly(target, target->path, O_PATH | O_NOFOLLOW) : -1;
  bool is_known = fd >= 0 && fstat(fd, &st) == 0;
  int file = -1;
  if (is_known && S_ISREG(st.st_mode))
    file = open_strictly(target, target->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode))
    read_file_side(reply, file, &st, bytes_max);
  else if (is_known && S_ISLNK(st.st_mode)) read_link_side(reply, fd, bytes_max);
  else begin_side(reply, 0);
  if (file >= 0) close(file);
  if (fd >= 0) close(fd);
}

// roots before, after u16 each; bytes_max u32, count u16, paths → count u16, for each path twice:
// kind u8 (0: no file or link), is_cut u8, data. Fewer paths are answered if the reply is full.
void do_read_many(struct request *req, struct reply *reply) {
  struct target sides[2];
  for (int i = 0; i < 2; i++) sides[i].root = get_u16(req);
  uint32_t bytes_max = get_u32(req);
  uint16_t count = get_u16(req), answered = 0;
  bool is_valid = !req->malformed && count <= READ_MANY_MAX && bytes_max <= DATA_MAX / 2 &&
                  sides[0].root < root_count() && sides[1].root < root_count();
  if (!is_valid) {
    reply_error(reply, BAD_REQUEST, "unknown root, or too many paths or bytes");
    return;
  }
  put_u16(reply, 0);
  bool is_full = false;
  for (uint16_t i = 0; i < count; i++) {
    char path[PATH_BYTES];
    if (!get_text(req, path, sizeof path)) return;
    if (!normalize_path(path, sides[0].path) || !normalize_path(path, sides[1].path)) {
      reply_error(reply, BAD_REQUEST, "absolute path");
      return;
    }
    // At least one is answered: two sides fit into an empty reply.
    is_full = is_full || reply->size + 2 * ((size_t)bytes_max + 6) > FRAME_MAX;
    if (is_full) continue;
    for (int side = 0; side < 2; side++) read_side(reply, &sides[side], bytes_max);
    if (reply->status != DONE) return;
    answered++;
  }
  reply->bytes[0] = (uint8_t)answered;
  reply->bytes[1] = (uint8_t)(answered >> 8);
}
