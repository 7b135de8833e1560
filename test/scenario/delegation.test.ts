// A planner delegates to two colleagues and concludes from both results; and the same with a person
// who is asked first and answers an hour later.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type InProcessWorld, startWorld } from '../support/in-process.ts';
import { eventually, taskEnded } from '../support/runtime.ts';

describe('a planner and its colleagues', () => {
  let world: InProcessWorld;
  before(async () => {
    world = await startWorld();
  });
  after(() => world.stop());

  it('[R41] [R44] [R256] [R260] delegates to researcher and coder in parallel and concludes from both results', async () => {
    const { task } = await world.agentd.createTask({
      body: { goal: 'Find out why the API got slower' },
    });
    assert.equal(task.assigned_to, 'planner');
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.status, 'completed', JSON.stringify(ended.error));
    assert.match(ended.result ?? '', /rehearsal/i);
    assert.equal(ended.rehearsal, true);

    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    assert.deepEqual(tree.children.map((child) => child.task.assigned_to).sort(), [
      'coder',
      'researcher',
    ]);
    assert.ok(tree.children.every((child) => child.task.status === 'completed'));
    const [one, two] = tree.children.map(
      (child) => [child.task.created_at, child.task.ended_at!] as const,
    );
    assert.ok(one![0] <= two![1] && two![0] <= one![1], 'the two overlapped');
    assert.equal(tree.runs[0]?.activations, 2, 'the planner held no process while it waited');

    const { messages } = await world.agentd.listMessages({
      query: { context_id: task.context_id },
    });
    const types = messages.map((message) => `${message.type} ${message.from} ${message.to}`);
    assert.ok(types.includes('TaskRequest agent:planner agent:coder'));
    assert.ok(types.includes('TaskResult agent:coder agent:planner'));
  });

  it('[R34] [R373] the log has the whole chain and reconciles with the journals', async () => {
    const { tasks } = await world.agentd.listTasks({ query: { limit: 10 } });
    for (const task of tasks) {
      const missing = async () => {
        const query = { limit: 1000 };
        const { events } = await world.audit.task({ params: { task_id: task.id }, query });
        const kinds: string[] = events.map((event) => event.event);
        return [
          'task.created',
          'run.started',
          'model.call.attempted',
          'model.call.ended',
          'tool.call.ended',
          'task.ended',
        ].filter((kind) => !kinds.includes(kind));
      };
      await eventually(`the story of ${task.assigned_to}`, async () =>
        (await missing()).length === 0 ? true : undefined,
      ).catch(async () => assert.deepEqual(await missing(), [], task.assigned_to ?? ''));
    }
  });

  it('[R34] replays from recorded responses without a difference', async () => {
    const { tasks } = await world.agentd.listTasks({ query: { agent: 'planner' } });
    const before = await world.modeld.usage({ query: {} });
    const { replay } = await world.agentd.replayTask({ params: { id: tasks[0]!.id } });
    assert.deepEqual(replay.differences, []);
    assert.equal(replay.same, true);
    assert.ok(replay.calls >= 4);
    assert.equal(
      (await world.modeld.usage({ query: {} })).total.calls,
      before.total.calls,
      'no model was called',
    );
  });

  it('[R33] waits for a person without a process and continues an hour later', async () => {
    const { task } = await world.agentd.createTask({
      body: { goal: 'Please ask a person which region is meant, then answer' },
    });
    const wait = await eventually(
      'a question',
      async () =>
        (
          await world.agentd.listWaits({
            query: { status: 'open', kind: 'question', task_id: task.id },
          })
        ).waits[0],
    );
    await eventually('the run to park', async () =>
      (await world.agentd.getTask({ params: { id: task.id } })).task.status === 'waiting'
        ? true
        : undefined,
    );
    assert.equal((await world.agentd.status({})).runs.live, 0);
    world.clock.advance(3_600_000);
    await world.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'eu-west' } });
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.status, 'completed', JSON.stringify(ended));
    assert.match(ended.result ?? '', /eu-west/);
    const took = Date.parse(ended.ended_at!) - Date.parse(ended.created_at);
    assert.ok(took >= 3_600_000);
  });
});
