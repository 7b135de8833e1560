// Looks at a directory for a person, in a child that has become that person: so nobody learns of,
// or grants, what they cannot reach themselves. A file system that hangs holds up that child only.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "grants.h"

#ifndef SO_PEERGROUPS
#define SO_PEERGROUPS 59
#endif
#define LOOKUP_S 5

int peer_read(int socket, struct peer *peer) {
  struct ucred credentials;
  socklen_t size = sizeof credentials, groups_size = sizeof peer->groups;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size)) return -1;
  // More groups than fit: refused, since with fewer the answer could be another.
  if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, peer->groups, &groups_size)) return -1;
  // Unmapped in this namespace: nobody in particular.
  if (credentials.uid == (uid_t)-1 || credentials.gid == (gid_t)-1) return -1;
  peer->uid = credentials.uid;
  peer->gid = credentials.gid;
  peer->group_count = groups_size / sizeof *peer->groups;
  return 0;
}

// Returns true if a line of the bounds, "key A B" or "key A", names this id.
static bool is_in_bounds(const char *bounds, const char *key, unsigned id) {
  for (const char *line = bounds; line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    size_t size = strlen(key);
    unsigned first, last;
    if (strncmp(line, key, size) || line[size] != ' ') continue;
    int count = sscanf(line + size, "%u %u", &first, &last);
    if (count == 1 && id == first) return true;
    if (count == 2 && id >= first && id <= last) return true;
  }
  return false;
}

// Returns true for an id of this runtime, or of another that root starts on this host.
static bool is_agents(const struct launch_spec *spec, const char *key, unsigned id) {
  return is_in_bounds(spec->bounds, key, id) || is_in_bounds(spec->other_ids, key, id);
}

bool peer_is_refused(const struct launch_spec *spec, const struct peer *peer) {
  if (peer->uid == spec->uid || peer->gid == spec->gid) return true;
  if (is_agents(spec, "uid", peer->uid) || is_agents(spec, "gid", peer->gid)) return true;
  for (unsigned i = 0; i < peer->group_count; i++)
    if (peer->groups[i] == spec->gid || is_agents(spec, "gid", peer->groups[i])) return true;
  return false;
}

static int become(const struct peer *peer) {
  if (peer->uid == 0) return 0;
  return setgroups(peer->group_count, peer->groups) ||
         setresgid(peer->gid, peer->gid, peer->gid) || setresuid(peer->uid, peer->uid, peer->uid);
}

static void look(const struct peer *peer, const char *path, struct dir_lookup *found) {
  struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                         .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  struct stat st;
  int fd = become(peer) ? -1 : (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
  if (fd < 0 || fstat(fd, &st)) {
    found->error = errno ? errno : EIO;
    return;
  }
  found->device = st.st_dev;
  found->inode = st.st_ino;
  found->owner = st.st_uid;
}

pid_t lookup_start(const struct peer *peer, const char *path, int *result_fd) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK)) return -1;
  pid_t keeper = getpid(), pid = fork();
  if (pid) {
    close(pipe_fds[1]);
    if (pid < 0) close(pipe_fds[0]);
    else *result_fd = pipe_fds[0];
    return pid;
  }
  if (dup2(pipe_fds[1], 0) < 0 || syscall(SYS_close_range, 1, ~0u, 0)) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGALRM, SIG_DFL);
  alarm(LOOKUP_S);
  struct dir_lookup found = {0};
  look(peer, path, &found);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != keeper) _exit(1);
  _exit(write(0, &found, sizeof found) == sizeof found ? 0 : 1);
}
