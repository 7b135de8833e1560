// Tests vectors of memories: who pays for them, which labels keep a text from a provider, and that
// no copy of it stays here.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Caller } from '../../../wire/caller.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import type { EmbedMemories } from '../../../wire/modeld.ts';
import { admission, rejects, runCaller, runId, taskId, userMessage } from '../testing/harness.ts';
import { modeld, provider, startWithProvider } from '../testing/with-provider.ts';

const MEMORYD: Caller = { kind: 'daemon', principal: 'service:memoryd', daemon: 'memoryd' };
const memory = { id: `memory_${'1'.repeat(26)}` as MemoryId, version: 2 };

describe('vectors of memories', () => {
  startWithProvider(({ url }) => ({
    providers: {
      oai: { dialect: 'openai', base_url: `${url}/v1`, models: ['gpt-test', 'text-embed'] },
      near: {
        dialect: 'openai',
        base_url: `${url}/v1`,
        models: ['near-embed'],
        labels_allowed: ['person', 'agent', 'outside', 'secret', 'personal'],
      },
    },
    prices: {
      'text-embed': { input: 1_000_000, output: 0 },
      'gpt-test': { input: 1, output: 10 },
    },
  }));

  const embed = (more: Partial<EmbedMemories> = {}) =>
    modeld.as(MEMORYD).embedMemories({
      body: {
        model: 'text-embed',
        input: [{ text: 'a heron nests', memory }],
        labels: ['person'],
        principal: 'person:alice',
        ...more,
      },
    });
  const spent = async (subject: string, name: string) => {
    const { budgets } = await modeld.operator.listBudgets({});
    return budgets.find((one) => one.subject === subject && one.name === name)?.cost_spent_microusd;
  };

  test('the author pays, and the call names the memory instead of its text', async () => {
    const before = (await modeld.operator.usage({ query: {} })).total.calls;
    const made = await embed();
    assert.deepEqual(made.embeddings, [['a heron nests'.length, 0.5, 0]]);
    assert.ok(made.cost_microusd > 0);
    const { call, messages } = await modeld.operator.getCall({ params: { id: made.call_id } });
    assert.deepEqual([call.purpose, call.run_id, call.status], ['memory', null, 'completed']);
    assert.deepEqual(messages, [memory]);
    assert.equal((await modeld.operator.usage({ query: {} })).total.calls, before + 1);
    const kept = ['', '-wal'].map((end) =>
      readFileSync(join(modeld.stateDir, `modeld.sqlite${end}`)),
    );
    assert.ok(!Buffer.concat(kept).includes('a heron nests'), 'no copy of the text');
    const event = modeld.events.find(({ id }) => id === `${made.call_id}.ended.1`);
    assert.equal(event?.principal, 'person:alice');
  });

  test('nothing is cached: not for the next order, and not for an agent that knows the text', async () => {
    await embed();
    await embed();
    const body = { model: 'text-embed', input: ['a heron nests'] };
    assert.equal((await modeld.operator.embed({ body })).recorded, false);
    assert.equal(provider.requests.length, 3);
    assert.equal((await modeld.operator.embed({ body })).recorded, true, 'control');
  });

  test('the budgets of a run pay while it lives and after it has ended', async () => {
    await modeld.agentd.admitRun({
      params: { id: runId(1) },
      body: admission(1, { model: 'gpt-test', max_cost_microusd: 80_000_000 }),
    });
    const body = { model: 'gpt-test', messages: [userMessage('hello')] };
    await modeld.as(runCaller(1, 1)).generate({ body });
    const order = { principal: 'agent:coder', run_id: runId(1), labels: ['agent'] } as const;
    const more = { ...order, labels: [...order.labels] };
    const first = await embed(more);
    const { call } = await modeld.operator.getCall({ params: { id: first.call_id } });
    assert.deepEqual(
      [call.agent, call.task_id, call.run_id, call.fence],
      ['coder', taskId(1), runId(1), null],
    );
    await modeld.agentd.dismissRun({ params: { id: runId(1) }, query: { fence: 1 } });
    const agentBefore = (await spent('agent', 'coder'))!;
    const second = await embed(more);
    assert.equal((await spent('agent', 'coder'))! - agentBefore, second.cost_microusd);
    const refused = await rejects(
      embed({ ...more, input: [{ text: 'x'.repeat(400), memory }] }),
      'budget',
    );
    assert.equal(refused.details?.subject, 'task');
    assert.equal(refused.details?.name, taskId(1));
    await embed({ input: [{ text: 'x'.repeat(400), memory }] });
  });

  test('a run that modeld does not know any more costs the site alone', async () => {
    const made = await embed({ principal: 'agent:coder', run_id: runId(99) });
    const { call } = await modeld.operator.getCall({ params: { id: made.call_id } });
    assert.deepEqual([call.agent, call.run_id, call.task_id], ['coder', null, null]);
  });

  test('labels decide which providers may see the text; no other order does', async () => {
    for (const label of ['secret', 'personal'] as const) {
      const fault = await rejects(embed({ labels: ['person', label] }), 'data_not_allowed');
      assert.match(fault.message, new RegExp(`${label} may not go to oai`));
    }
    assert.equal(provider.requests.length, 0);
    const order = { model: 'near-embed', labels: ['person' as const, 'personal' as const] };
    assert.equal((await embed(order)).model, 'near-embed', 'control: a provider that may');
  });

  test('only memoryd may ask, and only for a model of embeddings that is offered', async () => {
    await rejects(embed({ model: 'unknown-embed' }), 'not_found');
    await rejects(embed({ model: 'gpt-test' }), 'bad_request');
  });
});
