// Decodes plans. Every length is checked before use, every string must end inside its
// field, every path must be absolute and normalized. Invalid input is rejected, never repaired.
#include "plan.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "plan-values.h"

int fail(struct failure *err, int code, const char *text, ...) {
  va_list args;
  va_start(args, text);
  err->code = code;
  err->hint[0] = 0;
  vsnprintf(err->text, sizeof err->text, text, args);
  va_end(args);
  return -1;
}

static int is_name(const char *name, size_t max) {
  size_t size = strlen(name);
  if (size == 0 || size > max) return 0;
  for (; *name; name++) {
    char c = *name;
    int ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-';
    if (!ok) return 0;
  }
  return 1;
}

// Decimal, without leading zeros. Returns 0 for anything else.
static uint64_t parse_handle(const char *text) {
  uint64_t number = 0;
  if (*text == '0') return 0;
  for (; *text; text++) {
    uint64_t digit = (uint64_t)(*text - '0');
    if (*text < '0' || *text > '9' || number > (UINT64_MAX - digit) / 10) return 0;
    number = number * 10 + digit;
  }
  return number;
}

static int parse_layer_bind(struct bind *bind, struct plan *plan, struct failure *err) {
  uint64_t layer = parse_handle(bind->src);
  if (!layer) return fail(err, REFUSED_PLAN, "%.200s names no layer", bind->dst);
  while (bind->layer < plan->layer_count && plan->layers[bind->layer] != layer) bind->layer++;
  if (bind->layer == BOX_LAYERS_MAX)
    return fail(err, REFUSED_PLAN, "a box uses up to %d layers", BOX_LAYERS_MAX);
  if (bind->layer == plan->layer_count) plan->layers[plan->layer_count++] = layer;
  return 0;
}

static int parse_bind(const uint8_t *value, size_t size, struct plan *plan, struct failure *err) {
  if (plan->bind_count == BINDS_MAX)
    return fail(err, REFUSED_PLAN, "more than %d paths", BINDS_MAX);
  if (size < 10 || value[size - 1] != 0) return fail(err, REFUSED_PLAN, "a path is truncated");
  struct bind *bind = &plan->binds[plan->bind_count++];
  bind->kind = value[0];
  bind->flags = value[1];
  bind->layer = 0;
  bind->size_kib = u32(value + 4);
  if (u16(value + 2) || bind->flags & ~BIND_FLAGS)
    return fail(err, REFUSED_PLAN, "a path has unknown flags");
  if ((bind->flags & BIND_OWNED && bind->kind != BIND_RO && bind->kind != BIND_RW) ||
      (bind->flags & BIND_READONLY && bind->kind != BIND_LAYER))
    return fail(err, REFUSED_PLAN, "a path of kind %u cannot have these flags", bind->kind);
  size_t src_size = strnlen((const char *)value + 8, size - 8) + 1;
  if (src_size >= size - 8) return fail(err, REFUSED_PLAN, "a path has no destination");
  bind->src = (const char *)value + 8;
  bind->dst = as_string(value + 8 + src_size, size - 8 - src_size);
  if (!bind->dst || !is_normalized_path(bind->dst))
    return fail(err, REFUSED_PLAN, "a destination is not an absolute, normalized path");
  switch (bind->kind) {
    case BIND_RO:
    case BIND_RW:
      if (!is_normalized_path(bind->src))
        return fail(err, REFUSED_PLAN, "the source of %.200s is not an absolute, normalized path",
                    bind->dst);
      break;
    case BIND_LAYER:
      if (parse_layer_bind(bind, plan, err)) return -1;
      break;
    case BIND_SYMLINK:
      if (!*bind->src || src_size > PATH_BYTES)
        return fail(err, REFUSED_PLAN, "the link %.200s has no target", bind->dst);
      break;
    case BIND_TMPFS:
    case BIND_MASK:
    case BIND_PROTECT_FILE:
    case BIND_PROTECT_DIR:
      if (*bind->src) return fail(err, REFUSED_PLAN, "%.200s takes no source", bind->dst);
      break;
    default: return fail(err, REFUSED_PLAN, "unknown path kind %u", bind->kind);
  }
  if (!bind->dst[1]) return fail(err, REFUSED_PLAN, "/ cannot be a destination");
  if (bind->kind == BIND_LAYER || bind->flags & BIND_OWNED) plan->owns_files = 1;
  return 0;
}

