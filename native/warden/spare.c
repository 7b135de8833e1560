// Spares: first processes of boxes, made ahead of time, because joining a cgroup waits for the
// kernel and making namespaces takes longer than all the rest. Each is for one box, never a second.
#include "warden.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SPARES_MOST 8  // of each kind, once the kind was asked for
#define SPARES_LEAST 4 // then more are made
#define ENTRIES_MAX 4096

static struct spare *waiting, *graves;
static bool asked[2];  // BIRTH_LEVEL_1, BIRTH_LEVEL_2
static const struct entry *entries[ENTRIES_MAX];  // open boxes
static unsigned entry_count;
static unsigned joining;  // spares that were let into their cgroups and are not there yet
static bool filling;
static uint64_t usual[3][LIMIT_COUNT];
static bool wanted;
static int64_t pause_us;  // until then none is made: the last one failed

void entry_put(const struct entry *entry, struct plan *plan) {
  plan->level = LEVEL_2;
  plan->uid = entry->uid;
  plan->gid = entry->gid;
  plan->group_count = entry->group_count;
  memcpy(plan->groups, entry->groups, sizeof plan->groups);
  plan->guards_off |= entry->guards_off;
  if (!plan->profile) plan->profile = entry->profile;
}

static uint64_t namespaces_of(enum birth birth, uint32_t guards_off) {
  uint64_t flags = 0;
  if (birth == BIRTH_EXEC) return 0;
  if (birth == BIRTH_LEVEL_2) {
    flags = CLONE_NEWNS;
    if (!(guards_off & GUARD_IPCNS)) flags |= CLONE_NEWIPC;
    if (!(guards_off & GUARD_UTSNS)) flags |= CLONE_NEWUTS;
    if (!(guards_off & GUARD_NETNS)) flags |= CLONE_NEWNET;
  }
  if (host.namespaces && !(guards_off & GUARD_PIDNS)) flags |= CLONE_NEWPID;
  return flags;
}

static pid_t give_birth(struct spare *spare, int control, int dev, uint64_t flags) {
  struct k_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
  int into = group_clone_fd(&spare->group);
  if (into >= 0) {
    args.flags |= K_CLONE_INTO_CGROUP;
    args.cgroup = (uint64_t)into;
  }
  if (spare->entry) {  // the child of a child becomes ours
    args.flags |= CLONE_PARENT;
    args.exit_signal = 0;
  }
  pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid) return pid;
  struct setup setup = {.birth = spare->birth,
                        .job = spare->job,
                        .plan = &spare->job->plan,
                        .entry = spare->entry,
                        .group = &spare->group,
                        .control = control,
                        .dev = dev,
                        .exec_fd = -1,
                        .gate = -1,
                        .watch = -1,
                        .pid_namespace = flags & CLONE_NEWPID};
  init_main(&setup);
}

// Whoever would be the parent of a process in the box's pid namespace cannot come back from there
// without root: so a process of a moment goes, and leaves its child to us.
static pid_t give_birth_inside(struct spare *spare, int control) {
  volatile pid_t pid = -1;
  volatile int error = 0;
  pid_t moment = vfork();
  if (moment == 0) {
    if (!setns(spare->entry->fds[ENTRY_PID], CLONE_NEWPID))
      pid = give_birth(spare, control, -1, 0);
    error = errno;
    _exit(0);
  }
  if (moment < 0) return -1;
  waitpid(moment, NULL, 0);
  errno = error;
  return pid;
}

