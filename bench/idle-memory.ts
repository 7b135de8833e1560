// Measures what memoryd and maild add to the memory of a runtime that has nothing to do: the same
// process with and without the daemon, in turns.
import type { DaemonName } from '../src/wire/daemons.ts';
import { startProcess } from './children.ts';
import { type Benchmark, type Figure, seeRounds } from './figure.ts';
import type { IdleMemory, IdleOrder } from './processes/idle-world.ts';

const ROUNDS = 5;
const MB = 1_000_000;
/** Each daemon may add this much. */
const MB_MAX = 12;
const MEASURED: readonly DaemonName[] = ['memoryd', 'maild'];

async function measure(without: DaemonName[]): Promise<IdleMemory> {
  const world = await startProcess(new URL('./processes/idle-world.ts', import.meta.url));
  try {
    const order: IdleOrder = { without };
    return (await world.ask(order)) as IdleMemory;
  } finally {
    await world.stop();
  }
}

async function run(): Promise<Figure[]> {
  const all: IdleMemory[] = [];
  const fewer = new Map<DaemonName, IdleMemory[]>(MEASURED.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round++) {
    all.push(await measure([]));
    for (const [name, found] of fewer) found.push(await measure([name]));
  }
  const adds = (found: readonly IdleMemory[], pick: (memory: IdleMemory) => number) =>
    seeRounds(found.map((memory, i) => (pick(all[i]!) - pick(memory)) / MB));
  return [...fewer].flatMap(([name, found]): Figure[] => [
    {
      name: `${name} adds to an idle runtime`,
      unit: 'MB',
      own: adds(found, ({ onceBytes }) => onceBytes),
      bar: { of: 'value', max: MB_MAX },
    },
    {
      name: `… JavaScript objects and buffers`,
      unit: 'MB',
      own: adds(found, ({ heapBytes }) => heapBytes),
    },
  ]);
}

export const idleMemory: Benchmark = {
  name: 'idle-memory',
  about: 'what single daemons add to a runtime with nothing to do',
  run,
};
