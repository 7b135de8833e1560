// Evaluates the warden's seccomp filters without making the calls. Each input line is a query:
// filter, architecture (0: native), call number, six arguments; each output line is the outcome.
//   filters emulate    interprets the BPF itself, for an architecture that is only emulated
//   filters kernel     installs the filter, and so shows what this kernel makes of it
#include <inttypes.h>
#include <sys/wait.h>

#include "../../../native/warden/seccomp.c"

#define LET_THROUGH 0x6c657468u  // as the sixth argument: the backstop executes this call
#define ALLOWED EHWPOISON        // the backstop's errno for everything the filter allows

static uint32_t emulate(const struct program *program, const struct seccomp_data *data) {
  uint32_t accumulator = 0;
  for (unsigned at = 0; at < program->size; at++) {
    const struct sock_filter *op = &program->code[at];
    bool is_true = false;
    switch (op->code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (op->k + 4 > sizeof *data || op->k % 4) abort();
        memcpy(&accumulator, (const uint8_t *)data + op->k, 4);
        continue;
      case BPF_ALU | BPF_AND | BPF_K: accumulator &= op->k; continue;
      case BPF_JMP | BPF_JA: at += op->k; continue;
      case BPF_RET | BPF_K: return op->k;
      case BPF_JMP | BPF_JEQ | BPF_K: is_true = accumulator == op->k; break;
      case BPF_JMP | BPF_JGE | BPF_K: is_true = accumulator >= op->k; break;
      case BPF_JMP | BPF_JSET | BPF_K: is_true = accumulator & op->k; break;
      default: abort();
    }
    at += is_true ? op->jt : op->jf;
  }
  abort();  // every path through a filter ends with a return
}

// Installed before the filter under test, this one fails every call that the other allows: nothing
// is executed. Of two errnos the kernel returns that of the filter installed last.
static int install_backstop(void) {
  struct builder b = {.size = 0};
  load_argument(&b, 5);
  return_if_equal(&b, LET_THROUGH, SECCOMP_RET_ALLOW);
  emit_return(&b, ERRNO(ALLOWED));
  struct sock_fprog program = {(unsigned short)b.size, b.code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
  return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
}

static uint32_t ask_kernel(unsigned filter, const struct seccomp_data *data) {
  int pipe_fds[2], status = 0, error = 0;
  if (pipe(pipe_fds)) abort();
  pid_t child = fork();
  if (child == 0) {
    struct sock_fprog program = {programs[filter].size, programs[filter].code};
    if (install_backstop() ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program, 0, 0, LET_THROUGH))
      _exit(1);
    const __u64 *args = data->args;
    long result = syscall(data->nr, args[0], args[1], args[2], args[3], args[4], args[5]);
    error = result < 0 ? errno : 0;
    syscall(SYS_write, pipe_fds[1], &error, sizeof error, 0, 0, LET_THROUGH);
    syscall(SYS_exit_group, 0, 0, 0, 0, 0, LET_THROUGH);
  }
  close(pipe_fds[1]);
  ssize_t size = read(pipe_fds[0], &error, sizeof error);
  close(pipe_fds[0]);
  if (child < 0 || waitpid(child, &status, 0) != child) abort();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) return SECCOMP_RET_KILL_PROCESS;
  if (WIFSIGNALED(status)) return SECCOMP_RET_TRAP;
  if (size != sizeof error) abort();
  return error == ALLOWED ? SECCOMP_RET_ALLOW : ERRNO((uint32_t)error);
}

static const char *outcome_name(uint32_t action) {
  if (action == SECCOMP_RET_ALLOW) return "allow";
  if (action == SECCOMP_RET_KILL_PROCESS) return "kill";
  if (action == ERRNO(EPERM)) return "EPERM";
  return action == ERRNO(ENOSYS) ? "ENOSYS" : "?";
}

int main(int argc, char **argv) {
  bool in_kernel = argc == 2 && !strcmp(argv[1], "kernel");
  if (!in_kernel && (argc != 2 || strcmp(argv[1], "emulate"))) return 2;
  seccomp_compile();
  unsigned filter;
  uint32_t arch, number;
  while (scanf("%u %" SCNu32 " %" SCNu32, &filter, &arch, &number) == 3) {
    struct seccomp_data data = {.nr = (int)number, .arch = arch ? arch : NATIVE_ARCH};
    for (int i = 0; i < 6; i++) {
      uint64_t arg;
      if (scanf("%" SCNu64, &arg) != 1) return 2;
      data.args[i] = arg;
    }
    if (filter >= FILTER_COUNT || (in_kernel && data.arch != NATIVE_ARCH)) return 2;
    puts(outcome_name(in_kernel ? ask_kernel(filter, &data)
                                : emulate(&programs[filter], &data)));
  }
  return 0;
}
