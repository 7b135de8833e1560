// The service that Restate calls: its handler makes durable steps one after the other, each with a
// result like that of a small tool.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PEERS } from '../peers.ts';
import { serveCommands } from './commands.ts';

type Context = { run(name: string, step: () => unknown): Promise<unknown> };
type Restate = {
  service(definition: object): unknown;
  serve(options: { services: unknown[]; port: number }): Promise<number>;
};

// Its messages would be read as results.
process.env.RESTATE_LOGGING = 'ERROR';
const sdk = createRequire(join(PEERS, 'package.json')).resolve('@restatedev/restate-sdk');
const { service, serve } = (await import(pathToFileURL(sdk).href)) as Restate;

async function steps(context: Context, count: number): Promise<number> {
  for (let i = 0; i < count; i++)
    await context.run(`step ${i}`, () => ({ text: `line ${i} of what a tool says` }));
  return count;
}

const port = await serve({ services: [service({ name: 'bench', handlers: { steps } })], port: 0 });
serveCommands(port, async () => undefined);
