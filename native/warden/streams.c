// The standard streams of a box: pipes to frames and back, with flow control in both directions and
// the output limit.
#include "box.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#define CHUNK_BYTES (32 * 1024)

void close_stream(struct stream *stream) {
  if (!stream->open) return;
  if (!stream->paused) watch_remove(&stream->watch);
  close(stream->watch.fd);
  stream->open = false;
}

void on_output(struct watch *watch, uint32_t events) {
  (void)events;
  struct stream *stream = (struct stream *)watch;
  struct box *box = stream->box;
  uint8_t bytes[CHUNK_BYTES];
  // Output is sent after FRAME_STARTED, which a reaped box no longer sends.
  bool too_early = !box->start_reported && !box->reaped;
  if (too_early || (box->conn && conn_space(box->conn) < CHUNK_BYTES + FRAME_HEADER_BYTES + 512)) {
    // EPOLLHUP would be reported continuously: remove the pipe until there is space.
    watch_remove(watch);
    stream->paused = true;
    return;
  }
  ssize_t size = read(watch->fd, bytes, sizeof bytes);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    close_stream(stream);
    box_finish(box);
    return;
  }
  uint64_t used = box->output[0].bytes + box->output[1].bytes;
  uint64_t left = box->limits[LIMIT_OUTPUT_BYTES] - used;
  size_t allowed = (uint64_t)size < left ? (size_t)size : (size_t)left;
  stream->bytes += allowed;
  if (allowed && box->conn) conn_send(box->conn, stream->type, bytes, allowed);
  if (allowed < (size_t)size) box_kill(box, ENDED_OUTPUT);
}

void box_resume_output(struct box *box) {
  for (int i = 0; i < 2; i++) {
    struct stream *stream = &box->output[i];
    if (!stream->open || !stream->paused) continue;
    stream->paused = false;
    watch_add(&stream->watch, EPOLLIN);
  }
}

static void flush_stdin(struct box *box) {
  if (!box->input.open) {
    box->stdin_size = 0;
    return;
  }
  size_t done = 0;
  while (done < box->stdin_size) {
    ssize_t size = write(box->input.watch.fd, box->stdin_bytes + done, box->stdin_size - done);
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) {  // the command closed its end: discard the rest
      close_stream(&box->input);
      done = box->stdin_size;
      break;
    }
    done += (size_t)size;
  }
  memmove(box->stdin_bytes, box->stdin_bytes + done, box->stdin_size - done);
  box->stdin_size -= done;
  if (done && box->conn) {
    uint32_t acked = (uint32_t)done;
    conn_send(box->conn, FRAME_STDIN_ACK, &acked, sizeof acked);
  }
  if (!box->input.open) return;
  if (!box->stdin_size && box->stdin_eof) close_stream(&box->input);
  else watch_modify(&box->input.watch, box->stdin_size ? EPOLLOUT : 0);
}

void on_stdin(struct watch *watch, uint32_t events) {
  struct box *box = ((struct stream *)watch)->box;
  if (events & EPOLLERR && !box->stdin_size) close_stream(&box->input);
  else flush_stdin(box);
}

size_t box_write_stdin(struct box *box, const uint8_t *bytes, size_t size) {
  if (size > sizeof box->stdin_bytes - box->stdin_size) return 0;
  memcpy(box->stdin_bytes + box->stdin_size, bytes, size);
  box->stdin_size += size;
  flush_stdin(box);
  return 1;
}

void box_close_stdin(struct box *box) {
  box->stdin_eof = true;
  flush_stdin(box);
}
