// Drops every privilege: identity and capabilities (in the box's init), then Landlock, seccomp and
// limits (in the command's process). Verifies each layer before the command starts.
#include "init.h"

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

static int fail_errno(struct failure *err, const char *step) {
  return fail(err, REFUSED_SETUP, "%s: %s", step, strerror(errno));
}

// A change of user has cleared the effective ones.
static int restore_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct current[2], wanted[2] = {{0}};
  if (syscall(SYS_capget, &header, current)) return -1;
  for (int i = 0; i < 2; i++) wanted[i].permitted = wanted[i].effective = current[i].permitted;
  return (int)syscall(SYS_capset, &header, wanted);
}

#ifdef WARDEN_TEST_GUARDS
// For the controls of the tests: capabilities that survive exec unless they are dropped.
static void keep_capabilities(void) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct current[2];
  if (syscall(SYS_capget, &header, current)) return;
  for (int i = 0; i < 2; i++) current[i].effective = current[i].inheritable = current[i].permitted;
  syscall(SYS_capset, &header, current);
  for (unsigned long cap = 0; cap < 64; cap++)
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0);
}
#endif

// Without namespaces an ordinary user cannot shrink the bounding set; no_new_privs makes up for it.
static int drop_bounding_except(uint64_t kept, struct failure *err) {
  static bool dropped;  // in this process, possibly before its job arrived
  for (int cap = 0; (host.root || host.namespaces) && !dropped && cap <= 63; cap++) {
    if (kept >> cap & 1) continue;
    if (!prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) continue;
    if (errno != EINVAL) return fail_errno(err, "dropping the bounding set");
    break;  // past the kernel's last capability
  }
  dropped = true;
  return 0;
}

int capabilities_drop_bounding(struct failure *err) { return drop_bounding_except(0, err); }

static uint64_t kept_capabilities(const struct setup *setup) {
  // The init of the open box needs none.
  return setup->kind == INIT_EXEC && setup->plan->has_rights ? RIGHTS_CAPABILITIES : 0;
}

// Makes them survive the exec of the command.
static int raise_ambient(uint64_t caps) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct current[2];
  if (syscall(SYS_capget, &header, current)) return -1;
  current[0].inheritable = (uint32_t)caps;
  if (syscall(SYS_capset, &header, current)) return -1;
  for (unsigned long cap = 0; cap < 32; cap++)
    if (caps >> cap & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0)) return -1;
  return 0;
}

static int set_only(uint64_t caps) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  uint32_t low = (uint32_t)caps;
  struct __user_cap_data_struct wanted[2] = {
      {.effective = low, .permitted = low, .inheritable = low}};
  return (int)syscall(SYS_capset, &header, wanted);
}

static int drop_capabilities_except(uint64_t kept, struct failure *err) {
  bool privileged = host.root || host.namespaces;
  if (drop_bounding_except(kept, err)) return -1;
  if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0))
    return fail_errno(err, "clearing ambient capabilities");
  if (kept && raise_ambient(kept)) return fail_errno(err, "keeping an owner's rights");
  unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                       SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                       SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (privileged && prctl(PR_SET_SECUREBITS, bits, 0, 0, 0))
    return fail_errno(err, "setting securebits");
  if (set_only(kept)) return fail_errno(err, "capset");
  return 0;
}

int capabilities_drop(struct failure *err) { return drop_capabilities_except(0, err); }

// Creates a user namespace that maps one user to itself.
static int create_user_namespace(const struct plan *plan, struct failure *err) {
  if (unshare(CLONE_NEWUSER)) return fail_errno(err, "unshare of the user namespace");
  // While a process is not dumpable, its maps belong to root. No other process is in the box yet.
  prctl(PR_SET_DUMPABLE, 1);
  char line[64];
  snprintf(line, sizeof line, "%u %u 1\n", plan->uid, plan->uid);
  if (write_file(host.proc_fd, "self/setgroups", "deny") ||
      write_file(host.proc_fd, "self/uid_map", line))
    return fail_errno(err, "writing uid_map");
  snprintf(line, sizeof line, "%u %u 1\n", plan->gid, plan->gid);
  if (write_file(host.proc_fd, "self/gid_map", line)) return fail_errno(err, "writing gid_map");
  return 0;
}

