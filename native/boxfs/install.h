// Types shared by the parts of OP_INSTALL: its steps, and their state while a batch is in progress.
#pragma once
#include "boxfs.h"

#define TEMP_NAME_BYTES 64

// The state that a path has, or has to have. A link's mode is not compared.
struct side {
  uint8_t kind;   // 0: nothing
  uint32_t mode;  // permission bits, or ANY_MODE
  const uint8_t *hash;
  char *link;
};

struct step {
  char *path;
  struct side old, new;
  uint8_t outcome, cause;
  uint32_t entries;  // names in a directory that has to be removed
};

// The state found at a step's path.
struct found {
  uint8_t kind;
  struct stat st;
  bool is_hashed;
  uint8_t hash[32];
};

// A step whose new content is ready beside its target, and whose old content is saved.
struct pending {
  struct step *step;
  struct found found;
  int dir;
  const char *name;            // in step->path
  char temp[TEMP_NAME_BYTES];  // empty: only the mode changes, or the name is removed
};

struct install {
  struct target from, to, undo;
  bool saves;
  uint8_t flags;
  char prefix[TEMP_NAME_BYTES];  // of all temporary names of this apply
  struct pending pending[STEPS_MAX];
  size_t pending_count;
  bool has_removals, has_new_directories;  // among the pending steps
  int sync_to, sync_undo;
};

void end_step(struct step *step, enum step_outcome outcome, uint8_t cause);
void fail_step(struct step *step, int error);
bool make_temp_name(const struct install *job, char temp[TEMP_NAME_BYTES]);
// Opens the directory of a path below a place; name points into the path. -1 with errno.
int open_step_parent(const struct target *place, const char *path, struct target *full,
                     const char **name, bool make);
// Reads what is there. Returns -1 with errno if that is not possible; nothing there is no error.
int find_current(int dir, const char *name, struct found *found);
// Returns 1 if what was found is this side, 0 if not, -1 with errno.
int is_side(int dir, const char *name, struct found *found, const struct side *side);
// Copies a step's new file to a new name: 0, 1 if it is not the expected content, -1 with errno.
int copy_source(const struct install *job, const struct step *step, int dir, const char *temp);
int verify_source(const struct install *job, const struct step *step);  // the same without a copy
// Saves the old file's content below the undo root: 0, 1 if it is not the old content, -1.
int save_old(const struct install *job, const struct step *step, int dir, const char *name);
void remove_leftovers(const struct install *job, const char *path);

// Finds out what a step has to do. Fills the pending entry and returns true if it is not ended.
bool prepare_step(struct install *job, struct step *step, struct pending *pending);
// Removes what is ready at the temporary name.
void drop_temp(const struct pending *pending);
// Closes the pending entry's directory.
void commit_step(struct install *job, struct pending *pending);
