// Hosts the daemons, or all but one, in this process, and reports the memory of the process once it
// has nothing to do.
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { DaemonName } from '../../src/wire/daemons.ts';
import { startWorld } from '../../test/support/in-process.ts';
import { memoryOf } from '../memory.ts';
import { serveCommands } from './commands.ts';

export type IdleOrder = { without: DaemonName[] };
export type IdleMemory = { heapBytes: number; onceBytes: number };

const SETTLE_MS = 3_000;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

serveCommands<IdleOrder>(null, async (order): Promise<IdleMemory> => {
  const world = await startWorld(order);
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  for (let i = 0; i < 3; i++) collect();
  const { onceBytes } = memoryOf([process.pid]);
  const { heapUsed, external } = process.memoryUsage();
  await world.stop();
  return { heapBytes: heapUsed + external, onceBytes };
});
