// Sends and receives file descriptors over a Unix socket, with a few bytes of data.
#include "warden.h"

#include <string.h>
#include <sys/socket.h>

int fds_send(int sock, const void *bytes, size_t size, const int *fds, unsigned count) {
  union {
    struct cmsghdr align;
    char capacity[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
  } control;
  struct iovec iov = {(void *)bytes, size};
  struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
  if (count) {
    message.msg_control = control.capacity;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    memset(control.capacity, 0, message.msg_controllen);
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
  }
  return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

ssize_t fds_recv(int sock, void *bytes, size_t size, int *fds, unsigned capacity, unsigned *count,
                 int flags) {
  union {
    struct cmsghdr align;
    char capacity[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
  } control;
  struct iovec iov = {bytes, size};
  struct msghdr message = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = control.capacity,
                           .msg_controllen = sizeof control.capacity};
  *count = 0;
  ssize_t got = recvmsg(sock, &message, flags | MSG_CMSG_CLOEXEC);
  if (got < 0) return got;
  for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message); cmsg; cmsg = CMSG_NXTHDR(&message, cmsg)) {
    if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS) continue;
    unsigned received = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (unsigned i = 0; i < received; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
      if (*count < capacity) fds[(*count)++] = fd;
      else close(fd);
    }
  }
  return got;
}
