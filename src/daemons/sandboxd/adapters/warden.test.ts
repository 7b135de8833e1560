// Tests the warden's client against a fake warden: connections are reused and never shared,
// refusals become faults, and unread output applies backpressure.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, describe, it } from 'node:test';
import { eventually } from '../../../../test/support/runtime.ts';
import { LIMITS } from '../testing/limits.ts';
import type { WardenPlan } from './plan.ts';
import { makeWarden, type Warden } from './warden.ts';

const plan: WardenPlan = {
  id: 'test',
  level: 2,
  profile: 'tool',
  uid: 1_000,
  gid: 1_000,
  cwd: '/',
  binds: [],
  args: ['/bin/true'],
  limits: LIMITS,
};

function frame(type: number, body = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(12);
  head.writeUInt32LE(0x44525741, 0);
  head[4] = 1;
  head[5] = type;
  head.writeUInt32LE(body.length, 8);
  return Buffer.concat([head, body]);
}
const started = (pid = 7) => frame(0x81, Buffer.from([pid, 0, 0, 0, 1, 1, 1, 2, 1]));
function ended(by = 0, signal = 0, code = 0): Buffer {
  const body = Buffer.alloc(56);
  body.set([by, signal, code]);
  body.writeBigUInt64LE(5_000n, 8);
  return frame(0x84, body);
}
const refused = (code: number, message: string, hint = '') =>
  frame(0x85, Buffer.concat([Buffer.from([code, 0]), Buffer.from(`${message}\0${hint}\0`)]));

