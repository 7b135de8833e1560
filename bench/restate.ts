// Starts Restate, a server for durable execution, and a service of ours that makes durable steps.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { end, keep, startProcess } from './children.ts';
import { freePort, installPeers, listening, PEERS } from './peers.ts';

/** Another program that makes durable steps. */
export type StepsPeer = {
  name: string;
  /** Makes this many steps in each of this many workflows at once. Resolves to the time in ms. */
  makeSteps(order: { workflows: number; steps: number }): Promise<number>;
  stop(): Promise<void>;
};

async function post(url: string, body: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text.slice(0, 300)}`);
}

/** With the settings it has by default: it syncs its log before it acknowledges a step. */
export async function startRestate(): Promise<StepsPeer> {
  installPeers();
  const folder = join(PEERS, 'node_modules', '@restatedev', `restate-server-linux-${process.arch}`);
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    version: string;
  };
  const service = await startProcess(new URL('./processes/restate-service.ts', import.meta.url));
  const [node, ingress, admin] = [await freePort(), await freePort(), await freePort()];
  const dir = mkdtempSync(join(tmpdir(), 'restate-'));
  const server = keep(
    spawn(join(folder, 'bin', 'restate-server'), ['--no-logo'], {
      env: {
        RESTATE_BASE_DIR: dir,
        RESTATE_LISTEN_MODE: 'tcp',
        RESTATE_BIND_IP: '127.0.0.1',
        RESTATE_BIND_PORT: String(node),
        RESTATE_INGRESS__BIND_PORT: String(ingress),
        RESTATE_ADMIN__BIND_PORT: String(admin),
        RESTATE_DISABLE_TELEMETRY: 'true',
        RUST_LOG: 'off',
      },
      stdio: ['ignore', 'ignore', 'inherit'],
    }),
  );
  for (const port of [ingress, admin]) await listening(port, server);
  const uri = `http://127.0.0.1:${service.ready}`;
  await post(`http://127.0.0.1:${admin}/deployments`, { uri });
  return {
    name: `Restate ${version}`,
    async makeSteps({ workflows, steps }) {
      const url = `http://127.0.0.1:${ingress}/bench/steps`;
      const began = performance.now();
      await Promise.all(Array.from({ length: workflows }, () => post(url, steps)));
      return performance.now() - began;
    },
    async stop() {
      await end(server);
      await service.stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
