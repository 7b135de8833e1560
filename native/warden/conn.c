// A client's connection: frames in and out through bounded buffers. One box at a time; when the
// client disconnects, its box ends. Only the client named in the bounds is served.
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_CAPACITY (128 * 1024)
#define CONNS_MAX 1024
#define ANCESTORS_MAX 4096

struct conn {
  struct watch watch;  // must be first
  struct box *box;
  struct layer *layer;
  gid_t gid;  // the client's
  uint8_t *in, *out;
  size_t in_size, in_capacity, out_sent, out_size;
  bool closing, write_shut, closed;
  size_t discarded_bytes;
  struct conn *next;
};
static struct conn *dead_conns;
static unsigned conn_count;

// Ends what exists only as long as its client wants it.
static void end_requests(struct conn *conn) {
  struct box *box = conn->box;
  struct layer *layer = conn->layer;
  conn->box = NULL;
  conn->layer = NULL;
  if (box) box_detach_client(box);
  if (layer) layer_detach_client(layer);
}

static void conn_close(struct conn *conn) {
  if (conn->closed) return;
  conn->closed = true;
  watch_remove(&conn->watch);
  close(conn->watch.fd);
  end_requests(conn);
  dir_requests_detach(conn);
  conn_count--;
  conn->next = dead_conns;
  dead_conns = conn;
}

void conns_free_dead(void) {
  while (dead_conns) {
    struct conn *conn = dead_conns;
    dead_conns = conn->next;
    free(conn->in);
    free(conn->out);
    free(conn);
  }
}

size_t conn_space(const struct conn *conn) { return OUT_CAPACITY - conn->out_size; }

static void flush(struct conn *conn) {
  while (conn->out_sent < conn->out_size) {
    ssize_t size = send(conn->watch.fd, conn->out + conn->out_sent, conn->out_size - conn->out_sent,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) {
      conn_close(conn);
      return;
    }
    conn->out_sent += (size_t)size;
  }
  memmove(conn->out, conn->out + conn->out_sent, conn->out_size - conn->out_sent);
  conn->out_size -= conn->out_sent;
  conn->out_sent = 0;
  // Everything is sent: wait for the client to close. Closing with unread input would discard
  // output.
  if (conn->closing && !conn->out_size && !conn->write_shut) {
    shutdown(conn->watch.fd, SHUT_WR);
    conn->write_shut = true;
  }
  watch_modify(&conn->watch, EPOLLIN | (conn->out_size ? EPOLLOUT : 0));
}

void conn_send(struct conn *conn, uint8_t type, const void *bytes, size_t size) {
  if (conn->closed) return;
  if (conn_space(conn) < FRAME_HEADER_BYTES + size) {
    // Only small frames are sent without checking for space; the client does not read.
    conn_close(conn);
    return;
  }
  uint8_t *at = conn->out + conn->out_size;
  uint32_t magic = WARDEN_MAGIC, length = (uint32_t)size;
  memcpy(at, &magic, 4);
  at[4] = WARDEN_VERSION;
  at[5] = type;
  at[6] = at[7] = 0;
  memcpy(at + 8, &length, 4);
  if (size) memcpy(at + FRAME_HEADER_BYTES, bytes, size);
  conn->out_size += FRAME_HEADER_BYTES + size;
  flush(conn);
}

void conn_refuse(struct conn *conn, const struct failure *err) {
  uint8_t body[2 + sizeof err->text + sizeof err->hint];
  body[0] = (uint8_t)err->code;
  body[1] = 0;
  size_t text = strlen(err->text) + 1, hint = strlen(err->hint) + 1;
  memcpy(body + 2, err->text, text);
  memcpy(body + 2 + text, err->hint, hint);
  conn_send(conn, FRAME_REFUSED, body, 2 + text + hint);
}

void conn_detach_box(struct conn *conn) { conn->box = NULL; }
void conn_detach_layer(struct conn *conn) { conn->layer = NULL; }
gid_t conn_gid(const struct conn *conn) { return conn->gid; }

