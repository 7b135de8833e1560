// Attacks on processes: signals, memory of others, privileges gained by exec, floods, survivors.
#include "hostile.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

static int signal_process(char **argv) { return outcome("kill", kill(atoi(argv[0]), 0)); }

static int read_memory_of(char **argv) {
  char path[64], byte;
  snprintf(path, sizeof path, "/proc/%s/mem", argv[0]);
  int fd = open(path, O_RDONLY);
  if (fd < 0) return failed("open");
  snprintf(path, sizeof path, "/proc/%s/maps", argv[0]);
  FILE *maps = fopen(path, "r");
  unsigned long from;
  if (!maps || fscanf(maps, "%lx", &from) != 1) return failed("maps");
  return outcome("pread", pread(fd, &byte, 1, (off_t)from));
}

static int see_process(char **argv) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/status", argv[0]);
  return outcome("access", access(path, R_OK));
}

static int gain_root(char **argv) {
  if (argv[0]) {
    execl(argv[0], "hostile", "gain-root", NULL);
    return failed("exec");
  }
  if (geteuid() == 0) return worked();
  printf("euid %d\n", geteuid());
  return 1;
}

static int capabilities(char **argv) {
  (void)argv;
  char line[256];
  FILE *in = fopen("/proc/self/status", "r");
  int any = 0;
  while (in && fgets(line, sizeof line, in))
    if (!strncmp(line, "Cap", 3)) any |= strspn(strchr(line, '\t') + 1, "0") < 16;
  return any ? worked() : failed("none");
}

// Looks for descriptors beyond the standard three.
static int descriptors(char **argv) {
  (void)argv;
  for (int fd = 3; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) {
      printf("descriptor %d\n", fd);
      return worked();
    }
  return failed("none");
}

// Tries to trace and to signal every other process of the pid namespace.
static int trace_all(char **argv) {
  (void)argv;
  int traced = 0, signalled = 0;
  for (pid_t pid = 1; pid < 4000; pid++) {
    if (pid == getpid()) continue;
    if (!ptrace(PTRACE_ATTACH, pid, 0, 0)) {
      traced++;
      waitpid(pid, NULL, __WALL);
      ptrace(PTRACE_DETACH, pid, 0, 0);
    }
    if (!kill(pid, 0)) signalled++;
  }
  printf("traced %d, signalled %d\n", traced, signalled);
  return traced || signalled ? worked() : failed("all");
}

static int hello(char **argv) {
  (void)argv;
  return worked();
}

static void *exec_in_thread(void *path) {
  char *const args[] = {"hostile", "hello", NULL}, *const empty_env[] = {NULL};
  syscall(SYS_execveat, AT_FDCWD, path, args, empty_env, 0);
  failed("exec");
  return NULL;
}

static int exec_from_threads(char *path, int count) {
  pthread_t threads[64];
  for (int i = 0; i < count; i++)
    if (pthread_create(&threads[i], NULL, exec_in_thread, path)) return failed("thread");
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  return 1;
}

// Executes another program: `exec-again <how> <program> [number]`.
static int exec_again(char **argv) {
  char *const args[] = {"hostile", "hello", NULL}, *const empty_env[] = {NULL};
  const char *how = argv[0], *path = argv[1];
  if (!strcmp(how, "path")) {
    execve(path, args, empty_env);
  } else if (!strcmp(how, "at")) {
    syscall(SYS_execveat, AT_FDCWD, path, args, empty_env, 0);
  } else if (!strcmp(how, "threads")) {
    return exec_from_threads(argv[1], atoi(argv[2]));
  } else if (!strcmp(how, "number")) {  // for an absolute path the kernel ignores it
    syscall(SYS_execveat, atoi(argv[2]), path, args, empty_env, AT_EMPTY_PATH);
  } else {
    int fd = open(path, O_RDONLY);
    if (!strcmp(how, "memory")) {
      int copy = memfd_create("copy", 0);
      char block[4096];
      ssize_t size;
      while ((size = read(fd, block, sizeof block)) > 0)
        if (write(copy, block, (size_t)size) < 0) return failed("write");
      fd = copy;
    }
    syscall(SYS_execveat, fd, "", args, empty_env, AT_EMPTY_PATH);
  }
  return failed("exec");
}

static int fork_bomb(char **argv) {
  int max = atoi(argv[0]), made = 0;
  for (; made < max; made++) {
    pid_t child = fork();
    if (child == 0) {
      pause();
      _exit(0);
    }
    if (child < 0) break;
  }
  printf("made %d\n", made);
  return made == max ? worked() : failed("fork");
}

static void *sleeper(void *nothing) {
  pause();
  return nothing;
}

static int thread_bomb(char **argv) {
  int max = atoi(argv[0]), made = 0;
  pthread_t thread;
  pthread_attr_t attr;
  pthread_attr_init(&attr);
  pthread_attr_setstacksize(&attr, 65536);
  while (made < max && !pthread_create(&thread, &attr, sleeper, NULL)) made++;
  printf("made %d\n", made);
  if (made == max) exit(worked());
  exit(failed("pthread_create"));
}

// A daemon in its own session that outlives the command and then writes.
static int survive(char **argv) {
  if (fork() == 0) {
    setsid();
    if (fork()) _exit(0);
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    for (int fd = 0; fd < 3; fd++) close(fd);
    usleep(700 * 1000);
    close(open(argv[0], O_CREAT | O_WRONLY, 0644));
    _exit(0);
  }
  wait(NULL);
  return worked();
}

static int eat_memory(char **argv) {
  size_t size = (size_t)atoi(argv[0]) << 20;
  char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (bytes == MAP_FAILED) return failed("mmap");
  for (size_t at = 0; at < size; at += 4096) bytes[at] = 1;
  return worked();
}

static int spin(char **argv) {
  (void)argv;
  volatile unsigned long count = 0;
  while (count + 1 > 0) count++;
  return worked();
}

static int sleep_long(char **argv) {
  printf("sleeping\n");
  sleep((unsigned)atoi(argv[0]));
  return worked();
}

static int stubborn(char **argv) {
  signal(SIGTERM, SIG_IGN);
  return sleep_long(argv);
}

static void on_term(int number) {
  (void)number;
  (void)!write(1, "polite\n", 7);
  _exit(7);
}

static int polite(char **argv) {
  signal(SIGTERM, on_term);
  return sleep_long(argv);
}

static int flood(char **argv) {
  (void)argv;
  char block[4096];
  memset(block, 'x', sizeof block);
  while (write(1, block, sizeof block) > 0) {
  }
  return worked();
}

const struct attack process_attacks[] = {
    {"signal", signal_process},     {"read-memory-of", read_memory_of},
    {"see-process", see_process},   {"gain-root", gain_root},
    {"capabilities", capabilities}, {"descriptors", descriptors},
    {"trace-all", trace_all},       {"hello", hello},
    {"exec-again", exec_again},
    {"fork-bomb", fork_bomb},       {"thread-bomb", thread_bomb},
    {"survive", survive},           {"eat-memory", eat_memory},
    {"spin", spin},                 {"sleep", sleep_long},
    {"stubborn", stubborn},         {"polite", polite},
    {"flood", flood},               {NULL, NULL},
};
