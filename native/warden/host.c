// Probes what this machine supports and enters the warden's mount namespace. Without root the
// warden first enters a user namespace, after which both cases are handled alike.
#include "init.h"
#include "layer.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

struct host host;
const char *const namespace_names[] = {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"};

uint64_t own_namespace_id(enum entry_fd which) {
  char path[32];
  struct stat st;
  snprintf(path, sizeof path, "self/ns/%s", namespace_names[which]);
  return fstatat(host.proc_fd, path, &st, 0) ? 0 : st.st_ino;
}

int write_file(int dir, const char *path, const char *text) {
  int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t written = write(fd, text, strlen(text));
  k_close(fd);
  return written == (ssize_t)strlen(text) ? 0 : -1;
}

DIR *open_dir(int dir) {
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *entries = fd < 0 ? NULL : fdopendir(fd);
  if (!entries) k_close(fd);
  return entries;
}

static int read_int(const char *path) {
  char text[32] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  return size > 0 ? atoi(text) : -1;
}

// Names the setting that prevents namespaces, the most common ones first. Returns false.
static bool explain_missing(const char *step, int error) {
  const char *cause = "denied by a container runtime's filter or a security module";
  const char *fix = "start the container with --security-opt seccomp=unconfined, or as root";
  if (read_int("/proc/sys/user/max_user_namespaces") == 0) {
    cause = "user.max_user_namespaces is 0";
    fix = "sysctl -w user.max_user_namespaces=15000";
  } else if (read_int("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
    cause = "kernel.unprivileged_userns_clone is 0";
    fix = "sysctl -w kernel.unprivileged_userns_clone=1";
  } else if (read_int("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1) {
    cause = "AppArmor restricts unprivileged user namespaces";
    fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  }
  snprintf(host.missing, sizeof host.missing, "namespaces are not available: %s: %s (%s)", step,
           strerror(error), cause);
  snprintf(host.fix, sizeof host.fix, "%s", fix);
  return false;
}

static int write_id_maps(void) {
  char line[64];
  snprintf(line, sizeof line, "%u %u 1\n", host.uid, host.uid);
  if (write_file(AT_FDCWD, "/proc/self/setgroups", "deny")) return -1;
  if (write_file(AT_FDCWD, "/proc/self/uid_map", line)) return -1;
  snprintf(line, sizeof line, "%u %u 1\n", host.gid, host.gid);
  return write_file(AT_FDCWD, "/proc/self/gid_map", line);
}

// The last step of a box is an own user namespace: probe that too, in a child.
static int probe_user_namespace(void) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC)) return errno;
  pid_t child = fork();
  if (child == 0) {
    int error = unshare(CLONE_NEWUSER) ? errno : 0;
    _exit(write(pipe_fds[1], &error, sizeof error) == sizeof error ? 0 : 1);
  }
  close(pipe_fds[1]);
  int error = EIO;
  if (read(pipe_fds[0], &error, sizeof error) != sizeof error) error = EIO;
  close(pipe_fds[0]);
  waitpid(child, NULL, 0);
  return error;
}

static bool enter_namespaces(void) {
  if (!host.root && unshare(CLONE_NEWUSER)) return explain_missing("unshare", errno);
  if (!host.root && write_id_maps()) return explain_missing("writing uid_map", errno);
  if (unshare(CLONE_NEWNS)) return explain_missing("unshare of the mount namespace", errno);
  // Slave: new mounts of the host appear here, mounts made here do not appear on the host.
  if (mount("", "/", NULL, MS_REC | MS_SLAVE, NULL)) return explain_missing("mount", errno);
  int error = probe_user_namespace();
  return error ? explain_missing("unshare of the user namespace", error) : true;
}

// Creates the Landlock probe: a file that everyone may read, except a box.
static int create_probe(const char *run_dir, struct failure *err) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/probe", run_dir);
  if (mkdir(path, 0755) && errno != EEXIST)
    return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  chmod(path, 0755);
  host.probe_fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int file = openat(host.probe_fd, "file", O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (file < 0) return fail(err, REFUSED_SETUP, "%.200s/file: %s", path, strerror(errno));
  fchmod(file, 0444);
  close(file);
  return 0;
}

int host_probe(const char *run_dir, struct failure *err) {
  host.run_dir = run_dir;
  host.uid = getuid();
  host.gid = getgid();
  host.root = geteuid() == 0;
  host.dev_fd = host.terminals_dev_fd = -1;
  // The warden must be able to end every box, so its scheduling priority is above theirs. Needs
  // root.
  host.nice = getpriority(PRIO_PROCESS, 0);
  if (host.root) setpriority(PRIO_PROCESS, 0, host.nice < -10 ? host.nice : -10);
  host.landlock = landlock_abi();
  host.namespaces = enter_namespaces();
  host.proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (host.proc_fd < 0) return fail(err, REFUSED_HOST, "/proc is not mounted");
  for (int i = 0; i < ENTRY_RULESET; i++)
    host.namespace_ids[i] = own_namespace_id((enum entry_fd)i);
  if (create_probe(run_dir, err)) return -1;
  if (host.namespaces && dev_templates_create(err)) {
    snprintf(host.missing, sizeof host.missing, "namespaces are not available: %.260s", err->text);
    snprintf(host.fix, sizeof host.fix, "start the warden outside the container, or as root");
    host.namespaces = false;
  }
  overlay_probe(&bounds);
  // No process may trace or read the warden, even with the same uid.
  prctl(PR_SET_DUMPABLE, 0);
  return 0;
}
