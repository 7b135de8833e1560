// The runtime is stopped cleanly or by kill -9, with tasks in every state. After the restart each
// task resumes, no effect is repeated, and the record is complete.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { isAlive } from '../support/processes.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  openWait,
  reaches,
  scriptedModels,
  TEAM,
  taskNow,
} from '../support/scripted-world.ts';

describe('a restart', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: {
        ...TEAM,
        single: manifestOf('single', '{ replicas: 1, tools: { allow: [test.tools] } }'),
      },
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        toold: { test_tools: true },
        agentd: { crashes_max: 0 },
      }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });

  const effects = () => {
    const file = join(runtime.stateDir, 'test-effects');
    return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
  };

  /** Creates one task in each state before the end. */
  const inEveryState = async (name: string) => {
    let isBack = false;
    model.on(
      `${name}: work`,
      says(call('test.count_effect', { key: `${name}-effect` })),
      ({ results }) => (isBack ? finishes(results.join()) : { hang: true }),
    );
    model.on(`${name}: ask`, says(call('person.ask', { question: name })), ({ results }) =>
      finishes(results.join()),
    );
    model.on(`${name}: sleep`, says(call('timer.wait', { after_s: 0.2 })), finishes('awake'));
    model.on(
      `${name}: delegate`,
      says(call('task.delegate', { agent: 'researcher', goal: `${name}: ask` })),
      ({ results }) => finishes(results.join()),
    );
    model.on(`${name}: fail`, finishes('no', { status: 'failed' }));
    const earlier = await create(runtime, `${name}: be done`, { agent: 'coder' });
    const next = await create(runtime, `${name}: come next`, {
      agent: 'coder',
      after: [earlier.id],
    });
    const retry = { on_failure: 'retry', attempts_max: 2 } as const;
    await create(runtime, `${name}: fail`, { agent: 'coder', ...retry });
    const failures = async () =>
      (await runtime.agentd.listTasks({ query: { limit: 200 } })).tasks.filter(
        ({ goal }) => goal === `${name}: fail`,
      );
    await taskEnded(runtime, next.id);
    await eventually('both tries to end', async () =>
      (await failures()).filter(({ status }) => status === 'failed').length === 2
        ? true
        : undefined,
    );
    const working = await create(runtime, `${name}: work`, { agent: 'single' });
    await eventually('its second step', async () =>
      model.scenesFor(`${name}: work`).length === 2 ? true : undefined,
    );
    const ready = await create(runtime, `${name}: be next`, { agent: 'single' });
    const blocked = await create(runtime, `${name}: be last`, {
      agent: 'coder',
      after: [ready.id],
    });
    const asking = await create(runtime, `${name}: ask`, { agent: 'coder' });
    const parent = await create(runtime, `${name}: delegate`, { agent: 'planner' });
    for (const { id } of [asking, parent]) await reaches(runtime, id, 'waiting');
    const child = (await openWait(runtime, parent.id, 'child')).child_task_id!;
    await reaches(runtime, child, 'waiting');
    const sleeping = await create(runtime, `${name}: sleep`, { agent: 'coder' });
    assert.equal((await taskNow(runtime, working.id)).status, 'working');
    assert.equal((await taskNow(runtime, ready.id)).status, 'ready');
    return {
      async goOn() {
        isBack = true;
        for (const id of [asking.id, child]) {
          const wait = await openWait(runtime, id, 'question');
          await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer: 'fine' } });
        }
        const results: Record<string, string> = {};
        for (const [what, { id }] of Object.entries({
          working,
          ready,
          blocked,
          asking,
          parent,
          sleeping,
        })) {
          const ended = await taskEnded(runtime, id);
          assert.equal(ended.status, 'completed', `${what}: ${JSON.stringify(ended.error)}`);
          results[what] = ended.result ?? '';
        }
        assert.match(results.working!, new RegExp(`${name}-effect`));
        assert.match(results.asking!, /fine/);
        assert.match(results.parent!, /fine/);
        assert.equal(results.sleeping, 'awake');
        assert.equal(effects().filter((key) => key === `${name}-effect`).length, 1);
        for (const { id } of [earlier, next, ready, blocked]) {
          const { runs } = await runtime.agentd.listRuns({ query: { task_id: id } });
          assert.equal(runs.length, 1, 'its dependency counted once');
        }
        assert.equal((await failures()).length, 2, 'a failure before the restart counted once');
        await eventually('no runner', async () =>
          readdirSync(join(runtime.stateDir, 'runners')).length === 0 ? true : undefined,
        );
        await eventually('journals and log to agree', () => assertReconciled(runtime));
      },
    };
  };

  it('[K80] [K87] after a clean stop: running tasks are requeued, not counted as crashed, and continue', async () => {
    const work = await inEveryState('down');
    await runtime.stop();
    assert.ok(!existsSync(join(runtime.stateDir, 'runtime.json')));
    runtime = await runtime.restart();
    await work.goOn();
  });

  it('[K87] after SIGKILL of the whole process: no task is lost, no effect happens twice', async () => {
    const work = await inEveryState('kill');
    const runners = readdirSync(join(runtime.stateDir, 'runners'));
    assert.ok(runners.length >= 1);
    await runtime.kill();
    runtime = await runtime.restart();
    for (const name of runners)
      assert.ok(!isAlive(Number(name.split('-')[0])), 'runners from before the restart are gone');
    await work.goOn();
  });
});
