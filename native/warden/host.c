// What this machine gives, found by trying, and the warden's own mount namespace. Without root the
// warden enters a user namespace of its own first: from then on both cases are one.
#include "warden.h"

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

uint64_t namespace_of_self(enum entry_fd which) {
  char path[32];
  struct stat about;
  snprintf(path, sizeof path, "self/ns/%s", namespace_names[which]);
  return fstatat(host.proc, path, &about, 0) ? 0 : about.st_ino;
}

static int write_file(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t done = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return done == (ssize_t)strlen(text) ? 0 : -1;
}

static int read_number(const char *path) {
  char text[32] = "";
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  return size > 0 ? atoi(text) : -1;
}

// Names the one setting that stands in the way, in the order in which they are met in practice.
static void explain_missing(const char *step, int error) {
  const char *cause = "a container runtime's filter, or a security module, forbids it";
  const char *fix = "start the container with --security-opt seccomp=unconfined, or as root";
  if (read_number("/proc/sys/user/max_user_namespaces") == 0) {
    cause = "user.max_user_namespaces is 0";
    fix = "sysctl -w user.max_user_namespaces=15000";
  } else if (read_number("/proc/sys/kernel/unprivileged_userns_clone") == 0) {
    cause = "kernel.unprivileged_userns_clone is 0";
    fix = "sysctl -w kernel.unprivileged_userns_clone=1";
  } else if (read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == 1) {
    cause = "AppArmor restricts user namespaces of ordinary users";
    fix = "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  }
  snprintf(host.missing, sizeof host.missing, "no namespaces: %s: %s (%s)", step, strerror(error),
           cause);
  snprintf(host.fix, sizeof host.fix, "%s", fix);
}

static int map_self(void) {
  char line[64];
  snprintf(line, sizeof line, "%u %u 1\n", host.uid, host.uid);
  if (write_file("/proc/self/setgroups", "deny")) return -1;
  if (write_file("/proc/self/uid_map", line)) return -1;
  snprintf(line, sizeof line, "%u %u 1\n", host.gid, host.gid);
  return write_file("/proc/self/gid_map", line);
}

// The box's last step is a user namespace of its own: try that too, in a child.
static int try_user_namespace(void) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC)) return errno;
  pid_t child = fork();
  if (child == 0) {
    int error = unshare(CLONE_NEWUSER) ? errno : 0;
    _exit(write(ends[1], &error, sizeof error) == sizeof error ? 0 : 1);
  }
  close(ends[1]);
  int error = EIO;
  if (read(ends[0], &error, sizeof error) != sizeof error) error = EIO;
  close(ends[0]);
  waitpid(child, NULL, 0);
  return error;
}

static bool enter_namespaces(void) {
  if (!host.root) {
    if (unshare(CLONE_NEWUSER)) {
      explain_missing("unshare", errno);
      return false;
    }
    if (map_self()) {
      explain_missing("writing uid_map", errno);
      return false;
    }
  }
  if (unshare(CLONE_NEWNS)) {
    explain_missing("unshare of mounts", errno);
    return false;
  }
  // The host's new mounts are seen here; nothing done here is seen there.
  if (mount("", "/", NULL, MS_REC | MS_SLAVE, NULL)) {
    explain_missing("mount", errno);
    return false;
  }
  int error = try_user_namespace();
  if (error) {
    explain_missing("unshare of users", error);
    return false;
  }
  return true;
}

// A directory with a file that everyone may read but no box: the Landlock probe.
static int make_probe(const char *run, struct failure *why) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/probe", run);
  if (mkdir(path, 0755) && errno != EEXIST)
    return fail(why, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  chmod(path, 0755);
  host.probe = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int file = openat(host.probe, "file", O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0444);
  if (file < 0) return fail(why, REFUSED_SETUP, "%.200s/file: %s", path, strerror(errno));
  fchmod(file, 0444);
  close(file);
  return 0;
}

int host_probe(const char *run, struct failure *why) {
  host.run = run;
  host.uid = getuid();
  host.gid = getgid();
  host.root = geteuid() == 0;
  host.dev = -1;
  // Whoever can end every box gets its turn before them; only root may ask for that.
  host.nice = getpriority(PRIO_PROCESS, 0);
  if (host.root) setpriority(PRIO_PROCESS, 0, host.nice < -10 ? host.nice : -10);
  host.landlock = landlock_abi();
  host.namespaces = enter_namespaces();
  host.proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (host.proc < 0) return fail(why, REFUSED_HOST, "/proc is not mounted");
  for (int i = 0; i < ENTRY_RULESET; i++) host.own[i] = namespace_of_self((enum entry_fd)i);
  if (make_probe(run, why)) return -1;
  if (host.namespaces && mounts_template(why)) {
    snprintf(host.missing, sizeof host.missing, "no namespaces: %.290s", why->text);
    snprintf(host.fix, sizeof host.fix, "start the warden outside the container, or as root");
    host.namespaces = false;
  }
  // Nobody may trace or read the warden, not even a process of its own user.
  prctl(PR_SET_DUMPABLE, 0);
  return 0;
}
