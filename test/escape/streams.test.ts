// Streams with a stalled reader: the command blocks, the warden's memory stays bounded, other boxes
// continue.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeWarden } from '../../src/daemons/sandboxd/adapters/warden.ts';
import { isAlive } from '../support/processes.ts';
import { eventually } from '../support/runtime.ts';
import { exited } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';
import type { BoxOutcome, WardenClient } from './support/warden-client.ts';

const MIB = 2 ** 20;
const SCRIPT = 'yes xxxxxxxxxxxxxxx | head -c 6000000; head -c 1000 /dev/zero >&2';
const LIMITS = { outputBytes: 64 * MIB };

function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) * 1024;
}

for (const mode of MODES) {
  describe(`a stalled reader, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
    });
    after(() => warden.stop());

    const stall = async (begin: (client: WardenClient) => Promise<BoxOutcome>) => {
      const pid = warden.process?.pid ?? 0;
      // Run one box first, so that the fixed cost of a box is not counted.
      assert.equal(exited(await warden.run(['/bin/true'])).code, 0);
      const clients = await Promise.all(Array.from({ length: 8 }, () => warden.client()));
      const before = residentBytes(pid);
      const outcomes = clients.map((client) => {
        const outcome = begin(client);
        client.socket.pause();
        return outcome;
      });
      await sleep(700);
      const grown = residentBytes(pid) - before;
      assert.ok(grown < 6 * MIB, `the warden grew by ${grown} bytes for 48 MB of output`);
      assert.equal(
        exited(await warden.run(['/bin/echo', 'on'])).stdout,
        'on\n',
        'other boxes continue',
      );
      for (const client of clients) client.socket.resume();
      for (const outcome of await Promise.all(outcomes)) {
        const exit = exited(outcome);
        assert.deepEqual([exit.endedBy, exit.code], ['itself', 0]);
        assert.deepEqual([exit.stdout.length, exit.stderr.length], [6_000_000, 1000]);
      }
      for (const client of clients) client.close();
    };

    it('blocks a box', () =>
      stall((client) => client.run(warden.plan(['/bin/sh', '-c', SCRIPT], { limits: LIMITS }))));

    it('blocks commands of an open box', async () => {
      const box = await warden.open({ limits: { ...LIMITS, pids: 200 } });
      const args = ['/bin/sh', '-c', SCRIPT];
      await stall((client) => client.exec(warden.command(box.box, args, LIMITS)));
      box.client.close();
    });

    it('carries 24 MiB in and out byte for byte, errors apart, past the end of the input', async () => {
      const link = makeWarden(warden.socket);
      const script =
        'sha256sum >&2 </dev/null; cat; echo past the end >&2; head -c 9000000 /dev/zero';
      const plan = warden.plan(['/bin/sh', '-c', script], { limits: LIMITS });
      const command = await link.start(plan);
      const sent = createHash('sha256');
      const feed = async (): Promise<void> => {
        for (let part = 0; part < 24; part++) {
          const bytes = randomBytes(MIB);
          sent.update(bytes);
          await command.stdin(bytes);
        }
        command.stdinEnd();
      };
      const fed = feed();
      const received = createHash('sha256');
      let errors = '';
      for await (const { stream, bytes } of command.readOutput()) {
        if (stream === 'stdout') received.update(bytes);
        else errors += bytes.toString();
      }
      await fed;
      const zeros = Buffer.alloc(9_000_000);
      assert.equal(received.digest('hex'), sent.update(zeros).digest('hex'));
      assert.match(errors, /^[0-9a-f]{64} {2}-\npast the end\n$/);
      const exit = await command.ended;
      assert.ok(exit !== 'gone' && exit.exitCode === 0);
      link.close();
    });

    it('does not suspend the wall-clock limit', async () => {
      const client = await warden.client();
      const limits = { ...LIMITS, wallMs: 300 };
      const started = new Promise<number>((resolve) => {
        client.onStarted = (pid) => {
          client.socket.pause();
          resolve(pid);
        };
      });
      const outcome = client.run(warden.plan(['/bin/sh', '-c', SCRIPT], { limits }));
      const init = await started;
      await eventually('the end of the box', async () => (isAlive(init) ? undefined : true));
      client.socket.resume();
      const exit = exited(await outcome);
      assert.equal(exit.endedBy, 'wall');
      assert.ok(exit.stdout.length < 2 * MIB, String(exit.stdout.length));
      client.close();
    });
  });
}
