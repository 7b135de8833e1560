// http.fetch: its request to egressd, the resource for policy, and what a model reads of the
// response.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { FetchAnswer, FetchBody } from '../../../wire/egressd.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { CallId, RunId } from '../../../wire/primitives.ts';
import { type FetchClient, httpTools } from './http.ts';
import { isOpenOutcome, type ToolContext } from './tool.ts';

const context = {
  runId: deriveId<RunId>('run', 'http'),
  callId: deriveId<CallId>('call', 'http'),
  fence: 3,
} as ToolContext;

const answerWith = (body: Buffer, more: Partial<FetchAnswer> = {}): FetchAnswer => ({
  url: 'https://a.test/',
  status: 200,
  headers: { 'content-type': 'text/plain', server: 'x' },
  body_base64: body.toString('base64'),
  size_bytes: body.length,
  truncated: false,
  recorded: false,
  ...more,
});

type RecordedFetch = { outcome: string; answer: FetchAnswer | null };
function toolWith(answer: (body: FetchBody) => FetchAnswer, recalled?: RecordedFetch) {
  const client = {
    fetch: async ({ body }: { body: FetchBody }) => answer(body),
    getFetch: async () => recalled,
  } as unknown as FetchClient;
  const [tool] = httpTools(client);
  const parse = (input: object) => tool!.input.parse(input);
  return {
    perform: (input: object) => tool!.perform(parse(input), context),
    recall: () => tool!.recall!(context),
    touches: (input: object) => tool!.touches!(parse(input)),
    describeAction: (input: object) => tool!.describeAction!(parse(input)),
    view: tool!.view,
  };
}

describe('http.fetch', () => {
  it('sends one request per call for its run, and follows redirects only when it reads', async () => {
    const requests: FetchBody[] = [];
    const { perform } = toolWith((body) => {
      requests.push(body);
      return answerWith(Buffer.from('hi'));
    });
    await perform({ url: 'https://a.test/' });
    await perform({ url: 'https://a.test/', method: 'POST', body: 'x' });
    const [read, sent] = requests;
    assert.deepEqual([read?.fence, read?.call_id, read?.method], [3, context.callId, 'GET']);
    assert.ok(read!.redirects_max > 0);
    assert.equal(sent?.redirects_max, 0);
    assert.equal(Buffer.from(sent!.body_base64!, 'base64').toString(), 'x');
  });

  it('names host, port, method and path to policy', () => {
    const { touches } = toolWith(() => answerWith(Buffer.alloc(0)));
    assert.deepEqual(touches({ url: 'https://A.test/x?y', method: 'POST' }), [
      { action: 'net.connect', host: 'a.test', port: 443, method: 'POST', urlPath: '/x' },
    ]);
    assert.deepEqual(touches({ url: 'http://a.test:8080' }), [
      { action: 'net.connect', host: 'a.test', port: 8080, method: 'GET', urlPath: '/' },
    ]);
    assert.equal((touches({ url: 'no url' })[0] as { port: number }).port, 0);
  });

  it('is one action for reading, and another for each change at each host', () => {
    const { describeAction } = toolWith(() => answerWith(Buffer.alloc(0)));
    const of = (url: string, method: string) => describeAction({ url, method });
    assert.equal(of('https://a.test/x', 'GET'), 'http.fetch');
    assert.equal(of('https://a.test/x', 'POST'), 'http.fetch POST a.test:443');
    assert.equal(of('http://a.test/y', 'DELETE'), 'http.fetch DELETE a.test:80');
    const long = (name: string) => of(`https://${name.repeat(60)}.test/`, 'DELETE');
    assert.ok(long('a').length <= 64);
    assert.notEqual(long('a'), long('b'));
  });

  it('returns text as text, and other content as base64', async () => {
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

  const after = (thrown: Error, method = 'POST') =>
    toolWith(() => {
      throw thrown;
    }).perform({ url: 'http://a.test/', method });

  it('says plainly that the run has no egress', async () => {
    const effect = await after(fault('not_found', 'no'));
    assert.equal((effect as { error: { code: string } }).error.code, 'denied');
    await assert.rejects(after(fault('denied', 'not listed')), /not listed/);
    await assert.rejects(after(new Error('a bug')), /a bug/);
  });

  it('leaves the outcome to a person where only they can tell', async () => {
    const unknown = fault('conflict', 'who knows', { details: { outcome: 'unknown' } });
    assert.deepEqual(await after(unknown), { unknown: true });
    const sent = fault('unreachable', 'hung up', { details: { sent: true } });
    assert.deepEqual(await after(sent), { unknown: true });
    // A read-only request simply fails and is requested again.
    await assert.rejects(after(fault('unreachable', 'hung up'), 'GET'), /hung up/);
    const isOpen = (open: boolean) => (error: unknown) =>
      error instanceof Fault && error.retry && isOpenOutcome(error) === open;
    await assert.rejects(after(fault('unavailable', 'gone'), 'GET'), isOpen(false));
    await assert.rejects(after(fault('unavailable', 'gone'), 'POST'), isOpen(true));
  });

  it('looks up the outcome of a request it lost', async () => {
    const answer = answerWith(Buffer.from('hi'));
    const recall = (outcome: string, given: FetchAnswer | null) =>
      toolWith(() => answer, { outcome, answer: given }).recall();
    assert.equal(await recall('none', null), undefined);
    assert.deepEqual(await recall('unknown', null), { unknown: true });
    const known = (await recall('answered', answer)) as { result: { text: string } };
    assert.equal(known.result.text, 'hi');
  });
});