// Enters a user namespace that permits no nested one.
static int enter_user_namespace(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  if (!plan->has_rights && create_user_namespace(plan, err)) return -1;
  if (plan->has_rights && setns(setup->rights_ns, CLONE_NEWUSER))
    return fail_errno(err, "entering the owner's user namespace");
  if (GUARDED(plan, GUARD_USERNS_LIMIT) &&
      write_file(host.proc_fd, "sys/user/max_user_namespaces", "0"))
    return fail_errno(err, "setting max_user_namespaces");
  return 0;
}

int identity_assume(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  prctl(PR_SET_KEEPCAPS, 1);
  if (host.root) {
    gid_t groups[GROUPS_MAX];
    for (unsigned i = 0; i < plan->group_count; i++) groups[i] = plan->groups[i];
    if (setgroups(plan->group_count, groups)) return fail_errno(err, "setgroups");
    if (setresgid(plan->gid, plan->gid, plan->gid)) return fail_errno(err, "setresgid");
    if (setresuid(plan->uid, plan->uid, plan->uid)) return fail_errno(err, "setresuid");
    if (restore_capabilities()) return fail_errno(err, "capset");
  }
  prctl(PR_SET_KEEPCAPS, 0);
  if (setup->kind == INIT_LEVEL_2 && GUARDED(plan, GUARD_USERNS) &&
      enter_user_namespace(setup, err))
    return -1;
  if (setup->kind == INIT_EXEC && GUARDED(plan, GUARD_USERNS) &&
      setns(setup->entry->fds[ENTRY_USER], CLONE_NEWUSER))
    return fail_errno(err, "entering the open box's user namespace");
  if (GUARDED(plan, GUARD_CAPS) && drop_capabilities_except(kept_capabilities(setup), err))
    return -1;
#ifdef WARDEN_TEST_GUARDS
  if (!GUARDED(plan, GUARD_CAPS)) keep_capabilities();
#endif
  if (GUARDED(plan, GUARD_NNP) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    return fail_errno(err, "setting no_new_privs");
  prctl(PR_SET_DUMPABLE, GUARDED(plan, GUARD_DUMPABLE) ? 0 : 1);
  return 0;
}

static int set_rlimit(int which, uint64_t value) {
  struct rlimit current, wanted;
  if (getrlimit(which, &current)) return -1;
  if (value > current.rlim_max) value = current.rlim_max;
  wanted.rlim_cur = wanted.rlim_max = value;
  return setrlimit(which, &wanted);
}

static int set_rlimits(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  const uint64_t *limits = plan->limits;
  int bad = set_rlimit(RLIMIT_CORE, 0) || set_rlimit(RLIMIT_NOFILE, limits[LIMIT_NOFILE]) ||
            set_rlimit(RLIMIT_FSIZE, limits[LIMIT_FSIZE_BYTES]) || set_rlimit(RLIMIT_MSGQUEUE, 0) ||
            set_rlimit(RLIMIT_RTPRIO, 0) || set_rlimit(RLIMIT_NICE, 0) ||
            set_rlimit(RLIMIT_CPU, limits[LIMIT_CPU_MS] / 1000 + 2);
  // RLIMIT_NPROC counts per user: exact in an own user namespace, too broad elsewhere.
  if (!bad && setup->cgroup->dirs[CGROUP_PIDS] < 0)
    bad = set_rlimit(RLIMIT_NPROC, limits[LIMIT_PIDS] + (setup->kind == INIT_EXEC ? 4 : 2));
  if (!bad && setup->cgroup->dirs[CGROUP_MEMORY] < 0)
    bad = set_rlimit(RLIMIT_DATA, limits[LIMIT_MEMORY_BYTES]);
  return bad ? fail_errno(err, "setrlimit") : 0;
}

static int allow_path(int ruleset, const char *path, enum landlock_access access,
                      struct failure *err) {
  int fd = open(path, O_PATH | O_CLOEXEC);
  if (fd < 0) return fail(err, REFUSED_SETUP, "%s: %s", path, strerror(errno));
  int bad = landlock_allow(ruleset, host.landlock, fd, access, err);
  close(fd);
  return bad;
}

// A frozen copy (freeze.c) covers a declared directory, and that directory's rule does not apply.
static int allow_frozen(int ruleset, const char *path, struct failure *err) {
  int fd = box_open_path(path);
  if (fd < 0) return 0;
  int bad = is_box_fs(fd) ? landlock_allow(ruleset, host.landlock, fd, ACCESS_READ, err) : 0;
  close(fd);
  return bad;
}

int landlock_rules_create(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  int ruleset = landlock_create(host.landlock, plan->level, err);
  if (ruleset < 0) return -1;
  for (unsigned i = 0; i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    if (bind->kind == BIND_TMPFS && allow_path(ruleset, bind->dst, ACCESS_PRIVATE, err)) return -1;
    if (!bind_is_mounted(bind)) continue;
    enum landlock_access access = bind_is_writable(bind) ? ACCESS_WRITE : ACCESS_READ;
    if (landlock_allow(ruleset, host.landlock, setup->fds[i], access, err)) return -1;
    if (plan->level == LEVEL_2 && !bind_is_writable(bind) && allow_frozen(ruleset, bind->dst, err))
      return -1;
  }
  if (plan->level == LEVEL_2 && (allow_path(ruleset, "/", ACCESS_LIST, err) ||
                                 allow_path(ruleset, "/etc", ACCESS_READ, err) ||
                                 allow_path(ruleset, "/proc", ACCESS_READ, err) ||
                                 allow_path(ruleset, "/dev", ACCESS_DEVICE, err) ||
                                 allow_path(ruleset, "/dev/shm", ACCESS_PRIVATE, err) ||
                                 allow_path(ruleset, "/tmp", ACCESS_PRIVATE, err)))
    return -1;
  if (plan->terminals && (allow_path(ruleset, "/dev/pts", ACCESS_TERMINAL, err) ||
                          allow_path(ruleset, "/dev/tty", ACCESS_TERMINAL, err)))
    return -1;
  if (plan->level == LEVEL_1 && allow_path(ruleset, "/dev/null", ACCESS_DEVICE, err)) return -1;
  // Optional; without it the loader searches two dozen directories for each library.
  if (plan->level == LEVEL_1 && !access("/etc/ld.so.cache", R_OK) &&
      allow_path(ruleset, "/etc/ld.so.cache", ACCESS_READ, err))
    return -1;
  return ruleset;
}

// The rules of an open box were created when it was opened, before a command could change its tree.
static int restrict_files(const struct setup *setup, struct failure *err) {
  bool entered = setup->kind == INIT_EXEC;
  int ruleset = entered ? setup->entry->fds[ENTRY_RULESET] : landlock_rules_create(setup, err);
  return ruleset < 0 || landlock_restrict(ruleset, err) ? -1 : 0;
}

static int not_effective(struct failure *err, const char *layer) {
  return fail(err, REFUSED_PROBE, "%s did not take effect: box not started", layer);
}

static const char *status_field(const char *status, const char *name) {
  const char *at = strstr(status, name);
  return at ? at + strlen(name) : "";
}

// Checks that have to precede seccomp, because the filter would fail these calls itself.
static int verify_before_seccomp(const struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  if (plan->level == LEVEL_2 && EXPECTED(plan, GUARD_USERNS) &&
      EXPECTED(plan, GUARD_USERNS_LIMIT) &&
      (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != ENOSPC))
    return not_effective(err, "the limit on nested user namespaces");
  if (host.root && getgroups(0, NULL) != (int)plan->group_count)
    return not_effective(err, "the supplementary groups");
  if (EXPECTED(plan, GUARD_DUMPABLE) && prctl(PR_GET_DUMPABLE))
    return not_effective(err, "making init undumpable");
  return 0;
}

static int verify_layers(const struct setup *setup, int status_fd, struct failure *err) {
  const struct plan *plan = setup->plan;
  char status[8192];
  ssize_t size = read(status_fd, status, sizeof status - 1);
  if (size <= 0) return fail(err, REFUSED_PROBE, "/proc/self/status is not readable");
  status[size] = 0;
  bool drops_bounding_set = host.root || host.namespaces;
  static const char *const sets[] = {"\nCapInh:\t", "\nCapPrm:\t", "\nCapEff:\t", "\nCapAmb:\t",
                                     "\nCapBnd:\t"};
  char caps[24];
  snprintf(caps, sizeof caps, "%016llx\n", (unsigned long long)kept_capabilities(setup));
  for (unsigned i = 0; i < (drops_bounding_set ? 5u : 4u) && EXPECTED(plan, GUARD_CAPS); i++)
    if (strncmp(status_field(status, sets[i]), caps, 17))
      return not_effective(err, "dropping capabilities");
  if (EXPECTED(plan, GUARD_NNP) && strncmp(status_field(status, "\nNoNewPrivs:\t"), "1\n", 2))
    return not_effective(err, "no_new_privs");
  if (EXPECTED(plan, GUARD_SECCOMP) && strncmp(status_field(status, "\nSeccomp:\t"), "2\n", 2))
    return not_effective(err, "seccomp");
  char ids[80];
  snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u\n", plan->uid, plan->uid, plan->uid, plan->uid);
  if (strncmp(status_field(status, "\nUid:\t"), ids, strlen(ids)))
    return not_effective(err, "the user");
  snprintf(ids, sizeof ids, "%u\t%u\t%u\t%u\n", plan->gid, plan->gid, plan->gid, plan->gid);
  if (strncmp(status_field(status, "\nGid:\t"), ids, strlen(ids)))
    return not_effective(err, "the group");
  if (EXPECTED(plan, GUARD_LANDLOCK)) {
    int fd = openat(host.probe_fd, "file", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 || errno != EACCES) return not_effective(err, "Landlock");
  }
  if (EXPECTED(plan, GUARD_SECCOMP) &&
      (syscall(SYS_unshare, CLONE_NEWUSER) != -1 || errno != EPERM))
    return not_effective(err, "the seccomp table");
  return 0;
}

static int open_command(struct setup *setup, struct failure *err) {
  const char *command = setup->plan->args[0];
  setup->exec_fd = k_openat2(AT_FDCWD, command, O_PATH | O_CLOEXEC, RESOLVE_NO_MAGICLINKS);
  if (setup->exec_fd < 0) return fail(err, REFUSED_EXEC, "%.220s: %s", command, strerror(errno));
  return 0;
}

int confine_self(struct setup *setup, struct failure *err) {
  const struct plan *plan = setup->plan;
  // On a terminal, the box's init leads the new session (terminal.c).
  if (setup->terminal < 0 && GUARDED(plan, GUARD_SESSION) && setsid() < 0)
    return fail_errno(err, "setsid");
  // With one user per agent, the agents of a task share its files through their group. In a layer
  // or an owned bind they are of one user, and become a person's.
  umask(host.root && plan->profile == PROFILE_TOOL && !plan->owns_files ? 007 : 022);
  if (setpriority(PRIO_PROCESS, 0, host.nice)) return fail_errno(err, "setpriority");
  // The path must not lead out through a descriptor that is still open (/proc/self/fd).
  int cwd = k_openat2(AT_FDCWD, plan->cwd, O_PATH | O_DIRECTORY | O_CLOEXEC,
                      RESOLVE_NO_MAGICLINKS);
  if (cwd < 0 || fchdir(cwd))
    return fail(err, REFUSED_SETUP, "chdir %.220s: %s", plan->cwd, strerror(errno));
  close(cwd);
  // A new session keyring: the box must not read the warden's.
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
  int status = openat(host.proc_fd, "self/status", O_RDONLY | O_CLOEXEC);
  int probe = openat(host.probe_fd, "file", O_RDONLY | O_CLOEXEC);
  if (status < 0 || probe < 0) return fail_errno(err, "opening the probe files");
  close(probe);
  if (setup->gate >= 0 && open_command(setup, err)) return -1;
  if (set_rlimits(setup, err)) return -1;
  if (GUARDED(plan, GUARD_PROBES) && verify_before_seccomp(setup, err)) return -1;
  if (GUARDED(plan, GUARD_LANDLOCK) && restrict_files(setup, err)) return -1;
  enum filter filter = plan->profile == PROFILE_RUNNER ? FILTER_RUNNER
                       : plan->level == LEVEL_1       ? FILTER_TOOL_L1
                       : plan->owns_files             ? FILTER_TOOL_OWNED
                                                      : FILTER_TOOL_L2;
  if (setup->gate >= 0 && gate_install(setup->gate, err)) return -1;
  if (GUARDED(plan, GUARD_SECCOMP) && seccomp_install(filter, err)) return -1;
  if (GUARDED(plan, GUARD_PROBES) && verify_layers(setup, status, err)) return -1;
  if (GUARDED(plan, GUARD_DESCRIPTORS) &&
      syscall(SYS_close_range, 3, ~0u, 4 /* CLOSE_RANGE_CLOEXEC */))
    return fail_errno(err, "close_range");
  setup->job->confined = true;
  return 0;
}
