// Kills one process at a time, and waits until the runtime is complete again. Every kind gets its
// turn: they are drawn like cards, and shuffled again when none is left.
import { setTimeout as sleep } from 'node:timers/promises';
import { DAEMONS } from '../../src/wire/daemons.ts';
import type { ProcessName } from '../support/installation.ts';
import { isAlive } from '../support/processes.ts';
import type { Seeded } from '../support/seeded.ts';
import type { SoakSite } from './site.ts';

const POLL_MS = 25;
const BACK_MS_MAX = 60_000;

export type Kill = { name: ProcessName; atMs: number; backMs: number };

export function makeKiller(site: SoakSite, random: Seeded, mode: 'embedded' | 'split') {
  const isRoot = process.getuid?.() === 0;
  const always: ProcessName[] = ['main', 'auditd-ai', 'warden', 'runner', 'supervisor'];
  const kinds = new Set<ProcessName>([
    ...always,
    ...(isRoot ? (['keeper'] as const) : []),
    ...(mode === 'split' ? DAEMONS : []),
  ]);
  const whole = [...kinds].filter((name) => name !== 'runner');
  let cards: ProcessName[] = [];
  const draw = (): ProcessName => {
    if (cards.length === 0) cards = [...kinds];
    return cards.splice(random.int(cards.length), 1)[0]!;
  };

  /** Resolves when the runtime is complete again, without the process that was killed. */
  return async (startMs: number): Promise<Kill> => {
    const name = draw();
    const pid = await findVictim(site, name, random);
    const atMs = performance.now();
    process.kill(pid, 'SIGKILL');
    // An operator sees in agentctl status that it is missing.
    if (name === 'supervisor') {
      await waitFor(() => !isAlive(pid), 'the end of the supervisor');
      await site.ctl('down');
      await site.up();
    }
    await waitFor(() => isComplete(site, whole, pid), `the runtime after kill -9 of ${name}`);
    return { name, atMs: atMs - startMs, backMs: performance.now() - atMs };
  };
}

async function findVictim(site: SoakSite, name: ProcessName, random: Seeded): Promise<number> {
  for (;;) {
    const pids = site.pids(name).filter(isAlive);
    if (pids.length > 0) return random.pick(pids);
    await sleep(POLL_MS);
  }
}

function isComplete(site: SoakSite, names: readonly ProcessName[], killed: number): boolean {
  if (site.supervisor()?.state !== 'running') return false;
  const found = site.processes();
  return names.every((name) => found[name]?.some((pid) => pid !== killed && isAlive(pid)) === true);
}

async function waitFor(isTrue: () => boolean, what: string): Promise<void> {
  const endMs = performance.now() + BACK_MS_MAX;
  while (!isTrue()) {
    if (performance.now() > endMs) throw new Error(`${what}: not within ${BACK_MS_MAX} ms`);
    await sleep(POLL_MS);
  }
}
