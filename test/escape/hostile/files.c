// Attacks through names: links, missing paths, replaced directories, special files.
#include "hostile.h"

#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>

static int write_to(const char *path) {
  int fd = open(path, O_WRONLY | O_CREAT, 0644);
  if (fd < 0) return failed("open");
  return outcome("write", write(fd, "owned\n", 6));
}

static int write_file(char **argv) { return write_to(argv[0]); }

static int read_file(char **argv) {
  char bytes[256];
  int fd = open(argv[0], O_RDONLY);
  if (fd < 0) return failed("open");
  ssize_t size = read(fd, bytes, sizeof bytes);
  if (size < 0) return failed("read");
  if (size == 0) {
    errno = ENODATA;
    return failed("empty");
  }
  return worked();
}

static int symlink_write(char **argv) {
  unlink(argv[1]);
  if (symlink(argv[0], argv[1])) return failed("symlink");
  return write_to(argv[1]);
}

static int hard_link(char **argv) {
  if (link(argv[0], argv[1])) return failed("link");
  return write_to(argv[1]);
}

static int make_with_parent(char **argv) {
  if (mkdir(argv[0], 0755) && errno != EEXIST) return failed("mkdir");
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", argv[0], argv[1]);
  return write_to(path);
}

static int replace_by_link(char **argv) {
  char aside[4096];
  snprintf(aside, sizeof aside, "%s.aside", argv[0]);
  if (rename(argv[0], aside)) return failed("rename");
  return outcome("symlink", symlink(argv[1], argv[0]));
}

static int rename_ancestor(char **argv) {
  char aside[4096];
  snprintf(aside, sizeof aside, "%s.aside", argv[0]);
  if (rename(argv[0], aside)) return failed("rename");
  return make_with_parent(argv);
}

static int exchange(char **argv) {
  if (mkdir(argv[1], 0755) && errno != EEXIST) return failed("mkdir");
  return outcome("renameat2", syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2u));
}

static int make_fifo(char **argv) { return outcome("mkfifo", mkfifo(argv[0], 0600)); }

static int make_socket_file(char **argv) {
  return outcome("mknod", mknod(argv[0], S_IFSOCK | 0600, 0));
}

static int make_device(char **argv) {
  return outcome("mknod", mknod(argv[0], S_IFCHR | 0666, 0x103));
}

static int big_file(char **argv) {
  int fd = open(argv[0], O_WRONLY | O_CREAT, 0644);
  if (fd < 0) return failed("open");
  return outcome("ftruncate", ftruncate(fd, 1ll << 40));
}

static int fill(char **argv) {
  static char block[1 << 20];
  int fd = open(argv[0], O_WRONLY | O_CREAT, 0644);
  if (fd < 0) return failed("open");
  for (int i = 0; i < atoi(argv[1]); i++)
    if (write(fd, block, sizeof block) != sizeof block) return failed("write");
  return worked();
}

const struct attack file_attacks[] = {
    {"write-file", write_file},
    {"read-file", read_file},
    {"symlink-write", symlink_write},
    {"hard-link", hard_link},
    {"make-with-parent", make_with_parent},
    {"replace-by-link", replace_by_link},
    {"rename-ancestor", rename_ancestor},
    {"exchange", exchange},
    {"make-fifo", make_fifo},
    {"make-socket-file", make_socket_file},
    {"make-device", make_device},
    {"big-file", big_file},
    {"fill", fill},
    {NULL, NULL},
};
