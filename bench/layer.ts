// Measures a layer over a repository of 10,000 files and 1 GiB: opening it with a box against a box
// without one, and git status in it against the same outside, warm and the first time.
import { execFile } from 'node:child_process';
import { truncateSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { OpenedLayer } from '../src/daemons/sandboxd/adapters/warden.ts';
import { asPerson, type LayerSetup, startLayers } from '../test/escape/support/layers.ts';
import { MODES } from '../test/escape/support/warden.ts';
import { type Benchmark, exactly, type Figure, seeRounds } from './figure.ts';
import { compare, type Measure } from './rounds.ts';

const DIRECTORIES = 100;
const FILES = 10_000;
const FILE_BYTES = Math.ceil(2 ** 30 / FILES);
const STATUS = 'for i in 1 2 3 4 5; do git status --porcelain || exit 1; done';
const STATUSES = 5;
/** git counts here the files that it compares by content. */
const READ_AGAIN = /sum_scan\D+(\d+)/;

async function makeRepository(setup: LayerSetup): Promise<void> {
  for (let at = 0; at < DIRECTORIES; at++) {
    const dir = join(setup.lower, `d${at}`);
    await mkdir(dir);
    for (let file = 0; file < FILES / DIRECTORIES; file++) {
      const path = join(dir, `f${file}`);
      await writeFile(path, `${at} ${file}\n`);
      truncateSync(path, FILE_BYTES);
    }
  }
  const { uid, gid } = setup.person;
  await promisify(execFile)('chown', ['-R', `${uid}:${gid}`, setup.lower]);
  const commit = 'git -c user.name=p -c user.email=p@p commit -qm all';
  // git compares files that are as new as its index.
  const refresh = 'sleep 1.1; git update-index --really-refresh -q';
  asPerson(setup, '/bin/sh', '-ec', `git init -q; git add -A; ${commit}; ${refresh}`);
}

const timed =
  (run: () => Promise<unknown>): Measure =>
  async () => {
    const began = performance.now();
    await run();
    return performance.now() - began;
  };

async function openFigure(setup: LayerSetup, as: string): Promise<Figure> {
  const dir = setup.newDir();
  const { warden } = setup;
  const measure =
    (withLayer: boolean): Measure =>
    async () => {
      const began = performance.now();
      const layer = withLayer ? await setup.open(dir) : undefined;
      const binds = layer && [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }];
      const box = await warden.open(binds ? { binds } : {});
      const tookMs = performance.now() - began;
      box.client.closeBox();
      await box.ended;
      box.client.close();
      await layer?.close();
      return tookMs;
    };
  const [own, peer] = [measure(true), measure(false)];
  for (let i = 0; i < 10; i++) {
    await own();
    await peer();
  }
  const added: number[] = [];
  const boxes: number[] = [];
  for (let round = 0; round < 5; round++) {
    const seen = await compare({ rounds: 1, turnsPerRound: 20 }, own, peer);
    added.push(seen.own.value - seen.peer.value);
    boxes.push(seen.peer.value);
  }
  return {
    name: `opening a layer over ${FILES} files, 1 GiB: adds to a box, ${as}, p50`,
    unit: 'ms',
    own: seeRounds(added),
    peer: { name: 'a box without', ...seeRounds(boxes) },
    bar: { of: 'value', max: 10 },
  };
}

async function readAgain(setup: LayerSetup, layer: OpenedLayer): Promise<number> {
  const script = 'GIT_TRACE2_PERF=/tmp/perf git status --porcelain; cat /tmp/perf';
  const text = await setup.ok(layer, script);
  const count = READ_AGAIN.exec(text)?.[1];
  if (count === undefined) throw new Error(`git counted nothing: ${text.slice(0, 500)}`);
  return Number(count);
}

async function statusFigures(setup: LayerSetup, as: string): Promise<Figure[]> {
  const { warden } = setup;
  const layer = await setup.open(setup.newDir());
  const first = await readAgain(setup, layer);
  const binds = [{ kind: 'layer' as const, src: String(layer.handle), dst: '/ws' }];
  const box = await warden.open({ binds });
  const inside = timed(async () => {
    const outcome = await warden.exec(box.box, ['/bin/sh', '-c', STATUS]);
    if (outcome.kind !== 'exit' || outcome.code !== 0 || outcome.stdout !== '')
      throw new Error(`git status said ${JSON.stringify(outcome)}`);
  });
  const outside = timed(async () => asPerson(setup, '/bin/sh', '-c', STATUS));
  for (let i = 0; i < 3; i++) {
    await inside();
    await outside();
  }
  const seen = await compare({ rounds: 5, turnsPerRound: 6 }, inside, outside);
  box.client.close();
  await layer.close();
  const each = ({ value, low, high, samples }: typeof seen.own) => ({
    value: value / STATUSES,
    low: low / STATUSES,
    high: high / STATUSES,
    samples,
  });
  return [
    {
      name: `git status in a layer, ${FILES} files, warm, ${as}, p50`,
      unit: 'ms',
      own: each(seen.own),
      peer: { name: 'outside', ...each(seen.peer) },
      ratio: seen.ratio,
      bar: { of: 'ratio', max: 1.6 },
    },
    {
      name: `files that the first git status in a layer reads, ${as}`,
      unit: 'files',
      own: exactly(first),
      bar: { of: 'value', max: 0 },
    },
  ];
}

async function run(): Promise<Figure[]> {
  const figures: Figure[] = [];
  for (const mode of MODES) {
    const as = mode === 'root' ? 'as root' : 'as an ordinary user';
    const setup = await startLayers(mode, { build: 'plain' });
    try {
      await makeRepository(setup);
      figures.push(await openFigure(setup, as), ...(await statusFigures(setup, as)));
    } finally {
      await setup.stop();
    }
  }
  return figures;
}

export const layer: Benchmark = {
  name: 'layer',
  about: 'a layer over a large repository, compared with a box without and with git outside',
  run,
};
