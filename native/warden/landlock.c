// Landlock rules, limited to the host's ABI: the rights of a box below each declared path, and none
// elsewhere. Rules refer to descriptors that were opened before privileges were dropped.
#include "init.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define READ_RIGHTS (LL_EXECUTE | LL_READ_FILE | LL_READ_DIR)
#define WRITE_RIGHTS                                                                          \
  (READ_RIGHTS | LL_WRITE_FILE | LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_DIR | LL_MAKE_REG | \
   LL_MAKE_SYM | LL_REFER | LL_TRUNCATE)
#define ALL_RIGHTS (WRITE_RIGHTS | LL_MAKE_CHAR | LL_MAKE_SOCK | LL_MAKE_FIFO | LL_MAKE_BLOCK)
#define FILE_RIGHTS (LL_EXECUTE | LL_WRITE_FILE | LL_READ_FILE | LL_TRUNCATE | LL_IOCTL_DEV)

int landlock_abi(void) {
  long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* the version */);
  return abi < 0 ? 0 : (int)abi;
}

static uint64_t handled_rights(int abi) {
  uint64_t rights = ALL_RIGHTS | LL_IOCTL_DEV;
  if (abi < 2) rights &= ~LL_REFER;
  if (abi < 3) rights &= ~LL_TRUNCATE;
  if (abi < 5) rights &= ~LL_IOCTL_DEV;
  return rights;
}

int landlock_create(int abi, int level, struct failure *err) {
  struct ll_ruleset attr = {.fs = handled_rights(abi)};
  size_t size = sizeof attr.fs;
  // Level 2 has a network namespace with loopback only; level 1 shares the host's network.
  if (abi >= 4 && level == LEVEL_1) attr.net = LL_NET_BIND | LL_NET_CONNECT;
  if (abi >= 4) size += sizeof attr.net;
  if (abi >= 6) {
    attr.scoped = LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL;
    size += sizeof attr.scoped;
  }
  int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
  if (fd < 0) return fail(err, REFUSED_SETUP, "landlock_create_ruleset: %s", strerror(errno));
  return fd;
}

static uint64_t rights_for(enum landlock_access access) {
  switch (access) {
    case ACCESS_READ: return READ_RIGHTS;
    case ACCESS_LIST: return LL_READ_DIR;
    case ACCESS_WRITE: return WRITE_RIGHTS;
    case ACCESS_PRIVATE: return WRITE_RIGHTS | LL_MAKE_FIFO | LL_MAKE_SOCK;
    case ACCESS_DEVICE: return LL_READ_FILE | LL_WRITE_FILE | LL_TRUNCATE;
    case ACCESS_TERMINAL:
      return LL_READ_FILE | LL_READ_DIR | LL_WRITE_FILE | LL_TRUNCATE | LL_IOCTL_DEV;
  }
  return 0;
}

int landlock_allow(int ruleset, int abi, int path_fd, enum landlock_access access,
                   struct failure *err) {
  struct stat st;
  if (fstat(path_fd, &st)) return fail(err, REFUSED_SETUP, "fstat: %s", strerror(errno));
  uint64_t rights = rights_for(access) & handled_rights(abi);
  if (!S_ISDIR(st.st_mode)) rights &= FILE_RIGHTS;
  struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = path_fd};
  if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
    return fail(err, REFUSED_SETUP, "landlock_add_rule: %s", strerror(errno));
  return 0;
}

int landlock_restrict(int ruleset, struct failure *err) {
  if (syscall(SYS_landlock_restrict_self, ruleset, 0))
    return fail(err, REFUSED_SETUP, "landlock_restrict_self: %s", strerror(errno));
  return 0;
}
