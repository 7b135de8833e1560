// Layers: layer.c (their life), overlay.c (how one is mounted), idmap.c (whose files it shows).
#pragma once
#include "warden.h"

// ── idmap.c: mounts in which the files of one user appear as another's ──
struct owner {
  uint32_t uid, gid;
};
// Returns a detached copy of a mount, in which the files of `from` appear as those of `to` and all
// others as nobody's. With what is mounted below it, if that can be mapped too and `recursive`.
int idmap_clone(int fd, struct owner from, struct owner to, bool recursive, struct failure *err);

// Returns a user namespace that only its descriptor keeps. The maps are those of /proc/PID.
int user_namespace_create(const char *uid_map, const char *gid_map);

// ── owner-rights.c: a box that acts on an owner's files where no mount can map the owner ──
// Called for an owned bind that idmap_clone refused (err): replaces it by one that is not mapped.
int rights_clone(int fd, uint32_t uid, const struct plan *plan, struct paths *paths,
                 struct failure *err);
// Once all paths are open: refuses others that these rights would reach, and sets paths->rights_ns.
int rights_prepare(const struct bounds *b, const struct plan *plan, struct paths *paths,
                   struct failure *err);

// ── overlay.c ──
struct overlay {
  int lowers[SEALED_MAX + 1];  // the topmost first
  unsigned lower_count;
  int upper, work;
  struct owner from, to;  // how the owner of the last lower appears
};
void overlay_probe(const struct bounds *bounds);  // sets host.layers
// Mounts it below DIR/layers and returns a descriptor of the mount; `point` names its mount point.
int overlay_mount(const struct overlay *overlay, unsigned point, struct failure *err);
// The same for a directory that is shown as it is.
int copy_mount(int dir, unsigned point, struct failure *err);
void overlay_unmount(unsigned point);

// ── layer.c ──
struct layer *layer_open(struct conn *conn, const uint8_t *bytes, size_t size,
                         struct failure *err);
uint64_t layer_handle(const struct layer *layer);
void layer_close(struct layer *layer);  // replies when no box uses it
void layer_detach_client(struct layer *layer);
void layers_close_all(void);
// Counts one more user of each of the plan's layers: a box of the layers' own uid and gid.
int layers_acquire(const struct plan *plan, struct layer *layers[BOX_LAYERS_MAX],
                   struct failure *err);
void layers_release(struct layer *layers[BOX_LAYERS_MAX]);  // all become NULL
int layer_clone(const struct layer *layer);  // a detached copy of its mount
// The path on the host of what a box writes, and a stub there, which is removed with the layer.
const char *layer_upper(const struct layer *layer);
int layer_keep_stub(struct layer *layer, unsigned stub, struct failure *err);
// Returns true if an open layer has its changes at, below or above this path.
bool is_layer_dir(const char *path);
