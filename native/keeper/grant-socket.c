// Serves people who grant, revoke and list directories, over RUNTIME.warden/grant.sock, one request
// per connection. It runs in the keeper's loop and waits for no one: clients, their bytes and their
// time are bounded, and a child does what could block.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "grants.h"

#define CLIENTS_OF_USER_MAX 4
#define CLIENT_MS 10000
#define REPLY_BYTES (GRANTS_BYTES_MAX + 1)
#define GRANTS_BYTES_MAX (512 * 1024)
#define PASSWD_BYTES (1024 * 1024)

struct client {
  int socket, lookup_fd;  // -1: none
  pid_t child;            // until it is reaped, even if the client is gone
  long long deadline;
  struct peer peer;
  char request[GRANT_REQUEST_MAX + 1];
  size_t size, reply_size, sent;
  char *reply;
};

static const struct launch_spec *spec;
static int listener = -1;
static struct client clients[GRANT_CLIENTS_MAX];

void grant_socket_open(const struct launch_spec *launch_spec) {
  spec = launch_spec;
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++) 
    clients[i] = (struct client){.socket = -1, .lookup_fd = -1};
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int length = snprintf(address.sun_path, sizeof address.sun_path, "%s" GRANT_SOCKET,
                        spec->warden_dir);
  if (length < 0 || (size_t)length >= sizeof address.sun_path) return;
  unlink(address.sun_path);
  listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) ||
      chmod(address.sun_path, 0666) || listen(listener, 16))
    refuse(spec->ready_fd, "bad_config", "", "%s: %s", address.sun_path, strerror(errno));
}

static void drop(struct client *client) {
  if (client->child > 0) kill(client->child, SIGKILL);
  if (client->socket >= 0) close(client->socket);
  if (client->lookup_fd >= 0) close(client->lookup_fd);
  free(client->reply);
  pid_t child = client->child;
  *client = (struct client){.socket = -1, .lookup_fd = -1, .child = child};
}

static bool is_free(const struct client *client) {
  return client->socket < 0 && client->child <= 0;
}

static void accept_client(long long now) {
  struct client *client = NULL;
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX && !client; i++)
    if (is_free(&clients[i])) client = &clients[i];
  if (!client) return;
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return;
  *client = (struct client){.socket = fd, .lookup_fd = -1, .deadline = now + CLIENT_MS};
  unsigned same = 0;
  bool is_known = !peer_read(fd, &client->peer);
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++)
    same += &clients[i] != client && !is_free(&clients[i]) &&
            clients[i].peer.uid == client->peer.uid;
  if (!is_known || same >= CLIENTS_OF_USER_MAX) drop(client);
}

static void send_more(struct client *client) {
  while (client->sent < client->reply_size) {
    ssize_t sent = send(client->socket, client->reply + client->sent,
                        client->reply_size - client->sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EAGAIN) return;
    if (sent <= 0) break;
    client->sent += (size_t)sent;
  }
  drop(client);
}

static void reply(struct client *client, enum reply_status status, const char *text, size_t size) {
  client->reply = malloc(size + 1);
  if (!client->reply) return drop(client);
  client->reply[0] = (char)status;
  memcpy(client->reply + 1, text, size);
  client->reply_size = size + 1;
  send_more(client);
}

static void reply_text(struct client *client, enum reply_status status, const char *text) {
  reply(client, status, text, status == REPLY_REFUSED ? strlen(text) : 0);
}

// An account that is not listed here has no home that is known; those below /home are refused.
static const char *read_passwd(void) {
  static char text[PASSWD_BYTES];
  int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
  if (fd >= 0) close(fd);
  text[size < 0 ? 0 : size] = 0;
  return text;
}

