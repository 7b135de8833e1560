// http.fetch: what it asks egressd for, what policy is told it touches, and what a model reads of
// the answer.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { derivedId } from '../../../platform/ids.ts';
import type { FetchAnswer, FetchBody } from '../../../wire/egressd.ts';
import { fault } from '../../../wire/errors.ts';
import type { CallId, RunId } from '../../../wire/words.ts';
import { type EgressdClient, httpTools } from './http.ts';
import type { ToolContext } from './tool.ts';

const context = {
  runId: derivedId<RunId>('run', 'http'),
  callId: derivedId<CallId>('call', 'http'),
  fence: 3,
} as ToolContext;

const answerWith = (body: Buffer, more: Partial<FetchAnswer> = {}): FetchAnswer => ({
  ...{
    url: 'https://a.test/',
    status: 200,
    headers: { 'content-type': 'text/plain', server: 'x' },
  },
  ...{ body_base64: body.toString('base64'), size_bytes: body.length },
  ...{ truncated: false, recorded: false, ...more },
});

function toolWith(answer: (body: FetchBody) => FetchAnswer) {
  const client = {
    fetch: async ({ body }: { body: FetchBody }) => answer(body),
  } as unknown as EgressdClient;
  const [tool] = httpTools(client);
  const parse = (input: object) => tool!.input.parse(input);
  return {
    perform: (input: object) => tool!.perform(parse(input), context),
    touches: (input: object) => tool!.touches!(parse(input)),
    view: tool!.view,
  };
}

describe('http.fetch', () => {
  it('asks for the run, once per call, and follows redirects only when it reads', async () => {
    const asked: FetchBody[] = [];
    const { perform } = toolWith((body) => {
      asked.push(body);
      return answerWith(Buffer.from('hi'));
    });
    await perform({ url: 'https://a.test/' });
    await perform({ url: 'https://a.test/', method: 'POST', body: 'x' });
    const [read, sent] = asked;
    assert.deepEqual([read?.fence, read?.call_id, read?.method], [3, context.callId, 'GET']);
    assert.ok(read!.redirects_max > 0);
    assert.equal(sent?.redirects_max, 0);
    assert.equal(Buffer.from(sent!.body_base64!, 'base64').toString(), 'x');
  });

  it('tells policy the host, port, method and path', () => {
    const { touches } = toolWith(() => answerWith(Buffer.alloc(0)));
    assert.deepEqual(touches({ url: 'https://A.test/x?y', method: 'POST' }), [
      { action: 'net.connect', host: 'a.test', port: 443, method: 'POST', urlPath: '/x' },
    ]);
    assert.deepEqual(touches({ url: 'http://a.test:8080' }), [
      { action: 'net.connect', host: 'a.test', port: 8080, method: 'GET', urlPath: '/' },
    ]);
    assert.equal((touches({ url: 'no url' })[0] as { port: number }).port, 0);
  });

  it('gives text as text, and what is none as base64', async () => {
    const cut = Buffer.from('é').subarray(0, 1);
    for (const [body, truncated, expected] of [
      [Buffer.from('hällo'), false, { text: 'hällo' }],
      [Buffer.concat([Buffer.from('a'), cut]), true, { text: 'a' }],
      [Buffer.from([0xff, 0xfe]), false, { base64: '//4=' }],
    ] as const) {
      const effect = await toolWith(() => answerWith(body, { truncated })).perform({
        url: 'http://a',
      });
      const {
        url,
        status,
        headers,
        size_bytes,
        truncated: isCut,
        ...rest
      } = (effect as { result: Record<string, unknown> }).result;
      assert.deepEqual(rest, expected);
      assert.deepEqual(headers, { 'content-type': 'text/plain' });
      assert.deepEqual(
        [url, status, size_bytes, isCut],
        ['https://a.test/', 200, body.length, truncated],
      );
    }
  });

  it('says plainly that there is no way out, and that an outcome is not known', async () => {
    const errorOf = async (thrown: Error) => {
      const { perform } = toolWith(() => {
        throw thrown;
      });
      const effect = await perform({ url: 'http://a.test/', method: 'POST' });
      return (effect as { error: { code: string } }).error.code;
    };
    assert.equal(await errorOf(fault('not_found', 'no')), 'denied');
    const unknown = fault('conflict', 'who knows', { details: { outcome: 'unknown' } });
    assert.equal(await errorOf(unknown), 'outcome_unknown');
    const sent = fault('unreachable', 'hung up', { details: { sent: true } });
    assert.equal(await errorOf(sent), 'outcome_unknown');
    await assert.rejects(errorOf(fault('denied', 'not listed')), /not listed/);
    await assert.rejects(errorOf(new Error('a bug')), /a bug/);
  });
});
