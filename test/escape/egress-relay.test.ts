// The one port of a box: connections to it reach the run's own socket on the host, complete and in
// both directions, and nothing else is reachable.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { eventually } from '../support/runtime.ts';
import { exited } from './support/cases.ts';
import { processesOf } from './support/host.ts';
import { MODES, TestWarden } from './support/warden.ts';

const relays = (warden: TestWarden) =>
  processesOf(warden.dir).filter(({ name }) => name === 'box-egress');

for (const mode of MODES) {
  describe(`egress, as ${mode}`, { timeout: 240_000 }, () => {
    let warden: TestWarden;
    let dir: string;
    const servers = new Set<Server>();
    const sockets = new Set<Socket>();
    before(async () => {
      warden = new TestWarden({ mode });
      dir = join(warden.dir, 'egress');
      mkdirSync(dir);
      await warden.start();
    });
    after(async () => {
      await warden.stop();
      await stop();
    });
    const serve = async (name: string, on: (socket: Socket) => void): Promise<string> => {
      const path = join(dir, name);
      rmSync(path, { force: true });
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => sockets.delete(socket));
        on(socket);
      }).listen(path);
      servers.add(server);
      await once(server, 'listening');
      chmodSync(path, 0o777);
      return path;
    };
    const stop = async (): Promise<void> => {
      const all = [...servers];
      servers.clear();
      for (const socket of sockets) socket.destroy();
      await Promise.all(all.map((server) => once(server.close(), 'close')));
    };
    const run = async (egress: string, ...args: string[]) =>
      exited(await warden.run(['/opt/hostile', ...args], { egress, limits: { nofile: 1024 } }));
    const echo = (socket: Socket) => socket.pipe(socket);

    it('carries data in both directions', async () => {
      const path = await serve('echo.sock', echo);
      assert.equal((await run(path, 'talk', 'hello')).stdout, 'helloworked\n');
    });
    it('carries 64 MiB without loss', async () => {
      const path = await serve('count.sock', async (socket) => {
        let bytes = 0;
        for await (const part of socket) bytes += (part as Buffer).length;
        socket.end(String(bytes));
      });
      assert.equal((await run(path, 'talk', '64')).stdout, `${64 * 2 ** 20}worked\n`);
    });
    it('a half-closed connection still receives', async () => {
      const received: string[] = [];
      const path = await serve('first.sock', (socket) => {
        socket.on('data', (bytes) => received.push(bytes.toString()));
        socket.end('that is all from me\n');
      });
      const outcome = await run(path, 'listen-first', 'and from me');
      assert.equal(outcome.stdout, 'that is all from me\nworked\nworked\n');
      await eventually('the data to arrive', async () => (received.length > 0 ? true : undefined));
      assert.deepEqual(received, ['and from me']);
    });
    it('each box reaches its own socket', async () => {
      const paths = await Promise.all(
        ['one', 'two'].map((name) => serve(`${name}.sock`, (socket) => socket.end(name))),
      );
      const runs = await Promise.all(paths.map((path) => run(path, 'talk', 'who')));
      assert.deepEqual(
        runs.map(({ stdout }) => stdout),
        ['oneworked\n', 'twoworked\n'],
      );
    });
    it('fails immediately while egressd is down, and reconnects when it is back', async () => {
      const path = await serve('echo.sock', echo);
      const box = await warden.open({ egress: path });
      const talk = async () => {
        const args = ['/opt/hostile', 'talk', 'hello'];
        const outcome = await warden.exec(box.box, args, { wallMs: 10_000 });
        return exited(outcome);
      };
      assert.equal((await talk()).stdout, 'helloworked\n');
      await stop();
      const away = await talk();
      assert.match(away.stdout, /failed \w+ (ECONNRESET|EPIPE)/);
      assert.equal(away.endedBy, 'itself');
      await serve('echo.sock', echo);
      assert.equal((await talk()).stdout, 'helloworked\n');
      box.client.closeBox();
      assert.equal(exited(await box.ended).endedBy, 'client');
      box.client.close();
    });
    it('C18 connections are bounded, and closing one frees its slot', async () => {
      const path = await serve('hi.sock', (socket) => socket.write('hi'));
      const box = await warden.open({ egress: path, limits: { nofile: 1024 } });
      const many = async (count: string) => {
        const args = ['/opt/hostile', 'open-many', count];
        return exited(await warden.exec(box.box, args, { nofile: 1024 })).stdout;
      };
      const served = Number(/answered (\d+)/.exec(await many('400'))?.[1]);
      assert.ok(served > 100 && served <= 256, String(served));
      assert.match(await many('100'), /answered 100\n/);
      box.client.close();
    });
    it('D24 nothing else is reachable', async () => {
      const path = await serve('echo.sock', echo);
      assert.match((await run(path, 'tcp-connect', '127.0.0.1', '3129')).stdout, /ECONNREFUSED/);
      assert.match((await run(path, 'tcp-connect', '192.0.2.1', '3128')).stdout, /ENETUNREACH/);
      assert.equal((await run(path, 'tcp-connect', '127.0.0.1', '3128')).code, 0, 'control');
      const without = exited(
        await warden.run(['/opt/hostile', 'tcp-connect', '127.0.0.1', '3128']),
      );
      assert.match(without.stdout, /ECONNREFUSED/);
    });
    it('C23 a socket out of bounds is refused, and so is a profile without a network', async () => {
      const code = async (change: object) => {
        const outcome = await warden.run(['/bin/true'], change);
        return outcome.kind === 'refused' ? outcome.code : outcome.kind;
      };
      assert.equal(await code({ egress: join(dir, 'echo.sock') }), 'exit', 'control');
      assert.equal(await code({ egress: join(warden.outside, 'x.sock') }), 'bounds');
      assert.equal(await code({ egress: `${dir}/../outside/x.sock` }), 'plan');
      assert.equal(await code({ egress: join(dir, 'x'), profile: 'runner' }), 'plan');
      assert.equal(
        await code({ egress: join(dir, 'x'), binds: [{ kind: 'ro', src: dir, dst: '/e' }] }),
        'bounds',
      );
    });
    it('the relay ends with its box, and with the warden', async () => {
      const relay = (count: number) =>
        eventually(`${count} relays`, async () =>
          relays(warden).length === count ? true : undefined,
        );
      await relay(0);
      const path = await serve('echo.sock', echo);
      const box = await warden.open({ egress: path });
      await relay(1);
      warden.process?.kill('SIGKILL');
      await eventually('no process', async () =>
        processesOf(warden.dir).length === 0 ? true : undefined,
      );
      box.client.close();
    });
  });
}
