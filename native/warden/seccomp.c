// Turns the tables of seccomp-table.h into one BPF program per profile: a binary search over call
// numbers, since the kernel runs the filter once for every number when it is loaded.
#include "warden.h"

#include <errno.h>
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
};

struct program {
  struct sock_filter *code;
  unsigned short size;
};
static struct program programs[FILTER_COUNT];

static void put(struct builder *b, uint16_t op, uint32_t k, uint8_t yes, uint8_t no) {
  if (b->size == PROGRAM_MAX) abort();
  b->code[b->size++] = (struct sock_filter)BPF_JUMP(op, k, yes, no);
}
static void ret(struct builder *b, uint32_t action) { put(b, BPF_RET | BPF_K, action, 0, 0); }
static void load_argument(struct builder *b, unsigned which) {
  put(b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + 8 * which, 0, 0);
}
// if (loaded == value) return action
static void when_equal(struct builder *b, uint32_t value, uint32_t action) {
  put(b, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
  ret(b, action);
}
static void when_any_bit(struct builder *b, uint32_t bits, uint32_t action) {
  put(b, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
  ret(b, action);
}

static void put_socket(struct builder *b, enum filter filter) {
  load_argument(b, 0);
  if (filter == FILTER_TOOL_L2) {
    when_equal(b, AF_INET6, SECCOMP_RET_ALLOW);
    // SOCK_RAW needs a capability nobody in the box has; the family alone decides here.
    when_equal(b, AF_INET, SECCOMP_RET_ALLOW);
    put(b, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3);
    load_argument(b, 2);
    when_equal(b, 0 /* NETLINK_ROUTE */, SECCOMP_RET_ALLOW);
  }
  if (filter == FILTER_RUNNER) {
    put(b, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4);
    load_argument(b, 1);
    put(b, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
    when_equal(b, SOCK_STREAM, SECCOMP_RET_ALLOW);
  }
  ret(b, ERRNO(EPERM));
}

// A datagram pair can be connected again, to any path; a stream pair cannot.
static void put_socketpair(struct builder *b) {
  load_argument(b, 0);
  put(b, BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 4);
  load_argument(b, 1);
  put(b, BPF_ALU | BPF_AND | BPF_K, 0xf, 0, 0);
  when_equal(b, SOCK_STREAM, SECCOMP_RET_ALLOW);
  ret(b, ERRNO(EPERM));
}

static void put_rule(struct builder *b, enum rule rule, enum filter filter) {
  switch (rule) {
    case RULE_UNKNOWN: ret(b, ERRNO(ENOSYS)); return;
    case RULE_ALLOW: ret(b, SECCOMP_RET_ALLOW); return;
    case RULE_DENY: ret(b, ERRNO(EPERM)); return;
    case RULE_CLONE:
      load_argument(b, 0);
      when_any_bit(b, NEW_NAMESPACES, ERRNO(EPERM));
      if (filter == FILTER_RUNNER) {
        when_any_bit(b, CLONE_THREAD, SECCOMP_RET_ALLOW);
        ret(b, ERRNO(EPERM));
      }
      ret(b, SECCOMP_RET_ALLOW);
      return;
    case RULE_FORK: ret(b, filter == FILTER_RUNNER ? ERRNO(EPERM) : SECCOMP_RET_ALLOW); return;
    case RULE_SOCKET: put_socket(b, filter); return;
    case RULE_SOCKETPAIR: put_socketpair(b); return;
    case RULE_IOCTL:
      load_argument(b, 1);
      when_equal(b, TIOCSTI, ERRNO(EPERM));
      when_equal(b, TIOCLINUX, ERRNO(EPERM));
      when_equal(b, TIOCSETD, ERRNO(EPERM));
      when_equal(b, TIOCCONS, ERRNO(EPERM));
      ret(b, SECCOMP_RET_ALLOW);
      return;
    case RULE_PERSONALITY:
      load_argument(b, 0);
      when_equal(b, 0, SECCOMP_RET_ALLOW);
      when_equal(b, 0xffffffff, SECCOMP_RET_ALLOW);
      ret(b, ERRNO(EPERM));
      return;
    case RULE_PRCTL:
      load_argument(b, 0);
      when_equal(b, 35 /* PR_SET_MM */, ERRNO(EPERM));
      when_equal(b, PR_SET_PTRACER, ERRNO(EPERM));
      ret(b, SECCOMP_RET_ALLOW);
      return;
    case RULE_MKNOD:
    case RULE_MKNODAT:
      load_argument(b, rule == RULE_MKNOD ? 1 : 2);
      put(b, BPF_ALU | BPF_AND | BPF_K, S_IFMT, 0, 0);
      when_equal(b, S_IFCHR, ERRNO(EPERM));
      when_equal(b, S_IFBLK, ERRNO(EPERM));
      ret(b, SECCOMP_RET_ALLOW);
      return;
  }
}

// The range starts: every number where the rule changes.
struct span {
  uint32_t from;
  enum rule rule;
};

static void put_search(struct builder *b, const struct span *spans, unsigned count,
                       enum filter filter) {
  if (count == 1) {
    put_rule(b, spans[0].rule, filter);
    return;
  }
  unsigned middle = count / 2;
  put(b, BPF_JMP | BPF_JGE | BPF_K, spans[middle].from, 0, 1);
  unsigned leap = b->size;
  put(b, BPF_JMP | BPF_JA, 0, 0, 0);
  put_search(b, spans, middle, filter);
  b->code[leap].k = b->size - leap - 1;
  // The accumulator still holds the call number: a rule only loads arguments and then returns.
  put_search(b, spans + middle, count - middle, filter);
}

static unsigned make_spans(struct span *spans) {
  static enum rule rules[CALL_NUMBERS];
  memset(rules, 0, sizeof rules);
  for (unsigned i = 0; i < sizeof call_table / sizeof *call_table; i++) {
    if (call_table[i].number >= CALL_NUMBERS) abort();
    rules[call_table[i].number] = call_table[i].rule;
  }
  unsigned count = 0;
  for (uint32_t number = 0; number < CALL_NUMBERS; number++)
    if (number == 0 || rules[number] != rules[number - 1])
      spans[count++] = (struct span){number, rules[number]};
  spans[count++] = (struct span){CALL_NUMBERS, RULE_UNKNOWN};
  return count;
}

void seccomp_build(void) {
  static struct span spans[CALL_NUMBERS + 1];
  unsigned count = make_spans(spans);
  for (int filter = 0; filter < FILTER_COUNT; filter++) {
    static struct builder b;
    b.size = 0;
    put(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch), 0, 0);
    put(&b, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    ret(&b, SECCOMP_RET_KILL_PROCESS);
    put(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    put(&b, BPF_JMP | BPF_JGE | BPF_K, 0x40000000 /* x32 */, 0, 1);
    ret(&b, SECCOMP_RET_KILL_PROCESS);
    put_search(&b, spans, count, (enum filter)filter);
    programs[filter].code = malloc(b.size * sizeof *b.code);
    if (!programs[filter].code) abort();
    memcpy(programs[filter].code, b.code, b.size * sizeof *b.code);
    programs[filter].size = (unsigned short)b.size;
  }
}

int seccomp_enter(enum filter filter, struct failure *why) {
  struct sock_fprog program = {programs[filter].size, programs[filter].code};
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
    return fail(why, REFUSED_SETUP, "seccomp: %s", strerror(errno));
  return 0;
}

int seccomp_ask_to_exec(struct failure *why) {
  struct builder b = {.size = 0};
  put(&b, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
  when_equal(&b, SYS_execve, ERRNO(EPERM));
  when_equal(&b, SYS_execveat, SECCOMP_RET_USER_NOTIF);
  ret(&b, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {(unsigned short)b.size, b.code};
  int gate = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                          &program);
  if (gate < 0) return fail(why, REFUSED_SETUP, "seccomp: %s", strerror(errno));
  return gate;
}
