// The life of a layer: a person's directory, which boxes see and change, while the changes stay in
// a directory of ours. A layer is closed with its connection, and lives on in the boxes that use
// it. One mount per upper, ever: two would lose each other's writes, so boxes get copies of it.
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#define LAYER_STUBS_MAX 1024

struct dir_id {
  dev_t device;
  ino_t inode;
};
struct layer {
  uint64_t handle;
  struct owner owner;
  struct conn *conn;  // NULL: closed by the end of its connection
  bool closing;
  unsigned users;  // boxes
  unsigned point;
  int mount;
  int lock;  // of `dir`, against another warden
  struct dir_id upper, sealed[SEALED_MAX];
  unsigned sealed_count;
  char *upper_path;
  unsigned stubs[LAYER_STUBS_MAX], stub_count;
  struct layer *next;
};
static struct layer *layers;

// ── opening ──

static bool is_same_dir(struct dir_id a, struct dir_id b) {
  return a.device == b.device && a.inode == b.inode;
}

static bool is_sealed_in(const struct layer *layer, struct dir_id dir) {
  for (unsigned i = 0; i < layer->sealed_count; i++)
    if (is_same_dir(layer->sealed[i], dir)) return true;
  return false;
}

// No directory that takes changes may be part of another layer.
static int check_unused(const struct layer *wanted, const char *dir, struct failure *err) {
  for (const struct layer *other = layers; other; other = other->next)
    if (is_same_dir(wanted->upper, other->upper) || is_sealed_in(wanted, other->upper) ||
        is_sealed_in(other, wanted->upper))
      return fail(err, REFUSED_BOX,
                  "%.200s is in use: close its layer and the boxes that use it first", dir);
  return 0;
}

static int identify(int fd, const char *path, uint32_t uid, struct dir_id *id,
                    struct failure *err) {
  struct stat st;
  if (fstat(fd, &st)) return fail(err, REFUSED_SETUP, "%.200s: %s", path, strerror(errno));
  if (!S_ISDIR(st.st_mode)) return fail(err, REFUSED_BOUNDS, "%.200s is not a directory", path);
  if (st.st_uid != uid)
    return fail(err, REFUSED_BOUNDS, "%.200s is owned by uid %u, not by the layer's", path,
                st.st_uid);
  *id = (struct dir_id){st.st_dev, st.st_ino};
  return 0;
}

