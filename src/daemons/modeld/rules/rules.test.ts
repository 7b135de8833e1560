// Tests modeld's rules.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Label } from '../../../wire/primitives.ts';
import {
  type BudgetRemaining,
  budgetFault,
  type CostBound,
  computeRenewal,
  fitToBudgets,
  formatUsd,
  listBudgets,
  makeBudgetKey,
} from './budget.ts';
import { filterRoutes, fromMask, toMask } from './labels.ts';
import { listModels, type ModelEntry, type ModelOffer, resolveModel } from './models.ts';
import { findRecorded, type RecordedAttempt } from './record.ts';

describe('the maximum reservation of a call', () => {
  const left = fc.record({
    tokens: fc.option(fc.nat({ max: 5_000 })),
    costMicrousd: fc.option(fc.nat({ max: 50_000 })),
  });
  const bound = fc.record({
    inputTokens: fc.nat({ max: 2_000 }),
    outputTokensWanted: fc.nat({ max: 4_000 }),
    inputPrice: fc.nat({ max: 40 }),
    outputPrice: fc.nat({ max: 100 }),
  });

  test('a reservation fits into every budget and is the largest that does', () => {
    fc.assert(
      fc.property(fc.array(left, { maxLength: 5 }), bound, (lefts, given) => {
        const costOf = (output: number) =>
          Math.ceil((given.inputTokens * given.inputPrice + output * given.outputPrice) / 10);
        const bound: CostBound = { ...given, computeCost: costOf };
        const budgets = lefts.map(
          (one): BudgetRemaining => ({
            key: makeBudgetKey('site', '', ''),
            ...one,
            tokensLimit: one.tokens,
            costLimitMicrousd: one.costMicrousd,
          }),
        );
        const fits = (output: number) =>
          budgets.every(
            ({ tokens, costMicrousd }) =>
              (tokens === null || given.inputTokens + output <= tokens) &&
              (costMicrousd === null || costOf(output) <= costMicrousd),
          );
        const result = fitToBudgets(budgets, bound);
        const useful = Math.min(16, given.outputTokensWanted);
        if ('budget' in result) return assert.ok(!fits(useful));
        assert.ok(fits(result.outputTokensMax));
        assert.equal(result.tokens, given.inputTokens + result.outputTokensMax);
        assert.equal(result.costMicrousd, costOf(result.outputTokensMax));
        if (result.outputTokensMax < given.outputTokensWanted)
          assert.ok(!fits(result.outputTokensMax + 1));
      }),
      { numRuns: 500 },
    );
  });

  test('the tightest budget is named in money or tokens', () => {
    const budget: BudgetRemaining = {
      key: makeBudgetKey('agent', 'coder', '2026-05-01'),
      tokens: null,
      costMicrousd: 1_500,
      tokensLimit: null,
      costLimitMicrousd: 2_000_000,
    };
    const refusal = fitToBudgets([budget], {
      inputTokens: 1,
      outputTokensWanted: 100,
      computeCost: () => 9_000,
    });
    assert.ok('budget' in refusal);
    const words = budgetFault(refusal);
    assert.match(words.message, /agent coder has \$0.0015 left of \$2.00; .* need \$0.009/);
    assert.match(words.hint, /agentctl model budget agent coder --cost USD/);
    assert.match(words.hint, /2026-05-02/);
    assert.equal(formatUsd(1_234_567), '$1.234567');
  });

  test('budgets of a call', () => {
    const day = '2026-05-01';
    const subjects = (call: Parameters<typeof listBudgets>[0]) =>
      listBudgets(call).map(({ subject, name }) => `${subject}:${name}`);
    const none = { runId: null, agent: 'coder', taskId: 't', rootTaskId: null, day };
    assert.deepEqual(subjects(none), ['site:', 'day:']);
    const run = { runId: 'r', agent: 'coder', taskId: 't1', rootTaskId: 't1', day };
    assert.deepEqual(subjects(run), ['site:', 'day:', 'agent:coder', 'task:t1']);
    assert.deepEqual(subjects({ ...run, taskId: 't2' }).slice(3), ['task:t1', 'task:t2']);
    assert.equal(computeRenewal(makeBudgetKey('task', 't', day)), null);
  });
});