static struct spare *make(enum birth birth, const struct entry *entry, uint32_t guards_off,
                          struct failure *why) {
  struct spare *spare = calloc(1, sizeof *spare);
  int control[2] = {-1, -1}, dev = -1;
  if (!spare) goto none;
  spare->birth = birth;
  spare->entry = entry;
  spare->watch.fd = -1;
  spare->job = mmap(NULL, sizeof *spare->job, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare->job == MAP_FAILED) goto none;
  spare->job->plan.guards_off = guards_off;
  if (entry) entry_put(entry, &spare->job->plan);
  if (group_make(&spare->group, entry ? entry->group : NULL, birth == BIRTH_LEVEL_2, why)) {
    munmap(spare->job, sizeof *spare->job);
    free(spare);
    return NULL;
  }
  int bad = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
  if (!bad && birth == BIRTH_LEVEL_2) {
    dev = k_open_tree(host.dev, "",
                      AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
    bad = dev < 0;
  }
  uint64_t flags = namespaces_of(birth, guards_off);
  spare->pid_namespace = entry || flags & CLONE_NEWPID;
  if (!bad)
    spare->pid = entry ? give_birth_inside(spare, control[1])
                       : give_birth(spare, control[1], dev, flags);
  if (bad || spare->pid < 0)
    fail(why, REFUSED_OVERLOAD, "starting a process: %s", strerror(errno));
  if (dev >= 0) close(dev);
  if (control[1] >= 0) close(control[1]);
  group_joined(&spare->group);
  spare->watch.fd = control[0];
  // A failure here is met again, and told, when the job comes.
  if (!bad && spare->pid > 0 && usual[birth][LIMIT_PIDS])
    spare_limit(spare, usual[birth], false, why);
  if (!bad && spare->pid > 0) return spare;
  spare_discard(spare);
  return NULL;
none:
  fail(why, REFUSED_OVERLOAD, "out of memory");
  free(spare);
  return NULL;
}

int spare_limit(struct spare *spare, const uint64_t *limits, bool hold, struct failure *why) {
  uint64_t *had = spare->limits;
  memcpy(usual[spare->birth], limits, sizeof spare->limits);
  if (!hold && had[LIMIT_MEMORY_BYTES] == limits[LIMIT_MEMORY_BYTES] &&
      had[LIMIT_PIDS] == limits[LIMIT_PIDS])
    return 0;
  // Our own processes are not the box's: its init, and in an open box one for each command.
  if (group_limit(&spare->group, limits, hold ? 64 : 1, why)) return -1;
  memcpy(had, limits, sizeof spare->limits);
  return 0;
}

static struct spare *pull(struct spare **at) {
  struct spare *spare = *at;
  *at = spare->next;
  return spare;
}

static struct spare *pick(enum birth birth, const struct entry *entry) {
  for (struct spare **at = &waiting; *at; at = &(*at)->next)
    if ((*at)->birth == birth && (*at)->entry == entry) return pull(at);
  return NULL;
}

static void leave_waiting(struct spare *spare) {
  if (spare->watch.active) watch_drop(&spare->watch);
  if (spare->state == SPARE_JOINING) joining--;
}

static void on_spare(struct watch *watch, uint32_t events) {
  (void)events;
  struct spare *spare = (struct spare *)watch;
  struct report report = {0};
  if (recv(watch->fd, &report, sizeof report, MSG_DONTWAIT) < 0 && errno == EAGAIN) return;
  leave_waiting(spare);
  spare->state = SPARE_READY;
  if (report.kind == REPORT_READY) return;
  kill(spare->pid, SIGKILL);
  spares_reaped(spare->pid);
}

static void let_join(struct spare *spare) {
  struct order go = {0};
  if (spare->state != SPARE_MADE) return;
  spare->state = SPARE_JOINING;
  send(spare->watch.fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// One that is ready before one that is still at it.
static struct spare *pick_ready(enum birth birth, const struct entry *entry) {
  for (struct spare **at = &waiting; *at; at = &(*at)->next)
    if ((*at)->birth == birth && (*at)->entry == entry && (*at)->state == SPARE_READY)
      return pull(at);
  struct spare *spare = pick(birth, entry);
  if (spare) leave_waiting(spare);
  return spare;
}

struct spare *spare_take(enum birth birth, const struct entry *entry, uint32_t guards_off,
                         struct failure *why) {
  if (birth != BIRTH_EXEC) asked[birth] = true;
  wanted = true;
  // Guards are switched off in tests only, and some of them before the job is known.
  struct spare *spare = guards_off && !entry ? NULL : pick_ready(birth, entry);
  if (!spare) spare = make(birth, entry, guards_off, why);
  if (spare) let_join(spare);
  return spare;
}

int spare_send(struct spare *spare, const int *stdio, const struct paths *paths,
               struct failure *why) {
  struct job *job = spare->job;
  int fds[3 + BINDS_MAX];
  unsigned count = 0;
  for (int i = 0; i < 3 && stdio; i++) fds[count++] = stdio[i];
  for (unsigned i = 0; i < job->plan.bind_count; i++)
    if (paths->fds[i] >= 0) fds[count++] = paths->fds[i];
  for (unsigned i = 0; paths && i < paths->seal_count; i++) {
    size_t size = strlen(paths->seals[i].path) + 1;
    job->seals[i] = paths->seals[i];
    job->seals[i].path = memcpy(job->text + job->used, paths->seals[i].path, size);
    job->used += size;
  }
  job->seal_count = paths ? paths->seal_count : 0;
  struct order order = {count};
  unsigned sent = 0;
  do {
    unsigned part = count - sent < FDS_AT_ONCE ? count - sent : FDS_AT_ONCE;
    if (fds_send(spare->watch.fd, &order, sizeof order, fds + sent, part)) {
      fail(why, REFUSED_SETUP, "handing the job over: %s", strerror(errno));
      struct report last;  // what it died of, if it could say
      while (recv(spare->watch.fd, &last, sizeof last, MSG_DONTWAIT) == sizeof last)
        if (last.kind == REPORT_FAILED) *why = last.why;
      return -1;
    }
    sent += part;
  } while (sent < count);
  return 0;
}

// Events of this round may still name it.
void spare_free(struct spare *spare) {
  munmap(spare->job, sizeof *spare->job);
  spare->next = graves;
  graves = spare;
}

void spares_bury(void) {
  while (graves) {
    struct spare *spare = graves;
    graves = spare->next;
    free(spare);
  }
}

void spare_discard(struct spare *spare) {
  if (spare->watch.fd >= 0) close(spare->watch.fd);
  if (spare->pid > 0) kill(spare->pid, SIGKILL);
  group_kill(&spare->group);
  group_abandon(&spare->group);
  spare_free(spare);
}

bool is_spare(pid_t pid) {
  for (struct spare *spare = waiting; spare; spare = spare->next)
    if (spare->pid == pid) return true;
  return false;
}

bool spares_reaped(pid_t pid) {
  for (struct spare **at = &waiting; *at; at = &(*at)->next) {
    struct spare *spare = *at;
    if (spare->pid != pid) continue;
    *at = spare->next;
    spare->pid = 0;
    leave_waiting(spare);
    spare_discard(spare);
    wanted = true;
    pause_us = now_us() + 1000000;
    return true;
  }
  return false;
}

unsigned spares_count(void) {
  unsigned count = 0;
  for (struct spare *spare = waiting; spare; spare = spare->next) count++;
  return count;
}

void spares_drop(const struct entry *entry) {
  struct spare *spare;
  while ((spare = pick(BIRTH_EXEC, entry))) {
    leave_waiting(spare);
    spare_discard(spare);
  }
  for (unsigned i = 0; i < entry_count; i++)
    if (entries[i] == entry) entries[i--] = entries[--entry_count];
}

void spares_empty(void) {
  while (waiting) {
    struct spare *spare = waiting;
    waiting = spare->next;
    leave_waiting(spare);
    spare_discard(spare);
  }
}

static unsigned count_of(enum birth birth, const struct entry *entry) {
  unsigned count = 0;
  for (struct spare *spare = waiting; spare; spare = spare->next)
    count += spare->birth == birth && spare->entry == entry;
  return count;
}

// Filled up when few are left, not one by one: see let_join.
static bool add(enum birth birth, const struct entry *entry, unsigned least, unsigned most) {
  unsigned count = count_of(birth, entry);
  if (count >= (filling ? most : least)) return false;
  struct failure why;
  struct spare *spare = make(birth, entry, entry ? entry->guards_off : 0, &why);
  if (!spare) {
    pause_us = now_us() + 1000000;
    return false;
  }
  spare->watch.ready = on_spare;
  watch_add(&spare->watch, EPOLLIN);
  spare->next = waiting;
  waiting = spare;
  return filling = true;
}

void spares_expect(const struct entry *entry) {
  if (entry_count < ENTRIES_MAX) entries[entry_count++] = entry;
  wanted = true;
}

bool spares_joining(void) { return joining > 0; }
bool spares_wanted(void) { return wanted && !joining && now_us() >= pause_us; }

void spares_fill(void) {
  for (int birth = 0; birth < 2; birth++)
    if (asked[birth] && add((enum birth)birth, NULL, SPARES_LEAST, SPARES_MOST)) return;
  for (unsigned i = 0; i < entry_count; i++)
    if (add(BIRTH_EXEC, entries[i], 1, 3)) return;
  filling = wanted = false;
  for (struct spare *spare = waiting; spare; spare = spare->next) {
    if (spare->state != SPARE_MADE) continue;
    let_join(spare);
    joining++;
  }
}
