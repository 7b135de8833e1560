// Finds the host files that go into boxes: system files, Node with its libraries, the runner's
// program; and those that never do: keys and tokens.
import { existsSync, lstatSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Bind } from './plan.ts';

/** Directory of agentd's own programs in a tool box. */
export const TOOL_BIN = '/agentd/bin';
const RUNNER_DIR = '/usr/lib/agentd';

/** Node exits when it cannot read the system's OpenSSL configuration. */
const NODE_ENV = { OPENSSL_CONF: '/dev/null' };

export type RunnerFiles = { binds: Bind[]; argv: string[]; env: Record<string, string> };

/** Also true when this user has no access: the warden, which opens the path, may have. */
export function pathExists(path: string): boolean {
  try {
    return statSync(path) !== undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EACCES';
  }
}

/** Keeps links as links, so that a merged /usr looks as it does on the host. */
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

/** Lists the shared libraries of this process, by the names it loaded them under. */
function nodeLibraries(): string[] {
  // Not typed yet. Without it, the report resolves the names of network peers.
  const report = process.report as typeof process.report & { excludeNetwork: boolean };
  const before = report.excludeNetwork;
  report.excludeNetwork = true;
  const { sharedObjects } = report.getReport() as unknown as { sharedObjects: string[] };
  report.excludeNetwork = before;
  return sharedObjects.filter((path) => path.startsWith('/') && existsSync(path));
}

/** Binds Node and the runner, read-only, and nothing else of the host. */
export function findRunnerFiles(runner: string): RunnerFiles {
  const program = realpathSync(runner);
  // The source version is several files.
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

/** Binds agentd's Node, if the system has none, and boxfs. */
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

/** Returns the real path of a home: only that can be declared. */
function realHome(home: string): string {
  try {
    return realpathSync(home);
  } catch {
    return home;
  }
}

/** Lists paths of people's keys and tokens, and agentd's own state. */
export function secretPaths(
  own: readonly string[],
  passwdFile = '/etc/passwd',
  resolveHome: (home: string) => string = realHome,
): string[] {
  const text = existsSync(passwdFile) ? readFileSync(passwdFile, 'utf8') : '';
  const homes = text
    .split('\n')
    .map((line) => line.split(':')[5] ?? '')
    .filter((home) => /^\/(root$|home\/|Users\/|var\/home\/)/.test(home));
  const inHomes = [...new Set(homes.flatMap((home) => [home, resolveHome(home)]))].flatMap((home) =>
    SECRET_NAMES.map((name) => join(home, name)),
  );
  return [...own, ...SECRET_PATHS, ...inHomes];
}
