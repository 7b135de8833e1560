// Finds the processes of one runtime in /proc, and kills those that a fault test names.
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { DAEMONS } from '../../src/wire/daemons.ts';
import type { TestRuntime } from './runtime.ts';

/** Children of the runtime by name, from /proc: the supervisor offers no list. */
export function daemonPids(parent: number): Map<string, number> {
  const found = new Map<string, number>();
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8');
      if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) !== parent) continue;
      const argv = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0');
      const at = argv.indexOf('--daemon');
      // A daemon renames itself once it runs.
      const title = at >= 0 ? argv[at + 1]! : argv[0]!;
      if (title.endsWith('/warden')) found.set('warden', Number(name));
      if ((DAEMONS as readonly string[]).includes(title)) found.set(title, Number(name));
    } catch {
      // It has ended meanwhile.
    }
  }
  return found;
}

/** Kills for a daemon that waits at the failpoint of crash-at and may not kill others itself. */
export function killRequested({ stateDir, runtimePid }: TestRuntime): void {
  const file = join(stateDir, 'crash-now');
  if (!existsSync(file)) return;
  const pidsOf = (who: string): number[] => {
    if (who === 'warden') return wardensOf(stateDir);
    if (who === 'runners') return runnersOf(stateDir);
    return [daemonPids(runtimePid).get(who) ?? []].flat();
  };
  const who = readFileSync(file, 'utf8');
  for (const pid of pidsOf(who)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended by itself.
    }
  }
  rmSync(file);
}

const runnersOf = (stateDir: string): number[] =>
  readdirSync(join(stateDir, 'runners')).map((name) => Number(name.split('-')[0]));

/** The warden of this runtime, recognized by the HALT file in its arguments. */
export function wardensOf(stateDir: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      const parent = /^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      // Not its janitor.
      const isWarden = argv[0]?.endsWith('/warden') && argv.includes(join(stateDir, 'HALT'));
      return isWarden && parent !== '1';
    } catch {
      return false;
    }
  });
}
