// The spare pool: init processes created in advance, because joining a cgroup waits for the kernel
// and creating namespaces takes longer than everything else. A spare serves one box only.
#include "init.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define SPARES_MAX 8  // of each kind, once the kind has been used
#define SPARES_LOW 4  // refill below this
#define OPEN_BOXES_MAX 4096

static struct spare *pool, *dead_spares;
static bool kind_in_use[2];  // INIT_LEVEL_1, INIT_LEVEL_2
static const struct entry_point *open_boxes[OPEN_BOXES_MAX];
static unsigned open_box_count;
static unsigned joining;  // spares that may join their cgroups and have not done so yet
static bool refilling;
static uint64_t last_limits[3][LIMIT_COUNT];
static bool refill_needed;
static int64_t retry_us;  // no attempt before: the last one failed

void entry_apply(const struct entry_point *entry, struct plan *plan) {
  plan->level = LEVEL_2;
  plan->uid = entry->uid;
  plan->gid = entry->gid;
  plan->group_count = entry->group_count;
  memcpy(plan->groups, entry->groups, sizeof plan->groups);
  plan->guards_off |= entry->guards_off;
  plan->owns_files = entry->owns_files;
  plan->terminals = entry->terminals;
  plan->has_rights = entry->has_rights;
  if (!plan->profile) plan->profile = entry->profile;
}

static uint64_t clone_flags(enum init_kind kind, uint32_t guards_off) {
  uint64_t flags = 0;
  if (kind == INIT_EXEC) return 0;
  if (kind == INIT_LEVEL_2) {
    flags = CLONE_NEWNS;
    if (!(guards_off & GUARD_IPCNS)) flags |= CLONE_NEWIPC;
    if (!(guards_off & GUARD_UTSNS)) flags |= CLONE_NEWUTS;
    if (!(guards_off & GUARD_NETNS)) flags |= CLONE_NEWNET;
  }
  if (host.namespaces && !(guards_off & GUARD_PIDNS)) flags |= CLONE_NEWPID;
  return flags;
}

static pid_t spawn_init(struct spare *spare, int control, int dev, uint64_t flags) {
  struct k_clone_args args = {.flags = flags, .exit_signal = SIGCHLD};
  int cgroup_fd = cgroup_clone_fd(&spare->cgroup);
  if (cgroup_fd >= 0) {
    args.flags |= K_CLONE_INTO_CGROUP;
    args.cgroup = (uint64_t)cgroup_fd;
  }
  if (spare->entry) {  // the helper's child becomes ours
    args.flags |= CLONE_PARENT;
    args.exit_signal = 0;
  }
  pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid) return pid;
  struct setup setup = {.kind = spare->kind,
                        .job = spare->job,
                        .plan = &spare->job->plan,
                        .entry = spare->entry,
                        .cgroup = &spare->cgroup,
                        .control = control,
                        .dev = dev,
                        .exec_fd = -1,
                        .gate = -1,
                        .terminals_dev = -1,
                        .rights_ns = -1,
                        .terminal = -1,
                        .mountinfo_fd = -1,
                        .pid_namespace = flags & CLONE_NEWPID};
  init_main(&setup);
}

// Without root, a process that enters the box's pid namespace for its children cannot return. So a
// short-lived helper enters it, and its child becomes the warden's (CLONE_PARENT).
static pid_t spawn_init_in_box(struct spare *spare, int control) {
  volatile pid_t pid = -1;
  volatile int error = 0;
  pid_t helper = vfork();
  if (helper == 0) {
    if (!setns(spare->entry->fds[ENTRY_PID], CLONE_NEWPID)) pid = spawn_init(spare, control, -1, 0);
    error = errno;
    _exit(0);
  }
  if (helper < 0) return -1;
  waitpid(helper, NULL, 0);
  errno = error;
  return pid;
}

static int clone_template(int dev) {
  return k_open_tree(dev, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | K_AT_RECURSIVE | O_CLOEXEC);
}

