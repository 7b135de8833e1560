// Directories of the runtime that no manifest may open to an agent, with their purposes.
import { existsSync, realpathSync } from 'node:fs';

type OwnDirs = {
  stateDir: string;
  runtimeDir: string;
  agentsDir: string;
  policiesDir: string;
  orderDirs: readonly string[];
};

export function listClosedDirs(own: OwnDirs): Map<string, string> {
  const dirs: [dir: string, purpose: string][] = [
    [own.stateDir, "the runtime's state"],
    [own.runtimeDir, "the directory of the runtime's sockets"],
    [own.agentsDir, 'the directory of the manifests'],
    [own.policiesDir, 'the directory of the rules'],
    ...own.orderDirs.map((dir): [string, string] => [dir, 'a directory of personas or skills']),
  ];
  return new Map(
    dirs.flatMap(([dir, purpose]) => {
      // An agent could name it by its path without links, too.
      const paths = existsSync(dir) ? [dir, realpathSync(dir)] : [dir];
      return paths.map((path): [string, string] => [path, purpose]);
    }),
  );
}
