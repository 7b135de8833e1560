// Checks of what is around a runtime: the audit log on disk, the room for it, the clock.
import { spawnSync } from 'node:child_process';
import { existsSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { Fault } from '../../../../wire/errors.ts';
import { findProgram } from '../../programs.ts';
import { size } from '../../show/amounts.ts';
import { oneLine } from '../../show/plain.ts';
import { readRuntimeInfo } from '../../state.ts';
import { type Finding, fail, ok, warn } from './finding.ts';

const verifyWithinMs = 10_000;
const freeBytesWarn = 1 << 30;
const freeBytesFail = 100 << 20;
/** Clocks of different disks and hosts are never quite equal. */
const clockSlackMs = 5_000;

export function checkAudit(stateDir: string): Finding {
  const dir = join(stateDir, 'audit');
  if (!existsSync(join(dir, 'audit.jsonl'))) return ok('audit', 'no audit log yet');
  try {
    const program = findProgram('audit-verify');
    const result = spawnSync(process.execPath, [program, dir], {
      env: {},
      encoding: 'utf8',
      timeout: verifyWithinMs,
    });
    if (result.signal !== null || result.error !== undefined)
      return warn('audit', 'the log is too long for a quick look', 'agentctl audit verify');
    const said = oneLine((result.stdout || result.stderr).split('\n')[0]!);
    if (result.status === 0) return ok('audit', said);
    return fail('audit', said, 'agentctl audit verify');
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return warn('audit', error.message, error.hint);
  }
}

export function checkDisk(stateDir: string): Finding {
  let dir = stateDir;
  while (!existsSync(dir)) dir = dirname(dir);
  const { bavail, bsize } = statfsSync(dir);
  const free = bavail * bsize;
  const text = `${size(free)} free on the disk of ${stateDir}`;
  if (free < freeBytesFail) return fail('disk', text, `df -h ${dir}`);
  return free < freeBytesWarn ? warn('disk', text, `df -h ${dir}`) : ok('disk', text);
}

/** What was written before now must not lie in the future. */
export function checkClock(stateDir: string, nowMs: number): Finding {
  const times: [what: string, ms: number][] = [];
  const info = readRuntimeInfo(stateDir);
  if (info !== undefined) times.push(['the start of the runtime', Date.parse(info.started_at)]);
  for (const name of ['audit/audit.jsonl', 'operator.key']) {
    const stat = statSync(join(stateDir, name), { throwIfNoEntry: false });
    if (stat !== undefined) times.push([name, stat.mtimeMs]);
  }
  const ahead = times.find(([, ms]) => ms > nowMs + clockSlackMs);
  const now = new Date(nowMs).toISOString();
  if (ahead === undefined) return ok('clock', `${now}, after everything written here`);
  const when = new Date(ahead[1]).toISOString();
  return warn(
    'clock',
    `it is ${now}, but ${ahead[0]} is of ${when}: the clock was set back`,
    'date -u',
  );
}
