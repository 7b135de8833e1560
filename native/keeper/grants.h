// The interfaces between the files that serve people's requests for grants.
#pragma once
#include <poll.h>

#include "grant-request.h"
#include "keeper.h"

// The first byte of a reply; text follows: the grants, or "message\nhint".
enum reply_status { REPLY_DONE, REPLY_UNCHANGED, REPLY_REFUSED };

struct granted_dir {
  const char *path;
  unsigned long long device, inode;
  uid_t owner;
  bool only_read;
};

// ── grant-store.c ──
enum reply_status grant_store_add(const char *dir, const struct granted_dir *wanted, char *why,
                                  size_t size);
// Only the owner's own, or as root.
enum reply_status grant_store_remove(const char *dir, const char *path, uid_t uid, char *why,
                                     size_t size);
// Writes each as it is stored; as root those of everybody.
size_t grant_store_list(const char *dir, uid_t uid, char *text, size_t size);

// ── grant-lookup.c: a child that looks at a directory with the rights of the peer ──
#define PEER_GROUPS_MAX 1024
struct peer {
  uid_t uid;
  gid_t gid, groups[PEER_GROUPS_MAX];
  unsigned group_count;
};
struct dir_lookup {
  int error;  // an errno, 0: found
  unsigned long long device, inode;
  uid_t owner;
};
int peer_read(int socket, struct peer *peer);  // -1: unknown
// True for the daemons and for every id that agents can have.
bool peer_is_refused(const struct launch_spec *spec, const struct peer *peer);
// Returns the child, or -1; it writes a struct dir_lookup to the pipe.
pid_t lookup_start(const struct peer *peer, const char *path, int *result_fd);
