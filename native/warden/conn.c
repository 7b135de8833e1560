// A client's connection: frames in, frames out, both through bounded buffers. One box at a time;
// when the client goes, its box goes. Only the process named by the bounds is listened to.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define OUT_ROOM (128 * 1024)
#define CONNS_MAX 1024
#define ANCESTORS_MAX 4096

struct conn {
  struct watch watch;  // first: a watch is its connection
  struct box *box;
  gid_t gid;  // the client's
  uint8_t *in, *out;
  size_t in_size, in_room, out_at, out_size;
  bool closing, shut, gone;
  size_t ignored;
  struct conn *next;
};
static struct conn *graves;
static unsigned conn_count;

static void conn_close(struct conn *conn) {
  if (conn->gone) return;
  conn->gone = true;
  watch_drop(&conn->watch);
  close(conn->watch.fd);
  struct box *box = conn->box;
  conn->box = NULL;
  if (box) box_forget_client(box);
  own_forget(conn);
  conn_count--;
  conn->next = graves;
  graves = conn;
}

void conns_bury(void) {
  while (graves) {
    struct conn *conn = graves;
    graves = conn->next;
    free(conn->in);
    free(conn->out);
    free(conn);
  }
}

size_t conn_room(const struct conn *conn) { return OUT_ROOM - conn->out_size; }

static void flush(struct conn *conn) {
  while (conn->out_at < conn->out_size) {
    ssize_t size = send(conn->watch.fd, conn->out + conn->out_at, conn->out_size - conn->out_at,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size < 0 && errno == EAGAIN) break;
    if (size < 0) {
      conn_close(conn);
      return;
    }
    conn->out_at += (size_t)size;
  }
  memmove(conn->out, conn->out + conn->out_at, conn->out_size - conn->out_at);
  conn->out_size -= conn->out_at;
  conn->out_at = 0;
  // Said all: wait for the client to go. Closing with bytes unread would take our words back.
  if (conn->closing && !conn->out_size && !conn->shut) {
    shutdown(conn->watch.fd, SHUT_WR);
    conn->shut = true;
  }
  watch_set(&conn->watch, EPOLLIN | (conn->out_size ? EPOLLOUT : 0));
}

