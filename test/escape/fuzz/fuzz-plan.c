// Fuzzes the plan decoder. libFuzzer calls LLVMFuzzerTestOneInput; without libFuzzer, main mutates
// a seed plan for a number of seconds: `fuzz-plan <seed file> <seconds> <random seed>`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../native/warden/plan.h"

static volatile size_t checksum;

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static struct plan plan;
  struct failure err;
  struct frame_header header;
  if (size >= FRAME_HEADER_BYTES) parse_frame_header(bytes, &header, &err);
  // A copy of exactly this size, so that the sanitizer sees a read past the end.
  uint8_t *copy = malloc(size ? size : 1);
  memcpy(copy, bytes, size);
  static const uint8_t frames[] = {FRAME_PLAN, FRAME_OPEN, FRAME_EXEC};
  uint8_t frame = frames[size % 3];
  if (!parse_plan(frame, copy, size, &plan, &err)) {
    size_t sum = 0;
    if (frame != FRAME_EXEC) sum += strlen(plan.id);
    if (frame != FRAME_OPEN) sum += strlen(plan.cwd);
    if (plan.relay_count > RELAYS_MAX || (frame == FRAME_EXEC && plan.relay_count)) abort();
    for (unsigned i = 0; i < plan.relay_count; i++) {
      const struct relay *relay = &plan.relays[i];
      sum += strlen(relay->socket);
      if (relay->port < RELAY_PORT_MIN || relay->socket[0] != '/') abort();
      if (strstr(relay->socket, "/../") || plan.level != LEVEL_2) abort();
      for (unsigned other = 0; other < i; other++)
        if (plan.relays[other].port == relay->port) abort();
    }
    if (frame == FRAME_OPEN ? plan.arg_count : !plan.arg_count) abort();
    if (frame == FRAME_EXEC ? !plan.box : plan.box != 0) abort();
    for (unsigned i = 0; i < plan.arg_count; i++) sum += strlen(plan.args[i]);
    for (unsigned i = 0; i < plan.env_count; i++) sum += strlen(plan.envs[i]);
    for (unsigned i = 0; i < plan.bind_count; i++)
      sum += strlen(plan.binds[i].src) + strlen(plan.binds[i].dst);
    for (unsigned i = 0; i < plan.bind_count; i++)
      if (plan.binds[i].kind == BIND_LAYER
              ? plan.binds[i].layer >= plan.layer_count || plan.level != LEVEL_2
              : plan.binds[i].flags & BIND_READONLY)
        abort();
    if (plan.has_terminal ? !plan.columns || !plan.rows || frame == FRAME_OPEN
                          : plan.columns || plan.rows)
      abort();
    if (frame == FRAME_EXEC ? plan.terminals : plan.has_terminal && !plan.terminals) abort();
    if (plan.terminals && (plan.level != LEVEL_2 || plan.profile == PROFILE_RUNNER)) abort();
    if (plan.proc_entries &&
        (frame == FRAME_EXEC || plan.level != LEVEL_2 || plan.profile == PROFILE_RUNNER))
      abort();
    if (plan.args[plan.arg_count] || plan.envs[plan.env_count]) abort();
    if (plan.uid == 0 || plan.gid == 0) abort();
    for (unsigned i = 0; i < plan.bind_count; i++)
      if (strstr(plan.binds[i].dst, "/../") || plan.binds[i].dst[0] != '/') abort();
    checksum = sum;
  } else if (!err.code || !err.text[0]) {
    abort();
  }
  uint16_t columns, rows;
  if (!parse_winsize(copy, size, &columns, &rows) && (size != WINSIZE_BYTES || !columns || !rows))
    abort();
  struct layer_request layer;
  // Paths, so that more than the header is decoded.
  if (size > LAYER_HEADER_BYTES + 10 && size % 3 == 1) {
    copy[8] %= 3;
    copy[9] = copy[10] = copy[11] = 0;
    for (unsigned i = 0; i < copy[8] + 1u; i++) memcpy(copy + LAYER_HEADER_BYTES + 3 * i, "/a", 3);
    copy[LAYER_HEADER_BYTES + 3 * (copy[8] + 1)] = '/';
    copy[size - 1] = 0;
  }
  if (!parse_layer_request(copy, size, &layer, &err)) {
    if (!layer.uid || !layer.gid || layer.sealed_count > SEALED_MAX) abort();
    size_t sum = LAYER_HEADER_BYTES + strlen(layer.lower) + 1 + strlen(layer.dir) + 1;
    for (unsigned i = 0; i < layer.sealed_count; i++) sum += strlen(layer.sealed[i]) + 1;
    if (sum != size || layer.dir[0] != '/' || strstr(layer.dir, "/../")) abort();
    checksum = sum;
  } else if (!err.code || !err.text[0]) {
    abort();
  }
  struct dir_request request;
  // Close enough to a valid request that the path is decoded.
  if (size > DIR_HEADER_BYTES + 1 && size % 2) {
    copy[0] = (uint8_t)(DIR_CHOWN + size / 2 % DIR_REVOKE);
    copy[1] = copy[2] = copy[3] = copy[size - 1] = 0;
    copy[DIR_HEADER_BYTES] = '/';
    if (copy[0] != DIR_CHOWN) memset(copy + 4, 0, 4);
    if (copy[0] >= DIR_DELETE) memset(copy + 8, 0, 4);
  }
  if (!parse_dir_request(copy, size, &request, &err)) {
    if (request.path[0] != '/' || !request.path[1] || strstr(request.path, "/../")) abort();
    if (!request.uid == (request.op == DIR_CHOWN)) abort();
    if (request.op <= DIR_SHARE ? !request.gid : request.op >= DIR_DELETE && request.gid) abort();
    checksum = strlen(request.path);
  } else if (!err.code || !err.text[0]) {
    abort();
  }
  free(copy);
  return 0;
}

