// Tests neutral calls through the whole daemon: response, record, charge and audit.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  admission,
  rejects,
  runCaller,
  runId,
  taskId,
  until,
  userMessage,
} from '../testing/harness.ts';
import { openaiAnswer, openaiChunks, sendJson } from '../testing/provider.ts';
import { callId, modeld, provider, startWithProvider } from '../testing/with-provider.ts';

describe('generate', () => {
  startWithProvider();

  test("an operator's call returns a response with usage and cost", async () => {
    const response = await modeld.operator.generate({
      body: {
        model: 'coder-large',
        messages: [userMessage('hi')],
        agent: 'agent:coder',
        task_id: taskId(9),
      },
    });
    assert.equal(response.provider, 'local');
    assert.equal(response.model, 'gpt-test');
    assert.equal(response.rehearsal, false);
    assert.equal(response.recorded, false);
    assert.deepEqual(response.message.parts, [{ type: 'text', text: 'hello' }]);
    assert.equal(response.usage.input_tokens, 11);
    assert.equal(response.cost_microusd, 11 * 1 + 7 * 10);
    const { call } = await modeld.operator.getCall({ params: { id: response.call_id } });
    assert.equal(call.agent, 'coder');
    assert.equal(call.task_id, taskId(9));
    assert.equal(call.run_id, null);
    assert.equal(call.cost_microusd, 81);
  });

  test('the attempt is durable and audited before the provider is called', async () => {
    let isRecorded = false;
    provider.plays.push(({ response }) => {
      isRecorded = modeld.events.at(-1)?.event === 'model.call.attempted';
      sendJson(response, 200, openaiAnswer('hello'));
    });
    await modeld.operator.generate({
      body: { model: 'coder-large', messages: [userMessage('order')] },
    });
    assert.equal(isRecorded, true);
    assert.deepEqual(modeld.failpoints.slice(-4), [
      'modeld.before-intent',
      'modeld.after-intent',
      'modeld.after-attempt-durable',
      'modeld.after-upstream',
    ]);
  });

  test('the same call_id is returned from the record, paid once', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
    const run = modeld.as(runCaller(1, 1));
    const body = { model: 'coder-large', messages: [userMessage('once')], call_id: callId(1) };
    const first = await run.generate({ body });
    const second = await run.generate({ body });
    assert.equal(provider.requests.length, 1);
    assert.deepEqual({ ...second, recorded: false }, first);
    assert.equal(second.recorded, true);
    assert.equal(modeld.failpoints.at(-1), 'modeld.after-outcome');
    await rejects(
      run.generate({ body: { ...body, messages: [userMessage('twice')] } }),
      'replay_differs',
    );
  });

  test('a call in flight is joined, not made twice', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(2) }, body: admission(2) });
    const run = modeld.as(runCaller(2, 1));
    const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
    const { promise: go, resolve: response } = Promise.withResolvers<void>();
    provider.plays.push(async ({ response }) => {
      onRequest();
      await go;
      sendJson(response, 200, openaiAnswer('slow'));
    });
    const body = { model: 'coder-large', messages: [userMessage('slow')], call_id: callId(2) };
    const first = run.generate({ body });
    await requested;
    const second = run.generate({ body });
    response();
    const answers = await Promise.all([first, second]);
    assert.equal(provider.requests.length, 1);
    assert.deepEqual(answers[0].message, answers[1].message);
  });

  test('a transient failure is retried, one caused by the request is not', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(3) }, body: admission(3) });
    const run = modeld.as(runCaller(3, 1));
    const refuse = (status: number, headers: Record<string, string> = {}) => {
      provider.plays.push(({ response }) => {
        for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
        sendJson(response, status, { error: { message: 'no', type: 'some_error' } });
      });
    };
    const body = { model: 'coder-large', messages: [userMessage('broken')], call_id: callId(3) };
    refuse(400);
    await rejects(run.generate({ body }), 'provider_refused');
    await rejects(run.generate({ body }), 'provider_refused');
    assert.equal(provider.requests.length, 1);
    const other = { ...body, call_id: callId(3, 1) };
    refuse(429, { 'retry-after': '3000' });
    const wait = await rejects(run.generate({ body: other }), 'rate_limited');
    assert.ok(wait.retryAfterMs! >= 3_000_000);
    const second = await run.generate({ body: other });
    assert.equal(second.recorded, false);
    const { calls } = await modeld.operator.listCalls({ query: { run_id: runId(3) } });
    assert.deepEqual(
      calls.map(({ attempt, status, cost_microusd }) => ({ attempt, status, cost_microusd })),
      [
        { attempt: 2, status: 'completed', cost_microusd: 81 },
        { attempt: 1, status: 'failed', cost_microusd: 0 },
        { attempt: 1, status: 'failed', cost_microusd: 0 },
      ],
    );
  });

  test('a replay is returned from the record only', async () => {
    const body = { model: 'coder-large', messages: [userMessage('once')], call_id: callId(1) };
    const events = modeld.events.length;
    await modeld.agentd.admitRun({
      params: { id: runId(1) },
      body: admission(1, { mode: 'replay' }),
    });
    const replay = modeld.as(runCaller(1, 1, 'replay'));
    const response = await replay.generate({ body });
    assert.equal(response.recorded, true);
    await rejects(
      replay.generate({ body: { ...body, messages: [userMessage('changed')] } }),
      'replay_differs',
    );
    await rejects(replay.generate({ body: { ...body, call_id: callId(1, 77) } }), 'replay_differs');
    assert.equal(provider.requests.length, 0);
    assert.equal(modeld.events.length, events);
    await modeld.agentd.dismissRun({ params: { id: runId(1) }, query: { fence: 1 } });
  });

  test('a call_id belongs to its run: no other run can use it or get its response', async () => {
    for (const n of [4, 5])
      await modeld.agentd.admitRun({ params: { id: runId(n) }, body: admission(n) });
    const [thief, owner] = [modeld.as(runCaller(4, 1)), modeld.as(runCaller(5, 1))];
    const call = { model: 'coder-large', messages: [userMessage('once')] };
    const body = { ...call, call_id: callId(5, 9) };
    await rejects(thief.generate({ body }), 'bad_request');
    assert.equal((await owner.generate({ body })).recorded, false, 'the id is still unused');
    await rejects(thief.generate({ body }), 'bad_request');
    assert.equal((await owner.generate({ body })).recorded, true);
    const { call_id } = await thief.generate({ body: { ...call, call_id: callId(4, 9) } });
    assert.equal(call_id, callId(4, 9), 'control');
    const embed = { model: 'coder-large', input: ['x'], call_id: callId(5, 10) };
    await rejects(thief.embed({ body: embed }), 'bad_request');
  });

  test('an artifact becomes the last message and adds its labels', async () => {
    const id = `artifact_${'0'.repeat(25)}1`;
    modeld.artifacts.set(id, { text: 'the log of the incident', labels: ['outside'] });
    const body = { model: 'coder-large', input_ref: `artifact://${id}`, purpose: 'summarize' };
    const { call_id } = await modeld.operator.generate({ body });
    assert.match(provider.requests[0]!.text, /the log of the incident/);
    const { call, messages } = await modeld.operator.getCall({ params: { id: call_id } });
    assert.equal(call.purpose, 'summarize');
    assert.equal(messages.length, 1);
    modeld.artifacts.set(id, { text: 'the key', labels: ['secret'] });
    const refused = await rejects(modeld.operator.generate({ body }), 'data_not_allowed');
    assert.match(refused.message, /secret/);
    assert.match(refused.message, /local/);
  });

  test('labels that a provider may not see are refused by name, and it is not called', async () => {
    const body = { model: 'coder-large', messages: [userMessage('born in 1970', ['personal'])] };
    const refused = await rejects(modeld.operator.generate({ body }), 'data_not_allowed');
    assert.deepEqual(refused.details?.labels, ['personal']);
    assert.equal(provider.requests.length, 0);
    // A run that has read a secret cannot send anything to that provider.
    const marked = admission(8, { labels: ['secret'] });
    await modeld.agentd.admitRun({ params: { id: runId(8) }, body: marked });
    await rejects(
      modeld
        .as(runCaller(8, 1))
        .generate({ body: { model: 'coder-large', messages: [userMessage('plain')] } }),
      'data_not_allowed',
    );
  });

  test('limits: input too long, output clamped to the request', async () => {
    const long = await rejects(
      modeld.operator.generate({
        body: {
          model: 'coder-large',
          messages: [userMessage('word '.repeat(1_000))],
          limits: { max_input_tokens: 500 },
        },
      }),
      'context_too_long',
    );
    assert.match(long.message, /500/);
    await rejects(
      modeld.operator.generate({
        body: { model: 'coder-large', messages: [userMessage('x'.repeat(100_000))] },
      }),
      'context_too_long',
    );
    await modeld.operator.generate({
      body: {
        model: 'coder-large',
        messages: [userMessage('hi')],
        limits: { max_output_tokens: 33 },
      },
    });
    assert.equal(provider.requests.at(-1)!.body.max_completion_tokens, 33);
  });

  test('a stream yields deltas, then done; an aborted one ends with an error', async () => {
    let onFirst = () => {};
    const open = async (n: number, step: number) => {
      const response = await modeld.dispatch.run({
        method: 'POST',
        path: '/v1/models/generate',
        query: {},
        body: {
          model: 'coder-large',
          messages: [userMessage(`stream ${step}`)],
          stream: true,
          call_id: callId(n, step),
        },
        caller: runCaller(n, 1),
      });
      const events: Record<string, unknown>[] = [];
      for await (const chunk of (response as { body: AsyncIterable<string> }).body) {
        events.push(JSON.parse(chunk.replace(/^data: /, '')) as Record<string, unknown>);
        onFirst();
      }
      return events;
    };
    await modeld.agentd.admitRun({ params: { id: runId(10) }, body: admission(10) });
    const events = await open(10, 0);
    assert.deepEqual(
      events.map((event) => event.text ?? event.type),
      ['hel', 'lo', 'done'],
    );
    const again = await open(10, 0);
    assert.deepEqual(
      again.map((event) => event.text ?? event.type),
      ['hello', 'done'],
    );
    assert.equal(provider.requests.length, 1);
    provider.plays.push(({ response }) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const chunk of openaiChunks(['hel', 'lo']).slice(0, 2)) response.write(chunk);
      // Only after something was read: otherwise the call would be retried.
      onFirst = () => response.destroy();
    });
    const cut = await open(10, 1);
    assert.deepEqual(
      cut.map((event) => event.text ?? event.type),
      ['hel', 'error'],
    );
    const { calls } = await modeld.operator.listCalls({ query: { run_id: runId(10) } });
    assert.deepEqual(
      calls.map((call) => call.status),
      ['failed', 'completed'],
    );
    assert.ok(calls[0]!.cost_microusd > calls[1]!.cost_microusd);
  });

  test('messages are stored once, and a forgotten part stays forgotten', async () => {
    const secret = userMessage('the thing to forget');
    const ask = () =>
      modeld.operator.generate({
        body: { model: 'coder-large', messages: [userMessage('same'), secret] },
      });
    const first = await ask();
    const second = await ask();
    const one = await modeld.operator.getCall({ params: { id: first.call_id } });
    const two = await modeld.operator.getCall({ params: { id: second.call_id } });
    assert.deepEqual(one.call.context, two.call.context);
    assert.deepEqual(one.messages[1], { role: 'user', parts: secret.parts });
    assert.deepEqual(one.response, { role: 'assistant', parts: [{ type: 'text', text: 'hello' }] });
    const hash = one.call.context[1]!;
    const forget = () => modeld.operator.forgetPart({ params: { hash } });
    assert.deepEqual(await forget(), { forgotten: true });
    assert.deepEqual(await forget(), { forgotten: false });
    const third = await ask();
    for (const { call_id } of [first, second, third]) {
      const seen = await modeld.operator.getCall({ params: { id: call_id } });
      assert.equal(seen.messages[1], '[forgotten]');
      assert.notEqual(seen.messages[0], '[forgotten]');
    }
    assert.ok(modeld.events.some((event) => event.event === 'model.part.forgotten'));
  });

  test('usage adds up by agent, model and provider', async () => {
    const { rows, total } = await modeld.operator.usage({ query: { agent: 'coder' } });
    assert.ok(rows.length >= 1);
    assert.ok(rows.every((row) => row.agent === 'coder' && row.provider === 'local'));
    assert.equal(
      total.cost_microusd,
      rows.reduce((n, row) => n + row.cost_microusd, 0),
    );
    const later = await modeld.operator.usage({ query: { since: '2999-01-01T00:00:00Z' } });
    assert.equal(later.total.calls, 0);
  });

  test('pages of calls are complete and in order', async () => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await modeld.operator.listCalls({
        query: { limit: 3, ...(cursor === undefined ? {} : { cursor }) },
      });
      seen.push(...page.calls.map((call) => `${call.call_id}.${call.attempt}`));
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
    const all = await modeld.operator.listCalls({ query: { limit: 1000 } });
    assert.deepEqual(
      seen,
      all.calls.map((call) => `${call.call_id}.${call.attempt}`),
    );
    await rejects(modeld.operator.listCalls({ query: { cursor: 'nonsense' } }), 'bad_request');
  });

  test('every attempt in the journal has its two events, and no event is duplicated', async () => {
    const { calls } = await modeld.operator.listCalls({ query: { limit: 1000 } });
    const isJournaled = ({ event }: { event: string }) => /\.(attempted|ended)$/.test(event);
    const count = () => modeld.events.filter(isJournaled).length;
    await until(() => count() >= calls.length * 2, 'all events in the audit log');
    const ids = modeld.events.map((event) => event.id);
    assert.equal(new Set(ids).size, ids.length);
    const expected = calls.flatMap((call) => [
      `${call.call_id}.attempted.${call.attempt}`,
      `${call.call_id}.ended.${call.attempt}`,
    ]);
    const journaled = ids.filter((id) => /\.(attempted|ended)\.\d+$/.test(id));
    assert.deepEqual(journaled.sort(), expected.sort());
  });
});
