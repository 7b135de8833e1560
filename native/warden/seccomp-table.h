// Which system calls a box may make. What is in no row answers ENOSYS, as an older kernel would;
// clone3 is such a call on purpose, since a filter cannot see its flags. Rows marked DENY are known
// ways out or up and answer EPERM.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>

#define CALL_NUMBERS 512

enum rule {
  RULE_UNKNOWN = 0,
  RULE_ALLOW,
  RULE_DENY,
  RULE_CLONE,        // no new namespaces; a runner makes threads only
  RULE_FORK,         // not for a runner
  RULE_SOCKET,
  RULE_SOCKETPAIR,
  RULE_IOCTL,        // nothing that types into a terminal
  RULE_PERSONALITY,
  RULE_PRCTL,
  RULE_MKNOD,
  RULE_MKNODAT,
};

struct call {
  uint32_t number;
  enum rule rule;
};

// Numbers that are the same on every architecture and that older headers lack.
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#ifndef SYS_set_mempolicy_home_node
#define SYS_set_mempolicy_home_node 450
#endif
#ifndef SYS_cachestat
#define SYS_cachestat 451
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif
#ifndef SYS_map_shadow_stack
#define SYS_map_shadow_stack 453
#endif
#ifndef SYS_futex_wake
#define SYS_futex_wake 454
#endif
#ifndef SYS_futex_wait
#define SYS_futex_wait 455
#endif
#ifndef SYS_futex_requeue
#define SYS_futex_requeue 456
#endif
#ifndef SYS_statmount
#define SYS_statmount 457
#endif
#ifndef SYS_listmount
#define SYS_listmount 458
#endif
#ifndef SYS_lsm_set_self_attr
#define SYS_lsm_set_self_attr 460
#endif
#ifndef SYS_mseal
#define SYS_mseal 462
#endif
#ifndef SYS_open_tree_attr
#define SYS_open_tree_attr 467
#endif

#define A(name) {SYS_##name, RULE_ALLOW},
#define D(name) {SYS_##name, RULE_DENY},

