// Gives up every right: identity and capabilities (once, in the box's init), then Landlock, seccomp
// and limits (in the command's process). Each layer is proved before the command is started.
#include "warden.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int broken(struct failure *why, const char *step) {
  return fail(why, REFUSED_SETUP, "%s: %s", step, strerror(errno));
}

static int write_at(int dir, const char *path, const char *text) {
  int fd = openat(dir, path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t done = write(fd, text, strlen(text));
  int error = errno;
  close(fd);
  errno = error;
  return done == (ssize_t)strlen(text) ? 0 : -1;
}

static int set_capabilities(bool full) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct now[2], want[2] = {{0}};
  if (full) {
    if (syscall(SYS_capget, &head, now)) return -1;
    for (int i = 0; i < 2; i++) {
      want[i].permitted = want[i].effective = now[i].permitted;
    }
  }
  return (int)syscall(SYS_capset, &head, want);
}

#ifdef WARDEN_TEST_GUARDS
// For the controls: rights that outlive exec, which is what dropping them prevents.
static void keep_capabilities(void) {
  struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct now[2];
  if (syscall(SYS_capget, &head, now)) return;
  for (int i = 0; i < 2; i++) now[i].effective = now[i].inheritable = now[i].permitted;
  syscall(SYS_capset, &head, now);
  for (unsigned long cap = 0; cap < 64; cap++)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}
#endif

// Without namespaces an ordinary user cannot shrink the bounding set; no_new_privs makes it moot.
int capabilities_unbind(struct failure *why) {
  static bool done;  // by this process, ahead of its job
  for (int cap = 0; (host.root || host.namespaces) && !done && cap <= 63; cap++) {
    if (!prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) continue;
    if (errno != EINVAL) return broken(why, "dropping the bounding set");
    break;  // past the last one this kernel knows
  }
  done = true;
  return 0;
}

int capabilities_drop(struct failure *why) {
  bool may = host.root || host.namespaces;
  if (capabilities_unbind(why)) return -1;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    return broken(why, "clearing ambient capabilities");
  unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                       SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                       SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (may && prctl(PR_SET_SECUREBITS, bits, 0, 0, 0)) return broken(why, "securebits");
  if (set_capabilities(false)) return broken(why, "capset");
  return 0;
}

// A user namespace that maps one user to itself, and allows no further one inside.
static int enter_user_namespace(const struct plan *plan, struct failure *why) {
  if (unshare(CLONE_NEWUSER)) return broken(why, "unshare of users");
  // The maps belong to root while the process is not dumpable; nobody else is in the box yet.
  prctl(PR_SET_DUMPABLE, 1);
  char line[64];
  snprintf(line, sizeof line, "%u %u 1\n", plan->uid, plan->uid);
  if (write_at(host.proc, "self/setgroups", "deny") || write_at(host.proc, "self/uid_map", line))
    return broken(why, "writing uid_map");
  snprintf(line, sizeof line, "%u %u 1\n", plan->gid, plan->gid);
  if (write_at(host.proc, "self/gid_map", line)) return broken(why, "writing gid_map");
  if (GUARDED(plan, GUARD_USERNS_LIMIT) &&
      write_at(host.proc, "sys/user/max_user_namespaces", "0"))
    return broken(why, "setting max_user_namespaces");
  return 0;
}

