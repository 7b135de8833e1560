// Making the state directory, with words for each way in which that fails. Not by one recursive
// call: below /proc that of Node never comes back.
import { mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fault } from '../../wire/errors.ts';
import { asOwnerOf } from './state-owner.ts';

const HINT = 'Name another with --state or AGENTD_STATE, one that this user may write.';

export function makeStateDir(stateDir: string): void {
  make(stateDir, stateDir);
  asOwnerOf(stateDir, (here) => make(join(here, 'logs'), stateDir));
  const { uid } = statSync(stateDir);
  // As root it may be the daemons' own: which user that is, the configuration says.
  if (uid === process.getuid?.() || process.getuid?.() === 0) return;
  throw fault(
    'bad_config',
    `the state directory ${stateDir} belongs to another user (uid ${uid})`,
    {
      hint: 'Use it as that user, or name another with --state or AGENTD_STATE.',
    },
  );
}

/** With those above it. Says what mkdir said: Node's own way calls a read-only disk ENOENT. */
export function makeAll(dir: string, mode: number): void {
  const missing: string[] = [];
  let at = dir;
  while (statSync(at, { throwIfNoEntry: false }) === undefined && at !== dirname(at)) {
    missing.unshift(at);
    at = dirname(at);
  }
  for (const one of missing) mkdirSync(one, { mode });
}

function make(dir: string, stateDir: string): void {
  try {
    makeAll(dir, 0o700);
  } catch (cause) {
    const { code = 'error' } = cause as NodeJS.ErrnoException;
    const what = `the state directory ${stateDir} cannot be made (${code})`;
    throw fault('bad_config', what, { hint: HINT, cause });
  }
}
