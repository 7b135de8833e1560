// The system calls of a box: one row per call, one column per filter. A call without a row returns
// ENOSYS, as on an older kernel; clone3 is left out because a filter cannot read its flags.
// At level 1 the host's file tree is visible, and Landlock has no right for metadata: calls that
// change a mode, an owner, a time or an extended attribute are denied there for every file.
#pragma once
#include <stdint.h>
#include <sys/syscall.h>

#define CALL_NUMBERS 512

enum rule {
  RULE_UNLISTED = 0,   // ENOSYS
  RULE_ALLOW,
  RULE_DENY,           // EPERM: a known way out of the box or to more privileges
  RULE_UNSUPPORTED,    // EOPNOTSUPP, as on a file system without it
  CLONE_NO_NAMESPACES,
  CLONE_THREADS_ONLY,
  SOCKET_IP,           // IPv4, IPv6 and NETLINK_ROUTE
  SOCKET_UNIX_STREAM,
  SOCKETPAIR_STREAM,   // a datagram pair can be reconnected to any path
  IOCTL_NO_TTY_INPUT,
  PERSONALITY_DEFAULT,
  PRCTL_NO_TRACER,
  MKNOD_NO_DEVICE,
  MKNODAT_NO_DEVICE,
  // No S_ISUID in the mode: any user of the host could run such a file as the box's user.
  // S_ISGID is allowed, because directories of a shared workspace have it; but not where files are
  // or become a person's (FILTER_TOOL_OWNED). openat2 hides its mode in a struct, and stays
  // allowed: a file it creates setuid loses the bit with the first write.
  MODE_1_NO_SETUID,    // the mode is argument 1
  MODE_2_NO_SETUID,
  OPEN_NO_SETUID,      // only if the flags create a file: otherwise the mode is not set
  OPENAT_NO_SETUID,
};

struct call {
  uint32_t number;
  enum rule rules[FILTER_COLUMNS];
};

// C(call, tool box at level 1, tool box at level 2, runner)
#define C(name, level_1, level_2, runner) {SYS_##name, {level_1, level_2, runner}},
// N(call, number, ...) for calls that older headers lack; these have one number everywhere
#define N(name, number, level_1, level_2, runner) {number, {level_1, level_2, runner}},
#define A RULE_ALLOW
#define D RULE_DENY