// clang-format off
static const struct call call_table[] = {
  A(read) A(write) A(close) A(fstat) A(lseek) A(mmap) A(mprotect) A(munmap) A(brk)
  A(rt_sigaction) A(rt_sigprocmask) A(rt_sigreturn) A(pread64) A(pwrite64) A(readv) A(writev)
  A(preadv) A(pwritev) A(preadv2) A(pwritev2) A(sched_yield) A(mremap) A(msync) A(mincore)
  A(madvise) A(dup) A(dup3) A(nanosleep) A(getitimer) A(setitimer) A(getpid) A(sendfile)
  A(connect) A(accept) A(accept4) A(sendto) A(recvfrom) A(sendmsg) A(recvmsg) A(sendmmsg)
  A(recvmmsg) A(shutdown) A(bind) A(listen) A(getsockname) A(getpeername) A(setsockopt)
  A(getsockopt) A(execve) A(execveat) A(exit) A(exit_group) A(wait4) A(waitid) A(kill) A(tkill)
  A(tgkill) A(uname) A(fcntl) A(flock) A(fsync) A(fdatasync) A(sync) A(syncfs) A(sync_file_range)
  A(truncate) A(ftruncate) A(getcwd) A(chdir) A(fchdir) A(fchmod) A(fchown) A(umask)
  A(gettimeofday) A(prlimit64) A(getrlimit) A(setrlimit) A(getrusage) A(sysinfo) A(times) A(getuid) A(getgid) A(setuid)
  A(setgid) A(geteuid) A(getegid) A(setpgid) A(getppid) A(setsid) A(setreuid) A(setregid)
  A(getgroups) A(setgroups) A(setresuid) A(getresuid) A(setresgid) A(getresgid) A(getpgid)
  A(setfsuid) A(setfsgid) A(getsid) A(capget) A(capset) A(rt_sigpending) A(rt_sigtimedwait)
  A(rt_sigqueueinfo) A(rt_tgsigqueueinfo) A(rt_sigsuspend) A(sigaltstack) A(statfs) A(fstatfs)
  A(getpriority) A(setpriority) A(sched_setparam) A(sched_getparam) A(sched_setscheduler)
  A(sched_getscheduler) A(sched_get_priority_max) A(sched_get_priority_min)
  A(sched_rr_get_interval) A(sched_setaffinity) A(sched_getaffinity) A(sched_setattr)
  A(sched_getattr) A(mlock) A(munlock) A(mlockall) A(munlockall) A(mlock2) A(gettid) A(readahead)
  A(setxattr) A(lsetxattr) A(fsetxattr) A(getxattr) A(lgetxattr) A(fgetxattr) A(listxattr)
  A(llistxattr) A(flistxattr) A(removexattr) A(lremovexattr) A(fremovexattr) A(futex)
  A(set_tid_address) A(timer_create) A(timer_settime) A(timer_gettime) A(timer_getoverrun)
  A(timer_delete) A(clock_gettime) A(clock_getres) A(clock_nanosleep) A(epoll_create1)
  A(epoll_ctl) A(epoll_pwait) A(epoll_pwait2) A(getdents64) A(fadvise64) A(restart_syscall)
  A(inotify_init1) A(inotify_add_watch) A(inotify_rm_watch) A(openat) A(openat2) A(mkdirat)
  A(fchownat) A(newfstatat) A(unlinkat) A(renameat) A(renameat2) A(linkat) A(symlinkat) A(readlinkat)
  A(fchmodat) A(fchmodat2) A(faccessat) A(faccessat2) A(utimensat) A(pselect6) A(ppoll)
  A(set_robust_list) A(get_robust_list) A(splice) A(tee) A(fallocate) A(timerfd_create)
  A(timerfd_settime) A(timerfd_gettime) A(signalfd4) A(eventfd2) A(pipe2) A(ioprio_get)
  A(ioprio_set) A(getcpu) A(seccomp) A(getrandom) A(memfd_create) A(membarrier)
  A(copy_file_range) A(statx) A(rseq) A(pkey_mprotect) A(pkey_alloc) A(pkey_free)
  A(pidfd_send_signal) A(pidfd_open) A(close_range) A(landlock_create_ruleset)
  A(landlock_add_rule) A(landlock_restrict_self) A(futex_waitv) A(futex_wake) A(futex_wait)
  A(futex_requeue) A(cachestat) A(map_shadow_stack) A(get_mempolicy) A(mseal)

  D(ptrace) D(process_vm_readv) D(process_vm_writev) D(process_madvise) D(kcmp) D(mount)
  D(umount2) D(pivot_root) D(chroot) D(unshare) D(setns) D(open_tree) D(move_mount) D(fsopen)
  D(fsconfig) D(fsmount) D(fspick) D(mount_setattr) D(statmount) D(listmount) D(open_tree_attr)
  D(bpf) D(perf_event_open) D(userfaultfd) D(keyctl) D(add_key) D(request_key) D(kexec_load)
  D(kexec_file_load) D(init_module) D(finit_module) D(delete_module) D(io_uring_setup)
  D(io_uring_enter) D(io_uring_register) D(io_setup) D(io_destroy) D(io_getevents) D(io_submit)
  D(io_cancel) D(io_pgetevents) D(quotactl) D(quotactl_fd) D(swapon) D(swapoff) D(reboot) D(acct)
  D(settimeofday) D(clock_settime) D(clock_adjtime) D(adjtimex) D(name_to_handle_at)
  D(open_by_handle_at) D(fanotify_init) D(fanotify_mark) D(syslog) D(sethostname)
  D(setdomainname) D(vhangup) D(pidfd_getfd) D(move_pages) D(migrate_pages) D(mbind)
  D(set_mempolicy) D(set_mempolicy_home_node) D(shmget) D(shmat) D(shmctl) D(shmdt) D(semget)
  D(semop) D(semctl) D(semtimedop) D(msgget) D(msgsnd) D(msgrcv) D(msgctl) D(mq_open)
  D(mq_unlink) D(mq_timedsend) D(mq_timedreceive) D(mq_notify) D(mq_getsetattr) D(vmsplice)
  D(remap_file_pages) D(process_mrelease) D(memfd_secret) D(lsm_set_self_attr)

  {SYS_clone, RULE_CLONE}, {SYS_socket, RULE_SOCKET}, {SYS_socketpair, RULE_SOCKETPAIR},
  {SYS_ioctl, RULE_IOCTL}, {SYS_personality, RULE_PERSONALITY}, {SYS_prctl, RULE_PRCTL},
  {SYS_mknodat, RULE_MKNODAT},

#ifdef __x86_64__  // the calls that newer architectures left behind
  A(open) A(stat) A(lstat) A(poll) A(access) A(pipe) A(select) A(dup2) A(pause) A(alarm)
  A(getpgrp) A(time) A(utime) A(utimes) A(futimesat) A(rename) A(mkdir) A(rmdir) A(creat) A(link)
  A(unlink) A(symlink) A(readlink) A(chmod) A(chown) A(lchown) A(getdents) A(epoll_create)
  A(epoll_wait) A(inotify_init) A(eventfd) A(signalfd) A(arch_prctl)
  D(iopl) D(ioperm) D(modify_ldt) D(uselib) D(ustat) D(sysfs) D(_sysctl) D(create_module)
  D(get_kernel_syms) D(query_module) D(lookup_dcookie) D(nfsservctl)
  {SYS_fork, RULE_FORK}, {SYS_vfork, RULE_FORK}, {SYS_mknod, RULE_MKNOD},
#endif
};
// clang-format on
#undef A
#undef D