static int parse_relay(const uint8_t *value, size_t size, struct plan *plan,
                       struct failure *err) {
  if (plan->relay_count == RELAYS_MAX)
    return fail(err, REFUSED_PLAN, "more than %d relays", RELAYS_MAX);
  const char *socket = size > 2 ? as_string(value + 2, size - 2) : NULL;
  if (!socket || !is_normalized_path(socket) || !socket[1])
    return fail(err, REFUSED_PLAN, "the socket of a relay is not an absolute, normalized path");
  struct relay relay = {u16(value), socket};
  if (relay.port < RELAY_PORT_MIN)
    return fail(err, REFUSED_PLAN, "a relay needs a port from %d on", RELAY_PORT_MIN);
  for (unsigned i = 0; i < plan->relay_count; i++)
    if (plan->relays[i].port == relay.port)
      return fail(err, REFUSED_PLAN, "port %u has two relays", relay.port);
  plan->relays[plan->relay_count++] = relay;
  return 0;
}

static int parse_number(uint16_t tag, const uint8_t *value, size_t size, struct plan *plan,
                        struct failure *err) {
  if (tag == TAG_LIMIT) {
    if (size != 9 || value[0] == 0 || value[0] >= LIMIT_COUNT)
      return fail(err, REFUSED_PLAN, "unknown limit");
    // Far beyond any machine, and small enough that sums do not overflow.
    if (u64(value + 1) > 1ull << 50) return fail(err, REFUSED_PLAN, "a limit is too large");
    plan->limits[value[0]] = u64(value + 1);
    return 0;
  }
  if (tag == TAG_LEVEL || tag == TAG_PROFILE) {
    if (size != 1) return fail(err, REFUSED_PLAN, "field %u must have 1 byte", tag);
    *(tag == TAG_LEVEL ? &plan->level : &plan->profile) = value[0];
    return 0;
  }
  if (tag == TAG_TERMINALS || tag == TAG_PROC_ENTRIES || tag == TAG_OWNER_RIGHTS) {
    if (size != 1 || value[0] != 1) return fail(err, REFUSED_PLAN, "field %u must be 1", tag);
    *(tag == TAG_TERMINALS      ? &plan->terminals
      : tag == TAG_PROC_ENTRIES ? &plan->proc_entries
                                : &plan->wants_rights) = 1;
    return 0;
  }
  if (tag == TAG_BOX) {
    if (size != 8) return fail(err, REFUSED_PLAN, "field %u must have 8 bytes", tag);
    plan->box = u64(value);
    return 0;
  }
  if (size != 4) return fail(err, REFUSED_PLAN, "field %u must have 4 bytes", tag);
  uint32_t number = u32(value);
  switch (tag) {
    case TAG_UID: plan->uid = number; return 0;
    case TAG_GID: plan->gid = number; return 0;
    case TAG_PTY:
      if (parse_winsize(value, size, &plan->columns, &plan->rows))
        return fail(err, REFUSED_PLAN, "a terminal has at least one column and one row");
      plan->has_terminal = 1;
      return 0;
    case TAG_GROUP:
      if (plan->group_count == GROUPS_MAX)
        return fail(err, REFUSED_PLAN, "more than %d groups", GROUPS_MAX);
      plan->groups[plan->group_count++] = number;
      return 0;
  }
#ifdef WARDEN_TEST_GUARDS
  if (tag == TAG_GUARDS_OFF) {
    plan->guards_off = number;
    return 0;
  }
#endif
  return fail(err, REFUSED_PLAN, "unknown field %u", tag);
}