// clang-format off
static const struct call call_table[] = {
C(read,                   A,A,A) C(write,                  A,A,A) C(close,                  A,A,A)
C(fstat,                  A,A,A) C(lseek,                  A,A,A) C(mmap,                   A,A,A)
C(mprotect,               A,A,A) C(munmap,                 A,A,A) C(brk,                    A,A,A)
C(rt_sigaction,           A,A,A) C(rt_sigprocmask,         A,A,A) C(rt_sigreturn,           A,A,A)
C(pread64,                A,A,A) C(pwrite64,               A,A,A) C(readv,                  A,A,A)
C(writev,                 A,A,A) C(preadv,                 A,A,A) C(pwritev,                A,A,A)
C(preadv2,                A,A,A) C(pwritev2,               A,A,A) C(sched_yield,            A,A,A)
C(mremap,                 A,A,A) C(msync,                  A,A,A) C(mincore,                A,A,A)
C(madvise,                A,A,A) C(dup,                    A,A,A) C(dup3,                   A,A,A)
C(nanosleep,              A,A,A) C(getitimer,              A,A,A) C(setitimer,              A,A,A)
C(getpid,                 A,A,A) C(sendfile,               A,A,A) C(connect,                A,A,A)
C(accept,                 A,A,A) C(accept4,                A,A,A) C(sendto,                 A,A,A)
C(recvfrom,               A,A,A) C(sendmsg,                A,A,A) C(recvmsg,                A,A,A)
C(sendmmsg,               A,A,A) C(recvmmsg,               A,A,A) C(shutdown,               A,A,A)
C(bind,                   A,A,A) C(listen,                 A,A,A) C(getsockname,            A,A,A)
C(getpeername,            A,A,A) C(setsockopt,             A,A,A) C(getsockopt,             A,A,A)
C(execve,                 A,A,A) C(execveat,               A,A,A) C(exit,                   A,A,A)
C(exit_group,             A,A,A) C(wait4,                  A,A,A) C(waitid,                 A,A,A)
C(kill,                   A,A,A) C(tkill,                  A,A,A) C(tgkill,                 A,A,A)
C(uname,                  A,A,A) C(fcntl,                  A,A,A) C(flock,                  A,A,A)
C(fsync,                  A,A,A) C(fdatasync,              A,A,A) C(sync,                   A,A,A)
C(syncfs,                 A,A,A) C(sync_file_range,        A,A,A) C(truncate,               A,A,A)
C(ftruncate,              A,A,A) C(getcwd,                 A,A,A) C(chdir,                  A,A,A)
C(fchdir,                 A,A,A) C(fchown,                 D,A,A) C(umask,                  A,A,A)
C(gettimeofday,           A,A,A) C(prlimit64,              A,A,A) C(getrlimit,              A,A,A)
C(setrlimit,              A,A,A) C(getrusage,              A,A,A) C(sysinfo,                A,A,A)
C(times,                  A,A,A) C(getuid,                 A,A,A) C(getgid,                 A,A,A)
C(setuid,                 A,A,A) C(setgid,                 A,A,A) C(geteuid,                A,A,A)
C(getegid,                A,A,A) C(setpgid,                A,A,A) C(getppid,                A,A,A)
C(setsid,                 A,A,A) C(setreuid,               A,A,A) C(setregid,               A,A,A)
C(getgroups,              A,A,A) C(setgroups,              A,A,A) C(setresuid,              A,A,A)
C(getresuid,              A,A,A) C(setresgid,              A,A,A) C(getresgid,              A,A,A)
C(getpgid,                A,A,A) C(setfsuid,               A,A,A) C(setfsgid,               A,A,A)
C(getsid,                 A,A,A) C(capget,                 A,A,A) C(capset,                 A,A,A)
C(rt_sigpending,          A,A,A) C(rt_sigtimedwait,        A,A,A) C(rt_sigqueueinfo,        A,A,A)
C(rt_tgsigqueueinfo,      A,A,A) C(rt_sigsuspend,          A,A,A) C(sigaltstack,            A,A,A)
C(statfs,                 A,A,A) C(fstatfs,                A,A,A) C(getpriority,            A,A,A)
C(setpriority,            A,A,A) C(sched_setparam,         A,A,A) C(sched_getparam,         A,A,A)
C(sched_setscheduler,     A,A,A) C(sched_getscheduler,     A,A,A) C(sched_get_priority_max, A,A,A)
C(sched_get_priority_min, A,A,A) C(sched_rr_get_interval,  A,A,A) C(sched_setaffinity,      A,A,A)
C(sched_getaffinity,      A,A,A) C(sched_setattr,          A,A,A) C(sched_getattr,          A,A,A)
C(mlock,                  A,A,A) C(munlock,                A,A,A) C(mlockall,               A,A,A)
C(munlockall,             A,A,A) C(mlock2,                 A,A,A) C(gettid,                 A,A,A)
C(readahead,              A,A,A) C(setxattr,               D,A,A) C(lsetxattr,              D,A,A)
C(fsetxattr,              D,A,A) C(getxattr,               A,A,A) C(lgetxattr,              A,A,A)
C(fgetxattr,              A,A,A) C(listxattr,              A,A,A) C(llistxattr,             A,A,A)
C(flistxattr,             A,A,A) C(removexattr,            D,A,A) C(lremovexattr,           D,A,A)
C(fremovexattr,           D,A,A) C(futex,                  A,A,A) C(set_tid_address,        A,A,A)
C(timer_create,           A,A,A) C(timer_settime,          A,A,A) C(timer_gettime,          A,A,A)
C(timer_getoverrun,       A,A,A) C(timer_delete,           A,A,A) C(clock_gettime,          A,A,A)
C(clock_getres,           A,A,A) C(clock_nanosleep,        A,A,A) C(epoll_create1,          A,A,A)
C(epoll_ctl,              A,A,A) C(epoll_pwait,            A,A,A) C(epoll_pwait2,           A,A,A)
C(getdents64,             A,A,A) C(fadvise64,              A,A,A) C(restart_syscall,        A,A,A)
C(inotify_init1,          A,A,A) C(inotify_add_watch,      A,A,A) C(inotify_rm_watch,       A,A,A)
C(openat2,                A,A,A) C(mkdirat,                A,A,A) C(fchownat,               D,A,A)
C(newfstatat,             A,A,A) C(unlinkat,               A,A,A) C(renameat,               A,A,A)
C(renameat2,              A,A,A) C(linkat,                 A,A,A) C(symlinkat,              A,A,A)
C(readlinkat,             A,A,A) C(faccessat,              A,A,A) C(faccessat2,             A,A,A)
C(utimensat,              D,A,A) C(pselect6,               A,A,A) C(ppoll,                  A,A,A)
C(set_robust_list,        A,A,A) C(get_robust_list,        A,A,A) C(splice,                 A,A,A)
C(tee,                    A,A,A) C(fallocate,              A,A,A) C(timerfd_create,         A,A,A)
C(timerfd_settime,        A,A,A) C(timerfd_gettime,        A,A,A) C(signalfd4,              A,A,A)
C(eventfd2,               A,A,A) C(pipe2,                  A,A,A) C(ioprio_get,             A,A,A)
C(ioprio_set,             A,A,A) C(getcpu,                 A,A,A) C(seccomp,                A,A,A)
C(getrandom,              A,A,A) C(memfd_create,           A,A,A) C(membarrier,             A,A,A)
C(copy_file_range,        A,A,A) C(statx,                  A,A,A) C(rseq,                   A,A,A)
C(pkey_mprotect,          A,A,A) C(pkey_alloc,             A,A,A) C(pkey_free,              A,A,A)
C(pidfd_send_signal,      A,A,A) C(pidfd_open,             A,A,A) C(close_range,            A,A,A)
C(landlock_create_ruleset,A,A,A) C(landlock_add_rule,      A,A,A) C(landlock_restrict_self, A,A,A)
C(get_mempolicy,          A,A,A)

C(ptrace,                 D,D,D) C(process_vm_readv,       D,D,D) C(process_vm_writev,      D,D,D)
C(process_madvise,        D,D,D) C(kcmp,                   D,D,D) C(mount,                  D,D,D)
C(umount2,                D,D,D) C(pivot_root,             D,D,D) C(chroot,                 D,D,D)
C(unshare,                D,D,D) C(setns,                  D,D,D) C(open_tree,              D,D,D)
C(move_mount,             D,D,D) C(fsopen,                 D,D,D) C(fsconfig,               D,D,D)
C(fsmount,                D,D,D) C(fspick,                 D,D,D) C(mount_setattr,          D,D,D)
C(bpf,                    D,D,D) C(perf_event_open,        D,D,D) C(userfaultfd,            D,D,D)
C(keyctl,                 D,D,D) C(add_key,                D,D,D) C(request_key,            D,D,D)
C(kexec_load,             D,D,D) C(kexec_file_load,        D,D,D) C(init_module,            D,D,D)
C(finit_module,           D,D,D) C(delete_module,          D,D,D) C(io_uring_setup,         D,D,D)
C(io_uring_enter,         D,D,D) C(io_uring_register,      D,D,D) C(io_setup,               D,D,D)
C(io_destroy,             D,D,D) C(io_getevents,           D,D,D) C(io_submit,              D,D,D)
C(io_cancel,              D,D,D) C(io_pgetevents,          D,D,D) C(quotactl,               D,D,D)
C(quotactl_fd,            D,D,D) C(swapon,                 D,D,D) C(swapoff,                D,D,D)
C(reboot,                 D,D,D) C(acct,                   D,D,D) C(settimeofday,           D,D,D)
C(clock_settime,          D,D,D) C(clock_adjtime,          D,D,D) C(adjtimex,               D,D,D)
C(name_to_handle_at,      D,D,D) C(open_by_handle_at,      D,D,D) C(fanotify_init,          D,D,D)
C(fanotify_mark,          D,D,D) C(syslog,                 D,D,D) C(sethostname,            D,D,D)
C(setdomainname,          D,D,D) C(vhangup,                D,D,D) C(pidfd_getfd,            D,D,D)
C(move_pages,             D,D,D) C(migrate_pages,          D,D,D) C(mbind,                  D,D,D)
C(set_mempolicy,          D,D,D) C(shmget,                 D,D,D) C(shmat,                  D,D,D)
C(shmctl,                 D,D,D) C(shmdt,                  D,D,D) C(semget,                 D,D,D)
C(semop,                  D,D,D) C(semctl,                 D,D,D) C(semtimedop,             D,D,D)
C(msgget,                 D,D,D) C(msgsnd,                 D,D,D) C(msgrcv,                 D,D,D)
C(msgctl,                 D,D,D) C(mq_open,                D,D,D) C(mq_unlink,              D,D,D)
C(mq_timedsend,           D,D,D) C(mq_timedreceive,        D,D,D) C(mq_notify,              D,D,D)
C(mq_getsetattr,          D,D,D) C(vmsplice,               D,D,D) C(remap_file_pages,       D,D,D)
C(process_mrelease,       D,D,D) C(memfd_secret,           D,D,D)

N(futex_waitv, 449,             A,A,A)
N(futex_wake, 454,              A,A,A) N(futex_wait, 455,              A,A,A)
N(futex_requeue, 456,           A,A,A) N(cachestat, 451,               A,A,A)
N(map_shadow_stack, 453,        A,A,A) N(mseal, 462,                   A,A,A)
N(statmount, 457,               D,D,D) N(listmount, 458,               D,D,D)
N(open_tree_attr, 467,          D,D,D) N(set_mempolicy_home_node, 450, D,D,D)
N(lsm_set_self_attr, 460,       D,D,D)

C(clone,       CLONE_NO_NAMESPACES, CLONE_NO_NAMESPACES, CLONE_THREADS_ONLY)
C(socket,      D,                   SOCKET_IP,           SOCKET_UNIX_STREAM)
C(socketpair,  SOCKETPAIR_STREAM,   SOCKETPAIR_STREAM,   SOCKETPAIR_STREAM)
C(ioctl,       IOCTL_NO_TTY_INPUT,  IOCTL_NO_TTY_INPUT,  IOCTL_NO_TTY_INPUT)
C(personality, PERSONALITY_DEFAULT, PERSONALITY_DEFAULT, PERSONALITY_DEFAULT)
C(prctl,       PRCTL_NO_TRACER,     PRCTL_NO_TRACER,     PRCTL_NO_TRACER)
C(mknodat,     MKNODAT_NO_DEVICE,   MKNODAT_NO_DEVICE,   MKNODAT_NO_DEVICE)
C(openat,      OPENAT_NO_SETUID,    OPENAT_NO_SETUID,    OPENAT_NO_SETUID)
C(fchmod,      D,                   MODE_1_NO_SETUID,    MODE_1_NO_SETUID)
C(fchmodat,    D,                   MODE_2_NO_SETUID,    MODE_2_NO_SETUID)
N(fchmodat2, 452, D,             MODE_2_NO_SETUID,    MODE_2_NO_SETUID)

#ifdef __x86_64__  // calls that newer architectures dropped
C(stat,                   A,A,A) C(lstat,                  A,A,A) C(poll,                   A,A,A)
C(access,                 A,A,A) C(pipe,                   A,A,A) C(select,                 A,A,A)
C(dup2,                   A,A,A) C(pause,                  A,A,A) C(alarm,                  A,A,A)
C(getpgrp,                A,A,A) C(time,                   A,A,A) C(utime,                  D,A,A)
C(utimes,                 D,A,A) C(futimesat,              D,A,A) C(rename,                 A,A,A)
C(mkdir,                  A,A,A) C(rmdir,                  A,A,A) C(link,                   A,A,A)
C(unlink,                 A,A,A) C(symlink,                A,A,A) C(readlink,               A,A,A)
C(chown,                  D,A,A) C(lchown,                 D,A,A) C(getdents,               A,A,A)
C(epoll_create,           A,A,A) C(epoll_wait,             A,A,A) C(inotify_init,           A,A,A)
C(eventfd,                A,A,A) C(signalfd,               A,A,A) C(arch_prctl,             A,A,A)
C(iopl,                   D,D,D) C(ioperm,                 D,D,D) C(modify_ldt,             D,D,D)
C(uselib,                 D,D,D) C(ustat,                  D,D,D) C(sysfs,                  D,D,D)
C(_sysctl,                D,D,D) C(create_module,          D,D,D) C(get_kernel_syms,        D,D,D)
C(query_module,           D,D,D) C(lookup_dcookie,         D,D,D) C(nfsservctl,             D,D,D)
C(fork,        A,                   A,                   D)
C(vfork,       A,                   A,                   D)
C(mknod,       MKNOD_NO_DEVICE,     MKNOD_NO_DEVICE,     MKNOD_NO_DEVICE)
C(open,        OPEN_NO_SETUID,      OPEN_NO_SETUID,      OPEN_NO_SETUID)
C(creat,       MODE_1_NO_SETUID,    MODE_1_NO_SETUID,    MODE_1_NO_SETUID)
C(chmod,       D,                   MODE_1_NO_SETUID,    MODE_1_NO_SETUID)
#endif
};
// clang-format on
#undef C
#undef N
#undef A
#undef D
