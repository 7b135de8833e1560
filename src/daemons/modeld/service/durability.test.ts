// Tests crashes, restarts, a full disk, and an audit log that is unavailable.

import assert from 'node:assert/strict';
import { copyFileSync, existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { makeCallId } from '../../../wire/call-id.ts';
import { fault } from '../../../wire/errors.ts';
import {
  admission,
  freshStateDir,
  rejects,
  runCaller,
  runId,
  startModeld,
  until,
  userMessage,
} from '../testing/harness.ts';
import { type FakeProvider, openaiAnswer, sendJson, startProvider } from '../testing/provider.ts';

const callId = (step: number) => makeCallId(runId(1), 'm', step);

describe('durability', () => {
  let provider: FakeProvider;
  before(async () => {
    provider = await startProvider();
  });
  after(() => provider.close());
  const config = () => ({
    providers: { local: { dialect: 'openai', base_url: provider.url, models: ['gpt-test'] } },
    prices: { 'gpt-test': { input: 1, output: 10 } },
  });
  const body = (step: number) => ({
    model: 'm',
    messages: [userMessage(`step ${step}`)],
    limits: { max_output_tokens: 100 },
    call_id: callId(step),
  });

  /** Copies the files as a crash at this moment would leave them. */
  const snapshot = (stateDir: string): string => {
    const copy = freshStateDir();
    mkdirSync(copy, { recursive: true });
    for (const name of ['modeld.sqlite', 'modeld.sqlite-wal'])
      if (existsSync(join(stateDir, name))) copyFileSync(join(stateDir, name), join(copy, name));
    return copy;
  };

  test('a call interrupted by a crash is unknown, charged in full, and made again', async () => {
    const stateDir = freshStateDir();
    const first = await startModeld({ stateDir, config: config() });
    await first.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
    const run = first.as(runCaller(1, 1));
    await run.generate({ body: body(0) });
    let crashed = '';
    provider.plays.push(({ response }) => {
      crashed = snapshot(stateDir);
      sendJson(response, 200, openaiAnswer('late'));
    });
    await run.generate({ body: body(1) });
    await first.stop();
    const reserved = first.events.find((e) => e.id === `${callId(1)}.attempted.1`)!.data!;

    const second = await startModeld({ stateDir: crashed, config: config() });
    await until(
      () => second.events.some((event) => event.id === `${callId(1)}.ended.1`),
      'the end of the lost attempt',
    );
    const end = second.events.find((event) => event.id === `${callId(1)}.ended.1`)!;
    assert.equal(end.status, 'unknown');
    const { budgets } = await second.operator.listBudgets({});
    const site = budgets.find((one) => one.subject === 'site')!;
    assert.equal(site.tokens_spent, 18 + (reserved.reserved_tokens as number));
    assert.equal(site.tokens_reserved, 0);
    // The run was admitted before the crash and still is: its runner may continue.
    const again = second.as(runCaller(1, 1));
    provider.requests.length = 0;
    assert.equal((await again.generate({ body: body(0) })).recorded, true);
    const made = await again.generate({ body: body(1) });
    assert.equal(made.recorded, false);
    assert.equal(provider.requests.length, 1);
    const { calls } = await second.operator.listCalls({ query: { run_id: runId(1) } });
    assert.deepEqual(
      calls.map(({ attempt, status }) => `${attempt} ${status}`),
      ['2 completed', '1 unknown', '1 completed'],
    );
    await second.stop();
    for (const dir of [stateDir, crashed]) rmSync(dir, { recursive: true, force: true });
  });

  test('calls lost in a power failure are restored from the audit log with their charge', async () => {
    const stateDir = freshStateDir();
    const first = await startModeld({ stateDir, config: config() });
    await first.agentd.admitRun({ params: { id: runId(1) }, body: admission(1) });
    const run = first.as(runCaller(1, 1));
    await run.generate({ body: body(0) });
    const disk = snapshot(stateDir);
    await run.generate({ body: body(1) });
    const call = { model: 'default', messages: [userMessage('of no run')] };
    const unnamed = await first.operator.generate({ body: call });
    await first.stop();
    // The log does not have the end of the last call.
    const audited = first.events.filter(({ id }) => id !== `${unnamed.call_id}.ended.1`);
    const reserved = audited.at(-1)!.data!.reserved_tokens as number;

    const second = await startModeld({ stateDir: disk, config: config(), audited });
    assert.match(
      second.logLines.join('\n'),
      /restored model calls from the audit log.*"calls":2,"outcomes":1/,
    );
    await until(
      () => second.events.some(({ id }) => id === `${unnamed.call_id}.ended.1`),
      'the end of the last call',
    );
    const ids = new Map(second.events.map(({ source_seq, id }) => [source_seq, id])).values();
    assert.deepEqual(
      [...ids].toSorted(),
      [...new Set(second.events.map(({ id }) => id))].toSorted(),
    );
    const { calls } = await second.operator.listCalls({ query: {} });
    assert.deepEqual(
      calls.map(({ call_id, status, provider, model }) => [call_id, status, provider, model]),
      [
        [unnamed.call_id, 'unknown', 'local', 'default'],
        [callId(1), 'unknown', 'local', 'm'],
        [callId(0), 'completed', 'local', 'm'],
      ],
    );
    const { budgets } = await second.operator.listBudgets({});
    const site = budgets.find((one) => one.subject === 'site')!;
    assert.equal(site.tokens_spent, 18 + 18 + reserved);
    const restored = await second.operator.getCall({ params: { id: callId(1) } });
    assert.deepEqual(restored.messages, []);
    assert.match(JSON.stringify(restored.call.error), /lost in a power failure or crash/);
    // The run continues: calls without a response are made again.
    const again = second.as(runCaller(1, 1));
    assert.equal((await again.generate({ body: body(0) })).recorded, true);
    assert.equal((await again.generate({ body: body(1) })).recorded, false);
    await second.stop();

    const third = await startModeld({ stateDir: disk, config: config(), audited: second.events });
    assert.doesNotMatch(third.logLines.join('\n'), /restored from/);
    await third.stop();
  });

  test('startup waits for an audit log that is not available yet', async () => {
    let requests = 0;
    const modeld = await startModeld({
      config: config(),
      own: () => {
        if (++requests < 3) throw fault('unavailable', 'not available');
      },
    });
    assert.equal(requests, 3);
    await modeld.stop();
    const own = () => {
      throw fault('log_damaged', 'the store is an older copy');
    };
    await rejects(startModeld({ config: config(), own }), 'log_damaged');
  });

  test('an orderly stop loses no outcome', async () => {
    const stateDir = freshStateDir();
    const first = await startModeld({ stateDir, config: config() });
    for (let i = 0; i < 20; i++)
      await first.operator.generate({
        body: { model: 'default', messages: [userMessage(`n ${i}`)] },
      });
    await first.stop();
    const second = await startModeld({ stateDir, config: config() });
    const { calls } = await second.operator.listCalls({ query: {} });
    assert.deepEqual([...new Set(calls.map((call) => call.status))], ['completed']);
    assert.equal(calls.length, 20);
    await second.stop();
    rmSync(stateDir, { recursive: true, force: true });
  });

  test('while the audit log accepts nothing, nothing is sent and nothing is charged', async () => {
    let isTaking = true;
    const modeld = await startModeld({
      config: config(),
      audit: async () => {
        if (!isTaking) throw fault('storage_full', 'no room');
      },
    });
    await modeld.operator.generate({
      body: { model: 'default', messages: [userMessage('before')] },
    });
    provider.requests.length = 0;
    isTaking = false;
    await rejects(
      modeld.operator.generate({ body: { model: 'default', messages: [userMessage('during')] } }),
      'audit_unavailable',
    );
    assert.equal(provider.requests.length, 0);
    await rejects(
      modeld.operator.generate({ body: { model: 'default', messages: [userMessage('still')] } }),
      'audit_unavailable',
    );
    isTaking = true;
    await until(async () => {
      try {
        await modeld.operator.generate({
          body: { model: 'default', messages: [userMessage('after')] },
        });
        return true;
      } catch {
        return false;
      }
    }, 'taking work again');
    const { budgets } = await modeld.operator.listBudgets({});
    assert.equal(budgets.find((one) => one.subject === 'site')!.tokens_spent, 36);
    await modeld.stop();
  });

  test('embeddings are paid once per text and model', async () => {
    const modeld = await startModeld({
      config: {
        providers: { local: { dialect: 'openai', base_url: provider.url, models: ['embed-test'] } },
      },
    });
    provider.requests.length = 0;
    const embed = (input: string[]) =>
      modeld.operator.embed({ body: { model: 'embed-test', input } });
    const first = await embed(['one', 'three', 'one']);
    assert.deepEqual(
      first.embeddings.map((vector) => vector[0]),
      [3, 5, 3],
    );
    assert.deepEqual(provider.requests[0]!.body.input, ['one', 'three']);
    assert.equal(first.recorded, false);
    const second = await embed(['three', 'one']);
    assert.equal(second.recorded, true);
    assert.equal(second.cost_microusd, 0);
    assert.deepEqual(second.embeddings, [first.embeddings[1], first.embeddings[0]]);
    const third = await embed(['one', 'eleven']);
    assert.deepEqual(provider.requests[1]!.body.input, ['eleven']);
    assert.deepEqual(third.embeddings[0], first.embeddings[0]);
    assert.equal(provider.requests.length, 2);
    await rejects(embed(['']), 'bad_request');
    await modeld.stop();
  });
});
