// The grants that people made, one file each in a directory that only root can change; the warden
// reads them there (native/warden/grants.c). They outlive the runtime.
#include "grants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRANT_BYTES (PATH_MAX + 80)
#define NUMBERS_BYTES 80
#define GRANTS_MAX 1024
#define GRANTS_OF_USER_MAX 64

struct stored_grant {
  char name[16];
  char text[GRANT_BYTES + 1];  // the path is terminated, the numbers follow
  const char *numbers;
  uid_t owner;
};

static int read_stored(int dir, const char *name, struct stored_grant *grant) {
  if (strlen(name) >= sizeof grant->name || strspn(name, "0123456789") != strlen(name)) return -1;
  int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t size = read(fd, grant->text, GRANT_BYTES);
  close(fd);
  if (size <= 0) return -1;
  grant->text[size] = 0;
  char *line = strchr(grant->text, '\n');
  unsigned long long device, inode;
  unsigned owner;
  if (!line || sscanf(line + 1, "%llu %llu %u\n", &device, &inode, &owner) != 3) return -1;
  *line = 0;
  grant->numbers = line + 1;
  grant->owner = owner;
  strcpy(grant->name, name);
  return 0;
}

static bool for_each_grant(const char *dir_path,
                           bool (*visit)(int dir, const struct stored_grant *grant, void *data),
                           void *data) {
  static struct stored_grant grant;
  DIR *entries = opendir(dir_path);
  if (!entries) return false;
  bool done = false;
  for (struct dirent *entry; !done && (entry = readdir(entries));)
    if (!read_stored(dirfd(entries), entry->d_name, &grant))
      done = visit(dirfd(entries), &grant, data);
  closedir(entries);
  return done;
}

struct census {
  const struct granted_dir *wanted;
  unsigned total, of_owner;
  unsigned char used[GRANTS_MAX + 1];
  char name[16];  // of the grant of the same path
  bool is_same;
};

static void format_numbers(const struct granted_dir *dir, bool only_read,
                           char text[NUMBERS_BYTES]) {
  snprintf(text, NUMBERS_BYTES, "%llu %llu %u%s\n", dir->device, dir->inode, dir->owner,
           only_read ? " read" : "");
}

static bool count_grant(int dir, const struct stored_grant *grant, void *data) {
  (void)dir;
  struct census *census = data;
  const struct granted_dir *wanted = census->wanted;
  census->total++;
  census->of_owner += grant->owner == wanted->owner;
  unsigned long number = strtoul(grant->name, NULL, 10);
  if (number <= GRANTS_MAX) census->used[number] = 1;
  if (!strcmp(grant->text, wanted->path)) {
    char numbers[NUMBERS_BYTES];
    format_numbers(wanted, wanted->only_read, numbers);
    strcpy(census->name, grant->name);
    census->is_same = !strcmp(numbers, grant->numbers);
    // Whoever may work in it may read it.
    format_numbers(wanted, false, numbers);
    census->is_same = census->is_same || !strcmp(numbers, grant->numbers);
  }
  return false;
}

enum reply_status grant_store_add(const char *dir, const struct granted_dir *wanted, char *why,
                                  size_t size) {
  static struct census census;
  census = (struct census){.wanted = wanted};
  for_each_grant(dir, count_grant, &census);
  if (census.is_same) return REPLY_UNCHANGED;
  if (!census.name[0] && (census.total >= GRANTS_MAX || census.of_owner >= GRANTS_OF_USER_MAX)) {
    snprintf(why, size, "uid %u has %u grants, and there are %u: no more fit\n"
             "Revoke some: agentctl workspace list", wanted->owner, census.of_owner, census.total);
    return REPLY_REFUSED;
  }
  unsigned number = 1;
  while (number < GRANTS_MAX && census.used[number]) number++;
  if (!census.name[0]) snprintf(census.name, sizeof census.name, "%u", number);
  char path[PATH_MAX + 32], temp[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", dir, census.name);
  snprintf(temp, sizeof temp, "%s/.new", dir);
  unlink(temp);
  FILE *out = fopen(temp, "wex");
  char numbers[NUMBERS_BYTES];
  format_numbers(wanted, wanted->only_read, numbers);
  bool bad = !out || fprintf(out, "%s\n%s", wanted->path, numbers) < 0;
  if (out && fclose(out)) bad = true;
  if (!bad && !rename(temp, path)) return REPLY_DONE;
  snprintf(why, size, "writing %s failed: %s\n", path, strerror(errno));
  return REPLY_REFUSED;
}

struct removal {
  const char *path;
  uid_t uid;
  enum reply_status status;
};

static bool remove_grant(int dir, const struct stored_grant *grant, void *data) {
  struct removal *removal = data;
  if (strcmp(grant->text, removal->path)) return false;
  bool may = removal->uid == 0 || removal->uid == grant->owner;
  removal->status = may && !unlinkat(dir, grant->name, 0) ? REPLY_DONE : REPLY_REFUSED;
  return true;
}

enum reply_status grant_store_remove(const char *dir, const char *path, uid_t uid, char *why,
                                     size_t size) {
  struct removal removal = {path, uid, REPLY_UNCHANGED};
  for_each_grant(dir, remove_grant, &removal);
  if (removal.status == REPLY_REFUSED)
    snprintf(why, size, "%.500s was granted by another user\nAsk them, or revoke it as root.",
             path);
  return removal.status;
}

struct listing {
  char *text;
  size_t used, size;
  uid_t uid;
};

static bool list_grant(int dir, const struct stored_grant *grant, void *data) {
  (void)dir;
  struct listing *listing = data;
  if (listing->uid && listing->uid != grant->owner) return false;
  size_t room = listing->size - listing->used;
  int length = snprintf(listing->text + listing->used, room, "%s\n%s", grant->text, grant->numbers);
  if (length > 0 && (size_t)length < room) listing->used += (size_t)length;
  else listing->text[listing->used] = 0;
  return false;
}

size_t grant_store_list(const char *dir, uid_t uid, char *text, size_t size) {
  struct listing listing = {text, 0, size, uid};
  text[0] = 0;
  for_each_grant(dir, list_grant, &listing);
  return listing.used;
}
