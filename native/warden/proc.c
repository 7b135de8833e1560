// The entries of /proc about the host that many programs read: a box that asks for them has these,
// read-only, and no others. Runs in the box's init.
#include "init.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

static const char *const root_entries[] = {
    "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version",
};
static const char *const sys_entries[] = {
    "fs/file-max",
    "fs/inotify/max_user_instances",
    "fs/inotify/max_user_watches",
    "fs/nr_open",
    "fs/pipe-max-size",
    "kernel/cap_last_cap",
    "kernel/ngroups_max",
    "kernel/osrelease",
    "kernel/ostype",
    "kernel/overflowgid",
    "kernel/overflowuid",
    "kernel/pid_max",
    "kernel/random/uuid",
    "kernel/threads-max",
    "net/core/somaxconn",
    "vm/max_map_count",
    "vm/mmap_min_addr",
    "vm/overcommit_memory",
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

int proc_create(const struct plan *plan, bool only_processes, int *fs) {
  *fs = k_fsopen("proc");
  if (*fs < 0) return -1;
  bool guarded = GUARDED(plan, GUARD_PROC_SUBSET);
  int bad = (guarded && k_fsconfig(*fs, K_FSCONFIG_STRING, "hidepid", "invisible")) ||
            (guarded && only_processes && k_fsconfig(*fs, K_FSCONFIG_STRING, "subset", "pid")) ||
            k_fsconfig(*fs, K_FSCONFIG_CREATE, NULL, NULL);
  return bad ? -1 : k_fsmount(*fs, K_ATTR_NOSUID | K_ATTR_NODEV | K_ATTR_NOEXEC);
}

// Returns a read-only mount of one entry. -1 with errno ENOENT: this kernel does not have it.
static int copy_entry(int dir, const char *name, int *at) {
  *at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (*at < 0) return -1;
  int copy = k_open_tree(*at, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
  if (copy < 0 || !k_mount_setattr(copy, K_ATTR_RDONLY, 0)) return copy;
  k_close(copy);
  return -1;
}

// A mount on an entry keeps its name in the kernel's cache, where it is found before the option
// subset is looked at.
static int pin_entry(int proc, const char *name) {
  int at, copy = copy_entry(proc, name, &at);
  int bad = copy < 0 ? errno != ENOENT : k_move_mount(copy, at);
  k_close(copy);
  k_close(at);
  return bad ? -1 : 0;
}

// Replaces /proc/sys by an empty directory to which some of its files are attached.
static int replace_sys(int proc, struct failure *err) {
  int copies[COUNT(sys_entries)], bad = 0, at;
  int sys = openat(proc, "sys", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  for (unsigned i = 0; i < COUNT(sys_entries); i++) {
    copies[i] = copy_entry(sys, sys_entries[i], &at);
    if (copies[i] < 0 && errno != ENOENT) bad = mount_error(err, "copying", sys_entries[i]);
    k_close(at);
  }
  int empty = tmpfs_create("4k", "0555", K_ATTR_NOSUID | K_ATTR_NODEV | K_ATTR_NOEXEC);
  if (!bad && (empty < 0 || k_move_mount(empty, sys))) bad = mount_error(err, "covering", "sys");
  for (unsigned i = 0; i < COUNT(sys_entries); i++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/sys/%s", sys_entries[i]);
    if (!bad && copies[i] >= 0) bad = mount_attach(copies[i], path, err);
    k_close(copies[i]);
  }
  if (!bad && k_mount_setattr(empty, K_ATTR_RDONLY, 0)) bad = mount_error(err, "covering", "sys");
  k_close(empty);
  k_close(sys);
  return bad ? -1 : 0;
}

// The option hides the other entries, and those that the kernel adds while the box runs.
static int hide_the_rest(const struct plan *plan, int fs, struct failure *err) {
  if (GUARDED(plan, GUARD_PROC_SUBSET) &&
      (k_fsconfig(fs, K_FSCONFIG_STRING, "subset", "pid") ||
       k_fsconfig(fs, K_FSCONFIG_RECONFIGURE, NULL, NULL)))
    return mount_error(err, "hiding entries of", "/proc");
  if (EXPECTED(plan, GUARD_PROC_SUBSET) && (!access("/proc/cmdline", F_OK) || errno != ENOENT))
    return fail(err, REFUSED_PROBE, "hiding entries of /proc did not take effect: box not started");
  return 0;
}

int proc_entries_attach(const struct plan *plan, struct failure *err) {
  // The new /proc while the old one is mounted: otherwise the kernel denies an ordinary user one.
  int fs, proc = proc_create(plan, false, &fs), bad = 0;
  if (proc < 0 || umount2("/proc", MNT_DETACH | UMOUNT_NOFOLLOW))
    bad = mount_error(err, "replacing", "/proc");
  bad = bad || mount_attach(proc, "/proc", err);
  for (unsigned i = 0; i < COUNT(root_entries) && !bad; i++)
    if (pin_entry(proc, root_entries[i])) bad = mount_error(err, "keeping", root_entries[i]);
  bad = bad || replace_sys(proc, err) || hide_the_rest(plan, fs, err);
  k_close(fs);
  k_close(proc);
  return bad ? -1 : 0;
}