static int parse_text(uint16_t tag, const uint8_t *value, size_t size, struct plan *plan,
                      struct failure *err) {
  const char *string = as_string(value, size);
  if (!string) return fail(err, REFUSED_PLAN, "field %u is not a string", tag);
  switch (tag) {
    case TAG_ID: plan->id = string; return 0;
    case TAG_CWD: plan->cwd = string; return 0;
    case TAG_USER: plan->user = string; return 0;
    case TAG_ARG:
      if (plan->arg_count == ARGS_MAX)
        return fail(err, REFUSED_PLAN, "more than %d arguments", ARGS_MAX);
      plan->args[plan->arg_count++] = string;
      return 0;
    default:
      if (plan->env_count == ENVS_MAX)
        return fail(err, REFUSED_PLAN, "more than %d environment entries", ENVS_MAX);
      if (!strchr(string, '=') || string[0] == '=')
        return fail(err, REFUSED_PLAN, "an environment entry has no name");
      plan->envs[plan->env_count++] = string;
      return 0;
  }
}

static int check_command(const struct plan *plan, struct failure *err) {
  if (plan->arg_count == 0 || !is_normalized_path(plan->args[0]))
    return fail(err, REFUSED_PLAN, "the command is not an absolute, normalized path");
  if (!plan->cwd || !is_normalized_path(plan->cwd))
    return fail(err, REFUSED_PLAN, "the working directory is not an absolute, normalized path");
  return 0;
}

static int check_limits(const struct plan *plan, struct failure *err) {
  for (int which = 1; which < LIMIT_COUNT; which++)
    if (plan->limits[which] == 0 && which != LIMIT_GRACE_MS && which != LIMIT_CPU_MILLI)
      return fail(err, REFUSED_PLAN, "limit %d is missing", which);
  return 0;
}

static int check_identity(const struct plan *plan, struct failure *err) {
  if (!plan->id || !is_name(plan->id, 64))
    return fail(err, REFUSED_PLAN, "the id is missing or has invalid characters");
  if (plan->user && !is_name(plan->user, 32))
    return fail(err, REFUSED_PLAN, "the user name has invalid characters");
  uint32_t unset = UINT32_MAX;
  if (plan->uid == 0 || plan->gid == 0 || plan->uid == unset || plan->gid == unset)
    return fail(err, REFUSED_PLAN, "uid and gid are required and must not be 0");
  for (unsigned i = 0; i < plan->group_count; i++)
    if (plan->groups[i] == 0 || plan->groups[i] == unset)
      return fail(err, REFUSED_PLAN, "group 0 is not allowed");
  return 0;
}

static int check_paths(const struct plan *plan, struct failure *err) {
  for (unsigned i = 0; plan->level == LEVEL_1 && i < plan->bind_count; i++) {
    const struct bind *bind = &plan->binds[i];
    if ((bind->kind != BIND_RO && bind->kind != BIND_RW) || bind->flags & BIND_OWNED)
      return fail(err, REFUSED_PLAN, "level 1 uses the host's file tree: %.200s needs level 2",
                  bind->dst);
    if (strcmp(bind->src, bind->dst))
      return fail(err, REFUSED_PLAN, "level 1 cannot mount %.120s at %.120s", bind->src, bind->dst);
  }
  if (plan->relay_count && (plan->level != LEVEL_2 || plan->profile == PROFILE_RUNNER))
    return fail(err, REFUSED_PLAN, "a relay needs level 2, and a profile with a network");
  if ((plan->terminals || plan->has_terminal) &&
      (plan->level != LEVEL_2 || plan->profile == PROFILE_RUNNER))
    return fail(err, REFUSED_PLAN, "a terminal needs level 2, and is not for runners");
  if (plan->proc_entries && (plan->level != LEVEL_2 || plan->profile == PROFILE_RUNNER))
    return fail(err, REFUSED_PLAN, "entries of /proc need level 2, and are not for runners");
  if (plan->wants_rights && (plan->profile == PROFILE_RUNNER || plan->relay_count ||
                             plan->terminals || plan->proc_entries || plan->group_count))
    return fail(err, REFUSED_PLAN, "an owner's rights are for boxes with files only");
  return 0;
}

