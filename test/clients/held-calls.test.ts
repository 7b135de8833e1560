// Calls whose provider takes its time, over HTTP in every dialect: a client that hangs up cancels
// the provider's call, and large bodies are passed on and counted until their call has ended.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, it } from 'node:test';
import { type HoldingUpstream, startHoldingUpstream } from '../support/holding-upstream.ts';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';

const PATHS = {
  openai: '/openai/v1/chat/completions',
  responses: '/openai/v1/responses',
  anthropic: '/anthropic/v1/messages',
} as const;
type Dialect = keyof typeof PATHS;
const DIALECTS = Object.keys(PATHS) as Dialect[];
const BODY_BYTES_MAX = 32 * 1024 * 1024;
const HELD_AT_ONCE = 7;

function writeBody(dialect: Dialect, model: string, more: object, text = 'hi'): string {
  const messages = [{ role: 'user', content: text }];
  const own = dialect === 'responses' ? { input: messages } : { messages, max_tokens: 50 };
  return JSON.stringify({ model, ...more, ...own });
}

describe('calls whose provider takes its time', () => {
  let upstream: HoldingUpstream;
  let runtime: TestRuntime;
  before(async () => {
    upstream = await startHoldingUpstream();
    const provider = (dialect: string, path: string) =>
      `${dialect}-side: { dialect: ${dialect}, base_url: "${upstream.url}${path}" }`;
    const config = `modeld:
  providers:
    ${provider('openai', '/v1')}
    ${provider('responses', '/v1')}
    ${provider('anthropic', '')}
  prices: { m: { input: 1, output: 10 } }
`;
    runtime = await startRuntime({ port: 0, config });
  });
  after(async () => {
    await runtime.remove();
    await upstream.close();
  });

  const send = (path: string, body: string) => {
    const headers = {
      authorization: `Bearer ${runtime.operatorKey}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const port = runtime.info.port!;
    const request = http.request({ host: '127.0.0.1', port, method: 'POST', path, headers });
    request.end(body);
    const response = new Promise<http.IncomingMessage>((resolve, reject) => {
      request.on('response', resolve);
      request.on('error', reject);
    });
    response.catch(() => undefined);
    return { request, response };
  };
  const isOpen = (count: number) =>
    eventually(`${count} open at the provider`, async () =>
      upstream.open().length === count ? true : undefined,
    );
  const readText = async (response: http.IncomingMessage): Promise<string> => {
    let text = '';
    for await (const piece of response) text += piece;
    return text;
  };

  for (const dialect of DIALECTS)
    for (const side of DIALECTS)
      for (const stream of [true, false])
        it(`${dialect} to ${side}${stream ? ', streaming' : ''}: hanging up cancels and charges`, async () => {
          const { request, response } = send(
            PATHS[dialect],
            writeBody(dialect, `${side}-side/m`, { stream }),
          );
          await isOpen(1);
          if (stream) {
            const { value } = await (await response)[Symbol.asyncIterator]().next();
            assert.match(String(value), /data: /, 'the start of the stream has arrived');
          }
          request.destroy();
          await isOpen(0);
          const call = await eventually('the end of the call', async () => {
            const { calls } = await runtime.modeld.listCalls({ query: { limit: 1 } });
            return calls[0]?.status === 'running' ? undefined : calls[0];
          });
          assert.equal(call.status, 'canceled');
          assert.equal(call.provider, `${side}-side`);
          assert.ok(call.cost_microusd > 0, 'its use is not known, so its bound is charged');
          const { budgets } = await runtime.modeld.listBudgets({});
          assert.ok(budgets.every((one) => one.cost_reserved_microusd === 0));
        });

  it('a body of 32 MB passes in every dialect, and a larger one is refused as by the vendor', async () => {
    for (const dialect of DIALECTS) {
      const model = `${dialect}-side/m`;
      const room = BODY_BYTES_MAX - writeBody(dialect, model, {}, '').length;
      const { request } = send(PATHS[dialect], writeBody(dialect, model, {}, 'x'.repeat(room)));
      await isOpen(1);
      const [bytes] = upstream.open();
      assert.ok(bytes! > room, `${bytes} bytes arrived`);
      request.destroy();
      await isOpen(0);
      const { response } = send(
        PATHS[dialect],
        writeBody(dialect, model, {}, 'x'.repeat(room + 1)),
      );
      const refused = await response;
      assert.equal(refused.statusCode, 413);
      const { error } = JSON.parse(await readText(refused)) as { error: { type: string } };
      assert.equal(
        error.type,
        dialect === 'anthropic' ? 'request_too_large' : 'invalid_request_error',
      );
    }
  });

  it('the bodies of open calls together have a limit; memory is free again after them', async () => {
    const body = writeBody('anthropic', 'anthropic-side/m', {}, 'x'.repeat(BODY_BYTES_MAX - 500));
    const held = [];
    for (let i = 0; i < HELD_AT_ONCE; i++) {
      held.push(send(PATHS.anthropic, body));
      await isOpen(i + 1);
    }
    const over = await send(PATHS.anthropic, body).response;
    assert.equal(over.statusCode, 529);
    assert.ok(Number(over.headers['retry-after']) >= 1);
    assert.match(await readText(over), /overloaded_error/);
    for (const { request } of held) request.destroy();
    await isOpen(0);
    const again = send(PATHS.anthropic, body);
    await isOpen(1);
    again.request.destroy();
    await isOpen(0);
  });
});