int identity_take(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  prctl(PR_SET_KEEPCAPS, 1);
  if (host.root) {
    gid_t groups[GROUPS_MAX];
    for (unsigned i = 0; i < plan->group_count; i++) groups[i] = plan->groups[i];
    if (setgroups(plan->group_count, groups)) return broken(why, "setgroups");
    if (setresgid(plan->gid, plan->gid, plan->gid)) return broken(why, "setresgid");
    if (setresuid(plan->uid, plan->uid, plan->uid)) return broken(why, "setresuid");
    if (set_capabilities(true)) return broken(why, "capset");
  }
  prctl(PR_SET_KEEPCAPS, 0);
  if (setup->birth == BIRTH_LEVEL_2 && GUARDED(plan, GUARD_USERNS) &&
      enter_user_namespace(plan, why))
    return -1;
  if (setup->birth == BIRTH_EXEC && GUARDED(plan, GUARD_USERNS) &&
      setns(setup->entry->fds[ENTRY_USER], CLONE_NEWUSER))
    return broken(why, "entering the open box's users");
  if (GUARDED(plan, GUARD_CAPS) && capabilities_drop(why)) return -1;
#ifdef WARDEN_TEST_GUARDS
  if (!GUARDED(plan, GUARD_CAPS)) keep_capabilities();
#endif
  if (GUARDED(plan, GUARD_NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return broken(why, "no_new_privs");
  prctl(PR_SET_DUMPABLE, GUARDED(plan, GUARD_DUMPABLE) ? 0 : 1);
  return 0;
}

static int limit(int which, uint64_t value) {
  struct rlimit now, want;
  if (getrlimit(which, &now)) return -1;
  if (value > now.rlim_max) value = now.rlim_max;
  want.rlim_cur = want.rlim_max = value;
  return setrlimit(which, &want);
}

static int set_limits(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  const uint64_t *limits = plan->limits;
  int bad = limit(RLIMIT_CORE, 0) || limit(RLIMIT_NOFILE, limits[LIMIT_NOFILE]) ||
            limit(RLIMIT_FSIZE, limits[LIMIT_FSIZE_BYTES]) || limit(RLIMIT_MSGQUEUE, 0) ||
            limit(RLIMIT_RTPRIO, 0) || limit(RLIMIT_NICE, 0) ||
            limit(RLIMIT_CPU, limits[LIMIT_CPU_MS] / 1000 + 2);
  // The count is per user: right in a user namespace of one's own, too wide elsewhere.
  if (!bad && setup->group->dirs[HELD_PIDS] < 0)
    bad = limit(RLIMIT_NPROC, limits[LIMIT_PIDS] + (setup->birth == BIRTH_EXEC ? 4 : 2));
  if (!bad && setup->group->dirs[HELD_MEMORY] < 0)
    bad = limit(RLIMIT_DATA, limits[LIMIT_MEMORY_BYTES]);
  return bad ? broken(why, "setrlimit") : 0;
}

static int allow(int ruleset, const char *path, enum landlock_use use, struct failure *why) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return fail(why, REFUSED_SETUP, "%s: %s", path, strerror(errno));
  int bad = landlock_allow(ruleset, host.landlock, fd, use, why);
  close(fd);
  return bad;
}

// Where a directory of the box's own lies on a declared one (freeze.c), rules of that do not count.
static int allow_frozen(int ruleset, const char *path, struct failure *why) {
  int fd = box_reach(path);
  if (fd < 0) return 0;
  int bad = is_box_own(fd) ? landlock_allow(ruleset, host.landlock, fd, USE_READ, why) : 0;
  close(fd);
  return bad;
}

int confine_ruleset(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  int ruleset = landlock_open(host.landlock, plan->level, why);
  if (ruleset < 0) return -1;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind->kind == BIND_TMPFS && allow(ruleset, bind->dst, USE_PRIVATE, why)) return -1;
    if (bind->kind != BIND_RO && bind->kind != BIND_RW) continue;
    enum landlock_use use = bind->kind == BIND_RW ? USE_WRITE : USE_READ;
    if (landlock_allow(ruleset, host.landlock, setup->fds[i], use, why)) return -1;
    if (plan->level == LEVEL_2 && bind->kind == BIND_RO && allow_frozen(ruleset, bind->dst, why))
      return -1;
  }
  if (plan->level == LEVEL_2 &&
      (allow(ruleset, "/", USE_LIST, why) || allow(ruleset, "/etc", USE_READ, why) ||
       allow(ruleset, "/proc", USE_READ, why) || allow(ruleset, "/dev", USE_DEVICE, why) ||
       allow(ruleset, "/dev/shm", USE_PRIVATE, why) || allow(ruleset, "/tmp", USE_PRIVATE, why)))
    return -1;
  if (plan->level == LEVEL_1 && allow(ruleset, "/dev/null", USE_DEVICE, why)) return -1;
  // Not there everywhere; without it the loader looks for each library in two dozen places.
  if (plan->level == LEVEL_1 && !access("/etc/ld.so.cache", R_OK) &&
      allow(ruleset, "/etc/ld.so.cache", USE_READ, why))
    return -1;
  return ruleset;
}

// The rules of an open box were made when it was opened, before anyone could change its tree.
static int restrict_files(const struct setup *setup, struct failure *why) {
  bool entered = setup->birth == BIRTH_EXEC;
  int ruleset = entered ? setup->entry->fds[ENTRY_RULESET] : confine_ruleset(setup, why);
  return ruleset < 0 || landlock_enter(ruleset, why) ? -1 : 0;
}

static int unproved(struct failure *why, const char *layer) {
  return fail(why, REFUSED_PROBE, "%s did not take: the box was not started", layer);
}

static const char *line_of(const char *status, const char *name) {
  const char *at = strstr(status, name);
  return at ? at + strlen(name) : "";
}

// What the filter would answer for: so before it is there.
static int prove_unfiltered(const struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  if (plan->level == LEVEL_2 && EXPECTED(plan, GUARD_USERNS) &&
      EXPECTED(plan, GUARD_USERNS_LIMIT) &&
      (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != ENOSPC))
    return unproved(why, "the limit of no further user namespace");
  if (host.root && getgroups(0, NULL) != (int)plan->group_count)
    return unproved(why, "the list of groups");
  if (EXPECTED(plan, GUARD_DUMPABLE) && prctl(PR_GET_DUMPABLE))
    return unproved(why, "keeping the box's init to itself");
  return 0;
}

