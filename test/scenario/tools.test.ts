// Tools are called through toold only: each call has agent, task, arguments and purpose; toold
// decides, runs it once, and keeps the outcome.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { CallId } from '../../src/wire/primitives.ts';
import { type CallAnswer, type ToolView, tooldRoutes } from '../../src/wire/toold.ts';
import { callLocal, type IdleWorld, type LiveRun, startIdleWorld } from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';

describe('a tool call', () => {
  let world: IdleWorld;
  let run: LiveRun;
  let step = 0;
  before(async () => {
    world = await startIdleWorld();
    run = world.someRun;
  });
  after(() => world.stop());

  const callTool = async (tool: string, args: object, more: object = {}): Promise<CallAnswer> => {
    const body = { call_id: run.callId(step++), tool, arguments: args, ...more };
    const outcome = await callLocal(world, 'toold', tooldRoutes.call, { body }, run.caller);
    assert.ok(outcome.ok, JSON.stringify(outcome));
    return outcome.value as CallAnswer;
  };
  const record = async (id: CallId) => (await world.toold.getCall({ params: { id } })).call;
  const effects = () =>
    readFileSync(join(world.stateDir, 'test-effects'), 'utf8').trim().split('\n');

  it('[R89] [R288] [R289] [R307] is recorded with agent, task, tool, arguments and purpose', async () => {
    const response = await callTool(
      'test.echo',
      { text: 'hello' },
      { agent: 'agent:worker', task_id: run.taskId, purpose: 'to greet' },
    );
    assert.equal(response.status, 'completed');
    assert.deepEqual(response.result, { text: 'hello' });
    const call = await record(response.call_id);
    assert.deepEqual(
      [call.agent, call.task_id, call.tool, call.arguments.text, call.purpose, call.status],
      ['worker', run.taskId, 'test.echo', 'hello', 'to greet', 'completed'],
    );
    assert.match(call.arguments_hash, /^[0-9a-f]{64}$/);
    assert.ok(call.ended_at !== null && call.created_at <= call.ended_at);
  });

  it('[R31] [R90] [R91] [R415] caller and task are known from the socket; another claimed name is denied and logged', async () => {
    const elsewhere = `task_${'0'.repeat(26)}`;
    for (const [claimed, code] of [
      [{ agent: 'helper' }, 'wrong_agent'],
      [{ task_id: elsewhere }, 'wrong_task'],
    ] as const) {
      const response = await callTool('test.echo', { text: 'as another' }, claimed);
      assert.equal(response.status, 'denied');
      assert.equal(response.error?.code, code);
      const event = await eventually('the event', async () =>
        (
          await world.audit.task({ params: { task_id: run.taskId }, query: { limit: 500 } })
        ).events.find(({ id }) => id === `${response.call_id}.denied`),
      );
      assert.deepEqual([event.allowed, event.agent], [false, 'worker']);
    }
  });

  const eventOf = (id: string) =>
    eventually(id, async () => {
      const query = { limit: 1_000 };
      const { events } = await world.audit.task({ params: { task_id: run.taskId }, query });
      return events.find((event) => event.id === id);
    });

  it('[R90-R96] the log has the result of each of the seven checks, in order', async () => {
    const checkNames = 'caller task tool scope sandbox:L0 approval:none';
    const token = `ghp_${'a1B2c3D4e5'.repeat(4)}`.slice(0, 40);
    for (const [text, output, redacted] of [
      ['hello', 'output:shown', undefined],
      [`the token is ${token}.`, 'output:shown', 'GitHub token'],
      ['x'.repeat(300_000), 'output:stored', undefined],
    ] as const) {
      const response = await callTool('test.echo', { text });
      assert.equal(response.status, 'completed');
      assert.doesNotMatch(JSON.stringify(response.result), /ghp_/);
      const attempted = await eventOf(`${response.call_id}.attempted.1`);
      const { data } = await eventOf(`${response.call_id}.ended`);
      assert.deepEqual(
        [attempted.data?.checks, data?.checks, data?.redacted],
        [checkNames, output, redacted],
      );
    }
    for (const [tool, args, claimed, checks] of [
      ['test.echo', { text: 'a' }, { agent: 'helper' }, '!caller'],
      ['test.echo', { text: 'a' }, { task_id: `task_${'0'.repeat(26)}` }, 'caller !task'],
      ['shell.exec', { command: 'true' }, {}, 'caller task !tool'],
      ['test.echo', { text: 1 }, {}, 'caller task tool !scope'],
    ] as const) {
      const response = await callTool(tool, args, claimed);
      assert.equal(response.status, 'denied');
      assert.equal((await eventOf(`${response.call_id}.denied`)).data?.checks, checks);
    }
  });

  it('[R92] [R287] a run sees and can call only granted tools', async () => {
    const listed = await callLocal(world, 'toold', tooldRoutes.listTools, {}, run.caller);
    const own = (listed.ok ? (listed.value as { tools: ToolView[] }).tools : []).map(
      ({ name }) => name,
    );
    assert.ok(own.includes('test.echo') && own.includes('task.finish'));
    const { tools } = await world.toold.listTools({});
    assert.ok(own.every((name) => tools.some((tool) => tool.name === name)));
    for (const { name, risk, reversibility, idempotent, level, input_schema } of tools) {
      assert.ok(risk !== undefined && reversibility !== undefined && level !== undefined, name);
      assert.equal(typeof idempotent, 'boolean');
      assert.equal(input_schema.type, 'object');
    }
    const unknown = await callTool('prod.deploy', {});
    assert.deepEqual([unknown.status, unknown.error?.code], ['denied', 'unknown_tool']);
    assert.match(unknown.error?.hint ?? '', /test\.echo/, 'the hint lists the granted tools');
  });

  it('[R288] a repeated call returns the recorded result; the effect happens once', async () => {
    const args = { key: 'once' };
    const first = await callTool('test.count_effect', args);
    assert.equal(first.recorded, false);
    step--;
    const second = await callTool('test.count_effect', args);
    assert.equal(second.recorded, true);
    assert.deepEqual(second.result, first.result);
    assert.deepEqual(effects(), ['once']);
    const body = { call_id: first.call_id, tool: 'test.count_effect', arguments: { key: 'other' } };
    const other = await callLocal(world, 'toold', tooldRoutes.call, { body }, run.caller);
    assert.equal(other.ok ? 'done' : other.code, 'replay_differs');
    assert.deepEqual(effects(), ['once']);
  });

  it('[R288] a long call responds with its id and what it waits for', async () => {
    const response = await callTool('person.ask', { question: 'Shall I?' });
    assert.equal(response.status, 'waiting');
    assert.equal(response.wait?.kind, 'question');
    const call = await record(response.call_id);
    assert.equal(call.wait_id, response.wait?.id);
    assert.equal(call.ended_at, null);
    await world.agentd.answerWait({ params: { id: response.wait!.id }, body: { answer: 'do' } });
    step--;
    const ended = await callTool('person.ask', { question: 'Shall I?' });
    assert.deepEqual([ended.status, ended.result?.answer], ['completed', 'do']);
    assert.equal((await record(response.call_id)).status, 'completed');
  });

  it('[R288] control characters in a result are escaped', async () => {
    const response = await callTool('test.echo', { text: 'safe\u001b[2J\u202etxt' });
    assert.deepEqual(response.result, { text: 'safe[U+001B][2J[U+202E]txt' });
  });
});
