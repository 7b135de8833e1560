// Attacks through names: links, missing paths, replaced directories, special files.
#include "hostile.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/xattr.h>

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

// Creates PATH as `hostile make-setuid CALL PATH` says: with this bit, and executable by all.
static int make_special(char **argv, mode_t bit) {
  const char *name = argv[0], *path = argv[1];
  const mode_t mode = bit | 0755;
  struct stat st;
  umask(0);
  int fd = -1;
  if (strstr(name, "chmod")) fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
  if (!strcmp(name, "fchmod") && fchmod(fd, mode)) return failed(name);
  if (!strcmp(name, "fchmodat") && syscall(SYS_fchmodat, AT_FDCWD, path, mode)) return failed(name);
  if (!strcmp(name, "fchmodat2") && syscall(452, AT_FDCWD, path, mode, 0)) return failed(name);
  if (!strcmp(name, "mknodat") && syscall(SYS_mknodat, AT_FDCWD, path, S_IFREG | mode, 0))
    return failed(name);
  if (!strcmp(name, "openat") && syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_RDWR, mode) < 0)
    return failed(name);
  if (!strcmp(name, "tmpfile")) {
    char link_path[64];
    fd = (int)syscall(SYS_openat, AT_FDCWD, ".", O_TMPFILE | O_RDWR, mode);
    if (fd < 0) return failed(name);
    snprintf(link_path, sizeof link_path, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, link_path, AT_FDCWD, path, AT_SYMLINK_FOLLOW)) return failed("linkat");
  }
#ifdef __x86_64__
  if (!strcmp(name, "chmod") && syscall(SYS_chmod, path, mode)) return failed(name);
  if (!strcmp(name, "creat") && syscall(SYS_creat, path, mode) < 0) return failed(name);
  if (!strcmp(name, "open") && syscall(SYS_open, path, O_CREAT | O_RDWR, mode) < 0)
    return failed(name);
  if (!strcmp(name, "mknod") && syscall(SYS_mknod, path, S_IFREG | mode, 0)) return failed(name);
#endif
  if (stat(path, &st)) return failed("stat");
  return st.st_mode & bit ? worked() : 2;
}
static int make_setuid(char **argv) { return make_special(argv, S_ISUID); }
static int make_setgid(char **argv) { return make_special(argv, S_ISGID); }

// Gives an empty file content, in one of the ways that may not clear its setuid bit.
static int fill_by(int fd, const char *way) {
  char line[] = "#!/bin/sh\n";
  if (!way || !strcmp(way, "write")) return write(fd, line, 10) == 10 ? 0 : -1;
  if (!strcmp(way, "copy")) {
    loff_t from = 0;
    int source = open("one", O_RDONLY);
    return copy_file_range(source, &from, fd, NULL, 4096, 0) > 0 ? 0 : -1;
  }
  if (!strcmp(way, "fallocate") ? fallocate(fd, 0, 0, 4096) : ftruncate(fd, 4096)) return -1;
  char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) return -1;
  memcpy(page, line, 10);
  return msync(page, 4096, MS_SYNC);
}

// `fill-setuid PATH [WAY]`. The filter cannot see the mode of openat2. Worked: the file has content
// and is still setuid.
static int fill_setuid(char **argv) {
  const struct {
    uint64_t flags, mode, resolve;
  } how = {O_CREAT | O_EXCL | O_RDWR, S_ISUID | 0755, 0};
  struct stat st;
  umask(0);
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, argv[0], &how, sizeof how);
  if (fd < 0) return failed("openat2");
  if (fstat(fd, &st) || !(st.st_mode & S_ISUID)) return 2;
  if (fill_by(fd, argv[1])) return failed("write");
  if (fstat(fd, &st)) return failed("fstat");
  errno = EPERM;
  return st.st_mode & S_ISUID ? worked() : failed("cleared");
}

// Without the group's right to execute, the bit outlives the first write; the list adds the right.
static int setgid_by_list(char **argv) {
  const struct {
    uint64_t flags, mode, resolve;
  } how = {O_CREAT | O_EXCL | O_RDWR, S_ISGID | 0705, 0};
  const struct {
    uint32_t version;
    struct {
      uint16_t tag, rights;
      uint32_t id;
    } entries[3];
  } list = {2, {{1, 7, ~0u}, {4, 5, ~0u}, {0x20, 5, ~0u}}};
  struct stat st;
  umask(0);
  int fd = (int)syscall(SYS_openat2, AT_FDCWD, argv[0], &how, sizeof how);
  if (fd < 0) return failed("openat2");
  if (write(fd, "#!/bin/sh\n", 10) != 10) return failed("write");
  if (fsetxattr(fd, "system.posix_acl_access", &list, sizeof list, 0)) return failed("fsetxattr");
  if (fstat(fd, &st)) return failed("fstat");
  errno = EPERM;
  return (st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) ? worked() : failed("cleared");
}

// Changes what Landlock has no right for, of a file outside the box.
static int change_metadata(char **argv) {
  const char *name = argv[0], *path = argv[1];
  const struct timespec times[2] = {{1, 0}, {1, 0}};
  if (!strcmp(name, "fchmodat"))
    return outcome(name, syscall(SYS_fchmodat, AT_FDCWD, path, 0640));
  if (!strcmp(name, "fchownat"))
    return outcome(name, syscall(SYS_fchownat, AT_FDCWD, path, getuid(), getgid(), 0));
  if (!strcmp(name, "utimensat"))
    return outcome(name, syscall(SYS_utimensat, AT_FDCWD, path, times, 0));
  if (!strcmp(name, "setxattr")) return outcome(name, setxattr(path, "user.evil", "x", 1, 0));
  if (!strcmp(name, "removexattr")) {
    // The errno after the filter: the attribute is not there.
    removexattr(path, "user.evil");
    return errno == EPERM ? failed(name) : worked();
  }
  fprintf(stderr, "no such call\n");
  return 2;
}

// `rename FLAGS FROM TO`: flag 4 leaves a whiteout at FROM.
static int rename_with(char **argv) {
  unsigned flags = (unsigned)atoi(argv[0]);
  return outcome("rename", syscall(SYS_renameat2, AT_FDCWD, argv[1], AT_FDCWD, argv[2], flags));
}

static int set_attribute(char **argv) {
  return outcome("setxattr", lsetxattr(argv[0], argv[1], argv[2], strlen(argv[2]), 0));
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
    {"make-setuid", make_setuid},
    {"make-setgid", make_setgid},
    {"fill-setuid", fill_setuid},
    {"setgid-by-list", setgid_by_list},
    {"change-metadata", change_metadata},
    {"rename", rename_with},
    {"set-attribute", set_attribute},
    {NULL, NULL},
};
