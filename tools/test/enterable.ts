// Lets root test a clone that only root can enter, such as one in its home: some tests run its
// programs as another user. The clone gets a second place by a bind mount that only the tests see.
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmdirSync, statSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** Not below /tmp, which sandboxes hide. */
const BASES = ['/var/tmp', tmpdir()];

const REFUSED = 125;

const isOpen = (dir: string): boolean => (statSync(dir).mode & 0o001) !== 0;

export function canAllEnter(dir: string): boolean {
  const parent = dirname(dir);
  return isOpen(dir) && (parent === dir || canAllEnter(parent));
}

/**
 * Runs the program with the second place as its last argument. Undefined where that does not help:
 * this host refuses mounts, or the directory itself is closed.
 */
export async function runInSecondPlace(
  dir: string,
  program: readonly string[],
): Promise<number | undefined> {
  const base = BASES.find(canAllEnter);
  if (base === undefined || !isOpen(dir)) return undefined;
  if (spawnSync('unshare', ['--mount', 'true']).status !== 0) return undefined;
  const place = mkdtempSync(join(base, 'agentd-clone-'));
  chmodSync(place, 0o755);
  try {
    const script = `mount --bind "$0" "$1" || exit ${REFUSED}
cd "$1" && place=$1 && shift && exec "$@" "$place"`;
    const words = ['--mount', 'sh', '-c', script, dir, place, ...program];
    const status = await runToEnd('unshare', words);
    return status === REFUSED ? undefined : status;
  } finally {
    rmdirSync(place);
  }
}

/** Passes signals on, but for Ctrl-C, which the terminal sends to both. */
function runToEnd(program: string, words: readonly string[]): Promise<number> {
  const child = spawn(program, words, { stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      if (signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', (code, signal) =>
      resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])),
    );
  });
}
