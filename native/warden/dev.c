// The templates of /dev that boxes get a copy of: five devices and four links, and for boxes with
// terminals what these need. Created once, in the warden's mount namespace.
#include "warden.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int bind_device(int dev, const char *name) {
  char source[64];
  snprintf(source, sizeof source, "/dev/%s", name);
  int file = openat(dev, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0444);
  if (file < 0) return -1;
  close(file);
  int from = k_open_tree(AT_FDCWD, source, K_OPEN_TREE_CLONE | O_CLOEXEC);
  int to = openat(dev, name, O_PATH | O_CLOEXEC);
  int bad = from < 0 || to < 0 || k_mount_setattr(from, K_ATTR_NOSUID | K_ATTR_NOEXEC, 0) ||
            k_move_mount(from, to);
  if (from >= 0) close(from);
  if (to >= 0) close(to);
  return bad ? -1 : 0;
}

// Returns its descriptor.
static int create_template(const char *name, bool terminals, struct failure *err) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s", host.run_dir, name);
  if (mkdir(path, 0755) && errno != EEXIST)
    return fail(err, REFUSED_HOST, "%.200s: %s", path, strerror(errno));
  if (mount("dev", path, "tmpfs", MS_NOSUID, "mode=755,size=64k"))
    return fail(err, REFUSED_HOST, "mounting a tmpfs: %s", strerror(errno));
  int dev = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  static const char *const devices[] = {"null", "zero", "full", "random", "urandom"};
  for (unsigned i = 0; i < sizeof devices / sizeof *devices; i++)
    if (bind_device(dev, devices[i]))
      return fail(err, REFUSED_HOST, "/dev/%s: %s", devices[i], strerror(errno));
  if (mkdirat(dev, "shm", 0755) || symlinkat("/proc/self/fd", dev, "fd") ||
      symlinkat("/proc/self/fd/0", dev, "stdin") || symlinkat("/proc/self/fd/1", dev, "stdout") ||
      symlinkat("/proc/self/fd/2", dev, "stderr"))
    return fail(err, REFUSED_HOST, "populating /dev: %s", strerror(errno));
  if (terminals && (bind_device(dev, "tty") || mkdirat(dev, "pts", 0755) ||
                    symlinkat("pts/ptmx", dev, "ptmx")))
    return fail(err, REFUSED_HOST, "/dev/tty: %s", strerror(errno));
  if (k_mount_setattr(dev, K_ATTR_RDONLY, 0))
    return fail(err, REFUSED_HOST, "making /dev read-only: %s", strerror(errno));
  return dev;
}

int dev_templates_create(struct failure *err) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/root", host.run_dir);
  if (mkdir(path, 0755) && errno != EEXIST)
    return fail(err, REFUSED_HOST, "%.200s: %s", path, strerror(errno));
  host.dev_fd = create_template("dev", false, err);
  if (host.dev_fd >= 0) host.terminals_dev_fd = create_template("terminals", true, err);
  return host.dev_fd < 0 || host.terminals_dev_fd < 0 ? -1 : 0;
}