describe('recorded calls', () => {
  const attempt = (
    status: RecordedAttempt['status'],
    requestHash = 'a',
    errorCode: RecordedAttempt['errorCode'] = null,
  ): RecordedAttempt => ({ attempt: 1, status, requestHash, errorCode });
  const ask = (attempts: RecordedAttempt[], mode: 'live' | 'replay' = 'live') =>
    findRecorded(attempts, { requestHash: 'a', mode, hasForgotten: () => false }).result;

  test('a live call', () => {
    assert.equal(ask([]), 'none');
    assert.equal(ask([attempt('completed')]), 'recorded');
    assert.equal(ask([attempt('completed', 'b')]), 'differs');
    assert.equal(ask([attempt('unknown')]), 'none');
    assert.equal(ask([attempt('canceled')]), 'none');
    assert.equal(ask([attempt('failed', 'a', 'provider_down')]), 'none');
    assert.equal(ask([attempt('failed', 'a', 'provider_auth')]), 'none');
    assert.equal(ask([attempt('failed', 'a', 'context_too_long')]), 'fault');
    // With a shorter context it is another request and may be tried.
    assert.equal(ask([attempt('failed', 'b', 'context_too_long')]), 'none');
    assert.equal(ask([attempt('unknown'), attempt('completed')]), 'recorded');
  });

  test('a replay is never sent to a provider', () => {
    assert.equal(ask([], 'replay'), 'differs');
    assert.equal(ask([attempt('unknown')], 'replay'), 'differs');
    assert.equal(ask([attempt('completed', 'b')], 'replay'), 'differs');
    assert.equal(ask([attempt('completed')], 'replay'), 'recorded');
    assert.equal(ask([attempt('failed', 'a', 'provider_down')], 'replay'), 'fault');
  });
});

describe('labels', () => {
  test('a set of labels survives being stored as bits', () => {
    const all: Label[] = ['person', 'own', 'agent', 'tool', 'outside', 'secret', 'personal'];
    fc.assert(
      fc.property(fc.subarray(all), (labels) => {
        assert.deepEqual(fromMask(toMask(labels)), labels);
      }),
    );
  });

  test('routes that may not see a label are omitted; if none remains, the fault names the label', () => {
    const open = { provider: 'local', labelsAllowed: toMask(['person', 'secret']) };
    const closed = { provider: 'cloud', labelsAllowed: toMask(['person']) };
    const some = filterRoutes([closed, open], toMask(['secret']));
    assert.deepEqual(some, { open: [open] });
    const none = filterRoutes([closed], toMask(['person', 'secret']));
    assert.ok('refused' in none);
    assert.match(none.refused.message, /labelled secret may not go to cloud/);
  });
});

describe('model names', () => {
  const entry = (provider: string, kind: 'chat' | 'embedding' = 'chat'): ModelEntry => ({
    routes: [{ provider, model: 'm' }],
    kind,
    contextTokens: 1,
    maxOutputTokens: 1,
    isExact: true,
  });
  const offer = (more: Partial<ModelOffer> = {}): ModelOffer => ({
    models: new Map(),
    providers: [],
    defaultModel: undefined,
    aliases: [],
    hasRehearsal: false,
    ...more,
  });
  const providerOf = (of: ModelOffer, name: string, kind: 'chat' | 'embedding' = 'chat') =>
    resolveModel(of, name, kind).routes[0]!;

  test('configured, provider/model, offered, default', () => {
    const of = offer({
      models: new Map([['big', entry('one')]]),
      providers: [
        { name: 'one', models: [] },
        { name: 'two', models: ['gpt', 'text-embed'] },
      ],
      hasRehearsal: true,
    });
    assert.equal(providerOf(of, 'big').provider, 'one');
    assert.deepEqual(providerOf(of, 'two/x'), { provider: 'two', model: 'x' });
    assert.equal(providerOf(of, 'gpt').provider, 'two');
    assert.equal(providerOf(of, 'coder-large').provider, 'one');
    assert.equal(providerOf({ ...of, defaultModel: 'gpt' }, 'coder-large').model, 'gpt');
    assert.equal(providerOf(of, 'anything', 'embedding').model, 'text-embed');
    assert.equal(providerOf(of, 'rehearsal-small').provider, 'rehearsal');
    assert.throws(() => resolveModel(of, 'text-embed', 'chat'), /is an embedding model/);
    assert.equal(listModels(of).length, 6);
    assert.equal(listModels(of).filter(({ isDefault }) => isDefault).length, 1);
  });

  test('names of built-in object members are ordinary names', () => {
    const of = offer({ hasRehearsal: true });
    for (const name of ['constructor', '__proto__', 'toString'])
      assert.equal(providerOf(of, name).model, 'rehearsal-large');
    assert.throws(
      () => resolveModel(offer(), 'constructor', 'chat'),
      /chat model constructor not found/,
    );
  });
});
