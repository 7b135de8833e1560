// The record of a copy (OP_COPY): what was at each path when it was copied, and what the copy
// looked like then. In the order in which a walk by sorted names meets the paths.
#pragma once
#include "boxfs.h"

#define RECORD_NAME "copied"

enum { RECORD_COPIED = 1, RECORD_LEFT_OUT = 2 };
struct record_entry {
  uint8_t kind;
  uint32_t base_mode;         // of what was copied
  uint32_t mode;              // of the copy
  uint64_t inode, ctime_ns, size;  // of the copy
  uint8_t hash[32];           // of a file
  uint32_t link_size;
  char link[PATH_BYTES];
  char path[PATH_BYTES];
};

// Appends to the file; the first page starts it anew. These return 0, or -1 with errno.
FILE *record_open(const struct target *place, bool is_new);
int record_put(FILE *file, const struct record_entry *entry);
int record_end(FILE *file);  // after the last entry: a record without it is not read

struct record {
  const uint8_t *bytes;
  size_t size, next;
  bool has_entry;
  struct record_entry entry;
};
// Returns -1 with errno, EBADMSG if the record is not complete.
int record_read(const struct target *place, struct record *record);
void record_close(struct record *record);
// Paths must be asked for in their order. NULL: there was nothing.
const struct record_entry *record_find(struct record *record, const char *path);
// Where the search is, to return to.
size_t record_mark(const struct record *record);
void record_return(struct record *record, size_t mark);

// Returns whether this entry of the copy is other than it was; 1, 0, or -1 with errno.
int is_copy_changed(int dir, const char *name, const struct stat *st,
                    const struct record_entry *entry);