void conn_send(struct conn *conn, uint8_t type, const void *bytes, size_t size) {
  if (conn->gone) return;
  if (conn_room(conn) < FRAME_HEADER + size) {
    // Only small frames get here, and only to a client that never reads.
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
  if (size) memcpy(at + FRAME_HEADER, bytes, size);
  conn->out_size += FRAME_HEADER + size;
  flush(conn);
}

void conn_refuse(struct conn *conn, const struct failure *why) {
  uint8_t body[2 + sizeof why->text + sizeof why->hint];
  body[0] = (uint8_t)why->code;
  body[1] = 0;
  size_t text = strlen(why->text) + 1, hint = strlen(why->hint) + 1;
  memcpy(body + 2, why->text, text);
  memcpy(body + 2 + text, why->hint, hint);
  conn_send(conn, FRAME_REFUSED, body, 2 + text + hint);
}

void conn_box_gone(struct conn *conn) { conn->box = NULL; }
gid_t conn_gid(const struct conn *conn) { return conn->gid; }

static void send_features(struct conn *conn) {
  char text[2048];
  int size = snprintf(
      text, sizeof text,
      "version %d\nmode %s\nlandlock %d\nnamespaces %s\nmemory %s\npids %s\ncpu %s\ntree %s\nquota %s\n"
      "level1 %s\nlevel2 %s\nmissing %s\nfix %s\nboxes %u\nspares %u\nsettling %u\n",
      WARDEN_VERSION, host.root ? "root" : "user", host.landlock, host.namespaces ? "yes" : "no",
      cgroups_held(HELD_MEMORY), cgroups_held(HELD_PIDS), cgroups_held(HELD_CPU),
      cgroups_held(HELD_TREE), quota_held(), host.landlock ? "yes" : "no",
      host.landlock && host.namespaces ? "yes" : "no", host.missing, host.fix,
      boxes_count(), spares_count(), groups_settle());
  conn_send(conn, FRAME_FEATURE_LIST, text, (size_t)size);
}

// A client that does not keep to the protocol loses what it runs, and is told why.
static void broken(struct conn *conn, const struct failure *why) {
  conn->closing = true;
  conn_refuse(conn, why);
  struct box *box = conn->box;
  conn->box = NULL;
  if (box) box_forget_client(box);
}

static void on_plan(struct conn *conn, uint8_t frame, const uint8_t *bytes, size_t size) {
  struct failure why = {0};
  if (conn->box) {
    fail(&why, REFUSED_FRAME, "this connection has a box already");
    broken(conn, &why);
    return;
  }
  conn->box = box_start(conn, frame, bytes, size, &why);
  if (!conn->box) conn_refuse(conn, &why);
}

static void on_frame(struct conn *conn, const struct frame_head *head, const uint8_t *body) {
  struct failure why = {0};
  if (head->type == FRAME_PLAN || head->type == FRAME_OPEN || head->type == FRAME_EXEC) {
    on_plan(conn, head->type, body, head->length);
    return;
  }
  if (head->type == FRAME_OWN) {
    own_start(conn, body, head->length);
    return;
  }
  if (head->type == FRAME_FEATURES) {
    send_features(conn);
    return;
  }
  if (!conn->box) return;  // it ended while this frame was on its way
  switch (head->type) {
    case FRAME_STDIN:
      if (box_stdin(conn->box, body, head->length)) return;
      fail(&why, REFUSED_FRAME, "more than %d bytes of stdin on their way", STDIN_WINDOW);
      broken(conn, &why);
      return;
    case FRAME_STDIN_END: box_stdin_end(conn->box); return;
    case FRAME_SIGNAL:
      if (head->length == 1) box_signal(conn->box, body[0]);
      return;
    case FRAME_CLOSE:
    case FRAME_KILL: box_kill(conn->box, ENDED_CLIENT); return;
  }
}

static int take_frames(struct conn *conn) {
  size_t at = 0;
  while (!conn->gone && !conn->closing && conn->in_size - at >= FRAME_HEADER) {
    struct frame_head head;
    struct failure why = {0};
    if (parse_frame_head(conn->in + at, &head, &why)) {
      broken(conn, &why);
      return -1;
    }
    size_t whole = FRAME_HEADER + head.length;
    if (conn->in_size - at < whole) {
      if (whole > conn->in_room) {
        uint8_t *more = realloc(conn->in, whole);
        if (!more) return -1;
        conn->in = more;
        conn->in_room = whole;
      }
      break;
    }
    on_frame(conn, &head, conn->in + at + FRAME_HEADER);
    at += whole;
  }
  if (conn->gone) return -1;
  memmove(conn->in, conn->in + at, conn->in_size - at);
  conn->in_size -= at;
  return 0;
}

// Until the client has gone: a close with words unread on our side would take back our own.
static void ignore_input(struct conn *conn) {
  uint8_t bytes[64 * 1024];
  ssize_t size = recv(conn->watch.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size > 0) conn->ignored += (size_t)size;
  if (size <= 0 || conn->ignored > 64 * FRAME_MAX) conn_close(conn);
}

static void on_ready(struct watch *watch, uint32_t events) {
  struct conn *conn = (struct conn *)watch;
  if (events & (EPOLLERR | EPOLLHUP)) {
    conn_close(conn);
    return;
  }
  if (events & EPOLLOUT) {
    flush(conn);
    if (!conn->gone && conn->box) box_output_possible(conn->box);
  }
  if (conn->gone || !(events & EPOLLIN)) return;
  if (conn->closing) {
    ignore_input(conn);
    return;
  }
  ssize_t size = recv(watch->fd, conn->in + conn->in_size, conn->in_room - conn->in_size,
                      MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) {
    conn_close(conn);
    return;
  }
  conn->in_size += (size_t)size;
  take_frames(conn);
}

// Every process of a box is below its init, and nobody else is. A box's user may be the client's
// own: what such a process asks is not asked by the client.
static bool is_in_box(pid_t pid) {
  pid_t up = parent_of(pid);
  if (!up) return true;  // gone already: whoever asked cannot be told from a box any more
  for (int steps = 0; steps < ANCESTORS_MAX; steps++) {
    if (is_box(pid) || pid == getpid()) return true;
    if (pid <= 1) return false;
    // Other users' processes may be hidden from us; ours and our boxes' inits are known by number.
    pid = up;
    up = parent_of(pid);
  }
  return true;
}

// Who is turned away leaves a trace. Asking costs nothing, so it is one line a second at most.
static void turn_away(struct conn *conn, const struct failure *why) {
  static int64_t told_us;
  static unsigned untold;
  if (!told_us || now_us() - told_us >= 1000000) {
    fprintf(stderr, "warden: %s; %u others were turned away before\n", why->text, untold);
    told_us = now_us();
    untold = 0;
  } else {
    untold++;
  }
  broken(conn, why);
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
  conn->in_room = 8 * 1024;
  conn->in = malloc(conn->in_room);
  conn->out = malloc(OUT_ROOM);
  if (!conn->in || !conn->out) {
    free(conn->in);
    free(conn->out);
    free(conn);
    close(fd);
    return;
  }
  conn->watch = (struct watch){.ready = on_ready, .fd = fd};
  conn->gid = peer.gid;
  conn_count++;
  watch_add(&conn->watch, EPOLLIN);
  struct failure why = {0};
  if (peer.uid != bounds.client_uid || (bounds.client_pid && peer.pid != bounds.client_pid)) {
    fail(&why, REFUSED_CALLER, "uid %u, process %d is not served here", peer.uid, peer.pid);
    turn_away(conn, &why);
    return;
  }
  errno = 0;
  if (!is_in_box(peer.pid)) return;
  if (errno == EMFILE || errno == ENFILE)
    fail(&why, REFUSED_OVERLOAD, "no descriptors left to see who asks");
  else fail(&why, REFUSED_CALLER, "process %d is in a box, or gone: it is not served", peer.pid);
  turn_away(conn, &why);
}