static void send_features(struct conn *conn) {
  char text[2048];
  int size = snprintf(
      text, sizeof text,
      "version %d\nmode %s\nlandlock %d\nnamespaces %s\nmemory %s\npids %s\ncpu %s\ntree %s\n"
      "quota %s\nlevel1 %s\nlevel2 %s\nlayers %s\nmissing %s\nfix %s\nboxes %u\n"
      "spares %u\nsettling %u\n",
      WARDEN_VERSION, host.root ? "root" : "user", host.landlock, host.namespaces ? "yes" : "no",
      cgroups_version(CGROUP_MEMORY), cgroups_version(CGROUP_PIDS), cgroups_version(CGROUP_CPU),
      cgroups_version(CGROUP_TREE), quota_version(), host.landlock ? "yes" : "no",
      host.landlock && host.namespaces ? "yes" : "no", host.layers, host.missing, host.fix,
      boxes_count(), spares_count(), cgroups_retry_removal());
  conn_send(conn, FRAME_FEATURE_LIST, text, (size_t)size);
}

// A client that violates the protocol gets the error and loses its box or layer.
static void protocol_error(struct conn *conn, const struct failure *err) {
  conn->closing = true;
  conn_refuse(conn, err);
  end_requests(conn);
}

static bool is_free(struct conn *conn) {
  struct failure err = {0};
  if (!conn->box && !conn->layer) return true;
  fail(&err, REFUSED_FRAME, "this connection already has a box or layer");
  protocol_error(conn, &err);
  return false;
}

static void on_plan(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size) {
  struct failure err = {0};
  if (!is_free(conn)) return;
  conn->box = box_start(conn, frame, bytes, size, &err);
  if (!conn->box) conn_refuse(conn, &err);
}

static void on_layer(struct conn *conn, const uint8_t *bytes, size_t size) {
  struct failure err = {0};
  if (!is_free(conn)) return;
  conn->layer = layer_open(conn, bytes, size, &err);
  if (!conn->layer) {
    conn_refuse(conn, &err);
    return;
  }
  uint64_t handle = layer_handle(conn->layer);
  conn_send(conn, FRAME_LAYER_OPENED, &handle, sizeof handle);
}

static void on_frame(struct conn *conn, const struct frame_header *header, const uint8_t *body) {
  struct failure err = {0};
  if (header->type == FRAME_PLAN || header->type == FRAME_OPEN || header->type == FRAME_EXEC) {
    on_plan(conn, header->type, body, header->length);
    return;
  }
  if (header->type == FRAME_DIRECTORY) {
    dir_request_start(conn, body, header->length);
    return;
  }
  if (header->type == FRAME_FEATURES) {
    send_features(conn);
    return;
  }
  if (header->type == FRAME_LAYER) {
    on_layer(conn, body, header->length);
    return;
  }
  if (header->type == FRAME_CLOSE && conn->layer) {
    layer_close(conn->layer);
    return;
  }
  if (!conn->box) return;  // the box ended while this frame was in transit
  switch (header->type) {
    case FRAME_STDIN:
      if (box_write_stdin(conn->box, body, header->length)) return;
      fail(&err, REFUSED_FRAME, "more than %d bytes of unacknowledged stdin", STDIN_WINDOW);
      protocol_error(conn, &err);
      return;
    case FRAME_STDIN_END: box_close_stdin(conn->box); return;
    case FRAME_SIGNAL:
      if (header->length == 1) box_signal(conn->box, body[0]);
      return;
    case FRAME_WINSIZE: {
      uint16_t columns, rows;
      if (!parse_winsize(body, header->length, &columns, &rows))
        box_resize(conn->box, columns, rows);
      return;
    }
    case FRAME_CLOSE:
    case FRAME_KILL: box_kill(conn->box, ENDED_CLIENT); return;
  }
}

