// Measures the first start on a state of the first release with a long history: every database is
// copied and migrated, and the index of the log is built anew.
import { execFileSync } from 'node:child_process';
import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { freshDir, ROOT } from '../test/support/runtime.ts';
import { timeProcess } from './bare-start.ts';
import { type Benchmark, exactly, type Figure, seeRounds } from './figure.ts';
import { fillFirstRelease } from './fill/first-release.ts';

const TASKS = 100_000;
const ROUNDS = 3;
const DATABASES = ['agentd', 'toold', 'modeld'];

/** Resolves with the time of `up` in seconds. */
async function timeFirstStart(base: string): Promise<number> {
  const stateDir = join(base, 'state');
  const program = join(ROOT, 'build', 'agentctl.mjs');
  const env = { PATH: process.env.PATH ?? '', HOME: base, AGENTD_STATE: stateDir };
  const agentctl = (...words: string[]) => timeProcess(process.execPath, [program, ...words], env);
  // Node copies a tree file by file through its own memory.
  execFileSync('cp', ['-a', join(base, 'filled'), stateDir]);
  execFileSync('sync', ['-f', stateDir]);
  try {
    const upMs = await agentctl('up');
    await agentctl('task', 'list');
    return upMs / 1_000;
  } finally {
    await agentctl('down').catch(() => undefined);
    rmSync(stateDir, { recursive: true, force: true });
  }
}

async function run(): Promise<Figure[]> {
  const base = freshDir();
  try {
    const filled = join(base, 'filled');
    await fillFirstRelease(filled, TASKS);
    const sizes = DATABASES.map((name) => statSync(join(filled, `${name}.sqlite`)).size);
    const starts: number[] = [];
    for (let round = 0; round < ROUNDS; round++) starts.push(await timeFirstStart(base));
    const tasks = TASKS.toLocaleString('en-US');
    return [
      {
        name: `first start on a state of the first release, ${tasks} tasks`,
        unit: 's',
        own: seeRounds(starts),
        bar: { of: 'value', max: 60 },
      },
      {
        name: 'size of its databases',
        unit: 'MB',
        own: exactly(sizes.reduce((sum, size) => sum + size, 0) / 1e6),
      },
    ];
  } finally {
    rmSync(base, { recursive: true, force: true });
  }
}

export const migrate: Benchmark = {
  name: 'migrate',
  about: 'the first start on a state of the first release with 100,000 tasks',
  run,
};
