// What of this host goes into boxes: the system's own files, Node with the libraries it needs, the
// runner's program. Found by looking, once.
import { existsSync, lstatSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Bind } from './plan.ts';

/** Where agentd's own programs are seen in a tool box. */
export const TOOL_BIN = '/agentd/bin';
const RUNNER_DIR = '/usr/lib/agentd';

/** Node ends when it may not read the system's own settings of OpenSSL. */
const NODE_ENV = { OPENSSL_CONF: '/dev/null' };

export type RunnerPlace = { binds: Bind[]; argv: string[]; env: Record<string, string> };

/** Also when this user may not look: the warden, which opens it, may. */
export function isThere(path: string): boolean {
  try {
    return statSync(path) !== undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES';
  }
}

/** Links stay links, so that a merged /usr looks as it does outside. */
export function systemBinds(paths: readonly string[]): Bind[] {
  const binds: Bind[] = [];
  for (const path of paths) {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    if (stat === undefined) continue;
    if (stat.isSymbolicLink()) binds.push({ kind: 'symlink', src: readlinkSync(path), dst: path });
    else if (realpathSync(path) === path) binds.push({ kind: 'ro', src: path, dst: path });
  }
  return binds;
}

/** The libraries this very program was linked with, by the names under which it asked for them. */
function nodeLibraries(): string[] {
  // The types do not know it yet. Without it the report looks up names of network peers.
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  const before = report.excludeNetwork;
  report.excludeNetwork = true;
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects: string[] };
  report.excludeNetwork = before;
  return sharedObjects.filter((path) => path.startsWith('/') && existsSync(path));
}

/** Node and the runner, read-only, and nothing else of the host. */
export function runnerPlace(runner: string): RunnerPlace {
  const program = realpathSync(runner);
  // From the sources it is several files.
  const isSource = program.endsWith('.ts');
  const libraries = nodeLibraries();
  return {
    binds: [
      { kind: 'ro', src: realpathSync(process.execPath), dst: '/bin/node' },
      ...libraries.map((path): Bind => ({ kind: 'ro', src: realpathSync(path), dst: path })),
      isSource
        ? { kind: 'ro', src: dirname(program), dst: RUNNER_DIR }
        : { kind: 'ro', src: program, dst: join(RUNNER_DIR, basename(program)) },
    ],
    argv: ['/bin/node', join(RUNNER_DIR, basename(program))],
    env: { ...NODE_ENV, LD_LIBRARY_PATH: [...new Set(libraries.map(dirname))].join(':') },
  };
}

/** Level 1 has the host's own tree: everything is where it is. */
export function runnerPlaceOnHost(runner: string): RunnerPlace {
  const program = realpathSync(runner);
  const node = realpathSync(process.execPath);
  const sources = [node, ...nodeLibraries().map((path) => realpathSync(path))];
  const own = program.endsWith('.ts') ? dirname(program) : program;
  return {
    binds: [...new Set([...sources, own])].map((path) => ({ kind: 'ro', src: path, dst: path })),
    argv: [node, program],
    env: NODE_ENV,
  };
}

/** agentd's Node, where the system has none of its own, and what serves the files of the box. */
export function toolBinds(boxfs: string | undefined): Bind[] {
  const node = realpathSync(process.execPath);
  return [
    ...(node.startsWith('/usr/') ? [] : [{ src: node, dst: `${TOOL_BIN}/node` }]),
    ...(boxfs === undefined ? [] : [{ src: realpathSync(boxfs), dst: `${TOOL_BIN}/boxfs` }]),
  ].map((bind) => ({ kind: 'ro', ...bind }));
}

const SECRET_NAMES = [
  '.ssh',
  '.gnupg',
  '.aws',
  '.azure',
  '.kube',
  '.docker',
  '.netrc',
  '.npmrc',
  '.pypirc',
  '.git-credentials',
  '.config/gh',
  '.config/gcloud',
  '.local/share/keyrings',
];
const SECRET_PATHS = ['/etc/shadow', '/etc/gshadow', '/etc/sudoers', '/etc/ssh', '/etc/agentd'];

/** Where a home really is: only that name of it can be declared. */
function realHome(home: string): string {
  try {
    return realpathSync(home);
  } catch {
    return home;
  }
}

/** Keys and tokens of the people of this host, and agentd's own state. */
export function secretPaths(
  own: readonly string[],
  passwdFile = '/etc/passwd',
  realOf: (home: string) => string = realHome,
): string[] {
  const text = existsSync(passwdFile) ? readFileSync(passwdFile, 'utf8') : '';
  const homes = text
    .split('\n')
    .map((line) => line.split(':')[5] ?? '')
    .filter((home) => /^\/(root$|home\/|Users\/|var\/home\/)/.test(home));
  const inHomes = [...new Set(homes.flatMap((home) => [home, realOf(home)]))].flatMap((home) =>
    SECRET_NAMES.map((name) => join(home, name)),
  );
  return [...own, ...SECRET_PATHS, ...inHomes];
}
