// A runner starts once. A filter sees the number of a call and not the path it names, so every exec
// of its process waits for leave: the box's init says yes to the first, and then nobody is left who
// could.
#include "warden.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>

// The runner's side, in the last moments before it is one.
int gate_close(int to, struct failure *why) {
  int gate = seccomp_ask_to_exec(why);
  if (gate < 0) return -1;
  int bad = fds_send(to, "", 1, &gate, 1);
  if (bad) fail(why, REFUSED_SETUP, "handing over the leave to start: %s", strerror(errno));
  close(gate);
  return bad;
}

// Its init's. With the end of this the gate is gone: from then on the kernel itself refuses.
void gate_let_one(int from) {
  struct seccomp_notif_sizes sizes;
  union {
    struct seccomp_notif asked;
    uint8_t room[512];
  } in;
  union {
    struct seccomp_notif_resp said;
    uint8_t room[512];
  } out;
  char byte;
  int gate;
  unsigned count;
  // All of it, and not only what this compiler knows of: the kernel takes no bytes it cannot read.
  memset(&in, 0, sizeof in);
  memset(&out, 0, sizeof out);
  // The process may end before it gets there; it then closes its side.
  if (fds_recv(from, &byte, 1, &gate, 1, &count, 0) != 1 || count != 1) return;
  struct pollfd waits[] = {{.fd = gate, .events = POLLIN}, {.fd = from, .events = POLLIN}};
  while (poll(waits, 2, -1) < 0 && errno == EINTR) {
  }
  bool fits = !syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) &&
              sizes.seccomp_notif <= sizeof in && sizes.seccomp_notif_resp <= sizeof out;
  if (fits && waits[0].revents & POLLIN && !ioctl(gate, SECCOMP_IOCTL_NOTIF_RECV, &in)) {
    out.said.id = in.asked.id;
    out.said.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    ioctl(gate, SECCOMP_IOCTL_NOTIF_SEND, &out);
  }
  close(gate);
}