static struct spare *spare_create(enum init_kind kind, const struct entry_point *entry,
                                  uint32_t guards_off, struct failure *err) {
  struct spare *spare = calloc(1, sizeof *spare);
  int control[2] = {-1, -1}, dev = -1;
  if (!spare) goto out_of_memory;
  spare->kind = kind;
  spare->entry = entry;
  spare->watch.fd = -1;
  spare->job = mmap(NULL, sizeof *spare->job, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (spare->job == MAP_FAILED) goto out_of_memory;
  spare->job->plan.guards_off = guards_off;
  if (entry) entry_apply(entry, &spare->job->plan);
  if (cgroup_create(&spare->cgroup, entry ? entry->cgroup : NULL, kind == INIT_LEVEL_2, err)) {
    munmap(spare->job, sizeof *spare->job);
    free(spare);
    return NULL;
  }
  int bad = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control);
  if (!bad && kind == INIT_LEVEL_2) {
    dev = clone_template(host.dev_fd);
    bad = dev < 0;
  }
  uint64_t flags = clone_flags(kind, guards_off);
  spare->pid_namespace = entry || flags & CLONE_NEWPID;
  if (!bad)
    spare->pid =
        entry ? spawn_init_in_box(spare, control[1]) : spawn_init(spare, control[1], dev, flags);
  if (bad || spare->pid < 0) fail(err, REFUSED_OVERLOAD, "starting init: %s", strerror(errno));
  if (dev >= 0) close(dev);
  if (control[1] >= 0) close(control[1]);
  cgroup_close_join_fds(&spare->cgroup);
  spare->watch.fd = control[0];
  // If this fails, it fails again when the job arrives, and is reported then.
  if (!bad && spare->pid > 0 && last_limits[kind][LIMIT_PIDS])
    spare_set_limits(spare, last_limits[kind], false, err);
  if (!bad && spare->pid > 0) return spare;
  spare_destroy(spare);
  return NULL;
out_of_memory:
  fail(err, REFUSED_OVERLOAD, "out of memory");
  free(spare);
  return NULL;
}

int spare_set_limits(struct spare *spare, const uint64_t *limits, bool is_open_box,
                     struct failure *err) {
  uint64_t *current = spare->limits;
  memcpy(last_limits[spare->kind], limits, sizeof spare->limits);
  if (!is_open_box && current[LIMIT_MEMORY_BYTES] == limits[LIMIT_MEMORY_BYTES] &&
      current[LIMIT_PIDS] == limits[LIMIT_PIDS])
    return 0;
  // Not counted against the box: its init, and in an open box an init for each command.
  if (cgroup_set_limits(&spare->cgroup, limits, is_open_box ? 64 : 1, err)) return -1;
  memcpy(current, limits, sizeof spare->limits);
  return 0;
}

static struct spare *unlink_spare(struct spare **at) {
  struct spare *spare = *at;
  *at = spare->next;
  return spare;
}

static struct spare *remove_from_pool(enum init_kind kind, const struct entry_point *entry) {
  for (struct spare **at = &pool; *at; at = &(*at)->next)
    if ((*at)->kind == kind && (*at)->entry == entry) return unlink_spare(at);
  return NULL;
}

static void stop_watching(struct spare *spare) {
  if (spare->watch.active) watch_remove(&spare->watch);
  if (spare->state == SPARE_JOINING) joining--;
}

static void on_spare_ready(struct watch *watch, uint32_t events) {
  (void)events;
  struct spare *spare = (struct spare *)watch;
  struct report report = {0};
  if (recv(watch->fd, &report, sizeof report, MSG_DONTWAIT) < 0 && errno == EAGAIN) return;
  stop_watching(spare);
  spare->state = SPARE_READY;
  if (report.kind == REPORT_READY) return;
  kill(spare->pid, SIGKILL);
  spares_handle_exit(spare->pid);
}

static void allow_join(struct spare *spare) {
  struct job_message go = {0};
  if (spare->state != SPARE_CREATED) return;
  spare->state = SPARE_JOINING;
  send(spare->watch.fd, &go, sizeof go, MSG_NOSIGNAL | MSG_DONTWAIT);
}

// Prefers a spare that is ready to one that is still joining.
static struct spare *remove_ready_from_pool(enum init_kind kind, const struct entry_point *entry) {
  for (struct spare **at = &pool; *at; at = &(*at)->next)
    if ((*at)->kind == kind && (*at)->entry == entry && (*at)->state == SPARE_READY)
      return unlink_spare(at);
  struct spare *spare = remove_from_pool(kind, entry);
  if (spare) stop_watching(spare);
  return spare;
}

struct spare *spare_acquire(enum init_kind kind, const struct entry_point *entry,
                            uint32_t guards_off, struct failure *err) {
  if (kind != INIT_EXEC) kind_in_use[kind] = true;
  refill_needed = true;
  // Guards are switched off in tests only, some of them before the job is known.
  struct spare *spare = guards_off && !entry ? NULL : remove_ready_from_pool(kind, entry);
  if (!spare) spare = spare_create(kind, entry, guards_off, err);
  if (spare) allow_join(spare);
  return spare;
}

