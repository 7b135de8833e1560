// The order service as it runs on this machine: started from the release that is live, started
// again when another one is. Requests to it are real ones over loopback.
import { type ChildProcess, spawn } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Scene } from './scene.ts';

export type Service = {
  /** One request with this browser name. */
  visit(userAgent: string): Promise<void>;
  /** The median time of a request, in milliseconds. */
  measure(): Promise<number>;
  /** Resolves when the release that is live now answers. */
  reloaded(link: string | undefined): Promise<void>;
  stop(): void;
};

export async function startService(scene: Scene): Promise<Service> {
  const port = await freePort();
  let live = '';
  let process_: ChildProcess | undefined;
  const start = (): void => {
    live = readlinkSync(scene.prodLink);
    process_?.kill('SIGKILL');
    const program = join(scene.prodLink, 'server.mjs');
    process_ = spawn(process.execPath, [program, String(port), scene.logFile], {
      stdio: 'inherit',
    });
  };
  const follow = setInterval(() => {
    if (readlinkSync(scene.prodLink) !== live) start();
  }, 100);

  const request = async (id: string, userAgent = 'orders-client/1.0'): Promise<void> => {
    const answer = await fetch(`http://127.0.0.1:${port}/orders/${id}`, {
      headers: { 'user-agent': userAgent },
    });
    await answer.text();
  };
  const answers = async (): Promise<void> => {
    for (let tries = 0; ; tries++) {
      try {
        return await request('A0000001');
      } catch (error) {
        if (tries > 100) throw error;
        await sleep(50);
      }
    }
  };
  start();
  await answers();

  return {
    visit: (userAgent) => request('A0000002', userAgent),
    async measure() {
      const times: number[] = [];
      for (let i = 0; i < 40; i++) {
        const startedMs = performance.now();
        await request(`A0${199_000 + i}`.padEnd(8, '0'));
        times.push(performance.now() - startedMs);
      }
      return times.sort((a, b) => a - b)[20]!;
    },
    async reloaded(link) {
      while (link !== undefined && readlinkSync(link) !== live) await sleep(50);
      await answers();
    },
    stop() {
      clearInterval(follow);
      process_?.kill('SIGKILL');
    },
  };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
