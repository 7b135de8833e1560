// Lets a runner exec exactly once. A seccomp filter sees call numbers, not paths, so every exec of
// the runner's process waits for permission. The box's init permits the first and closes the gate;
// then no process can permit another.
#include "init.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

// Runs in the runner's process, just before its exec.
int gate_install(int sock, struct failure *err) {
  int gate = seccomp_notify_exec(err);
  if (gate < 0) return -1;
  int bad = fds_send(sock, "", 1, &gate, 1);
  if (bad) fail(err, REFUSED_SETUP, "sending the exec listener: %s", strerror(errno));
  close(gate);
  return bad;
}

// Runs in the box's init. Once the listener is closed, the kernel fails every exec.
void gate_allow_first_exec(int sock) {
  struct seccomp_notif_sizes sizes;
  union {
    struct seccomp_notif request;
    uint8_t bytes[512];
  } in;
  union {
    struct seccomp_notif_resp response;
    uint8_t bytes[512];
  } out;
  char byte;
  int gate;
  unsigned count;
  // Zeroed as a whole: the kernel requires it, and its structs may be larger than this compiler's.
  memset(&in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  // If the process exits before this, it closes its end.
  if (fds_recv(sock, &byte, 1, &gate, 1, &count, 0) != 1 || count != 1) return;
  struct pollfd polls[] = {{.fd = gate, .events = POLLIN}, {.fd = sock, .events = POLLIN}};
  while (poll(polls, 2, -1) < 0 && errno == EINTR) {
  }
  bool fits = !syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) &&
              sizes.seccomp_notif <= sizeof in && sizes.seccomp_notif_resp <= sizeof out;
  if (fits && polls[0].revents & POLLIN && !ioctl(gate, SECCOMP_IOCTL_NOTIF_RECV, &in)) {
    out.response.id = in.request.id;
    out.response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(gate, SECCOMP_IOCTL_NOTIF_SEND, &out);
  }
  close(gate);
}
