// Every way a daemon can fail to respond becomes a fault with its exit status.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { connectRuntime, type RuntimeClient } from './runtime.ts';
import { makeStateDir } from './testing/fake-runtime.ts';

/** Starts a runtime whose auditd-ai replies with this, or does not run if undefined. */
async function withReply(
  reply: ((socket: Socket) => void) | undefined,
  use: (runtime: RuntimeClient) => Promise<void>,
): Promise<void> {
  const stateDir = makeStateDir();
  const dir = join(stateDir, 'r', 'auditd-ai', 'operator');
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  writeFileSync(join(stateDir, 'operator.key'), 'a key');
  const info = { runtime_dir: join(stateDir, 'r'), pid: process.pid };
  writeFileSync(join(stateDir, 'runtime.json'), JSON.stringify(info));
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => reply?.(socket));
  });
  if (reply !== undefined)
    await new Promise<void>((done) => server.listen(join(dir, 'auditd-ai.sock'), done));
  try {
    await use(connectRuntime(stateDir));
  } finally {
    if (reply !== undefined) await new Promise((done) => server.close(done));
    rmSync(stateDir, { recursive: true });
  }
}

const ask = (runtime: RuntimeClient, deadlineMs = 5_000) =>
  runtime.call('auditd-ai', 'events', { query: {} }, { deadlineMs });
const open = (runtime: RuntimeClient) =>
  runtime.open('auditd-ai', 'events', { query: {} }, new AbortController().signal);

const document = (status: string, body: string) =>
  `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`;

test('a document is returned, and a stream as it arrives', async () => {
  await withReply(
    (socket) => socket.end(document('200 OK', '{"events":[]}')),
    async (runtime) => {
      assert.deepEqual(await ask(runtime), { events: [] });
      const chunks = (await (await open(runtime)).toArray()) as Buffer[];
      assert.equal(Buffer.concat(chunks).toString(), '{"events":[]}');
    },
  );
});

const refusal = JSON.stringify({ error: { code: 'denied', message: 'no' } });
const cases: [string, string | undefined, string][] = [
  ['no socket', undefined, 'runtime_down'],
  ['no response', '', 'runtime_down'],
  ['a refusal', document('403 Forbidden', refusal), 'denied'],
  ['an error without JSON', document('500 x', 'oops'), 'bad_output'],
  ['no HTTP', 'garbage\r\n\r\n', 'unavailable'],
];
for (const [what, bytes, code] of cases)
  test(`${what}: ${code}`, () =>
    withReply(bytes === undefined ? undefined : (socket) => socket.end(bytes), async (runtime) => {
      await assert.rejects(ask(runtime), { code });
      await assert.rejects(open(runtime), { code });
    }));

test('a truncated document: unavailable', () =>
  withReply(
    (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n{"a"'),
    (runtime) => assert.rejects(ask(runtime), { code: 'unavailable' }),
  ));

test('no response in time: deadline', () =>
  withReply(
    () => undefined,
    (runtime) => assert.rejects(ask(runtime, 1), { code: 'deadline' }),
  ));
