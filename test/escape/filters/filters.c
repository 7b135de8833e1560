// Runs the warden's own filter programs as the kernel would, on questions instead of calls, so that
// they can be asked on an architecture that is only emulated. A question is one line: filter,
// architecture (0: this one), number, six arguments; the answer is what would happen.
#include <inttypes.h>

#include "../../../native/warden/seccomp.c"

static uint32_t run(const struct program *program, const struct seccomp_data *data) {
  uint32_t held = 0;
  for (unsigned at = 0; at < program->size; at++) {
    const struct sock_filter *op = &program->code[at];
    bool holds = false;
    switch (op->code) {
      case BPF_LD | BPF_W | BPF_ABS:
        if (op->k + 4 > sizeof *data || op->k % 4) abort();
        memcpy(&held, (const uint8_t *)data + op->k, 4);
        continue;
      case BPF_ALU | BPF_AND | BPF_K: held &= op->k; continue;
      case BPF_JMP | BPF_JA: at += op->k; continue;
      case BPF_RET | BPF_K: return op->k;
      case BPF_JMP | BPF_JEQ | BPF_K: holds = held == op->k; break;
      case BPF_JMP | BPF_JGE | BPF_K: holds = held >= op->k; break;
      case BPF_JMP | BPF_JSET | BPF_K: holds = held & op->k; break;
      default: abort();
    }
    at += holds ? op->jt : op->jf;
  }
  abort();  // a filter ends with an answer
}

static const char *word(uint32_t answer) {
  if (answer == SECCOMP_RET_ALLOW) return "allow";
  if (answer == SECCOMP_RET_KILL_PROCESS) return "kill";
  if (answer == ERRNO(EPERM)) return "EPERM";
  return answer == ERRNO(ENOSYS) ? "ENOSYS" : "?";
}

int main(void) {
  seccomp_build();
  unsigned filter;
  uint32_t arch, number;
  uint64_t args[6];
  while (scanf("%u %" SCNu32 " %" SCNu32, &filter, &arch, &number) == 3) {
    struct seccomp_data data = {.nr = (int)number, .arch = arch ? arch : NATIVE_ARCH};
    for (int i = 0; i < 6; i++) {
      if (scanf("%" SCNu64, &args[i]) != 1) return 2;
      data.args[i] = args[i];
    }
    if (filter >= FILTER_COUNT) return 2;
    puts(word(run(&programs[filter], &data)));
  }
  return 0;
}
