// Runs the order service from the live release, and restarts it when another release goes live.
// Requests to it are real ones over loopback.
import { type ChildProcess, spawn } from 'node:child_process';
import { readlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DemoSetup } from './setup.ts';

export type OrderService = {
  /** Sends one request with this User-Agent header. */
  sendRequest(userAgent: string): Promise<void>;
  /** Resolves to the median time of a request. */
  measureMedianMs(): Promise<number>;
  /** Resolves when the release at `link`, or the running one, responds. */
  waitForRelease(link: string | undefined): Promise<void>;
  stop(): void;
};

export async function startService(setup: DemoSetup): Promise<OrderService> {
  const port = await findFreePort();
  let liveRelease = '';
  let child: ChildProcess | undefined;
  const start = (): void => {
    liveRelease = readlinkSync(setup.prodLink);
    child?.kill('SIGKILL');
    const program = join(setup.prodLink, 'server.mjs');
    child = spawn(process.execPath, [program, String(port), setup.logFile], {
      stdio: 'inherit',
    });
  };
  const releaseWatcher = setInterval(() => {
    if (readlinkSync(setup.prodLink) !== liveRelease) start();
  }, 100);

  const request = async (id: string, userAgent = 'orders-client/1.0'): Promise<void> => {
    const response = await fetch(`http://127.0.0.1:${port}/orders/${id}`, {
      headers: { 'user-agent': userAgent },
    });
    await response.text();
  };
  const waitUntilReady = async (): Promise<void> => {
    for (let attempts = 0; ; attempts++) {
      try {
        return await request('A0000001');
      } catch (error) {
        if (attempts > 100) throw error;
        await sleep(50);
      }
    }
  };
  start();
  await waitUntilReady();

  return {
    sendRequest: (userAgent) => request('A0000002', userAgent),
    async measureMedianMs() {
      const times: number[] = [];
      for (let i = 0; i < 40; i++) {
        const startedMs = performance.now();
        await request(`A0${199_000 + i}`.padEnd(8, '0'));
        times.push(performance.now() - startedMs);
      }
      return times.sort((a, b) => a - b)[20]!;
    },
    async waitForRelease(link) {
      while (link !== undefined && readlinkSync(link) !== liveRelease) await sleep(50);
      await waitUntilReady();
    },
    stop() {
      clearInterval(releaseWatcher);
      child?.kill('SIGKILL');
    },
  };
}

function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}
