// Tests streamed responses from small failing servers.
import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import {
  closeServers,
  isFault,
  KEY,
  LIMITS,
  type ProviderScript,
  provide,
  sendJson,
  streamed,
} from '../testing/provider-calls.ts';
import { openai } from './openai.ts';
import type { Provider, ProviderCall } from './provider-client.ts';
import { type StreamEnd, startEvents } from './stream-response.ts';
import { unchangedNames } from './tool-names.ts';

afterEach(closeServers);

const chunk = (content: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`;
const FINISH = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}\n\n`;

/** Set by a server that aborts its stream once the client has read something. */
let cutNow: () => void = () => {};

function sendStream(pieces: (string | Buffer)[], end: 'end' | 'cut' | 'hang'): ProviderScript {
  return (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const piece of pieces) response.write(piece);
    if (end === 'end') response.end();
    else if (end === 'cut') cutNow = () => response.destroy();
  };
}

async function readStream(provider: Provider, more: Partial<ProviderCall> = {}) {
  const upstream = await streamed(provider, more);
  const reader = openai.readStream(unchangedNames('m', 'acme'));
  const { items, ended } = await startEvents({ upstream, reader, provider: 'acme' });
  let text = '';
  for await (const events of items) {
    for (const event of events) if (event.type === 'text') text += event.text;
    cutNow();
  }
  const end: StreamEnd = await ended;
  return { text, end };
}

test('a stream that ends properly is whole, also if the server keeps the connection', async () => {
  const parts = [chunk('a'), chunk('b'), FINISH, 'data: [DONE]\n\n'];
  for (const end of ['end', 'hang'] as const) {
    const { text, end: ended } = await readStream(await provide(sendStream(parts, end)));
    assert.equal(text, 'ab');
    assert.equal(ended.fault, undefined);
    assert.equal(ended.response.stopReason, 'end');
  }
});

const cutStreams: [string, ProviderScript, string, RegExp][] = [
  [
    'cut by the network',
    sendStream([chunk('a'), chunk('b')], 'cut'),
    'provider_malformed',
    /closed the connection during/,
  ],
  [
    'ended without its end marker',
    sendStream([chunk('a'), FINISH], 'end'),
    'provider_malformed',
    /without an end marker/,
  ],
  [
    'broken in the middle',
    sendStream([chunk('a'), 'data: {"choices":[\n\n'], 'end'),
    'provider_malformed',
    /not JSON/,
  ],
  [
    'failing in the middle',
    sendStream(
      [chunk('a'), `data: {"error":{"message":"${KEY}","type":"server_error"}}\n\n`],
      'end',
    ),
    'provider_down',
    /\[key\]/,
  ],
  [
    'silent in the middle',
    sendStream([chunk('a')], 'hang'),
    'provider_down',
    /sent nothing for 300 ms/,
  ],
];
for (const [name, answering, code, words] of cutStreams) {
  test(`a stream ${name} yields what arrived and says how it ended`, async () => {
    const limits = name === 'silent in the middle' ? { ...LIMITS, idleTimeoutMs: 300 } : LIMITS;
    const { text, end } = await readStream(await provide(answering), { limits });
    assert.match(text, /^ab?$/);
    isFault(code, words)(end.fault);
  });
}

test('a stream that fails before its first item throws, so that it can be retried', async () => {
  const body = 'data: {"error":{"message":"busy","type":"server_error"}}\n\n';
  await assert.rejects(
    readStream(await provide(sendStream([body], 'end'))),
    isFault('provider_down'),
  );
  await assert.rejects(
    readStream(await provide(sendStream([], 'end'))),
    isFault('provider_malformed'),
  );
  const json: ProviderScript = (_, response) => sendJson(response, { choices: [] });
  await assert.rejects(readStream(await provide(json)), isFault('provider_malformed', /json/));
});

test('an endless stream is aborted, as one event or as many', async () => {
  const pour =
    (first: string, piece: string): ProviderScript =>
    (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(first);
      const more = () => {
        while (!response.destroyed && response.write(piece));
      };
      response.on('drain', more);
      more();
    };
  const limits = { ...LIMITS, sizeBytesMax: 200_000 };
  for (const answering of [
    pour(chunk('a'), chunk('b')),
    pour(`${chunk('a')}data: `, 'x'.repeat(999)),
  ]) {
    const { end } = await readStream(await provide(answering), { limits });
    isFault('provider_malformed', /more than 200000 bytes/)(end.fault);
  }
});

test('bytes that arrive one by one make the same stream', async () => {
  const bytes = Buffer.from(`${chunk('é')}${chunk('€')}data: [DONE]\n\n`);
  const provider = await provide(async (_, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const byte of bytes) {
      response.write(Buffer.from([byte]));
      if (byte % 8 === 0) await new Promise((resolve) => setImmediate(resolve));
    }
    response.end();
  });
  assert.equal((await readStream(provider)).text, 'é€');
});

test('a client that disconnects ends the call, and its usage is settled', async () => {
  const left = Promise.withResolvers<void>();
  const provider = await provide((request, response, body) => {
    request.socket.on('close', () => left.resolve());
    sendStream([chunk('a')], 'hang')(request, response, body);
  });
  const upstream = await streamed(provider);
  const reader = openai.readStream(unchangedNames('m', 'acme'));
  const { items, ended } = await startEvents({ upstream, reader, provider: 'acme' });
  for await (const _ of items) break;
  const end = await ended;
  isFault('canceled')(end.fault);
  assert.deepEqual(end.response.message.parts, [{ type: 'text', text: 'a' }]);
  await left.promise;
});

test('a stream without a reader is settled at its deadline', async () => {
  const provider = await provide(sendStream([chunk('a')], 'hang'));
  const upstream = await streamed(provider, { deadlineMs: 1_000 });
  const reader = openai.readStream(unchangedNames('m', 'acme'));
  const { ended } = await startEvents({ upstream, reader, provider: 'acme' });
  isFault('deadline')((await ended).fault);
});
