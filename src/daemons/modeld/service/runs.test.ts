// Tests the calls of runs: fences, steps, marks, and how calls end with their run.
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { describe, test } from 'node:test';
import {
  admission,
  freshStateDir,
  type Modeld,
  rejects,
  runCaller,
  runId,
  startModeld,
  until,
  userMessage,
} from '../testing/harness.ts';
import { callId, modeld, provider, startWithProvider } from '../testing/with-provider.ts';

describe('the calls of a run', () => {
  startWithProvider();

  test('a stale fence is refused, also after the run was dismissed', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(5) }, body: admission(5, { fence: 3 }) });
    const body = { model: 'coder-large', messages: [userMessage('old')] };
    await rejects(modeld.as(runCaller(5, 2)).generate({ body }), 'stale_fence');
    await rejects(
      modeld.agentd.admitRun({ params: { id: runId(5) }, body: admission(5, { fence: 2 }) }),
      'stale_fence',
    );
    const dismissed = await modeld.agentd.dismissRun({
      params: { id: runId(5) },
      query: { fence: 3 },
    });
    assert.equal(dismissed.dismissed, true);
    await rejects(modeld.as(runCaller(5, 3)).generate({ body }), 'stale_fence');
    await rejects(
      modeld.agentd.admitRun({ params: { id: runId(5) }, body: admission(5, { fence: 2 }) }),
      'stale_fence',
    );
    const again = { params: { id: runId(5) }, body: admission(5, { fence: 3 }) };
    await rejects(modeld.agentd.admitRun(again), 'stale_fence');
    await modeld.agentd.admitRun({ ...again, body: admission(5, { fence: 4 }) });
    await modeld.as(runCaller(5, 4)).generate({ body });
  });

  test('a call that waited while its run was replaced or dismissed is not sent', async () => {
    const id = 'artifact_00000000000000000000000012';
    const body = { model: 'coder-large', input_ref: `artifact://${id}` };
    const admit = (fence: number) =>
      modeld.agentd.admitRun({ params: { id: runId(12) }, body: admission(12, { fence }) });
    const dismiss = (fence: number) =>
      modeld.agentd.dismissRun({ params: { id: runId(12) }, query: { fence } });
    /** Runs while the call waits for its input. */
    const call = (fence: number, onRead: () => Promise<unknown>) => {
      modeld.artifacts.set(id, { text: 'input', labels: [], onRead });
      return modeld.as(runCaller(12, fence)).generate({ body });
    };
    await admit(1);
    await rejects(
      call(1, () => admit(2)),
      'stale_fence',
    );
    await rejects(
      call(2, () => dismiss(2)),
      'canceled',
    );
    assert.equal(provider.requests.length, 0);
    await admit(3);
    await call(3, async () => undefined);
    assert.equal(provider.requests.length, 1);
  });

  test('max_steps counts calls, not repeats', async () => {
    const admitted = admission(6, { max_steps: 2 });
    await modeld.agentd.admitRun({ params: { id: runId(6) }, body: admitted });
    const run = modeld.as(runCaller(6, 1));
    const ask = (step: number) =>
      run.generate({
        body: {
          model: 'coder-large',
          messages: [userMessage(`step ${step}`)],
          call_id: callId(6, step),
        },
      });
    await ask(0);
    await ask(0);
    await ask(1);
    const reason = await rejects(ask(2), 'limit');
    assert.match(reason.message, /2 model calls/);
    const isRefusal = ({ event, call_id }: { event: string; call_id?: string | undefined }) =>
      event === 'model.call.refused' && call_id === callId(6, 2);
    await until(() => modeld.events.some(isRefusal), 'the refusal in the audit log');
    // A new activation continues the count.
    await modeld.agentd.admitRun({
      params: { id: runId(6) },
      body: { ...admitted, fence: 2 },
    });
    const again = modeld.as(runCaller(6, 2));
    await rejects(
      again.generate({
        body: { model: 'coder-large', messages: [userMessage('step 2')], call_id: callId(6, 2) },
      }),
      'limit',
    );
  });

  test('a mark applies from the next call on, and permanently', async () => {
    const stateDir = freshStateDir();
    const labelsAllowed = ['person', 'own', 'agent', 'tool'];
    const config = {
      providers: {
        shy: {
          dialect: 'openai',
          base_url: `${provider.url}/v1`,
          models: ['gpt-test'],
          labels_allowed: labelsAllowed,
        },
      },
      models: { 'coder-large': { routes: [{ provider: 'shy', model: 'gpt-test' }] } },
      prices: { 'gpt-test': { input: 1, output: 10 } },
    };
    const body = { model: 'coder-large', messages: [userMessage('plain words')] };
    const ask = (at: Modeld, fence: number) => at.as(runCaller(1, fence)).generate({ body });
    const params = { id: runId(1) };
    let one = await startModeld({ stateDir, config });
    try {
      await one.agentd.admitRun({ params, body: admission(1, { labels: ['person'] }) });
      await ask(one, 1);
      const { labels } = await one.agentd.markRun({ params, body: { labels: ['outside'] } });
      assert.deepEqual(labels, ['person', 'outside']);
      const before = provider.requests.length;
      const refused = await rejects(ask(one, 1), 'data_not_allowed');
      assert.deepEqual(refused.details?.labels, ['outside']);
      await rejects(
        one.as(runCaller(1, 1)).openaiChat({
          body: { model: 'coder-large', messages: [{ role: 'user', content: 'in their words' }] },
        }),
        'data_not_allowed',
      );
      // An admission sent before the mark does not remove it.
      await one.agentd.admitRun({ params, body: admission(1, { fence: 2 }) });
      await rejects(ask(one, 2), 'data_not_allowed');
      await one.stop();
      one = await startModeld({ stateDir, config });
      await rejects(ask(one, 2), 'data_not_allowed');
      assert.equal(provider.requests.length, before);
      // Control: an unmarked run may use the same provider.
      await one.agentd.admitRun({ params: { id: runId(2) }, body: admission(2) });
      await one.as(runCaller(2, 1)).generate({ body });
    } finally {
      await one.stop();
      rmSync(stateDir, { recursive: true, force: true });
    }
  });

  test('a mark that arrives before the admission is not lost', async () => {
    const params = { id: runId(31) };
    await modeld.agentd.markRun({ params, body: { labels: ['secret'] } });
    await modeld.agentd.admitRun({ params, body: admission(31) });
    const body = { model: 'coder-large', messages: [userMessage('plain')] };
    await rejects(modeld.as(runCaller(31, 1)).generate({ body }), 'data_not_allowed');
  });

  test('dismissing a run ends its call at the provider', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(7) }, body: admission(7) });
    const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
    const { promise: cut, resolve: isCut } = Promise.withResolvers<void>();
    provider.plays.push(({ response }) => {
      response.on('close', () => isCut());
      onRequest();
    });
    const call = modeld.as(runCaller(7, 1)).generate({
      body: { model: 'coder-large', messages: [userMessage('long')], call_id: callId(7) },
    });
    const refused = rejects(call, 'canceled');
    await requested;
    await modeld.agentd.dismissRun({ params: { id: runId(7) }, query: { fence: 1 } });
    await refused;
    await cut;
    const { calls } = await modeld.operator.listCalls({ query: { run_id: runId(7) } });
    assert.equal(calls[0]?.status, 'canceled');
    assert.ok(calls[0]!.cost_microusd > 0, 'its usage is unknown, so it costs its bound');
  });

  test('a caller that disconnects ends its call at the provider', async () => {
    const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
    const { promise: cut, resolve: isCut } = Promise.withResolvers<void>();
    provider.plays.push(({ response }) => {
      response.on('close', () => isCut());
      onRequest();
    });
    const gone = new AbortController();
    const call = modeld.operator.generate(
      { body: { model: 'coder-large', messages: [userMessage('left')] } },
      { signal: gone.signal },
    );
    const refused = rejects(call, 'canceled');
    await requested;
    gone.abort();
    await refused;
    await cut;
  });

  test('a new activation ends the old call and makes its own', async () => {
    await modeld.agentd.admitRun({ params: { id: runId(11) }, body: admission(11) });
    const { promise: requested, resolve: onRequest } = Promise.withResolvers<void>();
    provider.plays.push(() => onRequest());
    const body = { model: 'coder-large', messages: [userMessage('again')], call_id: callId(11) };
    const old = rejects(modeld.as(runCaller(11, 1)).generate({ body }), 'stale_fence');
    await requested;
    await modeld.agentd.admitRun({
      params: { id: runId(11) },
      body: admission(11, { fence: 2 }),
    });
    const response = await modeld.as(runCaller(11, 2)).generate({ body });
    await old;
    assert.equal(response.recorded, false);
    const { calls } = await modeld.operator.listCalls({ query: { run_id: runId(11) } });
    assert.deepEqual(
      calls.map(({ attempt, status, fence }) => `${attempt} ${status} ${fence}`),
      ['2 completed 2', '1 canceled 1'],
    );
  });
});
