// Hostile programs for the escape tests: `hostile <attack> [arguments]`. Exit 0 means that the
// attack worked; otherwise 1, with the step and the error on stdout. Statically linked.
#include "hostile.h"

int main(int argc, char **argv) {
  const struct attack *const all[] = {file_attacks, kernel_attacks, socket_attacks,
                                      process_attacks, terminal_attacks};
  setbuf(stdout, NULL);
  for (unsigned i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
    for (const struct attack *attack = all[i]; attack->name; attack++)
      if (!strcmp(attack->name, argv[1])) return attack->run(argv + 2);
  fprintf(stderr, "no such attack\n");
  return 2;
}