static int prove(const struct setup *setup, int status_fd, struct failure *why) {
  const struct plan *plan = setup->plan;
  char status[8192];
  ssize_t size = read(status_fd, status, sizeof status - 1);
  if (size <= 0) return unproved(why, "reading the own status");
  status[size] = 0;
  bool shrunk = host.root || host.namespaces;
  static const char *const sets[] = {"\nCapInh:\t", "\nCapPrm:\t", "\nCapEff:\t", "\nCapAmb:\t",
                                     "\nCapBnd:\t"};
  for (unsigned i = 0; i < (shrunk ? 5u : 4u) && EXPECTED(plan, GUARD_CAPS); i++)
    if (strncmp(line_of(status, sets[i]), "0000000000000000\n", 17))
      return unproved(why, "dropping capabilities");
  if (EXPECTED(plan, GUARD_NNP) && strncmp(line_of(status, "\nNoNewPrivs:\t"), "1\n", 2))
    return unproved(why, "no_new_privs");
  if (EXPECTED(plan, GUARD_SECCOMP) && strncmp(line_of(status, "\nSeccomp:\t"), "2\n", 2))
    return unproved(why, "seccomp");
  char ids[80];
  snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u\n", plan->uid, plan->uid, plan->uid, plan->uid);
  if (strncmp(line_of(status, "\nUid:\t"), ids, strlen(ids))) return unproved(why, "the user");
  snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u\n", plan->gid, plan->gid, plan->gid, plan->gid);
  if (strncmp(line_of(status, "\nGid:\t"), ids, strlen(ids))) return unproved(why, "the group");
  if (EXPECTED(plan, GUARD_LANDLOCK)) {
    int fd = openat(host.probe, "file", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES) return unproved(why, "Landlock");
  }
  if (EXPECTED(plan, GUARD_SECCOMP) &&
      (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != EPERM))
    return unproved(why, "the seccomp table");
  return 0;
}

static int open_command(struct setup *setup, struct failure *why) {
  const char *command = setup->plan->args[0];
  setup->exec_fd = k_openat2(AT_FDCWD, command, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
  if (setup->exec_fd < 0)
    return fail(why, REFUSED_EXEC, "%.220s: %s", command, strerror(errno));
  return 0;
}

int confine(struct setup *setup, struct failure *why) {
  const struct plan *plan = setup->plan;
  if (GUARDED(plan, GUARD_SESSION) && setsid() < 0) return broken(why, "setsid");
  // Where agents have users of their own, those of one task share its files by the group.
  umask(host.root && plan->profile == PROFILE_TOOL ? 007 : 022);
  if (setpriority(PRIO_PROCESS, 0, host.nice)) return broken(why, "setpriority");
  // No way back through a descriptor of ours that is still open.
  int cwd = k_openat2(AT_FDCWD, plan->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_NO_MAGICLINKS);
  if (cwd < 0 || fchdir(cwd))
    return fail(why, REFUSED_SETUP, "chdir %.220s: %s", plan->cwd, strerror(errno));
  close(cwd);
  // A keyring of its own: the one of the warden's session is not the box's to read.
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
  int status = openat(host.proc, "self/status", O_RDONLY | O_CLOEXEC);
  int before = openat(host.probe, "file", O_RDONLY | O_CLOEXEC);
  if (status < 0 || before < 0) return broken(why, "opening what proves the layers");
  close(before);
  if (setup->gate >= 0 && open_command(setup, why)) return -1;
  if (set_limits(setup, why)) return -1;
  if (GUARDED(plan, GUARD_PROBES) && prove_unfiltered(setup, why)) return -1;
  if (GUARDED(plan, GUARD_LANDLOCK) && restrict_files(setup, why)) return -1;
  enum filter filter = plan->profile == PROFILE_RUNNER ? FILTER_RUNNER
                       : plan->level == LEVEL_1       ? FILTER_TOOL_L1
                                                      : FILTER_TOOL_L2;
  if (setup->gate >= 0 && gate_close(setup->gate, why)) return -1;
  if (GUARDED(plan, GUARD_SECCOMP) && seccomp_enter(filter, why)) return -1;
  if (GUARDED(plan, GUARD_PROBES) && prove(setup, status, why)) return -1;
  if (GUARDED(plan, GUARD_DESCRIPTORS) &&
      syscall(SYS_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */))
    return broken(why, "close_range");
  setup->job->confined = true;
  return 0;
}
