// Descriptors over a Unix socket, a few hundred at most, with some bytes beside them.
#include "warden.h"

#include <string.h>
#include <sys/socket.h>

int fds_send(int sock, const void *bytes, size_t size, const int *fds, unsigned count) {
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
  } side;
  struct iovec part = {(void *)bytes, size};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  if (count) {
    message.msg_control = side.room;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    memset(side.room, 0, message.msg_controllen);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fds, count * sizeof(int));
  }
  return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

ssize_t fds_recv(int sock, void *bytes, size_t size, int *fds, unsigned room, unsigned *count,
                 int flags) {
  union {
    struct cmsghdr align;
    char room[CMSG_SPACE(FDS_AT_ONCE * sizeof(int))];
  } side;
  struct iovec part = {bytes, size};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = side.room,
                           .msg_controllen = sizeof side.room};
  *count = 0;
  ssize_t got = recvmsg(sock, &message, flags | MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (struct cmsghdr *head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    unsigned found = (unsigned)((head->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < found; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
      if (*count < room) fds[(*count)++] = fd;
      else close(fd);
    }
  }
  return got;
}
