// Metrics of tasks: what one took is observed at its end; the wake of a parked run is no restart.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { callLocal, TABLES } from '../support/callers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  openWait,
  reaches,
  runnerPids,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

describe('metrics of tasks', { timeout: 120_000 }, () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld();
  });
  after(() => world.stop());

  const readMetric = async (name: string): Promise<number> => {
    const caller = { kind: 'operator', principal: 'person:tester' } as const;
    const reply = await callLocal(world, 'agentd', TABLES.agentd.metrics!, {}, caller);
    assert.ok(reply.ok);
    const line = String(reply.value)
      .split('\n')
      .find((text) => text.startsWith(`agentd_${name}{`));
    return line === undefined ? 0 : Number(line.split(' ').at(-1));
  };
  const kindsOf = async (taskId: string) =>
    (await allEvents(world)).filter(({ task_id }) => task_id === taskId).map(({ event }) => event);

  it('[R363] [R364] [R365] [R372] a wake is counted as a wake; a task’s steps, calls, tokens and cost are observed', async () => {
    world.model.on(
      'Sleep a while',
      says(call('test.echo', { text: 'a' }), call('timer.wait', { after_s: 30 })),
      finishes('awake'),
    );
    const task = await create(world, 'Sleep a while', { agent: 'coder' });
    await openWait(world, task.id, 'timer');
    await reaches(world, task.id, 'waiting');
    world.clock.advance(31_000);
    await taskEnded(world, task.id);
    const kinds = await eventually('its end in the log', async () => {
      const found = await kindsOf(task.id);
      return found.includes('run.ended') ? found : undefined;
    });
    assert.ok(kinds.includes('run.woken'));
    assert.ok(!kinds.includes('run.restarted'));
    assert.deepEqual(
      [await readMetric('runs_woken_total'), await readMetric('runs_restarted_total')],
      [1, 0],
    );
    const { total } = await world.modeld.usage({ query: { task_id: task.id } });
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    await eventually('the histograms', async () =>
      (await readMetric('task_cost_microusd_count')) === 1 ? true : undefined,
    );
    const tokens = total.usage.input_tokens + total.usage.output_tokens;
    assert.deepEqual(
      await Promise.all(
        ['steps', 'tool_calls', 'tokens', 'cost_microusd'].map((name) =>
          readMetric(`task_${name}_sum`),
        ),
      ),
      [2, 3, tokens, total.cost_microusd],
    );
    assert.ok(tokens > 0 && total.cost_microusd > 0 && calls.length === 3);
  });

  it('control: a runner that is killed restarts', async () => {
    world.model.on('Be killed', { hang: true });
    const task = await create(world, 'Be killed', { agent: 'coder' });
    const [pid] = await runnerPids(world.stateDir, 1);
    process.kill(pid!, 'SIGKILL');
    await eventually('the restart', async () => {
      world.clock.advance(5_000);
      return (await kindsOf(task.id)).includes('run.restarted') ? true : undefined;
    });
    assert.equal(await readMetric('runs_woken_total'), 1);
    assert.ok((await readMetric('runs_restarted_total')) >= 1);
    await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
  });
});
