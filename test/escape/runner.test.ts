// The runner's box: Node and its program, the sockets it was given, and nothing it could start.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { exited } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

// Reads its first message from stdin, sends it to a daemon, and prints the response.
const PROGRAM = `
import { connect } from 'node:net';
import { readFileSync, existsSync } from 'node:fs';
import { spawnSync } from 'node:child_process';
const socket = connect('/run/agentd/toold/toold.sock');
socket.end(readFileSync(0));
socket.on('data', (bytes) => process.stdout.write(bytes));
socket.on('close', () => {
  const child = spawnSync(process.execPath, ['--version']);
  const tcp = connect(80, '192.0.2.1').on('error', (error) => {
    console.log(child.error?.code, error.code, existsSync('/ws'), process.execPath);
  });
});`;

for (const mode of MODES) {
  describe(`a runner, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let server: Server;
    let dirs: { program: string; sockets: string };
    const listen = async () => {
      server = createServer({ allowHalfOpen: true }, async (socket) => {
        const [bytes] = await once(socket, 'data');
        socket.end(`heard ${bytes}`);
      }).listen(join(dirs.sockets, 'toold.sock'));
      await once(server, 'listening');
      chmodSync(join(dirs.sockets, 'toold.sock'), 0o777);
    };
    before(async () => {
      warden = new TestWarden({ mode });
      dirs = { program: join(warden.outside, 'runner'), sockets: join(warden.outside, 'sockets') };
      for (const dir of Object.values(dirs)) mkdirSync(dir);
      writeFileSync(join(dirs.program, 'main.mjs'), PROGRAM);
      await warden.start();
      await listen();
    });
    after(async () => {
      server.close();
      await warden.stop();
    });
    const runProgram = async () => {
      const client = await warden.client();
      const plan = warden.runnerPlan(['/opt/runner/main.mjs'], dirs);
      const outcome = exited(await client.run(plan, 'hello\n'));
      client.close();
      return outcome;
    };

    it('Node runs, reaches its socket, cannot start programs, and has no network', async () => {
      const outcome = await runProgram();
      assert.equal(
        outcome.stdout,
        'heard hello\nEPERM EPERM false /opt/node/node\n',
        outcome.stderr,
      );
      assert.equal(outcome.code, 0);
    });
    it('A25 a socket recreated in its directory is reachable', async () => {
      server.close();
      await once(server, 'close');
      rmSync(join(dirs.sockets, 'toold.sock'), { force: true });
      await listen();
      assert.match((await runProgram()).stdout, /^heard hello\n/);
    });

    const again = async (words: string[], guardsOff: Guard[] = []) =>
      exited(
        await warden.run(['/opt/hostile', 'exec-again', ...words], {
          profile: 'runner',
          limits: { nofile: 300 },
          guardsOff,
        }),
      );
    for (const [title, words] of [
      ['by its path', ['path', '/opt/hostile']],
      ['by its path from a directory', ['at', '/opt/hostile']],
      ['by a descriptor', ['fd', '/opt/hostile']],
      ['from memory', ['memory', '/opt/hostile']],
      ['by its path, next to a descriptor’s number', ['number', '/opt/hostile', '300']],
      ['another program', ['path', '/usr/bin/true']],
      ['through the loader', ['path', '/lib64/ld-linux-x86-64.so.2']],
    ] as const) {
      it(`C25 nothing is executed after it: ${title}`, async () => {
        const guarded = await again([...words]);
        assert.match(guarded.stdout, /^failed exec (EPERM|ENOSYS)\n$/, JSON.stringify(guarded));
        if (words[1] !== '/opt/hostile') return;
        const control = await again([...words], ['seccomp']);
        assert.equal(control.stdout, 'worked\n', JSON.stringify(control));
      });
    }
    it('C25 nothing is executed while several threads try at once', async () => {
      const guarded = await again(['threads', '/opt/hostile', '16']);
      assert.match(guarded.stdout, /^(failed exec (EPERM|ENOSYS)\n){16}$/, JSON.stringify(guarded));
      const control = await again(['threads', '/opt/hostile', '16'], ['seccomp']);
      assert.match(control.stdout, /worked\n$/, JSON.stringify(control));
    });
    it('C25 a runner that cannot be started is refused with the reason', async () => {
      const outcome = await warden.run(['/opt/not-there'], { profile: 'runner' });
      assert.ok(outcome.kind === 'refused', JSON.stringify(outcome));
      assert.equal(outcome.code, 'exec');
      assert.match(outcome.message, /not-there: No such file/);
      const noProgram = await warden.run(['/opt'], { profile: 'runner' });
      assert.ok(noProgram.kind === 'refused' && noProgram.code === 'exec', 'at the very last step');
      assert.match(noProgram.message, /Permission denied/);
    });
    it('a runner with more descriptors than the host gives still starts', async () => {
      const plan = { profile: 'runner' as const, limits: { nofile: 2 ** 30 } };
      assert.equal(exited(await warden.run(['/opt/hostile', 'hello'], plan)).code, 0);
    });
  });
}
