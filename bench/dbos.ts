// Starts DBOS, a library for durable execution, with a PostgreSQL server for its record.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { startProcess } from './children.ts';
import { installPeers, PEERS } from './peers.ts';
import { findPostgres, startPostgres } from './postgres.ts';
import type { DbosOrder } from './processes/dbos-service.ts';
import type { StepsPeer } from './restate.ts';

/** Resolves to undefined where there is no PostgreSQL. */
export async function startDbos(): Promise<StepsPeer | undefined> {
  const bin = findPostgres();
  if (bin === undefined) return undefined;
  installPeers();
  const folder = join(PEERS, 'node_modules', '@dbos-inc', 'dbos-sdk');
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
  };
  const postgres = await startPostgres(bin);
  const service = await startProcess(new URL('./processes/dbos-service.ts', import.meta.url));
  const ask = (order: DbosOrder) => service.ask(order) as Promise<number>;
  await ask({ url: postgres.url });
  return {
    name: `DBOS ${version}, ${postgres.name}`,
    makeSteps: ask,
    async stop() {
      await service.stop();
      await postgres.stop();
    },
  };
}