// A command in an open box brings only itself: identity, level and paths are the box's.
static int check_exec(const struct plan *plan, struct failure *err) {
  if (!plan->box) return fail(err, REFUSED_PLAN, "the box is missing");
  if (plan->id || plan->user || plan->level || plan->relay_count || plan->bind_count ||
      plan->terminals || plan->proc_entries || plan->wants_rights || plan->group_count ||
      plan->uid != UINT32_MAX || plan->gid != UINT32_MAX)
    return fail(err, REFUSED_PLAN, "identity, level and paths are set by the open box");
  if (plan->profile > PROFILE_RUNNER)
    return fail(err, REFUSED_PLAN, "unknown profile %u", plan->profile);
  return check_command(plan, err) || check_limits(plan, err) ? -1 : 0;
}

static int check_plan(uint8_t frame, const struct plan *plan, struct failure *err) {
  if (frame == FRAME_EXEC) return check_exec(plan, err);
  if (plan->box) return fail(err, REFUSED_PLAN, "a new box has no handle yet");
  if (plan->level != LEVEL_1 && plan->level != LEVEL_2)
    return fail(err, REFUSED_PLAN, "level %u is not supported, only 1 and 2", plan->level);
  if (plan->profile != PROFILE_TOOL && plan->profile != PROFILE_RUNNER)
    return fail(err, REFUSED_PLAN, "unknown profile %u", plan->profile);
  if (frame == FRAME_OPEN) {
    if (plan->level != LEVEL_2) return fail(err, REFUSED_PLAN, "an open box needs level 2");
    if (plan->arg_count || plan->env_count || plan->cwd || plan->has_terminal)
      return fail(err, REFUSED_PLAN, "an open box takes no command");
  } else if (plan->wants_rights) {
    return fail(err, REFUSED_PLAN, "an owner's rights need an open box");
  } else if (check_command(plan, err)) {
    return -1;
  }
  return check_identity(plan, err) || check_limits(plan, err) || check_paths(plan, err) ? -1 : 0;
}

int parse_plan(uint8_t frame, const uint8_t *bytes, size_t size, struct plan *plan,
               struct failure *err) {
  memset(plan, 0, sizeof *plan);
  plan->uid = plan->gid = UINT32_MAX;
  unsigned seen = 0;
  for (size_t at = 0; at < size;) {
    if (size - at < 6) return fail(err, REFUSED_PLAN, "a field is truncated");
    uint16_t tag = u16(bytes + at);
    size_t length = u32(bytes + at + 2);
    at += 6;
    if (length > size - at) return fail(err, REFUSED_PLAN, "a field is truncated");
    int repeatable = tag == TAG_GROUP || tag == TAG_ARG || tag == TAG_ENV || tag == TAG_BIND ||
                     tag == TAG_LIMIT || tag == TAG_RELAY;
    if (tag < 32 && !repeatable) {
      if (seen & 1u << tag) return fail(err, REFUSED_PLAN, "field %u is repeated", tag);
      seen |= 1u << tag;
    }
    int bad;
    switch (tag) {
      case TAG_BIND: bad = parse_bind(bytes + at, length, plan, err); break;
      case TAG_RELAY: bad = parse_relay(bytes + at, length, plan, err); break;
      case TAG_ID:
      case TAG_CWD:
      case TAG_USER:
      case TAG_ARG:
      case TAG_ENV: bad = parse_text(tag, bytes + at, length, plan, err); break;
      default: bad = parse_number(tag, bytes + at, length, plan, err);
    }
    if (bad) return -1;
    at += length;
  }
  if (check_plan(frame, plan, err)) return -1;
  if (frame == FRAME_PLAN && plan->has_terminal) plan->terminals = 1;
  return 0;
}
