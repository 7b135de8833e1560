// Measures the cost of a box: an empty command through the warden, against a bare spawn and other
// sandboxes; and a Node start in a runner box, against a bare one.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { MODES, TestWarden } from '../test/escape/support/warden.ts';
import type { BoxOutcome } from '../test/escape/support/warden-client.ts';
import { timeProcess } from './bare-start.ts';
import type { Benchmark, Figure } from './figure.ts';
import { compare, type Measure, type RoundOrder } from './rounds.ts';
import { bubblewrap, EMPTY, otherSandboxes, timeSpawn, type User } from './sandbox-peers.ts';

const TURNS: RoundOrder = { rounds: 5, turnsPerRound: 30 };
const FEW_TURNS: RoundOrder = { rounds: 3, turnsPerRound: 6 };
const WARM_UP = 10;

const timed =
  (run: () => Promise<BoxOutcome>): Measure =>
  async () => {
    const began = performance.now();
    const outcome = await run();
    const tookMs = performance.now() - began;
    if (outcome.kind !== 'exit' || outcome.code !== 0)
      throw new Error(`the box said ${JSON.stringify(outcome)}`);
    return tookMs;
  };

async function compareFigure(
  name: string,
  turns: RoundOrder,
  own: Measure,
  peer: { name: string; measure: Measure },
  max?: number,
): Promise<Figure> {
  for (let i = 0; i < Math.min(WARM_UP, turns.turnsPerRound); i++) {
    await own();
    await peer.measure();
  }
  const seen = await compare(turns, own, peer.measure);
  return {
    name,
    unit: 'ms',
    own: seen.own,
    peer: { name: peer.name, ...seen.peer },
    ratio: seen.ratio,
    ...(max === undefined ? {} : { bar: { of: 'ratio', max } }),
  };
}

async function runnerFigure(warden: TestWarden, as: string): Promise<Figure> {
  const dirs = { program: join(warden.outside, 'runner'), sockets: join(warden.outside, 'none') };
  for (const dir of Object.values(dirs)) mkdirSync(dir);
  writeFileSync(join(dirs.program, 'empty.mjs'), '');
  const client = await warden.client();
  const plan = warden.runnerPlan(['/opt/runner/empty.mjs'], dirs);
  const own = timed(() => client.run(plan));
  const program = join(dirs.program, 'empty.mjs');
  const bare = { name: 'bare Node start', measure: () => timeProcess(process.execPath, [program]) };
  const name = `Node started in a runner's box, ${as}, p50`;
  const figure = await compareFigure(name, { rounds: 5, turnsPerRound: 6 }, own, bare, 1.15);
  client.close();
  return figure;
}

async function figuresOf(mode: (typeof MODES)[number]): Promise<Figure[]> {
  const as = mode === 'root' ? 'as root' : 'as an ordinary user';
  const user: User = mode === 'user' && MODES.length > 1 ? { uid: 65_534, gid: 65_534 } : {};
  const warden = await new TestWarden({ mode, build: 'plain' }).start();
  try {
    const client = await warden.client();
    const box = await warden.open();
    const level1 = warden.plan([EMPTY], { level: 1 });
    const level2 = warden.plan([EMPTY]);
    const command = warden.command(box.box, [EMPTY]);
    const spawned = { name: 'bare spawn', measure: () => timeSpawn([EMPTY]) };
    const bwrap = { name: 'bubblewrap', measure: bubblewrap(user) };
    const runs = {
      1: timed(() => client.run(level1)),
      2: timed(() => client.run(level2)),
      open: timed(() => client.exec(command)),
    };
    const figures = [
      await compareFigure(`level 1 through the warden, ${as}, p50`, TURNS, runs[1], spawned, 1),
      await compareFigure(`level 2, ${as}, p50`, TURNS, runs[2], bwrap, 0.5),
      await compareFigure(`a command in an open box, ${as}, p50`, TURNS, runs.open, spawned),
      await runnerFigure(warden, as),
    ];
    if (mode === MODES[0]) figures.push(...(await othersBeside(runs[2], as)));
    box.client.close();
    client.close();
    return figures;
  } finally {
    await warden.stop();
  }
}

async function othersBeside(own: Measure, as: string): Promise<Figure[]> {
  const { peers, missing } = await otherSandboxes();
  const figures: Figure[] = [];
  for (const peer of peers) {
    figures.push(
      await compareFigure(`level 2 beside ${peer.name}, ${as}, p50`, FEW_TURNS, own, peer),
    );
    await peer.stop();
  }
  if (missing.length > 0) console.log(`\nbench: left out: ${missing.join('; ')}`);
  return figures;
}

async function run(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const mode of MODES) figures.push(...(await figuresOf(mode)));
  return figures;
}

export const sandbox: Benchmark = {
  name: 'sandbox',
  about: 'the warden’s boxes, compared with a bare spawn and other sandboxes',
  run,
};
