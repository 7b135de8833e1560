// Serves directory requests of sandboxd, which is not root: chown to an agent, share with a group,
// measure, find the newest change, delete; whether a directory is granted, and revoking that. Only
// below the prefixes and for the ids of the bounds, and through descriptors, so that no symbolic
// link or rename leads elsewhere.
#include "layer.h"

#include <errno.h>
#include <linux/ioprio.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define DEPTH_MAX 256
#define WORKERS_MAX 16
#define DELETE_NICE 10
#define SHARED_DIR_MODE 02070
#define SHARED_FILE_MODE 0060

struct dir_result {
  struct failure err;  // code 0: success
  uint8_t op;
  uint32_t skipped;  // files left unchanged
  struct disk_usage usage;
  uint64_t newest_ns;
};

// A tree can be large, so a child process walks it while the event loop continues.
struct dir_worker {
  struct watch watch;  // must be first; its descriptor is the pipe from the child
  struct conn *conn;   // NULL: disconnected
  pid_t pid;
  bool busy;
};
static struct dir_worker workers[WORKERS_MAX];

static int change_mode(int fd, mode_t mode) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return chmod(path, mode);
}

// ── chown one directory to one user ──

static int chown_to_user(int fd, const struct dir_request *request, struct failure *err) {
  struct stat st;
  if (fstat(fd, &st) || !S_ISDIR(st.st_mode))
    return fail(err, REFUSED_BOUNDS, "%.200s is not a directory", request->path);
  // It must belong to sandboxd or already to that agent: never to root or another agent.
  if (st.st_uid != bounds.client_uid && st.st_uid != request->uid)
    return fail(err, REFUSED_BOUNDS, "%.200s is owned by uid %u", request->path, st.st_uid);
  if (fchownat(fd, "", request->uid, request->gid, AT_EMPTY_PATH) || change_mode(fd, 0700))
    return fail(err, REFUSED_SETUP, "%.200s: %s", request->path, strerror(errno));
  return 0;
}

// ── share a tree with a group ──

static int share_entry(int fd, const struct stat *st, gid_t gid, uint32_t *skipped) {
  mode_t wanted = S_ISDIR(st->st_mode) ? SHARED_DIR_MODE : SHARED_FILE_MODE;
  mode_t kept = st->st_mode & (S_ISDIR(st->st_mode) ? 03777 : 0777);
  bool has_mode = S_ISLNK(st->st_mode) || (kept | wanted) == (st->st_mode & 07777);
  if (st->st_gid == gid && has_mode) return 0;
  // A file with other hard links may have another meaning elsewhere: leave it.
  if (S_ISREG(st->st_mode) && st->st_nlink > 1) {
    ++*skipped;
    return 0;
  }
  if (st->st_gid != gid && fchownat(fd, "", (uid_t)-1, gid, AT_EMPTY_PATH)) return -1;
  // Grants nothing beyond the group, and clears setuid, and setgid on files.
  if (!has_mode && change_mode(fd, kept | wanted)) return -1;
  return 0;
}

static int share_entries(int dir, dev_t device, gid_t gid, int depth, struct dir_result *result);

static int share_at(int dir, const char *name, dev_t device, gid_t gid, int depth,
                    struct dir_result *result) {
  int fd = k_openat2(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
                     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
  if (fd < 0 && (errno == ENOENT || errno == EXDEV)) return 0;  // deleted, or another file system
  struct stat st;
  if (fd < 0 || fstat(fd, &st)) return -1;
  bool is_file = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode);
  int bad = 0;
  if (!is_file && !S_ISLNK(st.st_mode)) result->skipped++;
  else if (st.st_dev == device) bad = share_entry(fd, &st, gid, &result->skipped);
  if (!bad && S_ISDIR(st.st_mode) && st.st_dev == device)
    bad = share_entries(fd, device, gid, depth + 1, result);
  close(fd);
  return bad;
}

static int share_entries(int dir, dev_t device, gid_t gid, int depth, struct dir_result *result) {
  if (depth > DEPTH_MAX) {
    errno = ELOOP;
    return -1;
  }
  DIR *entries = open_dir(dir);
  if (!entries) return -1;
  int bad = 0;
  struct dirent *entry;
  while (!bad && (entry = readdir(entries)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
      bad = share_at(dirfd(entries), entry->d_name, device, gid, depth, result);
  int error = errno;
  closedir(entries);
  errno = error;
  return bad;
}

static int share_tree(int top, const struct dir_request *request, struct dir_result *result) {
  struct stat st;
  if (fstat(top, &st) || !S_ISDIR(st.st_mode))
    return fail(&result->err, REFUSED_BOUNDS, "%.200s is not a directory", request->path);
  if (share_entry(top, &st, request->gid, &result->skipped) ||
      share_entries(top, st.st_dev, request->gid, 0, result))
    return fail(&result->err, REFUSED_SETUP, "sharing %.200s: %s", request->path, strerror(errno));
  return 0;
}

static void measure(int top, const struct dir_request *request, struct dir_result *result) {
  if (measure_tree(top, request->gid, &result->usage))
    fail(&result->err, REFUSED_SETUP, "measuring %.200s: %s", request->path, strerror(errno));
}

static void find_newest(int top, const struct dir_request *request, struct dir_result *result) {
  if (newest_in_tree(top, &result->newest_ns))
    fail(&result->err, REFUSED_SETUP, "reading the times in %.200s: %s", request->path,
         strerror(errno));
}

static void delete_requested(int parent, const struct dir_request *request,
                             struct dir_result *result) {
  // Slower than everything else: no one waits for the space.
  setpriority(PRIO_PROCESS, 0, host.nice + DELETE_NICE);
  syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0));
  if (delete_tree(parent, strrchr(request->path, '/') + 1, &result->usage))
    fail(&result->err, REFUSED_SETUP, "deleting %.200s: %s", request->path, strerror(errno));
}

