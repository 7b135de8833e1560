// Runs DBOS in a process of its own: workflows that make durable steps one after the other, each
// with a result like that of a small tool. The first order names its database.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PEERS } from '../peers.ts';
import { serveCommands } from './commands.ts';

type Dbos = {
  setConfig(config: object): void;
  launch(): Promise<void>;
  registerWorkflow<T>(work: (count: number) => Promise<T>, options: object): typeof work;
  runStep(step: () => Promise<unknown>, options: object): Promise<unknown>;
};
export type DbosOrder = { url: string } | { workflows: number; steps: number };

// Its client of PostgreSQL warns about how it is used.
process.noDeprecation = true;
const sdk = createRequire(join(PEERS, 'package.json')).resolve('@dbos-inc/dbos-sdk');
const { DBOS } = (await import(pathToFileURL(sdk).href)) as { DBOS: Dbos };

async function steps(count: number): Promise<number> {
  for (let i = 0; i < count; i++)
    await DBOS.runStep(async () => ({ text: `line ${i} of what a tool says` }), {
      name: `step ${i}`,
    });
  return count;
}

const workflow = DBOS.registerWorkflow(steps, { name: 'steps' });

serveCommands<DbosOrder>('dbos', async (order) => {
  if ('url' in order) {
    // Its messages would be read as results.
    DBOS.setConfig({ name: 'bench', systemDatabaseUrl: order.url, logLevel: 'error' });
    return DBOS.launch();
  }
  const began = performance.now();
  await Promise.all(Array.from({ length: order.workflows }, () => workflow(order.steps)));
  return performance.now() - began;
});