static int process_frames(struct conn *conn) {
  size_t at = 0;
  while (!conn->closed && !conn->closing && conn->in_size - at >= FRAME_HEADER_BYTES) {
    struct frame_header header;
    struct failure err = {0};
    if (parse_frame_header(conn->in + at, &header, &err)) {
      protocol_error(conn, &err);
      return -1;
    }
    size_t frame_bytes = FRAME_HEADER_BYTES + header.length;
    if (conn->in_size - at < frame_bytes) {
      if (frame_bytes > conn->in_capacity) {
        uint8_t *grown = realloc(conn->in, frame_bytes);
        if (!grown) return -1;
        conn->in = grown;
        conn->in_capacity = frame_bytes;
      }
      break;
    }
    on_frame(conn, &header, conn->in + at + FRAME_HEADER_BYTES);
    at += frame_bytes;
  }
  if (conn->closed) return -1;
  memmove(conn->in, conn->in + at, conn->in_size - at);
  conn->in_size -= at;
  return 0;
}

// Reads until the client closes: closing with unread input would discard our last frames.
static void discard_input(struct conn *conn) {
  uint8_t bytes[64 * 1024];
  ssize_t size = recv(conn->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size > 0) conn->discarded_bytes += (size_t)size;
  if (size <= 0 || conn->discarded_bytes > 64 * FRAME_MAX) conn_close(conn);
}

static void on_conn_ready(struct watch *watch, uint32_t events) {
  struct conn *conn = (struct conn *)watch;
  if (events & (EPOLLERR | EPOLLHUP)) {
    conn_close(conn);
    return;
  }
  if (events & EPOLLOUT) {
    flush(conn);
    if (!conn->closed && conn->box) box_resume_output(conn->box);
  }
  if (conn->closed || !(events & EPOLLIN)) return;
  if (conn->closing) {
    discard_input(conn);
    return;
  }
  ssize_t size =
      recv(watch->fd, conn->in + conn->in_size, conn->in_capacity - conn->in_size, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    conn_close(conn);
    return;
  }
  conn->in_size += (size_t)size;
  process_frames(conn);
}

// Every process in a box descends from its init, and no other process does. A box may have the
// client's uid; such a process is still not the client.
static bool is_in_box(pid_t pid) {
  pid_t parent = parent_pid(pid);
  if (!parent) return true;  // exited, so it may have been in a box
  for (int steps = 0; steps < ANCESTORS_MAX; steps++) {
    if (is_box(pid) || pid == getpid()) return true;
    if (pid <= 1) return false;
    // /proc may hide other users' processes; the warden and the inits of boxes are known by pid.
    pid = parent;
    parent = parent_pid(pid);
  }
  return true;
}

// Logs a rejected client, up to one line per second: connecting costs an attacker nothing.
static void reject_conn(struct conn *conn, const struct failure *err) {
  static int64_t logged_us;
  static unsigned unlogged;
  if (!logged_us || now_us() - logged_us >= 1000000) {
    fprintf(stderr, "warden: client rejected: %s; %u more since the last line\n", err->text,
            unlogged);
    logged_us = now_us();
    unlogged = 0;
  } else {
    unlogged++;
  }
  protocol_error(conn, err);
}

void conn_accept(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  struct ucred peer;
  socklen_t size = sizeof peer;
  struct conn *conn = NULL;
  if (conn_count < CONNS_MAX && !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
    conn = calloc(1, sizeof *conn);
  if (!conn) {
    close(fd);
    return;
  }
  conn->in_capacity = 8 * 1024;
  conn->in = malloc(conn->in_capacity);
  conn->out = malloc(OUT_CAPACITY);
  if (!conn->in || !conn->out) {
    free(conn->in);
    free(conn->out);
    free(conn);
    close(fd);
    return;
  }
  conn->watch = (struct watch){.ready = on_conn_ready, .fd = fd};
  conn->gid = peer.gid;
  conn_count++;
  watch_add(&conn->watch, EPOLLIN);
  struct failure err = {0};
  if (peer.uid != bounds.client_uid || (bounds.client_pid && peer.pid != bounds.client_pid)) {
    fail(&err, REFUSED_CALLER, "uid %u, process %d is not the client", peer.uid, peer.pid);
    reject_conn(conn, &err);
    return;
  }
  errno = 0;
  if (!is_in_box(peer.pid)) return;
  if (errno == EMFILE || errno == ENFILE)
    fail(&err, REFUSED_OVERLOAD, "out of file descriptors: cannot identify the client");
  else fail(&err, REFUSED_CALLER, "process %d is in a box or has exited", peer.pid);
  reject_conn(conn, &err);
}
