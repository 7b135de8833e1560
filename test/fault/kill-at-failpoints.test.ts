// SIGKILL of each daemon, and of the runners, at each point of the journal in turn. After each: no
// task is lost, no completed call is repeated, every effect happened exactly once, and journal and
// audit agree.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type CountingRuntime, startCountingRuntime } from '../support/counting-runtime.ts';
import { assertNothingLeft } from '../support/leftovers.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';

const EFFECT_MOMENTS = [
  'toold.before-intent',
  'toold.after-intent',
  'toold.after-attempt-durable',
  'toold.after-effect',
  'toold.after-outcome',
  'modeld.before-intent',
  'modeld.after-intent',
  'modeld.after-attempt-durable',
  'modeld.after-upstream',
  'modeld.after-outcome',
  'agentd.after-claim',
  'agentd.after-admit',
  'agentd.after-launch',
  'sandboxd.before-runner',
  'sandboxd.after-runner',
  'agentd.before-finish',
  'agentd.after-finish',
  'auditd-ai.before-append',
  'auditd-ai.after-append',
];
const TEAM_MOMENTS = [
  'agentd.before-delegate',
  'agentd.after-delegate',
  'agentd.before-park',
  'agentd.after-park',
];

describe('killed at every failpoint, in split mode', () => {
  let world: CountingRuntime;
  let n = 0;
  before(async () => {
    world = await startCountingRuntime();
  });
  after(() => world.runtime.remove());

  const runTo = async (goal: string, agent: string) => {
    const { agentd } = world.runtime;
    const idempotencyKey = `task-${n++}`;
    const { task } = await eventually('a task to be taken', () =>
      agentd.createTask({ body: { goal, agent } }, { idempotencyKey }),
    );
    const questions = await world.answerTruthfully(
      async () => (await agentd.getTask({ params: { id: task.id } })).task.ended_at !== null,
    );
    return { task: (await agentd.getTask({ params: { id: task.id } })).task, questions };
  };

  const countOnce = async (failpoint: string, who?: 'runners' | 'warden') => {
    const key = `k${n++}`;
    world.armCrash(failpoint, {
      passes: failpoint.startsWith('auditd-ai') ? 2 : 0,
      ...(who === undefined ? {} : { who }),
    });
    const { task, questions } = await runTo(`count the effect 2 times with key ${key}`, 'coder');
    assert.equal(task.status, 'completed', JSON.stringify(task));
    assert.ok(world.hasCrashed(), `${failpoint} was reached`);
    const counts = [...world.effects()].filter(([name]) => name.startsWith(`${key}-`));
    assert.deepEqual(
      counts.map(([, times]) => times),
      [1, 1],
      `${failpoint}: ${JSON.stringify(counts)}`,
    );
    if (
      who === undefined &&
      failpoint !== 'toold.after-intent' &&
      failpoint !== 'toold.after-attempt-durable' &&
      failpoint !== 'toold.after-effect'
    ) {
      assert.equal(questions, 0, 'no question is asked when the outcome is known');
    }
  };

  for (const failpoint of EFFECT_MOMENTS)
    it(`[R407] ${failpoint}: the daemon`, () => countOnce(failpoint));
  for (const failpoint of EFFECT_MOMENTS.filter((name) => !name.startsWith('auditd-ai')))
    it(`${failpoint}: the runner`, () => countOnce(failpoint, 'runners'));
  for (const failpoint of EFFECT_MOMENTS.filter((name) => !name.startsWith('auditd-ai')))
    it(`${failpoint}: the warden`, () => countOnce(failpoint, 'warden'));

  for (const failpoint of TEAM_MOMENTS) {
    it(`${failpoint}: the daemon, with a team at work`, async () => {
      world.armCrash(failpoint);
      const { task } = await runTo(`Look into ${failpoint}`, 'planner');
      assert.equal(task.status, 'completed', JSON.stringify(task));
      assert.ok(world.hasCrashed());
      const { tree } = await world.runtime.agentd.getTree({ params: { id: task.id } });
      assert.deepEqual(
        tree.children.map((child) => [child.task.assigned_to, child.task.status]).sort(),
        [
          ['coder', 'completed'],
          ['researcher', 'completed'],
        ],
        'each colleague was asked once',
      );
    });
  }

  it('[R19] journal and audit reconcile one to one', async () => {
    const { events } = await eventually('journals and log to agree', () =>
      assertReconciled(world.runtime),
    );
    assert.ok(events > 200);
  });

  it('the runners leave nothing on the host', () => assertNothingLeft(world.runtime));
});
