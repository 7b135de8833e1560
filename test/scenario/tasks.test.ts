// Tasks as people create them: subtasks, inputs, threads, dependencies, deadlines, canceling,
// retrying, and every limit that ends one.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { TaskId } from '../../src/wire/primitives.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  reaches,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
  TEAM,
  taskNow,
} from '../support/scripted-world.ts';

describe('tasks', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      agents: { ...TEAM, single: manifestOf('single', '{ replicas: 1 }') },
    });
  });
  after(() => world.stop());

  const sceneOf = (goal: string) =>
    eventually(`the model to be asked about ${goal}`, async () => world.model.scenesFor(goal)[0]);

  it('[R273] [R274] [R304] [R417] [K79] [K81] is created with a goal, and can be read with all its fields', async () => {
    const made = await create(world, 'Say yes', {
      agent: 'coder',
      priority: 7,
      limits: { max_steps: 5, max_tokens: 100_000 },
      deadline: '2099-03-02T09:00:00Z',
    });
    assert.equal(made.created_by, 'person:tester');
    assert.equal(made.root_task_id, made.id);
    assert.equal(made.parent_task_id, null);
    assert.equal(made.priority, 7);
    assert.deepEqual(made.limits, { max_steps: 5, max_tokens: 100_000 });
    assert.equal(made.deadline, '2099-03-02T09:00:00.000Z');
    const ended = await taskEnded(world, made.id);
    assert.equal(ended.status, 'completed');
    assert.equal(ended.assigned_to, 'coder');
    assert.ok(ended.result !== null && ended.ended_at !== null);
    assert.equal(ended.rehearsal, false, 'a real provider responded');
  });

  it('a past deadline and an unusable workspace are rejected at creation', async () => {
    const make = (more: object) => create(world, 'Never begins', { agent: 'coder', ...more });
    const past = await refusedWith('bad_request', make({ deadline: '2020-01-01T00:00:00Z' }));
    assert.match(past.message, /the deadline 2020-01-01T00:00:00Z has passed/);
    const error = await refusedWith('denied', make({ workspace: '/etc' }));
    assert.match(error.message, /agents may not work in \/etc/);
    const mode = await refusedWith('bad_request', make({ workspace_mode: 'live' }));
    assert.match(mode.message, /workspace_mode is given without a workspace/);
    const unknownAgent = await refusedWith('not_found', make({ agent: 'codre' }));
    assert.match(unknownAgent.message, /did you mean coder\?/);
  });

  it('[R41] [R54] without an agent it is assigned to the planner', async () => {
    assert.equal((await doTask(world, 'Whoever can')).assigned_to, 'planner');
  });

  it('a subtask inherits root, thread, priority and limits from its parent', async () => {
    world.model.on('Hold the whole', { hang: true });
    const whole = await create(world, 'Hold the whole', {
      agent: 'planner',
      priority: 3,
      limits: { max_tokens: 50_000, max_time_s: 600 },
    });
    const part = await create(world, 'Do a part', {
      agent: 'coder',
      parent_task_id: whole.id,
      limits: { max_tokens: 90_000 },
    });
    const piece = await create(world, 'Do a piece', { agent: 'coder', parent_task_id: part.id });
    assert.equal(part.parent_task_id, whole.id);
    assert.equal(piece.root_task_id, whole.id);
    assert.equal(piece.context_id, whole.context_id);
    assert.equal(part.priority, 3);
    assert.deepEqual(part.limits, { max_tokens: 50_000, max_time_s: 600 });
    await taskEnded(world, part.id);
    const { tree } = await world.agentd.getTree({ params: { id: whole.id } });
    assert.equal(tree.children[0]?.children[0]?.task.id, piece.id);
    const other = await create(world, 'Something else');
    await refusedWith(
      'bad_request',
      create(world, 'In two threads', { parent_task_id: whole.id, context_id: other.context_id }),
    );
    await world.agentd.cancelTask({ params: { id: whole.id }, body: {} });
    await refusedWith('ended', create(world, 'Too late', { parent_task_id: whole.id }));
  });

  it('[R268] takes texts and artifacts as inputs, and the agent reads them', async () => {
    const { artifact } = await world.agentd.putArtifact({
      body: { name: 'figures.csv', mime_type: 'text/csv', text: 'day,ms\n1,250\n' },
    });
    await doTask(world, 'Read what you got', {
      agent: 'coder',
      inputs: [
        { kind: 'text', text: 'The host is web-3.' },
        { kind: 'artifact_ref', id: artifact.id },
      ],
    });
    const prompt = String((await sceneOf('Read what you got')).messages[1]?.content);
    assert.match(prompt, /The host is web-3\./);
    assert.match(prompt, /figures\.csv/);
    assert.match(prompt, /1,250/);
  });

  it('[K76] [K83] [K85] [K86] [K88] starts when its dependencies have completed, and not before', async () => {
    world.model.on('First of all', { delayMs: 300, ...finishes('first') });
    const beganMs = world.clock.nowMs();
    const first = await create(world, 'First of all', { agent: 'coder' });
    const second = await create(world, 'Then this', { agent: 'coder', after: [first.id] });
    assert.equal(second.status, 'blocked');
    assert.equal(second.reason, `after ${first.id}`);
    const unknownTask = `task_${'0'.repeat(26)}` as TaskId;
    await refusedWith('not_found', create(world, 'Never', { after: [unknownTask] }));
    const [a, b] = [await taskEnded(world, first.id), await taskEnded(world, second.id)];
    assert.equal(b.status, 'completed');
    const { runs } = await world.agentd.listRuns({ query: { task_id: second.id } });
    assert.equal(runs.length, 1, 'it was started once');
    assert.ok(runs[0]!.created_at >= a.ended_at!);
    assert.equal(world.clock.nowMs(), beganMs, 'no timer had to fire');
    // Its owner is not written to: its run begins, with what is to be done and how to end it.
    const [scene] = world.model.scenesFor('Then this');
    const told = scene!.messages.map(({ content }) => String(content)).join('\n');
    assert.equal(scene!.agent, 'coder');
    assert.match(told, /^Goal: Then this$/m);
    assert.match(told, /When the work is done, call task_finish with the result\./);
    assert.match(JSON.stringify(scene!.body.tools), /"name":"task_finish"/);
  });

  it('[K85] is rejected, with its dependents, when a dependency fails', async () => {
    world.model.on('Go wrong', finishes('could not', { status: 'failed' }));
    world.model.on('Hold on first', { hang: true });
    const holding = await create(world, 'Hold on first', { agent: 'coder' });
    const middle = await create(world, 'Middle', { agent: 'coder', after: [holding.id] });
    const last = await create(world, 'Last', { agent: 'coder', after: [middle.id] });
    await world.agentd.cancelTask({ params: { id: holding.id }, body: { reason: 'not needed' } });
    for (const { id } of [middle, last]) {
      const ended = await taskEnded(world, id);
      assert.equal(ended.status, 'rejected');
      assert.match(ended.reason ?? '', /its dependency .* is (canceled|rejected)/);
    }
    const failed = await doTask(world, 'Go wrong', { agent: 'coder' });
    assert.equal(failed.status, 'failed');
    await refusedWith('conflict', create(world, 'After the ruins', { after: [failed.id] }));
  });

  it('[K85] a dependency cycle is rejected and named', async () => {
    world.model.on('Hold the circle', { hang: true });
    const whole = await create(world, 'Hold the circle', { agent: 'planner' });
    const error = await refusedWith(
      'cycle',
      create(world, 'Eat your tail', { parent_task_id: whole.id, after: [whole.id] }),
    );
    assert.match(error.message, new RegExp(whole.id));
    await world.agentd.cancelTask({ params: { id: whole.id }, body: {} });
  });

  it('[R41] the higher priority runs first, then the older', async () => {
    world.model.on('Keep busy', { hang: true });
    const busy = await create(world, 'Keep busy', { agent: 'single' });
    await sceneOf('Keep busy');
    const ids: string[] = [];
    for (const [name, priority] of [
      ['low', -1],
      ['older', 0],
      ['newer', 0],
      ['high', 9],
    ] as const)
      ids.push((await create(world, `Queue ${name}`, { agent: 'single', priority })).id);
    await world.agentd.cancelTask({ params: { id: busy.id }, body: {} });
    for (const id of ids) await taskEnded(world, id);
    assert.deepEqual(
      world.model.scenesFor('Queue').map(({ goal }) => goal),
      ['Queue high', 'Queue older', 'Queue newer', 'Queue low'],
    );
  });

  it('[R49] can be assigned to another agent before it starts', async () => {
    await world.agentd.pauseAgent({ params: { name: 'single' } });
    world.model.on('Hold the door', { hang: true });
    const door = await create(world, 'Hold the door', { agent: 'planner' });
    const task = await create(world, 'Pass me on', { agent: 'researcher', after: [door.id] });
    await refusedWith(
      'agent_paused',
      world.agentd.assignTask({ params: { id: task.id }, body: { agent: 'single' } }),
    );
    const given = await world.agentd.assignTask({
      params: { id: task.id },
      body: { agent: 'coder' },
    });
    assert.equal(given.task.assigned_to, 'coder');
    await world.agentd.resumeAgent({ params: { name: 'single' } });
    await refusedWith(
      'conflict',
      world.agentd.assignTask({ params: { id: door.id }, body: { agent: 'coder' } }),
    );
    await world.agentd.cancelTask({ params: { id: door.id }, body: {} });
  });

  it('a deadline ends it in any state', async () => {
    world.model.on('Miss the train', { hang: true });
    const deadline = new Date(world.clock.nowMs() + 30_000).toISOString();
    const task = await create(world, 'Miss the train', { agent: 'coder', deadline });
    const scene = await sceneOf('Miss the train');
    world.clock.advance(31_000);
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.status, 'failed');
    assert.equal(ended.error?.code, 'limit');
    assert.match(ended.error?.message ?? '', /deadline/);
    await scene.left;
  });

  it('[R275] [R407] canceling ends it with its subtasks and aborts the model call in progress', async () => {
    world.model.on(
      'Ask a slow friend',
      says(call('task.delegate', { agent: 'coder', goal: 'Dawdle' })),
    );
    world.model.on('Dawdle', { hang: true });
    const whole = await create(world, 'Ask a slow friend', { agent: 'planner' });
    const scene = await sceneOf('Dawdle');
    await reaches(world, whole.id, 'waiting');
    const { task } = await world.agentd.cancelTask({
      params: { id: whole.id },
      body: { reason: 'we know already' },
    });
    assert.equal(task.status, 'canceled');
    assert.equal(task.reason, 'we know already');
    await scene.left;
    const { tree } = await world.agentd.getTree({ params: { id: whole.id } });
    const [child] = tree.children;
    assert.equal(child?.task.status, 'canceled');
    const ended = await eventually('the call to end', async () => {
      const { calls } = await world.modeld.listCalls({ query: { task_id: child!.task.id } });
      return calls[0]?.ended_at === null ? undefined : calls[0];
    });
    assert.equal(ended.status, 'canceled');
    const { budgets } = await world.modeld.listBudgets({});
    assert.ok(budgets.every((b) => b.tokens_reserved === 0 && b.cost_reserved_microusd === 0));
    await refusedWith('ended', world.agentd.cancelTask({ params: { id: whole.id }, body: {} }));
    assert.equal((await world.agentd.status({})).runs.live, 0);
  });

  it('is retried as a new task that names the old one; an ended task never restarts', async () => {
    let broken = true;
    world.model.on('Try twice', () =>
      broken ? finishes('no', { status: 'failed', error_code: 'luck' }) : finishes('yes'),
    );
    const first = await doTask(world, 'Try twice', {
      agent: 'coder',
      limits: { max_steps: 9 },
      inputs: [{ kind: 'text', text: 'with this' }],
    });
    assert.equal(first.error?.code, 'luck');
    broken = false;
    const { task: second } = await world.agentd.retryTask({ params: { id: first.id } });
    assert.notEqual(second.id, first.id);
    assert.equal(second.retry_of, first.id);
    assert.equal(second.context_id, first.context_id);
    assert.deepEqual(second.limits, first.limits);
    assert.deepEqual(second.inputs, first.inputs);
    assert.equal((await taskEnded(world, second.id)).result, 'yes');
    assert.equal((await taskNow(world, first.id)).status, 'failed');
    world.model.on('Still going', { hang: true });
    const live = await create(world, 'Still going', { agent: 'coder' });
    await refusedWith('conflict', world.agentd.retryTask({ params: { id: live.id } }));
    await world.agentd.cancelTask({ params: { id: live.id }, body: {} });
  });

  it('[K91] the counts show when all have ended, and new tasks are still accepted', async () => {
    const ended = new Set(['completed', 'failed', 'canceled', 'rejected']);
    const counts = await eventually('everything to end', async () => {
      const { tasks } = await world.agentd.status({});
      return Object.entries(tasks).every(([status, n]) => n === 0 || ended.has(status))
        ? tasks
        : undefined;
    });
    await doTask(world, 'One more', { agent: 'coder' });
    const { tasks } = await world.agentd.status({});
    assert.equal(tasks.completed, (counts.completed ?? 0) + 1);
  });

  describe('a limit ends it and is named', () => {
    const endless = ({ step }: { step: number }) =>
      says(call('artifact.put', { name: `page-${step}`, text: `${step}` }));

    it('[R268] [R407] max_steps', async () => {
      world.model.on('Step on', endless);
      const task = await doTask(world, 'Step on', { agent: 'coder', limits: { max_steps: 3 } });
      assert.equal(task.status, 'failed');
      assert.equal(task.error?.code, 'limit');
      assert.match(task.error?.message ?? '', /limit of 3 steps/);
      assert.match(task.error?.hint ?? '', /^A retry has the same limits/);
      assert.equal(world.model.scenesFor('Step on').length, 3);
    });

    it('[R268] [R407] max_tokens: no call starts that could exceed it', async () => {
      world.model.on('Talk on', endless);
      const limits = { max_tokens: 16_000, max_steps: 1_000 };
      const task = await doTask(world, 'Talk on', { agent: 'coder', limits });
      assert.equal(task.status, 'failed');
      assert.equal(task.error?.code, 'budget');
      assert.match(task.error?.message ?? '', /tokens left of 16000/);
      assert.match(task.error?.message ?? '', new RegExp(`model budget task ${task.id} --tokens`));
      assert.match(task.error?.hint ?? '', /^A retry has the same limits/);
      const { total } = await world.modeld.usage({ query: { task_id: task.id } });
      assert.ok(total.calls >= 2, `${total.calls} calls were made`);
      assert.ok(total.usage.input_tokens + total.usage.output_tokens <= 16_000);
    });

    it('[R407] max_cost: in money', async () => {
      world.model.on('Pay on', endless);
      const limits = { max_cost_microusd: 16_000, max_steps: 1_000 };
      const task = await doTask(world, 'Pay on', { agent: 'coder', limits });
      assert.equal(task.status, 'failed');
      assert.equal(task.error?.code, 'budget');
      assert.match(task.error?.message ?? '', /left of \$0\.016/);
      const { total } = await world.modeld.usage({ query: { task_id: task.id } });
      assert.ok(total.cost_microusd > 0 && total.cost_microusd <= 16_000);
    });

    it('[R407] [K58] max_time', async () => {
      world.model.on('Stay on', { hang: true });
      const limits = { max_time_s: 20 };
      const task = await create(world, 'Stay on', { agent: 'coder', limits });
      await sceneOf('Stay on');
      world.clock.advance(21_000);
      const ended = await taskEnded(world, task.id);
      assert.equal(ended.error?.code, 'limit');
      assert.match(ended.error?.message ?? '', /time limit/);
    });
  });
});
