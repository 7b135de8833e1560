// Measures what a person waits for at a layer: the diff of 100 changed files, and the apply of
// 1,000 new ones beside cp -r of the same files, in a whole runtime.
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type LayeredTasks, startLayeredTasks } from '../test/support/layered-tasks.ts';
import { LAYER_MODES } from '../test/support/layers.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import { compare } from './rounds.ts';

const CHANGED = 100;
const NEW = 1_000;
const ROUNDS = 7;

async function timeMs(run: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await run();
  return performance.now() - began;
}

async function diffFigure(world: LayeredTasks, as: string): Promise<Figure> {
  const text = Array.from({ length: 50 }, (_, line) => `line ${line}\n`).join('');
  const names = Array.from({ length: CHANGED }, (_, i) => `d${i % 10}/f${i}`);
  const dir = world.makeDirectory('diff', Object.fromEntries(names.map((name) => [name, text])));
  const { id } = await world.work(dir, 'for f in d*/f*; do echo more >> "$f"; done');
  const diff = () => world.done('task', 'diff', id);
  const hunks = (await diff()).match(/^@@/gm)?.length;
  if (hunks !== CHANGED) throw new Error(`the diff has ${hunks} hunks`);
  const took: number[] = [];
  for (let i = 0; i < ROUNDS; i++) took.push(await timeMs(diff));
  return {
    name: `agentctl task diff of ${CHANGED} changed files, ${as}`,
    unit: 'ms',
    own: seeRounds(took),
    bar: { of: 'value', max: 150 },
  };
}

async function applyFigure(world: LayeredTasks, as: string): Promise<Figure> {
  const dir = world.makeDirectory('apply', { 'a.txt': 'one\n' });
  const each = 'd=n/d$((i % 20)); mkdir -p $d; echo $i > $d/f$i';
  const make = `for i in $(seq ${NEW}); do ${each}; done`;
  const { id } = await world.work(dir, make);
  const { agentd } = world.runtime();
  const copies = join(world.base, 'copies');
  mkdirSync(copies);
  let made = 0;
  const perSecond = async (run: () => Promise<unknown>) => (NEW * 1_000) / (await timeMs(run));
  const applyAll = () => agentd.applyChanges({ params: { id }, body: {} });
  const undo = () => agentd.undoChanges({ params: { id }, body: {} });
  const apply = async (): Promise<number> => {
    const rate = await perSecond(applyAll);
    await undo();
    return rate;
  };
  const copy = (): Promise<number> =>
    perSecond(async () =>
      execFileSync('cp', ['-r', join(copies, 'from'), join(copies, `to${made++}`)]),
    );
  await applyAll();
  execFileSync('cp', ['-r', join(dir, 'n'), join(copies, 'from')]);
  await undo();
  const seen = await compare({ rounds: ROUNDS, turnsPerRound: 1 }, apply, copy);
  return {
    name: `apply of ${NEW} new files, durable, ${as}`,
    unit: 'files/s',
    own: seen.own,
    peer: { name: 'cp -r', ...seen.peer },
    ratio: seen.ratio,
    bar: { of: 'ratio', min: 0.3 },
  };
}

async function run(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const mode of LAYER_MODES) {
    const as = mode === 'root' ? 'as root' : 'as an ordinary user';
    const world = await startLayeredTasks(mode);
    try {
      if (world.missing !== undefined) throw new Error(world.missing);
      figures.push(await diffFigure(world, as), await applyFigure(world, as));
    } finally {
      await world.stop();
    }
  }
  return figures;
}

export const apply: Benchmark = {
  name: 'apply',
  about: 'showing and applying what agents changed in a layer',
  run,
};