#ifndef WITH_LIBFUZZER
static uint64_t state;
static uint32_t draw(uint32_t below) {
  state = state * 6364136223846793005ull + 1442695040888963407ull;
  return below ? (uint32_t)(state >> 33) % below : 0;
}

static size_t mutate(uint8_t *bytes, size_t size, size_t capacity) {
  static const uint32_t odd[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xffff, 0x7fffffff, 0xffffffff};
  for (uint32_t times = 1 + draw(6); times; times--) {
    if (!size) return 0;
    size_t at = draw((uint32_t)size);
    switch (draw(6)) {
      case 0: bytes[at] = (uint8_t)draw(256); break;
      case 1: bytes[at] ^= (uint8_t)(1u << draw(8)); break;
      case 2: size = at; break;
      case 3:
        if (size - at >= 4) memcpy(bytes + at, &odd[draw(9)], 4);
        break;
      case 4: {  // duplicate a range
        size_t length = draw((uint32_t)(size - at) + 1);
        if (length > capacity - size) length = capacity - size;
        memmove(bytes + at + length, bytes + at, size - at);
        size += length;
        break;
      }
      default: {  // delete a range
        size_t length = draw((uint32_t)(size - at) + 1);
        memmove(bytes + at, bytes + at + length, size - at - length);
        size -= length;
      }
    }
  }
  return size;
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  static uint8_t seed[FRAME_MAX], bytes[FRAME_MAX];
  FILE *in = fopen(argv[1], "rb");
  if (!in) return 2;
  size_t seed_size = fread(seed, 1, sizeof seed, in);
  fclose(in);
  state = strtoull(argv[3], NULL, 10);
  struct plan plan;
  struct failure err;
  if (parse_plan(FRAME_PLAN, seed, seed_size, &plan, &err)) {
    fprintf(stderr, "the seed is no plan: %s\n", err.text);
    return 2;
  }
  time_t until = time(NULL) + atoi(argv[2]);
  unsigned long tried = 0;
  size_t size = 0;
  while (time(NULL) < until)
    for (int i = 0; i < 1000; i++, tried++) {
      if (!size || !draw(20)) memcpy(bytes, seed, size = seed_size);
      size = mutate(bytes, size, sizeof bytes);
      LLVMFuzzerTestOneInput(bytes, size);
    }
  printf("%lu plans\n", tried);
  return 0;
}
#endif
