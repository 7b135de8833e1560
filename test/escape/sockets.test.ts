// Attacks through sockets: the host's local services, odd families, the host's loopback.
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Guard } from '../../src/daemons/sandboxd/adapters/plan.ts';
import { type EscapeCase, exited, runCases } from './support/cases.ts';
import { MODES, TestWarden } from './support/warden.ts';

const family = (name: string, off: Guard[] = ['seccomp']): EscapeCase => ({
  id: 'C11',
  title: `no ${name} socket`,
  attack: ['family', name],
  off,
  says: /EPERM/,
});

runCases([
  family('vsock'),
  family('packet', ['seccomp', 'caps', 'userns']),
  family('alg'),
  family('bluetooth'),
  family('audit'),
  { ...family('unix'), id: 'C9' },
  { ...family('unix-stream'), id: 'C9' },
  {
    id: 'C11',
    title: 'no raw ICMP',
    attack: ['raw-icmp'],
    off: ['caps', 'userns'],
    says: /EPERM/,
  },
  {
    id: 'D1',
    title: 'level 1 has no internet socket at all',
    attack: ['family', 'inet'],
    off: ['seccomp'],
    plan: { level: 1 },
    says: /EPERM/,
  },
]);

for (const mode of MODES) {
  describe(`the host's services, as ${mode}`, () => {
    let warden: TestWarden;
    let tcp: Server;
    let local: Server;
    let abstract: Server;
    let datagrams: ChildProcess;
    let port = 0;
    before(async () => {
      warden = await new TestWarden({ mode }).start();
      tcp = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
      local = createServer((socket) => socket.destroy()).listen(join(warden.outside, 's.sock'));
      abstract = createServer((socket) => socket.destroy()).listen(`\0${warden.dir}`);
      await Promise.all([tcp, local, abstract].map((server) => once(server, 'listening')));
      chmodSync(join(warden.outside, 's.sock'), 0o777);
      const address = tcp.address();
      port = typeof address === 'object' && address ? address.port : 0;
      datagrams = spawn(warden.hostile, ['serve-datagrams', join(warden.outside, 'd.sock')]);
      await once(datagrams.stdout!, 'data');
    });
    after(async () => {
      datagrams.kill('SIGKILL');
      for (const server of [tcp, local, abstract]) server.close();
      await warden.stop();
    });

    const attempt = async (words: string[], guardsOff: Guard[], level = 2) =>
      exited(
        await warden.run([level === 1 ? warden.hostile : '/opt/hostile', ...words], {
          level,
          guardsOff,
          binds: level === 1 ? [] : [{ kind: 'ro', src: warden.outside, dst: '/outside' }],
        }),
      );
    const holds = async (words: string[], off: Guard[], says: RegExp, level = 2) => {
      const outcome = await attempt(words, [], level);
      assert.equal(outcome.code, 1, JSON.stringify(outcome));
      assert.match(outcome.stdout, says);
      const control = await attempt(words, off, level);
      assert.equal(control.code, 0, JSON.stringify(control));
    };

    it('[R411] C9 a local socket under a read-only path is not reachable', () =>
      holds(['unix-connect', '/outside/s.sock'], ['seccomp'], /EPERM/));
    it('C9 a local socket is not reachable from level 1 by its path on the host', () =>
      holds(['unix-connect', join(warden.outside, 's.sock')], ['seccomp'], /EPERM/, 1));
    it('C9 an abstract socket is not reachable', () =>
      holds(['unix-connect', `@${warden.dir}`], ['seccomp', 'landlock', 'netns'], /EPERM/));
    it('C9 a datagram pair cannot be connected to a path', () =>
      holds(['pair-reconnect', '/outside/d.sock'], ['seccomp'], /EPERM/));
    it('C9 a stream pair, which programs need, works', async () => {
      assert.equal((await attempt(['stream-pair'], [])).code, 0);
    });
    it('D24 a connection to the host’s loopback fails immediately', () =>
      holds(['tcp-connect', '127.0.0.1', String(port)], ['netns'], /ECONNREFUSED/));
    it('D1 a connection to an outside address fails immediately', async () => {
      const outcome = await attempt(['tcp-connect', '192.0.2.1', '80'], []);
      assert.match(outcome.stdout, /ENETUNREACH/);
    });
    it('D24 loopback inside the box works', async () => {
      assert.equal((await attempt(['own-loopback'], [])).code, 0);
    });
    it('C17 invalid addresses have no effect', async () => {
      assert.match((await attempt(['odd-addresses'], [])).stdout, /failed all/);
      assert.equal((await attempt(['stream-pair'], [])).code, 0);
    });
    it('a runner reaches its socket and nothing else', async () => {
      const run = async (words: string[]) =>
        exited(
          await warden.run(['/opt/hostile', ...words], {
            profile: 'runner',
            binds: [{ kind: 'ro', src: warden.outside, dst: '/outside' }],
          }),
        );
      assert.equal((await run(['unix-connect', '/outside/s.sock'])).code, 0);
      assert.match((await run(['family', 'inet'])).stdout, /EPERM/);
      assert.match((await run(['family', 'unix'])).stdout, /EPERM/);
      assert.match((await run(['fork-bomb', '1'])).stdout, /EPERM/);
      assert.equal((await run(['thread-bomb', '2'])).code, 0);
    });
  });
}
