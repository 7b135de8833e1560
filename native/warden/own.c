// Gives directories to agents and their groups, and measures them, for sandboxd, which may not do
// that itself: below the lines of the bounds only, to users and groups of the bounds only, and by
// descriptors all the way, so that no link and no change of a name leads anywhere else.
#include "warden.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define DEPTH_MAX 256
#define WALKS_MAX 16
#define SHARED_DIR 02070
#define SHARED_FILE 0060

struct verdict {
  struct failure why;  // code 0: done
  uint8_t how;
  uint32_t left;       // files that were not touched
  struct amount amount;
};

// A tree can be large: a child walks it, and the loop goes on.
struct walk {
  struct watch watch;  // first: a watch is its walk; its descriptor is the child's answer
  struct conn *conn;   // NULL: gone meanwhile
  pid_t pid;
  bool busy;
};
static struct walk walks[WALKS_MAX];

static int change_mode(int fd, mode_t mode) {
  char path[32];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return chmod(path, mode);
}

// ── one directory, to one user ──

static int give(int fd, const struct own *own, struct failure *why) {
  struct stat about;
  if (fstat(fd, &about) || !S_ISDIR(about.st_mode))
    return fail(why, REFUSED_BOUNDS, "%.200s is not a directory", own->path);
  // Only sandboxd's own, or what that agent has already: never root's, never another agent's.
  if (about.st_uid != bounds.client_uid && about.st_uid != own->uid)
    return fail(why, REFUSED_BOUNDS, "%.200s belongs to uid %u", own->path, about.st_uid);
  if (fchownat(fd, "", own->uid, own->gid, AT_EMPTY_PATH) || change_mode(fd, 0700))
    return fail(why, REFUSED_SETUP, "%.200s: %s", own->path, strerror(errno));
  return 0;
}

// ── a tree, to a group ──

static int share_one(int fd, const struct stat *about, gid_t gid, uint32_t *left) {
  mode_t wanted = S_ISDIR(about->st_mode) ? SHARED_DIR : SHARED_FILE;
  mode_t kept = about->st_mode & (S_ISDIR(about->st_mode) ? 03777 : 0777);
  bool has_mode = S_ISLNK(about->st_mode) || (kept | wanted) == (about->st_mode & 07777);
  if (about->st_gid == gid && has_mode) return 0;
  // It has another name somewhere, where it may mean something else.
  if (S_ISREG(about->st_mode) && about->st_nlink > 1) {
    ++*left;
    return 0;
  }
  if (about->st_gid != gid && fchownat(fd, "", (uid_t)-1, gid, AT_EMPTY_PATH)) return -1;
  // Never more than the group, and no file keeps a bit that makes its reader somebody else.
  if (!has_mode && change_mode(fd, kept | wanted)) return -1;
  return 0;
}

static int share_entries(int dir, dev_t device, gid_t gid, int depth, struct verdict *verdict);

