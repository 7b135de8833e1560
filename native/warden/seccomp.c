// Compiles each column of seccomp-table.h into a BPF program: a binary search over call numbers,
// because the kernel runs the filter once for every number when it is installed.
#include "init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "seccomp-table.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "the warden has system call tables for x86-64 and arm64 only"
#endif

#define NEW_NAMESPACES                                                                       \
  (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | \
   CLONE_NEWCGROUP | 0x80 /* CLONE_NEWTIME */)
#define PROGRAM_MAX 2048
#define ERRNO(e) (SECCOMP_RET_ERRNO | (e))

struct builder {
  struct sock_filter code[PROGRAM_MAX];
  unsigned size;
  uint32_t mode_bits;  // that no file may get
};

struct program {
  struct sock_filter *code;
  unsigned short size;
};
static struct program programs[FILTER_COUNT];

static void emit(struct builder *b, uint16_t op, uint32_t k, uint8_t yes, uint8_t no) {
  if (b->size == PROGRAM_MAX) abort();
  b->code[b->size++] = (struct sock_filter)BPF_JUMP(op, k, yes, no);
}
static void emit_return(struct builder *b, uint32_t action) {
  emit(b, BPF_RET | BPF_K, action, 0, 0);
}
static void load_argument(struct builder *b, unsigned which) {
  emit(b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * which, 0, 0);
}
// if (accumulator == value) return action
static void return_if_equal(struct builder *b, uint32_t value, uint32_t action) {
  emit(b, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  emit_return(b, action);
}
static void return_if_any_bit(struct builder *b, uint32_t bits, uint32_t action) {
  emit(b, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  emit_return(b, action);
}

static void emit_unix_stream_only(struct builder *b) {
  load_argument(b, 0);
  emit(b, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4);
  load_argument(b, 1);
  emit(b, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  return_if_equal(b, SOCK_STREAM, SECCOMP_RET_ALLOW);
  emit_return(b, ERRNO(EPERM));
}

static void emit_no_setuid(struct builder *b, unsigned mode) {
  load_argument(b, mode);
  return_if_any_bit(b, b->mode_bits, ERRNO(EPERM));
  emit_return(b, SECCOMP_RET_ALLOW);
}

static void emit_open_no_setuid(struct builder *b, unsigned flags) {
  load_argument(b, flags);
  // O_TMPFILE contains O_DIRECTORY, which alone creates nothing.
  emit(b, BPF_JMP | BPF_JSET | BPF_K, O_CREAT | (O_TMPFILE & ~O_DIRECTORY), 1, 0);
  emit_return(b, SECCOMP_RET_ALLOW);
  emit_no_setuid(b, flags + 1);
}

static void emit_rule(struct builder *b, enum rule rule) {
  switch (rule) {
    case RULE_UNLISTED: emit_return(b, ERRNO(ENOSYS)); return;
    case RULE_ALLOW: emit_return(b, SECCOMP_RET_ALLOW); return;
    case RULE_DENY: emit_return(b, ERRNO(EPERM)); return;
    case RULE_UNSUPPORTED: emit_return(b, ERRNO(EOPNOTSUPP)); return;
    case CLONE_NO_NAMESPACES:
    case CLONE_THREADS_ONLY:
      load_argument(b, 0);
      return_if_any_bit(b, NEW_NAMESPACES, ERRNO(EPERM));
      if (rule == CLONE_NO_NAMESPACES) {
        emit_return(b, SECCOMP_RET_ALLOW);
        return;
      }
      return_if_any_bit(b, CLONE_THREAD, SECCOMP_RET_ALLOW);
      emit_return(b, ERRNO(EPERM));
      return;
    case SOCKET_IP:
      load_argument(b, 0);
      // The type is not checked: SOCK_RAW needs a capability that no process in a box has.
      return_if_equal(b, AF_INET6, SECCOMP_RET_ALLOW);
      return_if_equal(b, AF_INET, SECCOMP_RET_ALLOW);
      emit(b, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3);
      load_argument(b, 2);
      return_if_equal(b, 0 /* NETLINK_ROUTE */, SECCOMP_RET_ALLOW);
      emit_return(b, ERRNO(EPERM));
      return;
    case SOCKET_UNIX_STREAM:
    case SOCKETPAIR_STREAM: emit_unix_stream_only(b); return;
    case IOCTL_NO_TTY_INPUT:
      load_argument(b, 1);
      return_if_equal(b, TIOCSTI, ERRNO(EPERM));
      return_if_equal(b, TIOCLINUX, ERRNO(EPERM));
      return_if_equal(b, TIOCSETD, ERRNO(EPERM));
      return_if_equal(b, TIOCCONS, ERRNO(EPERM));
      emit_return(b, SECCOMP_RET_ALLOW);
      return;
    case PERSONALITY_DEFAULT:
      load_argument(b, 0);
      return_if_equal(b, 0, SECCOMP_RET_ALLOW);
      return_if_equal(b, 0xffffffff, SECCOMP_RET_ALLOW);
      emit_return(b, ERRNO(EPERM));
      return;
    case PRCTL_NO_TRACER:
      load_argument(b, 0);
      return_if_equal(b, 35 /* PR_SET_MM */, ERRNO(EPERM));
      return_if_equal(b, PR_SET_PTRACER, ERRNO(EPERM));
      emit_return(b, SECCOMP_RET_ALLOW);
      return;
    case MKNOD_NO_DEVICE:
    case MKNODAT_NO_DEVICE:
      load_argument(b, rule == MKNOD_NO_DEVICE ? 1 : 2);
      return_if_any_bit(b, b->mode_bits, ERRNO(EPERM));
      emit(b, BPF_ALU | BPF_AND | BPF_K, S_IFMT, 0, 0);
      return_if_equal(b, S_IFCHR, ERRNO(EPERM));
      return_if_equal(b, S_IFBLK, ERRNO(EPERM));
      emit_return(b, SECCOMP_RET_ALLOW);
      return;
    case MODE_1_NO_SETUID: emit_no_setuid(b, 1); return;
    case MODE_2_NO_SETUID: emit_no_setuid(b, 2); return;
    case OPEN_NO_SETUID: emit_open_no_setuid(b, 1); return;
    case OPENAT_NO_SETUID: emit_open_no_setuid(b, 2); return;
  }
}

// Consecutive call numbers with the same rule.
struct range {
  uint32_t first;
  enum rule rule;
};

static void emit_search(struct builder *b, const struct range *ranges, unsigned count) {
  if (count == 1) {
    emit_rule(b, ranges[0].rule);
    return;
  }
  unsigned middle = count / 2;
  emit(b, BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, 0, 1);
  unsigned jump = b->size;
  emit(b, BPF_JMP | BPF_JA, 0, 0, 0);
  emit_search(b, ranges, middle);
  b->code[jump].k = b->size - jump - 1;
  // The accumulator still holds the call number: a rule only loads arguments and then returns.
  emit_search(b, ranges + middle, count - middle);
}

static unsigned make_ranges(int filter, struct range *ranges) {
  int column = filter == FILTER_TOOL_OWNED ? FILTER_TOOL_L2 : filter;
  static enum rule rules[CALL_NUMBERS];
  for (unsigned i = 0; i < sizeof call_table / sizeof *call_table; i++) {
    if (call_table[i].number >= CALL_NUMBERS) abort();
    rules[call_table[i].number] = call_table[i].rules[column];
  }
  // A setgid file that openat2 created without the group's right to execute keeps the bit when it
  // gets content, and an access list could add that right.
  static const uint32_t sets_access_list[] = {SYS_setxattr, SYS_lsetxattr, SYS_fsetxattr};
  for (unsigned i = 0; i < 3 && filter == FILTER_TOOL_OWNED; i++)
    rules[sets_access_list[i]] = RULE_UNSUPPORTED;
  unsigned count = 0;
  for (uint32_t number = 0; number < CALL_NUMBERS; number++)
    if (number == 0 || rules[number] != rules[number - 1])
      ranges[count++] = (struct range){number, rules[number]};
  ranges[count++] = (struct range){CALL_NUMBERS, RULE_UNLISTED};
  return count;
}

void seccomp_compile(void) {
  static struct range ranges[CALL_NUMBERS + 1];
  for (int filter = 0; filter < FILTER_COUNT; filter++) {
    static struct builder b;
    b.size = 0;
    b.mode_bits = filter == FILTER_TOOL_OWNED ? S_ISUID | S_ISGID : S_ISUID;
    emit(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    emit(&b, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    emit_return(&b, SECCOMP_RET_KILL_PROCESS);
    emit(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    emit(&b, BPF_JMP | BPF_JGE | BPF_K, 0x40000000 /* x32 */, 0, 1);
    emit_return(&b, SECCOMP_RET_KILL_PROCESS);
    emit_search(&b, ranges, make_ranges(filter, ranges));
    programs[filter].code = malloc(b.size * sizeof *b.code);
    if (!programs[filter].code) abort();
    memcpy(programs[filter].code, b.code, b.size * sizeof *b.code);
    programs[filter].size = (unsigned short)b.size;
  }
}

int seccomp_install(enum filter filter, struct failure *err) {
  struct sock_fprog program = {programs[filter].size, programs[filter].code};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
    return fail(err, REFUSED_SETUP, "seccomp: %s", strerror(errno));
  return 0;
}

int seccomp_notify_exec(struct failure *err) {
  struct builder b = {.size = 0};
  emit(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  return_if_equal(&b, SYS_execve, ERRNO(EPERM));
  return_if_equal(&b, SYS_execveat, SECCOMP_RET_USER_NOTIF);
  emit_return(&b, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)b.size, b.code};
  int gate = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                          &program);
  if (gate < 0) return fail(err, REFUSED_SETUP, "seccomp: %s", strerror(errno));
  return gate;
}
