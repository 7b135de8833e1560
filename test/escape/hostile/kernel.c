// Attacks through rarely used system calls: namespaces, mounts, rings, keys, other architectures.
#include "hostile.h"

#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

static int user_namespace(char **argv) {
  (void)argv;
  return outcome("unshare", unshare(CLONE_NEWUSER));
}

static int user_namespace_clone(char **argv) {
  (void)argv;
  long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(0);
  return outcome("clone", child);
}

static int user_namespace_clone3(char **argv) {
  (void)argv;
  unsigned long long args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
  long child = syscall(SYS_clone3, args, sizeof args);
  if (child == 0) _exit(0);
  return outcome("clone3", child);
}

static int mount_tmpfs(char **argv) {
  return outcome("mount", mount("tmpfs", argv[0], "tmpfs", 0, NULL));
}

static int remount_writable(char **argv) {
  return outcome("mount", mount(NULL, argv[0], NULL, MS_REMOUNT | MS_BIND, NULL));
}

static int unmount(char **argv) { return outcome("umount2", umount2(argv[0], MNT_DETACH)); }

static int mount_calls(char **argv) {
  (void)argv;
  // Arguments for which the kernel itself would return another error than the filter.
  const struct {
    const char *name;
    long result;
    int error;
  } tried[] = {
      {"open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1), errno},
      {"fsopen", syscall(SYS_fsopen, "no-such-fs", 0), errno},
      {"move_mount", syscall(SYS_move_mount, -1, "", -1, "", 4), errno},
      {"mount_setattr", syscall(442, -1, "", 0, NULL, 0), errno},
      {"fspick", syscall(SYS_fspick, -1, "", 0xff), errno},
  };
  for (unsigned i = 0; i < sizeof tried / sizeof *tried; i++) {
    errno = tried[i].error;
    if (tried[i].result >= 0 || errno != EPERM) {
      printf("%s answered %s\n", tried[i].name, strerrorname_np(errno));
      return worked();
    }
  }
  return failed("all");
}

static int change_root(char **argv) { return outcome("chroot", chroot(argv[0])); }

static int call(char **argv) {
  const char *name = argv[0];
  char source[16] = "x", other[16];
  struct iovec from = {source, 1}, to = {other, 1};
  struct io_uring_params ring = {0};
  struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                  .size = sizeof event,
                                  .config = PERF_COUNT_SW_CPU_CLOCK,
                                  .exclude_kernel = 1};
  int pipe_fds[2];
  if (!strcmp(name, "io_uring")) return outcome(name, syscall(SYS_io_uring_setup, 1, &ring));
  if (!strcmp(name, "keyctl")) return outcome(name, syscall(SYS_keyctl, 0, -3, 1));
  if (!strcmp(name, "add_key"))
    return outcome(name, syscall(SYS_add_key, "user", "evil", "x", 1, -3));
  if (!strcmp(name, "userfaultfd")) return outcome(name, syscall(SYS_userfaultfd, 1));
  if (!strcmp(name, "personality")) return outcome(name, syscall(SYS_personality, 0x0040000));
  if (!strcmp(name, "shmget")) return outcome(name, syscall(SYS_shmget, 0, 4096, 0600));
  if (!strcmp(name, "perf_event_open"))
    return outcome(name, syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
  if (!strcmp(name, "process_vm_readv"))
    return outcome(name, process_vm_readv(getpid(), &to, 1, &from, 1, 0));
  if (!strcmp(name, "kcmp")) return outcome(name, syscall(SYS_kcmp, getpid(), getpid(), 0, 1, 1));
  if (!strcmp(name, "ptrace")) return outcome(name, ptrace(PTRACE_TRACEME, 0, 0, 0));
#ifdef SYS_modify_ldt
  if (!strcmp(name, "modify_ldt")) return outcome(name, syscall(SYS_modify_ldt, 0, other, 16));
#endif
  if (!strcmp(name, "mq_unlink")) {
    syscall(SYS_mq_unlink, "no-such-queue");
    return errno == EPERM ? failed(name) : worked();
  }
  if (!strcmp(name, "name_to_handle_at")) {
    syscall(SYS_name_to_handle_at, AT_FDCWD, "/", NULL, NULL, 0xffff);
    return errno == EPERM ? failed(name) : worked();
  }
  if (!strcmp(name, "vmsplice")) {
    if (pipe(pipe_fds)) return failed("pipe");
    return outcome(name, syscall(SYS_vmsplice, pipe_fds[1], &from, 1, 0));
  }
  if (!strcmp(name, "pidfd_getfd")) {
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    return outcome(name, syscall(SYS_pidfd_getfd, self, 1, 0));
  }
  fprintf(stderr, "no such call\n");
  return 2;
}

// The kernel checks privileges before the arguments of these, so the errno shows the filter.
static int privileged_calls(char **argv) {
  (void)argv;
  static const long calls[] = {SYS_bpf,          SYS_kexec_load, SYS_init_module,
                               SYS_finit_module, SYS_reboot,     SYS_swapon,
#ifdef SYS_iopl
                               SYS_iopl,
#endif
                               SYS_acct,         SYS_open_by_handle_at};
  for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++)
    if (syscall(calls[i], -1l, -1l, -1l, -1l, -1l) >= 0 || errno != EPERM) {
      printf("call %ld answered %s\n", calls[i], strerrorname_np(errno));
      return worked();
    }
  return failed("all");
}

static int unknown_call(char **argv) {
  (void)argv;
  syscall(499, 0, 0, 0);
  printf("%s\n", strerrorname_np(errno));
  return errno == ENOSYS ? 1 : 0;
}

// These return only if the other call table is accessible; the filter kills the process.
static int x32_call(char **argv) {
  (void)argv;
  syscall(0x40000000 + 39);
  return worked();
}

static int i386_call(char **argv) {
  (void)argv;
#ifdef __x86_64__
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
  (void)result;
#endif
  return worked();
}

static int type_into_terminal(char **argv) {
  (void)argv;
  ioctl(0, TIOCSTI, "x");
  printf("%s\n", strerrorname_np(errno));
  return errno == EPERM ? 1 : 0;
}

const struct attack kernel_attacks[] = {
    {"user-namespace", user_namespace},
    {"user-namespace-clone", user_namespace_clone},
    {"user-namespace-clone3", user_namespace_clone3},
    {"mount-tmpfs", mount_tmpfs},
    {"remount-writable", remount_writable},
    {"unmount", unmount},
    {"mount-calls", mount_calls},
    {"change-root", change_root},
    {"call", call},
    {"privileged-calls", privileged_calls},
    {"unknown-call", unknown_call},
    {"x32-call", x32_call},
    {"i386-call", i386_call},
    {"type-into-terminal", type_into_terminal},
    {NULL, NULL},
};