static int share(int dir, const char *name, dev_t device, gid_t gid, int depth,
                 struct verdict *verdict) {
  int fd = k_openat2(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC,
                     RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
  if (fd < 0 && (errno == ENOENT || errno == EXDEV)) return 0;  // gone, or a file system of its own
  struct stat about;
  if (fd < 0 || fstat(fd, &about)) return -1;
  bool is_file = S_ISREG(about.st_mode) || S_ISDIR(about.st_mode);
  int bad = 0;
  if (!is_file && !S_ISLNK(about.st_mode)) verdict->left++;
  else if (about.st_dev == device) bad = share_one(fd, &about, gid, &verdict->left);
  if (!bad && S_ISDIR(about.st_mode) && about.st_dev == device)
    bad = share_entries(fd, device, gid, depth + 1, verdict);
  close(fd);
  return bad;
}

static int share_entries(int dir, dev_t device, gid_t gid, int depth, struct verdict *verdict) {
  if (depth > DEPTH_MAX) {
    errno = ELOOP;
    return -1;
  }
  int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *list = fd < 0 ? NULL : fdopendir(fd);
  if (!list) {
    int error = errno;
    if (fd >= 0) close(fd);
    errno = error;
    return -1;
  }
  int bad = 0;
  struct dirent *entry;
  while (!bad && (entry = readdir(list)))
    if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
      bad = share(dirfd(list), entry->d_name, device, gid, depth, verdict);
  int error = errno;
  closedir(list);
  errno = error;
  return bad;
}

static int share_tree(int top, const struct own *own, struct verdict *verdict) {
  struct stat about;
  if (fstat(top, &about) || !S_ISDIR(about.st_mode))
    return fail(&verdict->why, REFUSED_BOUNDS, "%.200s is not a directory", own->path);
  if (share_one(top, &about, own->gid, &verdict->left) ||
      share_entries(top, about.st_dev, own->gid, 0, verdict))
    return fail(&verdict->why, REFUSED_SETUP, "below %.200s: %s", own->path, strerror(errno));
  return 0;
}

static void measure(int top, const struct own *own, struct verdict *verdict) {
  if (measure_tree(top, &verdict->amount))
    fail(&verdict->why, REFUSED_SETUP, "measuring %.200s: %s", own->path, strerror(errno));
}

// ── asked and answered ──

static void answer(struct conn *conn, const struct verdict *verdict) {
  if (verdict->why.code) conn_refuse(conn, &verdict->why);
  else if (verdict->how == OWN_MEASURE)
    conn_send(conn, FRAME_MEASURED, &verdict->amount, sizeof verdict->amount);
  else conn_send(conn, FRAME_OWNED, &verdict->left, sizeof verdict->left);
}

static void on_verdict(struct watch *watch, uint32_t events) {
  (void)events;
  struct walk *walk = (struct walk *)watch;
  struct verdict verdict;
  if (read(watch->fd, &verdict, sizeof verdict) != sizeof verdict) {
    verdict = (struct verdict){0};
    fail(&verdict.why, REFUSED_SETUP, "the walk through a directory ended early");
  }
  watch_drop(watch);
  close(watch->fd);
  walk->busy = false;
  if (walk->conn) answer(walk->conn, &verdict);
}

// True: the answer comes when the tree has been walked.
static bool walk_start(struct conn *conn, int top, const struct own *own,
                       struct verdict *verdict) {
  struct walk *walk = walks;
  while (walk < walks + WALKS_MAX && walk->busy) walk++;
  int ends[2];
  if (walk == walks + WALKS_MAX || pipe2(ends, O_CLOEXEC)) {
    fail(&verdict->why, REFUSED_OVERLOAD, "too many directories at once");
    return false;
  }
  pid_t warden = getpid(), pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != warden) _exit(1);  // it holds the lock of the directory, as every fork does
    prctl(PR_SET_NAME, "warden-walk");
    setpriority(PRIO_PROCESS, 0, host.nice);
    if (own->how == OWN_MEASURE) measure(top, own, verdict);
    else share_tree(top, own, verdict);
    _exit(write(ends[1], verdict, sizeof *verdict) == sizeof *verdict ? 0 : 1);
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    fail(&verdict->why, REFUSED_OVERLOAD, "fork: %s", strerror(errno));
    return false;
  }
  *walk = (struct walk){{.ready = on_verdict, .fd = ends[0]}, conn, pid, true};
  watch_add(&walk->watch, EPOLLIN);
  return true;
}

void own_forget(struct conn *conn) {
  for (unsigned i = 0; i < WALKS_MAX; i++)
    if (walks[i].conn == conn) walks[i].conn = NULL;
}

bool is_walk(pid_t pid) {
  for (unsigned i = 0; i < WALKS_MAX; i++)
    if (walks[i].busy && walks[i].pid == pid) return true;
  return false;
}

static int open_owned(const struct own *own, struct failure *why) {
  if (own->how == OWN_MEASURE) return bounds_open(&bounds, own->path, PREFIX_WRITE, why);
  if (!host.root) return fail(why, REFUSED_HOST, "without root everything belongs to one user");
  if (own->how == OWN_GIVE && bounds_check_user(&bounds, own->uid, why)) return -1;
  if (bounds_check_group(&bounds, own->gid, why)) return -1;
  return bounds_open(&bounds, own->path, own->how == OWN_GIVE ? PREFIX_OWN : PREFIX_SHARE, why);
}

void own_start(struct conn *conn, const uint8_t *bytes, size_t size) {
  struct own own = {0};
  struct verdict verdict = {0};
  int top = parse_own(bytes, size, &own, &verdict.why) ? -1 : open_owned(&own, &verdict.why);
  bool later = false;
  verdict.how = own.how;
  if (top >= 0 && own.how == OWN_GIVE) give(top, &own, &verdict.why);
  if (top >= 0 && own.how != OWN_GIVE) later = walk_start(conn, top, &own, &verdict);
  if (top >= 0) close(top);
  if (!later) answer(conn, &verdict);
}