static void serve(struct client *client, const struct grant_request *request) {
  static char text[GRANTS_BYTES_MAX];
  if (peer_is_refused(spec, &client->peer))
    return reply_text(client, REPLY_REFUSED,
                      "neither a daemon nor an agent may grant directories\n"
                      "Run it as the owner of the directory, or as root.");
  if (!spec->grants_dir) return reply_text(client, REPLY_REFUSED, spec->no_grants);
  if (request->op == GRANT_LIST) {
    size_t size = grant_store_list(spec->grants_dir, client->peer.uid, text, sizeof text);
    return reply(client, REPLY_DONE, text, size);
  }
  if (request->op == GRANT_REVOKE)
    return reply_text(client,
                      grant_store_remove(spec->grants_dir, request->path, client->peer.uid, text,
                                         sizeof text),
                      text);
  const char *own[] = {spec->state_dir, spec->runtime_dir, spec->warden_dir, NULL};
  if (grant_path_is_refused(request->path, own, read_passwd(), text, sizeof text))
    return reply_text(client, REPLY_REFUSED, text);
  client->child = lookup_start(&client->peer, request->path, &client->lookup_fd);
  if (client->child < 0) reply_text(client, REPLY_REFUSED, "the keeper cannot fork\nTry again.");
}

static void read_request(struct client *client) {
  struct grant_request request;
  ssize_t got = recv(client->socket, client->request + client->size,
                     sizeof client->request - client->size, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) return drop(client);
  client->size += (size_t)got;
  enum request_state state = grant_request_parse(client->request, client->size, &request);
  if (state == REQUEST_COMPLETE) serve(client, &request);
  else if (state == REQUEST_MALFORMED)
    reply_text(client, REPLY_REFUSED, "the path is not absolute and normalized, or is too long\n");
}

static void finish_lookup(struct client *client) {
  struct dir_lookup found = {.error = EIO};
  char text[2048];
  ssize_t got = read(client->lookup_fd, &found, sizeof found);
  if (got < 0 && errno == EAGAIN) return;
  if (got != sizeof found) found.error = ETIMEDOUT;
  close(client->lookup_fd);
  client->lookup_fd = -1;
  const char *path = client->request + 1;
  struct granted_dir wanted = {path, found.device, found.inode, found.owner,
                               client->request[0] == GRANT_READ};
  if (found.error == ELOOP) {
    snprintf(text, sizeof text, "%.500s leads through a link\nName the directory itself.", path);
  } else if (found.error) {
    snprintf(text, sizeof text, "%.500s: %s\nName a directory of your own.", path,
             strerror(found.error));
  } else if (client->peer.uid && client->peer.uid != found.owner) {
    snprintf(text, sizeof text,
             "agents may not be let into %.500s: it belongs to uid %u, not to uid %u\n"
             "Ask its owner to run: agentctl workspace grant, or do it as root.",
             path, found.owner, client->peer.uid);
  } else {
    enum reply_status status = grant_store_add(spec->grants_dir, &wanted, text, sizeof text);
    return reply_text(client, status, text);
  }
  reply_text(client, REPLY_REFUSED, text);
}

unsigned grant_socket_poll(struct pollfd *fds) {
  unsigned count = 0;
  bool has_room = false;
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++) {
    struct client *client = &clients[i];
    has_room |= is_free(client);
    if (client->socket < 0) continue;
    bool is_looking = client->lookup_fd >= 0;
    fds[count++] = (struct pollfd){is_looking ? client->lookup_fd : client->socket,
                                   client->reply ? POLLOUT : POLLIN, 0};
  }
  if (listener >= 0 && has_room) fds[count++] = (struct pollfd){listener, POLLIN, 0};
  return count;
}

void grant_socket_serve(const struct pollfd *fds, unsigned count, long long now) {
  for (unsigned at = 0; at < count; at++) {
    if (!fds[at].revents) continue;
    if (fds[at].fd == listener) accept_client(now);
    for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++) {
      struct client *client = &clients[i];
      if (client->socket < 0) continue;
      if (client->lookup_fd == fds[at].fd) finish_lookup(client);
      else if (client->socket == fds[at].fd && client->reply) send_more(client);
      else if (client->socket == fds[at].fd && client->lookup_fd < 0) read_request(client);
    }
  }
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++)
    if (clients[i].socket >= 0 && now > clients[i].deadline) drop(&clients[i]);
}

void grant_socket_reap(pid_t pid) {
  for (unsigned i = 0; i < GRANT_CLIENTS_MAX; i++)
    if (clients[i].child == pid) clients[i].child = 0;
}
