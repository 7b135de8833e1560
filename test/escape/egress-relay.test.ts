// The relayed ports of a box: connections to one reach its own socket on the host, complete and in
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
import { MODES, type PlanOptions, TestWarden } from './support/warden.ts';

const relays = (warden: TestWarden) =>
  processesOf(warden.dir).filter(({ name }) => name === 'box-relay');

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
    it('each port of a box reaches its own socket, through one process', async () => {
      const ports = [1024, 3127, 3129, 8080, 9999, 40_000, 65_535];
      const relaysOf = await Promise.all(
        ports.map(async (port) => {
          const on = (socket: Socket) => socket.end(`port ${port} `);
          return { port, socket: await serve(`${port}.sock`, on) };
        }),
      );
      const egress = await serve('echo.sock', echo);
      const box = await warden.open({ egress, relays: relaysOf });
      const said: string[] = [];
      for (const port of [3128, ...ports]) {
        const args = ['/opt/hostile', 'talk', 'hello', String(port)];
        said.push(exited(await warden.exec(box.box, args)).stdout);
      }
      assert.deepEqual(said, ['helloworked\n', ...ports.map((port) => `port ${port} worked\n`)]);
      assert.equal(relays(warden).length, 1);
      const other = ['/opt/hostile', 'talk', 'hello', '8081'];
      assert.match(exited(await warden.exec(box.box, other)).stdout, /ECONNREFUSED/);
      box.client.close();
    });
    it('one socket that does not answer leaves the other ports alone', async () => {
      const box = await warden.open({
        egress: await serve('echo.sock', echo),
        relays: [{ port: 8080, socket: join(dir, 'missing.sock') }],
      });
      const talk = async (port: string) =>
        exited(await warden.exec(box.box, ['/opt/hostile', 'talk', 'hello', port])).stdout;
      assert.match(await talk('8080'), /ECONNRESET|EPIPE/);
      assert.equal(await talk('3128'), 'helloworked\n');
      box.client.close();
    });
    it('C23 relays that overlap, are too many, or take a privileged port are refused', async () => {
      const code = async (more: Partial<PlanOptions>) => {
        const outcome = await warden.run(['/bin/true'], more);
        return outcome.kind === 'refused' ? `${outcome.code} ${outcome.message}` : outcome.kind;
      };
      const to = (port: number, socket = join(dir, 'echo.sock')) => ({ port, socket });
      const many = (count: number) => Array.from({ length: count }, (_, at) => to(5000 + at));
      assert.equal(await code({ relays: many(8) }), 'exit', 'control');
      assert.match(await code({ relays: many(9) }), /^plan more than 8 relays/);
      assert.match(await code({ relays: [to(5000), to(5000)] }), /^plan port 5000 has two relays/);
      assert.match(await code({ egress: join(dir, 'x'), relays: [to(3128)] }), /^plan port 3128/);
      for (const port of [0, 22, 1023])
        assert.match(await code({ relays: [to(port)] }), /^plan a relay needs a port/);
      assert.match(await code({ relays: [to(5000, '/')] }), /^plan the socket/);
      assert.match(await code({ relays: [to(5000, 'x.sock')] }), /^plan the socket/);
      assert.match(await code({ relays: [to(5000, `${dir}/../x`)] }), /^plan the socket/);
      const outside = join(warden.outside, 'x.sock');
      assert.match(await code({ relays: [to(5000), to(5001, outside)] }), /^bounds /);
      assert.match(await code({ relays: [to(5000)], profile: 'runner' }), /^plan a relay/);
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
