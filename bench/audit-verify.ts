// Measures `agentctl audit verify` on a log with a long history against one with a short history:
// what was verified before must cost nothing. Before each turn both logs get the same new events.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type AuditLog, openLog } from '../src/daemons/auditd-ai/log/log.ts';
import { systemClock } from '../src/platform/clock.ts';
import { deriveId } from '../src/platform/ids.ts';
import { ROOT } from '../test/support/runtime.ts';
import { timeProcess } from './bare-start.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { compare, type Measure } from './rounds.ts';

const FEW = 7_000;
const MANY = 700_000;
const NEW = 100;
const BATCH = 5_000;
const TURNS = { rounds: 5, turnsPerRound: 6 };
const WARM_UP = 2;
const FULL_ROUNDS = 3;

type FilledLog = { stateDir: string; log: AuditLog; verify(...more: string[]): Promise<number> };

function makeEvents(from: number, count: number): string[] {
  return Array.from({ length: count }, (_, i) => {
    const seq = from + i + 1;
    const call_id = deriveId<string>('call', 'bench', seq >> 1);
    return JSON.stringify({
      id: `${call_id}.${seq % 2 === 0 ? 'attempted' : 'ended'}`,
      ts: new Date().toISOString(),
      event: seq % 2 === 0 ? 'tool.call.attempted' : 'tool.call.ended',
      source: 'toold',
      source_store: 'bench',
      source_seq: seq,
      principal: 'agent:coder',
      agent: 'coder',
      task_id: deriveId<string>('task', 'bench', seq >> 3),
      run_id: deriveId<string>('run', 'bench', seq >> 3),
      call_id,
      tool: 'file.read',
    });
  });
}

async function fillLog(events: number): Promise<FilledLog> {
  const stateDir = mkdtempSync(join(tmpdir(), 'agentd-verify-'));
  const log = await openLog({
    dir: join(stateDir, 'audit'),
    origin: 'bench.local/audit',
    clock: systemClock(),
    segmentBytesMax: 64 << 20,
    checkpointEveryMs: 1_000,
  });
  while (log.size < events)
    await log.append(makeEvents(log.size, Math.min(BATCH, events - log.size)));
  await log.signNow();
  const env = { PATH: process.env.PATH ?? '', HOME: stateDir, AGENTD_STATE: stateDir };
  const program = [join(ROOT, 'build', 'agentctl.mjs'), 'audit', 'verify'];
  const verify = (...more: string[]) => timeProcess(process.execPath, [...program, ...more], env);
  return { stateDir, log, verify };
}

function timed({ log, verify }: FilledLog): Measure {
  return async () => {
    await log.append(makeEvents(log.size, NEW));
    await log.signNow();
    return verify();
  };
}

async function run(): Promise<Figure[]> {
  const logs: FilledLog[] = [];
  try {
    for (const events of [FEW, MANY]) logs.push(await fillLog(events));
    const [few, many] = [logs[0]!, logs[1]!];
    const full: number[] = [];
    for (let round = 0; round < FULL_ROUNDS; round++) full.push(await many.verify('--full'));
    const [own, peer] = [timed(many), timed(few)];
    for (let i = 0; i < WARM_UP; i++) for (const one of [own, peer]) await one();
    const seen = await compare(TURNS, own, peer);
    return [
      {
        name: `audit verify, ${NEW} new events after 700,000, p50`,
        unit: 'ms',
        ...seen,
        peer: { name: 'after 7,000', ...seen.peer },
        bar: { of: 'ratio', max: 1.5 },
      },
      { name: 'audit verify --full, 700,000 events', unit: 'ms', own: seeRounds(full) },
    ];
  } finally {
    for (const { log, stateDir } of logs) {
      await log.close();
      rmSync(stateDir, { recursive: true, force: true });
    }
  }
}

export const auditVerify: Benchmark = {
  name: 'audit-verify',
  about: 'verifying a log of 700,000 events again, compared with one of 7,000',
  run,
};