// ── requests and results ──

static void send_result(struct conn *conn, const struct dir_result *result) {
  if (result->err.code) conn_refuse(conn, &result->err);
  else if (result->op == DIR_MEASURE || result->op == DIR_DELETE)
    conn_send(conn, FRAME_MEASURED, &result->usage, sizeof result->usage);
  else if (result->op == DIR_NEWEST)
    conn_send(conn, FRAME_NEWEST, &result->newest_ns, sizeof result->newest_ns);
  else conn_send(conn, FRAME_DIRECTORY_DONE, &result->skipped, sizeof result->skipped);
}

static void on_result(struct watch *watch, uint32_t events) {
  (void)events;
  struct dir_worker *worker = (struct dir_worker *)watch;
  struct dir_result result;
  if (read(watch->fd, &result, sizeof result) != sizeof result) {
    result = (struct dir_result){0};
    fail(&result.err, REFUSED_SETUP, "the directory worker exited early");
  }
  watch_remove(watch);
  close(watch->fd);
  worker->busy = false;
  if (worker->conn) send_result(worker->conn, &result);
}

// Closes all other descriptors: they would keep the namespaces and layers of ended boxes.
static void keep_only(int *top, int *out) {
  int from = fcntl(*top, F_DUPFD, 5), to = fcntl(*out, F_DUPFD, 5);
  if (dup2(from, 3) != 3 || dup2(to, 4) != 4) _exit(1);
  syscall(SYS_close_range, 5, ~0u, 0);
  *top = 3;
  *out = 4;
}

// Returns true if the result follows when the tree has been walked.
static bool start_worker(struct conn *conn, int top, const struct dir_request *request,
                         struct dir_result *result) {
  struct dir_worker *worker = workers;
  while (worker < workers + WORKERS_MAX && worker->busy) worker++;
  int pipe_fds[2];
  if (worker == workers + WORKERS_MAX || pipe2(pipe_fds, O_CLOEXEC)) {
    fail(&result->err, REFUSED_OVERLOAD, "too many directory requests in progress");
    return false;
  }
  pid_t warden = getpid(), pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden) _exit(1);  // an orphan would keep the run directory locked
    prctl(PR_SET_NAME, "warden-walk");
    setpriority(PRIO_PROCESS, 0, host.nice);
    keep_only(&top, &pipe_fds[1]);
    if (request->op == DIR_MEASURE) measure(top, request, result);
    else if (request->op == DIR_NEWEST) find_newest(top, request, result);
    else if (request->op == DIR_DELETE) delete_requested(top, request, result);
    else share_tree(top, request, result);
    _exit(write(pipe_fds[1], result, sizeof *result) == sizeof *result ? 0 : 1);
  }
  close(pipe_fds[1]);
  if (pid < 0) {
    close(pipe_fds[0]);
    fail(&result->err, REFUSED_OVERLOAD, "fork: %s", strerror(errno));
    return false;
  }
  *worker = (struct dir_worker){{.ready = on_result, .fd = pipe_fds[0]}, conn, pid, true};
  watch_add(&worker->watch, EPOLLIN);
  return true;
}

void dir_requests_detach(struct conn *conn) {
  for (unsigned i = 0; i < WORKERS_MAX; i++)
    if (workers[i].conn == conn) workers[i].conn = NULL;
}

bool is_dir_worker(pid_t pid) {
  for (unsigned i = 0; i < WORKERS_MAX; i++)
    if (workers[i].busy && workers[i].pid == pid) return true;
  return false;
}

static int open_requested(const struct dir_request *request, struct failure *err) {
  const char *name;
  if (request->op == DIR_DELETE && is_layer_dir(request->path))
    return fail(err, REFUSED_BOX, "%.200s is in use by a layer: close that first", request->path);
  if (request->op == DIR_DELETE) return bounds_delete_dir(&bounds, request->path, &name, err);
  if (request->op == DIR_GRANTED) {
    int fd = bounds.no_grants ? NOT_GRANTED : grants_open(request->path, true, err);
    if (fd == NOT_GRANTED) fail(err, REFUSED_BOUNDS, "%.200s is not granted", request->path);
    return fd;
  }
  if (request->op == DIR_MEASURE || request->op == DIR_NEWEST)
    return bounds_open(&bounds, request->path, PREFIX_WRITE, err);
  if (!host.root) return fail(err, REFUSED_HOST, "without root all boxes share one user");
  if (request->op == DIR_CHOWN && bounds_check_user(&bounds, request->uid, err)) return -1;
  if (bounds_check_group(&bounds, request->gid, err)) return -1;
  return bounds_open(&bounds, request->path, request->op == DIR_CHOWN ? PREFIX_CHOWN : PREFIX_SHARE,
                     err);
}

void dir_request_start(struct conn *conn, const uint8_t *bytes, size_t size) {
  struct dir_request request = {0};
  struct dir_result result = {0};
  bool is_valid = !parse_dir_request(bytes, size, &request, &result.err);
  bool is_walk = request.op != DIR_CHOWN && request.op < DIR_GRANTED;
  int top = -1;
  if (is_valid && request.op == DIR_REVOKE) result.skipped = grants_revoke(request.path);
  else if (is_valid) top = open_requested(&request, &result.err);
  bool pending = false;
  result.op = request.op;
  if (top >= 0 && request.op == DIR_CHOWN) chown_to_user(top, &request, &result.err);
  if (top >= 0 && is_walk) pending = start_worker(conn, top, &request, &result);
  if (top >= 0) close(top);
  if (!pending) send_result(conn, &result);
}
