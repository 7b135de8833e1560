// A watched run's responses are asked for as streams and shown as they arrive; what the run gets,
// what is recorded and what is charged is the same.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawReply } from '../../../platform/dispatch.ts';
import type { LiveItem } from '../../../wire/live.ts';
import { admission, OPERATOR, runCaller, runId, taskId, userMessage } from '../testing/harness.ts';
import { openaiChunks } from '../testing/provider.ts';
import { callId, modeld, provider, startWithProvider } from '../testing/with-provider.ts';

describe('watched calls', () => {
  startWithProvider();

  /** Everything that watchers of this task are shown while the work is done. */
  const shownDuring = async (n: number, work: () => Promise<unknown>): Promise<LiveItem[]> => {
    const reply = await modeld.dispatch.run({
      method: 'GET',
      path: '/v1/models/live',
      query: { root_task_id: taskId(n), seconds: '1' },
      body: undefined,
      caller: OPERATOR,
    });
    assert.ok(reply instanceof RawReply);
    await work();
    let text = '';
    for await (const piece of reply.body as AsyncIterable<string>) text += piece;
    return [...text.matchAll(/^data: (.*)$/gm)].map(([, item]) => JSON.parse(item!) as LiveItem);
  };
  const generate = (n: number, step = 0) =>
    modeld.as(runCaller(n, 1)).generate({
      body: {
        model: 'coder-large',
        messages: [userMessage(`step ${step}`)],
        call_id: callId(n, step),
      },
    });
  const admit = (n: number) =>
    modeld.agentd.admitRun({ params: { id: runId(n) }, body: admission(n) });
  const isStreamed = () => provider.requests.map(({ body }) => body.stream === true);
  const cut: (typeof provider.plays)[number] = ({ response }) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(openaiChunks(['hel', 'lo'])[1]);
    setTimeout(() => response.destroy(), 20);
  };

  test('each piece is shown, and the run gets the same as unwatched', async () => {
    for (const n of [1, 2]) await admit(n);
    const unwatched = await generate(1);
    const [watched, shown] = await (async () => {
      let made: typeof unwatched | undefined;
      const items = await shownDuring(2, async () => {
        made = await generate(2);
      });
      return [made!, items] as const;
    })();
    assert.deepEqual(isStreamed(), [false, true]);
    assert.deepEqual(
      shown.map(({ kind, text, source }) => [kind, text, source]),
      [
        ['text', 'hel', 'coder-large'],
        ['text', 'lo', 'coder-large'],
      ],
    );
    assert.deepEqual({ ...watched, call_id: '' }, { ...unwatched, call_id: '' });
    const again = await generate(2);
    assert.deepEqual({ ...again, recorded: false }, watched);
  });

  test('nobody sees the calls of another task', async () => {
    for (const n of [3, 4]) await admit(n);
    assert.deepEqual(await shownDuring(3, () => generate(4)), []);
    assert.deepEqual(isStreamed(), [false]);
  });

  test('a stream that breaks off is tried again, as a whole response would be', async () => {
    await admit(5);
    provider.plays.push(cut);
    await shownDuring(5, async () => {
      const { message } = await generate(5);
      assert.deepEqual(message.parts, [{ type: 'text', text: 'hello' }]);
    });
    assert.equal(provider.requests.length, 2);
  });

  test('a provider that reports no usage in streams is not asked for one again', async () => {
    await admit(6);
    provider.plays.push(({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(
        openaiChunks(['hello'])
          .filter((chunk) => !chunk.includes('usage'))
          .join(''),
      );
    });
    const shown = await shownDuring(6, async () => {
      await generate(6);
      await generate(6, 1);
    });
    assert.deepEqual(isStreamed(), [true, false]);
    assert.deepEqual(
      shown.map(({ text }) => text),
      ['hello', 'hello'],
    );
  });
});