static int open_child(int dir, const char *name, const char *path, struct failure *err) {
  int fd = k_openat2(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC,
                     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  return fd >= 0 ? fd : fail(err, REFUSED_SETUP, "%.200s/%s: %s", path, name, strerror(errno));
}

static int open_lower(const struct layer_request *request, struct overlay *overlay,
                      struct failure *err) {
  struct stat st;
  int fd = bounds_open(&bounds, request->lower, PREFIX_WRITE, err);
  if (fd < 0) return -1;
  overlay->lowers[overlay->lower_count++] = fd;
  if (fstat(fd, &st)) return fail(err, REFUSED_SETUP, "%.200s: %s", request->lower, strerror(errno));
  if (!S_ISDIR(st.st_mode))
    return fail(err, REFUSED_BOUNDS, "%.200s is not a directory", request->lower);
  overlay->from = (struct owner){st.st_uid, st.st_gid};
  return 0;
}

// Opens everything that the overlay consists of. The caller closes it, also after a failure.
static int open_parts(const struct layer_request *request, struct layer *layer,
                      struct overlay *overlay, struct failure *err) {
  for (unsigned i = request->sealed_count; i--;) {
    int fd = bounds_open_below(&bounds, request->sealed[i], err);
    if (fd < 0) return -1;
    overlay->lowers[overlay->lower_count++] = fd;
    struct dir_id *id = &layer->sealed[layer->sealed_count++];
    if (identify(fd, request->sealed[i], request->uid, id, err)) return -1;
  }
  int dir = bounds_open_below(&bounds, request->dir, err);
  if (dir < 0) return -1;
  overlay->upper = open_child(dir, "upper", request->dir, err);
  overlay->work = overlay->upper < 0 ? -1 : open_child(dir, "work", request->dir, err);
  // Not O_PATH: a lock needs an open file.
  layer->lock = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int error = errno;
  close(dir);
  struct dir_id work;
  if (overlay->work < 0 ||
      identify(overlay->upper, request->dir, request->uid, &layer->upper, err) ||
      identify(overlay->work, request->dir, request->uid, &work, err) ||
      check_unused(layer, request->dir, err))
    return -1;
  if (layer->lock < 0)
    return fail(err, REFUSED_SETUP, "%.200s: %s", request->dir, strerror(error));
  if (flock(layer->lock, LOCK_EX | LOCK_NB))
    return fail(err, REFUSED_BOX, "%.200s is in use by another warden", request->dir);
  overlay->to = layer->owner;
  return open_lower(request, overlay, err);
}

static int check_request(const struct layer_request *request, struct failure *err) {
  if (is_halted()) return fail(err, REFUSED_HALT, "halted: the HALT file exists");
  if (strncmp(host.layers, "no", 2) == 0)
    return fail(err, REFUSED_HOST, "layers are not available: %.280s", host.layers + 4);
  if (request->kind == LAYER_OVERLAY && strncmp(host.layers, "copy", 4) == 0)
    return fail(err, REFUSED_OVERLAY, "no overlay can be mounted: %.270s", host.layers + 6);
  if (bounds_check_user(&bounds, request->uid, err) ||
      bounds_check_group(&bounds, request->gid, err))
    return -1;
  if (!host.root && (request->uid != host.uid || request->gid != host.gid))
    return fail(err, REFUSED_HOST, "without root every layer is of uid %u, gid %u", host.uid,
                host.gid);
  if (is_below(request->lower, request->dir) || is_below(request->dir, request->lower))
    return fail(err, REFUSED_BOUNDS, "%.120s and %.120s contain each other", request->lower,
                request->dir);
  return 0;
}

static unsigned free_point(void) {
  unsigned point = 1;  // 0 was the probe's
  for (const struct layer *layer = layers; layer;)
    if (layer->point == point) {
      point++;
      layer = layers;
    } else {
      layer = layer->next;
    }
  return point;
}

static void close_parts(const struct overlay *overlay) {
  for (unsigned i = 0; i < overlay->lower_count; i++) k_close(overlay->lowers[i]);
  k_close(overlay->upper);
  k_close(overlay->work);
}

static void free_layer(struct layer *layer) {
  k_close(layer->mount);
  // Explicitly: a process that was just forked may still have the descriptor.
  if (layer->lock >= 0) flock(layer->lock, LOCK_UN);
  k_close(layer->lock);
  free(layer->upper_path);
  free(layer);
}

uint64_t layer_handle(const struct layer *layer) { return layer->handle; }

struct layer *layer_open(struct conn *conn, const uint8_t *bytes, size_t size,
                         struct failure *err) {
  struct layer_request request;
  struct overlay overlay = {.upper = -1, .work = -1};
  if (parse_layer_request(bytes, size, &request, err) || check_request(&request, err)) return NULL;
  struct layer *layer = calloc(1, sizeof *layer);
  if (!layer || asprintf(&layer->upper_path, "%s/upper", request.dir) < 0) {
    fail(err, REFUSED_OVERLOAD, "out of memory");
    free(layer);
    return NULL;
  }
  layer->owner = (struct owner){request.uid, request.gid};
  layer->conn = conn;
  layer->point = free_point();
  layer->mount = layer->lock = -1;
  if (!open_parts(&request, layer, &overlay, err))
    layer->mount = request.kind == LAYER_COPY ? copy_mount(overlay.upper, layer->point, err)
                                              : overlay_mount(&overlay, layer->point, err);
  close_parts(&overlay);
  if (layer->mount < 0) {
    free_layer(layer);
    return NULL;
  }
  while (!layer->handle && getrandom(&layer->handle, sizeof layer->handle, 0) < 0) {
  }
  layer->next = layers;
  layers = layer;
  return layer;
}

// ── use ──

static struct layer *acquire(uint64_t handle, const struct plan *plan, struct failure *err) {
  struct layer *layer = layers;
  while (layer && (layer->handle != handle || layer->closing)) layer = layer->next;
  if (!layer) {
    fail(err, REFUSED_BOX, "layer not found: open one first");
    return NULL;
  }
  if (layer->owner.uid != plan->uid || layer->owner.gid != plan->gid) {
    fail(err, REFUSED_BOUNDS, "the layer is of uid %u, gid %u", layer->owner.uid, layer->owner.gid);
    return NULL;
  }
  layer->users++;
  return layer;
}

int layers_acquire(const struct plan *plan, struct layer *acquired[BOX_LAYERS_MAX],
                   struct failure *err) {
  memset(acquired, 0, BOX_LAYERS_MAX * sizeof *acquired);
  for (unsigned i = 0; i < plan->layer_count; i++)
    if (!(acquired[i] = acquire(plan->layers[i], plan, err))) {
      layers_release(acquired);
      return -1;
    }
  return 0;
}

int layer_clone(const struct layer *layer) {
  return k_open_tree(layer->mount, "", AT_EMPTY_PATH | K_OPEN_TREE_CLONE | O_CLOEXEC);
}

const char *layer_upper(const struct layer *layer) { return layer->upper_path; }

// A stub is removed from the upper itself, once nothing has that mounted: through the overlay, its
// removal would be recorded as one of a file that exists below by then.
int layer_keep_stub(struct layer *layer, unsigned stub, struct failure *err) {
  if (layer->stub_count == LAYER_STUBS_MAX)
    return fail(err, REFUSED_PLAN, "more than %d missing protected paths in a layer",
                LAYER_STUBS_MAX);
  layer->stubs[layer->stub_count++] = stub;
  stub_ref(stub);
  return 0;
}

bool is_layer_dir(const char *path) {
  for (const struct layer *layer = layers; layer; layer = layer->next) {
    char dir[PATH_BYTES];
    split_path(layer->upper_path, dir);
    if (is_below(dir, path) || is_below(path, dir)) return true;
  }
  return false;
}

// ── closing ──

static void end_if_unused(struct layer *layer) {
  if (!layer->closing || layer->users) return;
  for (struct layer **at = &layers; *at; at = &(*at)->next)
    if (*at == layer) {
      *at = layer->next;
      break;
    }
  for (unsigned i = 0; i < layer->stub_count; i++) stub_unref(layer->stubs[i]);
  struct conn *conn = layer->conn;
  free_layer(layer);
  // Reported last: a client that hears of it can open the same directory again.
  if (!conn) return;
  conn_detach_layer(conn);
  conn_send(conn, FRAME_LAYER_CLOSED, NULL, 0);
}

void layers_release(struct layer *acquired[BOX_LAYERS_MAX]) {
  for (unsigned i = 0; i < BOX_LAYERS_MAX; i++) {
    struct layer *layer = acquired[i];
    acquired[i] = NULL;
    if (!layer) continue;
    layer->users--;
    end_if_unused(layer);
  }
}

void layer_close(struct layer *layer) {
  if (layer->closing) return;
  layer->closing = true;
  overlay_unmount(layer->point);
  k_close(layer->mount);
  layer->mount = -1;
  end_if_unused(layer);
}

void layer_detach_client(struct layer *layer) {
  layer->conn = NULL;
  layer_close(layer);
}

// The warden is stopping. Boxes that refuse to die keep their copies of the mount.
void layers_close_all(void) {
  while (layers) {
    layers->conn = NULL;
    layers->users = 0;
    if (layers->closing) end_if_unused(layers);
    else layer_close(layers);
  }
}