int spare_send_job(struct spare *spare, const int *stdio, const struct paths *paths,
                   struct failure *err) {
  struct job *job = spare->job;
  int fds[JOB_FDS_MAX], dev = -1;
  unsigned count = 0;
  for (int i = 0; i < 3 && stdio; i++) fds[count++] = stdio[i];
  if (spare->kind == INIT_LEVEL_2 && job->plan.terminals) {
    dev = clone_template(host.terminals_dev_fd);
    if (dev < 0) return fail(err, REFUSED_OVERLOAD, "copying /dev: %s", strerror(errno));
    fds[count++] = dev;
  }
  if (job->plan.has_rights && paths->rights_ns >= 0) fds[count++] = paths->rights_ns;
  for (unsigned i = 0; i < job->plan.bind_count; i++)
    if (paths->fds[i] >= 0) fds[count++] = paths->fds[i];
  for (unsigned i = 0; paths && i < paths->seal_count; i++) {
    size_t size = strlen(paths->seals[i].path) + 1;
    job->seals[i] = paths->seals[i];
    job->seals[i].path = memcpy(job->text + job->used, paths->seals[i].path, size);
    job->used += size;
  }
  job->seal_count = paths ? paths->seal_count : 0;
  struct job_message message = {count};
  unsigned sent = 0;
  do {
    unsigned batch = count - sent < FDS_PER_MESSAGE ? count - sent : FDS_PER_MESSAGE;
    if (fds_send(spare->watch.fd, &message, sizeof message, fds + sent, batch)) {
      fail(err, REFUSED_SETUP, "sending the job: %s", strerror(errno));
      struct report report;  // the spare's last message, if it sent one
      while (recv(spare->watch.fd, &report, sizeof report, MSG_DONTWAIT) == sizeof report)
        if (report.kind == REPORT_FAILED) *err = report.err;
      k_close(dev);
      return -1;
    }
    sent += batch;
  } while (sent < count);
  k_close(dev);
  return 0;
}

// Freed later: events already returned by epoll may still refer to it.
void spare_free(struct spare *spare) {
  munmap(spare->job, sizeof *spare->job);
  spare->next = dead_spares;
  dead_spares = spare;
}

void spares_free_dead(void) {
  while (dead_spares) {
    struct spare *spare = dead_spares;
    dead_spares = spare->next;
    free(spare);
  }
}

void spare_destroy(struct spare *spare) {
  if (spare->watch.fd >= 0) close(spare->watch.fd);
  if (spare->pid > 0) kill(spare->pid, SIGKILL);
  cgroup_kill(&spare->cgroup);
  cgroup_remove_later(&spare->cgroup);
  spare_free(spare);
}

bool is_spare(pid_t pid) {
  for (struct spare *spare = pool; spare; spare = spare->next)
    if (spare->pid == pid) return true;
  return false;
}

bool spares_handle_exit(pid_t pid) {
  for (struct spare **at = &pool; *at; at = &(*at)->next) {
    struct spare *spare = *at;
    if (spare->pid != pid) continue;
    *at = spare->next;
    spare->pid = 0;
    stop_watching(spare);
    spare_destroy(spare);
    refill_needed = true;
    retry_us = now_us() + 1000000;
    return true;
  }
  return false;
}

unsigned spares_count(void) {
  unsigned count = 0;
  for (struct spare *spare = pool; spare; spare = spare->next) count++;
  return count;
}

void spares_remove_open_box(const struct entry_point *entry) {
  struct spare *spare;
  while ((spare = remove_from_pool(INIT_EXEC, entry))) {
    stop_watching(spare);
    spare_destroy(spare);
  }
  for (unsigned i = 0; i < open_box_count; i++)
    if (open_boxes[i] == entry) open_boxes[i--] = open_boxes[--open_box_count];
}

void spares_destroy_all(void) {
  while (pool) {
    struct spare *spare = pool;
    pool = spare->next;
    stop_watching(spare);
    spare_destroy(spare);
  }
}

static unsigned count_pool(enum init_kind kind, const struct entry_point *entry) {
  unsigned count = 0;
  for (struct spare *spare = pool; spare; spare = spare->next)
    count += spare->kind == kind && spare->entry == entry;
  return count;
}

// Refills when few are left, not one by one, so that they join their cgroups together.
static bool refill_one(enum init_kind kind, const struct entry_point *entry, unsigned min,
                       unsigned max) {
  unsigned count = count_pool(kind, entry);
  if (count >= (refilling ? max : min)) return false;
  struct failure err;
  struct spare *spare = spare_create(kind, entry, entry ? entry->guards_off : 0, &err);
  if (!spare) {
    retry_us = now_us() + 1000000;
    return false;
  }
  spare->watch.ready = on_spare_ready;
  watch_add(&spare->watch, EPOLLIN);
  spare->next = pool;
  pool = spare;
  return refilling = true;
}

void spares_add_open_box(const struct entry_point *entry) {
  if (open_box_count < OPEN_BOXES_MAX) open_boxes[open_box_count++] = entry;
  refill_needed = true;
}

bool spares_joining(void) { return joining > 0; }
bool spares_need_refill(void) { return refill_needed && !joining && now_us() >= retry_us; }

void spares_refill(void) {
  for (int kind = 0; kind < 2; kind++)
    if (kind_in_use[kind] && refill_one((enum init_kind)kind, NULL, SPARES_LOW, SPARES_MAX)) return;
  for (unsigned i = 0; i < open_box_count; i++)
    if (refill_one(INIT_EXEC, open_boxes[i], 1, 3)) return;
  refilling = refill_needed = false;
  for (struct spare *spare = pool; spare; spare = spare->next) {
    if (spare->state != SPARE_CREATED) continue;
    allow_join(spare);
    joining++;
  }
}
