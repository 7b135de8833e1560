// Tests the scripted defects as a caller sees them: truncated, malformed, endless, slow, late.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import {
  ANTHROPIC_HEADERS,
  OPENAI_HEADERS,
  post,
  readPath,
  startServer,
  type TestServer,
} from './testing.ts';

let server: TestServer;
before(async () => {
  server = await startServer();
});
after(() => server[Symbol.asyncDispose]());

type Vendor = { path: string; headers: Record<string, string>; body: object };
const VENDORS: Record<string, Vendor> = {
  openai: { path: '/v1/chat/completions', headers: OPENAI_HEADERS, body: {} },
  anthropic: { path: '/v1/messages', headers: ANTHROPIC_HEADERS, body: { max_tokens: 1000 } },
};

function makeBody(vendor: Vendor, prompt: string, isStream: boolean) {
  const messages = [{ role: 'user', content: `rehearse: ${prompt}` }];
  return { model: 'rehearsal-large', messages, stream: isStream, ...vendor.body };
}

function sendRequest(vendor: Vendor, prompt: string, isStream: boolean, signal?: AbortSignal) {
  return fetch(`${server.url}${vendor.path}`, {
    method: 'POST',
    headers: vendor.headers,
    body: JSON.stringify(makeBody(vendor, prompt, isStream)),
    ...(signal ? { signal } : {}),
  });
}

async function readUntilBroken(response: Response): Promise<{ text: string; isBroken: boolean }> {
  let text = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of response.body!) text += decoder.decode(chunk, { stream: true });
    return { text, isBroken: false };
  } catch {
    return { text, isBroken: true };
  }
}

for (const [name, vendor] of Object.entries(VENDORS)) {
  describe(`defective replies on the ${name} wire`, () => {
    for (const isStream of [true, false]) {
      const kind = isStream ? 'a stream' : 'a body';

      test(`${kind} that is truncated`, async () => {
        const { text, isBroken } = await readUntilBroken(
          await sendRequest(vendor, 'cut_mid_stream', isStream),
        );
        assert.ok(isBroken);
        assert.ok(text.length > 50);
        assert.doesNotMatch(text, /\[DONE\]|message_stop|"usage":\{.*\}\}$/);
      });

      test(`${kind} with malformed JSON`, async () => {
        const response = await sendRequest(vendor, 'malformed_json', isStream);
        assert.equal(response.status, 200);
        const text = await response.text();
        const documents = isStream
          ? [...text.matchAll(/^data: (\{.*)$/gm)].map((line) => line[1]!)
          : [text];
        const broken = documents.filter((document) => {
          try {
            JSON.parse(document);
            return false;
          } catch {
            return true;
          }
        });
        assert.equal(broken.length, 1);
        if (isStream) assert.match(text, /\[DONE\]|message_stop/);
      });

      test(`${kind} that is endless, until the caller disconnects`, async () => {
        const abort = new AbortController();
        const response = await sendRequest(vendor, 'endless', isStream, abort.signal);
        let text = '';
        await assert.rejects(async () => {
          for await (const chunk of response.body!) {
            text += Buffer.from(chunk).toString();
            if (text.length > 200_000) abort.abort();
          }
        });
        assert.ok(text.length > 200_000);
        assert.match(text, /\[rehearsal\] and on and on/);
      });

      test(`${kind} in slow bytes arrives complete`, async () => {
        const slow = await (await sendRequest(vendor, 'slow_bytes', isStream)).text();
        assert.match(slow.replaceAll(/"\}[\s\S]*?":"/g, ''), /ünïcödé/);
        if (!isStream) assert.match(slow, /🎭 cut in two/);
      });

      test(`${kind} that is late can be aborted, and the server keeps running`, async () => {
        const signal = AbortSignal.timeout(30);
        await assert.rejects(async () => {
          const response = await sendRequest(vendor, 'slow 60000 ms', isStream, signal);
          await response.text();
        });
        assert.equal((await sendRequest(vendor, 'usage', isStream)).status, 200);
      });
    }

    test('a late stream opens before the first output', async () => {
      const abort = new AbortController();
      const response = await sendRequest(vendor, 'slow 60000 ms', true, abort.signal);
      const first = await response.body!.getReader().read();
      assert.match(Buffer.from(first.value!).toString(), /message_start|"role":"assistant"/);
      abort.abort();
    });

    test('an error with a limit counts each request separately', async () => {
      const send = (prompt: string) =>
        post(`${server.url}${vendor.path}`, vendor.headers, makeBody(vendor, prompt, false));
      const sendThreeTimes = async (prompt: string) => [
        (await send(prompt)).status,
        (await send(prompt)).status,
        (await send(prompt)).status,
      ];
      assert.deepEqual(await sendThreeTimes('error 529 2 times'), [529, 529, 200]);
      assert.deepEqual(await sendThreeTimes('error 500 1 times'), [500, 200, 200]);
      assert.deepEqual(await sendThreeTimes('error 503'), [503, 503, 503]);
      const plain = await send('error 402');
      assert.equal(plain.headers.get('retry-after'), null);
      assert.match(readPath(plain.json, 'error.message'), /^\[rehearsal\]/);
    });
  });
}

describe('defective replies as the SDKs see them', () => {
  const body = (prompt: string) => ({
    model: 'rehearsal-large',
    max_tokens: 1000,
    messages: [{ role: 'user' as const, content: `rehearse: ${prompt}` }],
  });
  const openai = () => new OpenAI({ apiKey: 'k', baseURL: `${server.url}/v1`, maxRetries: 0 });
  const anthropic = () =>
    new Anthropic({ apiKey: 'k', baseURL: server.url, maxRetries: 0, logLevel: 'off' });

  test('openai: truncated, in slow bytes, an error in the stream', async () => {
    const read = async (prompt: string) => {
      const stream = await openai().chat.completions.create({ ...body(prompt), stream: true });
      const chunks = await Array.fromAsync(stream);
      return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
    };
    await assert.rejects(read('cut_mid_stream'));
    assert.match(await read('slow_bytes'), /ünïcödé and 🎭 cut in two/);
    await assert.rejects(read('error 500 in stream'), /Played on request/);
  });

  test('anthropic: truncated, malformed, in slow bytes', async () => {
    const read = (prompt: string) => anthropic().messages.stream(body(prompt)).finalText();
    await assert.rejects(read('cut_mid_stream'));
    await assert.rejects(read('malformed_json'));
    assert.match(await read('slow_bytes'), /ünïcödé and 🎭 cut in two/);
  });
});
