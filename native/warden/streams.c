// The standard streams of a box: pipes or a terminal to frames and back, with flow control in both
// directions and the output limit.
#include "box.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <termios.h>

#define CHUNK_BYTES (32 * 1024)

void attach_stream(struct box *box, struct stream *stream, int fd, uint8_t type,
                   void (*ready)(struct watch *, uint32_t), uint32_t events) {
  *stream =
      (struct stream){.watch = {.ready = ready, .fd = fd}, .box = box, .type = type, .open = true};
  watch_add(&stream->watch, events);
}

void close_stream(struct stream *stream) {
  if (!stream->open) return;
  if (!stream->paused) watch_remove(&stream->watch);
  close(stream->watch.fd);
  stream->open = false;
}

// A terminal returns at most 4 KiB at a time; many small frames would cost the client more.
static ssize_t read_output(const struct stream *stream, uint8_t *bytes) {
  ssize_t total = 0, size;
  do {
    size = read(stream->watch.fd, bytes + total, CHUNK_BYTES - (size_t)total);
    if (size > 0) total += size;
  } while (size > 0 && stream->box->has_terminal && total < CHUNK_BYTES);
  return total ? total : size;
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
  ssize_t size = read_output(stream, bytes);
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

void flush_stdin(struct box *box) {
  // The terminal's end arrives later than the client's first bytes, and before the command reads,
  // an interrupt among them would end its process.
  if (box->has_terminal && !box->start_reported) return;
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
  size_t unsent_eof = box->stdin_size < box->eof_size ? box->stdin_size : box->eof_size;
  uint32_t acked = (uint32_t)(done - (box->eof_size - unsent_eof));
  box->eof_size = unsent_eof;
  if (acked && box->conn) conn_send(box->conn, FRAME_STDIN_ACK, &acked, sizeof acked);
  if (!box->input.open) return;
  if (!box->stdin_size && box->stdin_eof && !box->has_terminal) close_stream(&box->input);
  else watch_modify(&box->input.watch, box->stdin_size ? EPOLLOUT : 0);
}

void on_stdin(struct watch *watch, uint32_t events) {
  struct box *box = ((struct stream *)watch)->box;
  if (events & (EPOLLERR | EPOLLHUP) && !box->stdin_size) close_stream(&box->input);
  else flush_stdin(box);
}

size_t box_write_stdin(struct box *box, const uint8_t *bytes, size_t size) {
  if (box->stdin_eof || !size) return 1;
  if (size > STDIN_WINDOW - box->stdin_size) return 0;
  box->last_byte = bytes[size - 1];
  memcpy(box->stdin_bytes + box->stdin_size, bytes, size);
  box->stdin_size += size;
  flush_stdin(box);
  return 1;
}

// Ends the input as a person does: Ctrl-D, once after a line, twice within one, which the first
// sends off. Only while the terminal edits lines: otherwise the byte is input like any other.
static void add_eof_bytes(struct box *box) {
  struct termios modes;
  if (!box->input.open || tcgetattr(box->input.watch.fd, &modes) || !(modes.c_lflag & ICANON))
    return;
  box->eof_size = box->last_byte && box->last_byte != '\n' ? 2 : 1;
  memset(box->stdin_bytes + box->stdin_size, modes.c_cc[VEOF], box->eof_size);
  box->stdin_size += box->eof_size;
}

void box_close_stdin(struct box *box) {
  if (box->stdin_eof) return;
  box->stdin_eof = true;
  if (box->has_terminal) add_eof_bytes(box);
  flush_stdin(box);
}

void box_resize(struct box *box, uint16_t columns, uint16_t rows) {
  struct winsize size = {.ws_row = rows, .ws_col = columns};
  if (!box->has_terminal) return;
  box->columns = columns;
  box->rows = rows;
  if (box->input.open) ioctl(box->input.watch.fd, TIOCSWINSZ, &size);
}

void attach_terminal(struct box *box, int master) {
  // Another descriptor: each is watched, or not, by itself.
  int input = fcntl(master, F_DUPFD_CLOEXEC, 0);
  if (input < 0 || !box->conn) {
    k_close(input);
    close(master);
    box_kill(box, ENDED_LOST);
    return;
  }
  attach_stream(box, &box->input, input, 0, on_stdin, 0);
  attach_stream(box, &box->output[0], master, FRAME_STDOUT, on_output, EPOLLIN);
  if (box->columns) box_resize(box, box->columns, box->rows);
  if (box->stdin_eof) add_eof_bytes(box);
}