describe('the warden client', () => {
  const dir = mkdtempSync(join(tmpdir(), 'warden-client-'));
  let server: Server;
  let warden: Warden;
  let heard: { type: number; socket: Socket; body: Buffer }[] = [];
  let connections = 0;
  let answer: (type: number, socket: Socket, body: Buffer) => void = () => {};

  before(async () => {
    server = createServer((socket) => {
      connections++;
      let bytes = Buffer.alloc(0);
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        bytes = Buffer.concat([bytes, chunk]);
        while (bytes.length >= 12 && bytes.length >= 12 + bytes.readUInt32LE(8)) {
          const size = bytes.readUInt32LE(8);
          const [type, body] = [bytes[5]!, bytes.subarray(12, 12 + size)];
          bytes = bytes.subarray(12 + size);
          heard.push({ type, socket, body });
          answer(type, socket, body);
        }
      });
    });
    await new Promise<void>((resolve) => server.listen(join(dir, 's'), resolve));
    warden = makeWarden(join(dir, 's'));
  });
  afterEach(() => {
    heard = [];
  });
  after(() => {
    warden.close();
    server.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const types = () => heard.map(({ type }) => type);
  const until = (isSo: () => boolean) =>
    eventually('what the warden is to hear', async () => isSo() || undefined);

  it('reuses a connection, and sends nothing on it for a command that has ended', async () => {
    answer = (type, socket) =>
      void (type === 1 && socket.write(Buffer.concat([started(), ended(0, 0, 3)])));
    const first = await warden.start(plan);
    const exit = await first.ended;
    assert.ok(exit !== 'gone');
    assert.deepEqual([exit.exitCode, exit.signal, exit.endedBy, exit.wallMs], [3, null, null, 5]);
    const before_ = connections;
    answer = (type, socket) => void (type === 1 && socket.write(started(8)));
    const second = await warden.start(plan);
    assert.equal(connections, before_);
    first.kill();
    first.signal(15);
    await first.stdin(Buffer.from('not yours'));
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(types(), [1, 1]);
    second.kill();
    await until(() => types().length === 3);
    assert.deepEqual(types(), [1, 1, 5]);
    heard.at(-1)!.socket.write(ended(7, 9));
    const killed = await second.ended;
    assert.ok(killed !== 'gone');
    assert.deepEqual([killed.endedBy, killed.signal, killed.exitCode], ['killed', 9, null]);
  });

  it('a command that ends before it has started has ended, and is no fault', async () => {
    answer = (type, socket) => void (type === 1 && socket.write(ended(1, 9)));
    const command = await warden.start(plan);
    const exit = await command.ended;
    assert.ok(exit !== 'gone');
    assert.deepEqual([command.pid, exit.endedBy], [0, 'wall']);
  });

  for (const [code, fault] of [
    [3, 'denied'],
    [4, 'level_unavailable'],
    [5, 'halted'],
    [6, 'overloaded'],
    [8, 'sandbox_refused'],
    [9, 'bad_request'],
    [11, 'unavailable'],
  ] as const)
    it(`a refusal ${code} is ${fault}, with the warden's message`, async () => {
      answer = (_type, socket) => void socket.write(refused(code, 'not so', 'do this'));
      await assert.rejects(warden.start(plan), {
        code: fault,
        message: 'the warden refused: not so',
        hint: 'do this',
      });
    });

  it('stdin is sent up to the window, then as it is consumed', async () => {
    answer = (type, socket) => void (type === 1 && socket.write(started()));
    const command = await warden.start(plan);
    const bytes = Buffer.alloc(100_000, 'x');
    let taken = false;
    const writing = command.stdin(bytes).then(() => {
      taken = true;
    });
    const sent = () =>
      heard.filter(({ type }) => type === 2).reduce((sum, { body }) => sum + body.length, 0);
    await until(() => sent() >= 65_536);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.deepEqual([sent(), taken], [65_536, false]);
    const room = Buffer.alloc(4);
    room.writeUInt32LE(65_536);
    heard[0]!.socket.write(frame(0x86, room));
    await writing;
    command.stdinEnd();
    await until(() => types().includes(3));
    assert.equal(sent(), 100_000);
    assert.equal(types().at(-1), 3);
    heard[0]!.socket.write(ended());
    await command.ended;
  });

  it('unread output waits at the warden, and none of it is lost', async () => {
    const whole = 4_000_000;
    let done = false;
    answer = (type, socket) => {
      if (type !== 1) return;
      socket.write(started());
      const part = frame(0x82, Buffer.alloc(20_000, 'y'));
      let left = whole / 20_000;
      const push = (): void => {
        while (left > 0) {
          left--;
          if (!socket.write(part)) return void socket.once('drain', push);
        }
        done = true;
        socket.write(ended());
      };
      push();
    };
    const command = await warden.start(plan);
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(done, false, 'backpressure at the warden');
    let size = 0;
    for await (const { stream, bytes } of command.readOutput()) {
      assert.equal(stream, 'stdout');
      size += bytes.length;
    }
    assert.equal(size, whole);
  });

  it('a warden that exits ends its commands, and the next one is connected to', async () => {
    answer = (type, socket) => void (type === 1 && socket.write(started()));
    const command = await warden.start(plan);
    heard[0]!.socket.destroy();
    assert.equal(await command.ended, 'gone');
    answer = (type, socket) => void (type === 1 && socket.destroy());
    await assert.rejects(warden.start(plan), { code: 'unavailable' });
    await assert.rejects(makeWarden(join(dir, 'none')).start(plan), { code: 'unavailable' });
  });

  it('opens a box on a connection of its own and runs commands in it by number', async () => {
    answer = (type, socket) => {
      const opened = Buffer.alloc(17);
      opened.writeBigUInt64LE(42n, 0);
      opened.writeUInt32LE(9, 8);
      if (type === 7) socket.write(frame(0x88, opened));
      if (type === 8) socket.write(Buffer.concat([started(), ended(10, 9)]));
      if (type === 9) socket.write(ended(7, 9));
    };
    const box = await warden.open(plan);
    assert.equal(box.pid, 9);
    const command = await box.exec({ args: ['/bin/true'], cwd: '/', limits: LIMITS });
    const exit = await command.ended;
    assert.ok(exit !== 'gone' && exit.endedBy === 'box');
    const exec = heard.find(({ type }) => type === 8)!;
    assert.equal(exec.body.readBigUInt64LE(6), 42n);
    assert.notEqual(exec.socket, heard[0]!.socket);
    await box.close();
    assert.ok((await box.ended) !== 'gone');
  });

  it('opens a layer on a connection of its own, and waits until no box uses it', async () => {
    const handle = Buffer.alloc(8);
    handle.writeBigUInt64LE(2n ** 64n - 3n);
    answer = (type, socket) => void (type === 11 && socket.write(frame(0x8b, handle)));
    const request = { uid: 1, gid: 2, lower: '/l', sealed: ['/a', '/b'], dir: '/d' };
    const layer = await warden.layer(request);
    assert.equal(layer.handle, 2n ** 64n - 3n);
    const { body, socket } = heard[0]!;
    assert.deepEqual([body.readUInt32LE(0), body.readUInt32LE(4), body[8]], [1, 2, 2]);
    assert.equal(body.subarray(12).toString(), '/l\0/a\0/b\0/d\0');
    let isClosed = false;
    const closing = layer.close().then(() => {
      isClosed = true;
    });
    await until(() => types().includes(9));
    assert.equal(isClosed, false);
    socket.write(frame(0x8c));
    await closing;
    assert.equal(await layer.ended, 'closed');
    answer = (_type, at) => void at.write(refused(11, 'in use'));
    await assert.rejects(warden.layer(request), { code: 'unavailable', message: /in use/ });
    answer = (type, at) => void (type === 11 ? at.write(frame(0x8b, handle)) : at.destroy());
    const lost = await warden.layer(request);
    await lost.close();
    assert.equal(await lost.ended, 'gone');
  });
});
