// Random kills under load: daemons and runners are killed at any time while many tasks run. 200
// kills, more with FUZZ=long. The seed is printed, so that a failure can be repeated.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { type CountingRuntime, startCountingRuntime } from '../support/counting-runtime.ts';
import { daemonPids } from '../support/kills.ts';
import { assertHostClean, assertNothingLeft } from '../support/leftovers.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually, ROOT } from '../support/runtime.ts';

const KILLS = process.env.FUZZ === 'long' ? 2_000 : 200;
const LIVE_MAX = 8;
const seed = Number(process.env.SEED ?? Date.now() % 1_000_000);

function randomFrom(start: number): () => number {
  let state = start >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

describe(`${KILLS} random kills under load (SEED=${seed})`, () => {
  let world: CountingRuntime;
  before(async () => {
    world = await startCountingRuntime();
  });
  after(() => world.runtime.remove());

  it('[R407] loses no task, repeats no effect, and keeps the record complete', async () => {
    const random = randomFrom(seed);
    const { agentd } = world.runtime;
    const ids: string[] = [];
    let questions = 0;
    const open = async (): Promise<number> => {
      const { tasks } = await agentd.status({});
      return Object.entries(tasks)
        .filter(([status]) => !['completed', 'failed', 'canceled', 'rejected'].includes(status))
        .reduce((sum, [, count]) => sum + count, 0);
    };
    const feed = async (): Promise<void> => {
      if ((await open()) >= LIVE_MAX) return;
      const key = `r${ids.length}`;
      const { task } = await agentd.createTask(
        {
          body: {
            goal: `count the effect 3 times with key ${key}`,
            agent: random() < 0.5 ? 'coder' : 'researcher',
          },
        },
        { idempotencyKey: key },
      );
      ids.push(task.id);
    };
    for (let kills = 0; kills < KILLS; ) {
      await feed().catch(() => undefined);
      questions += await world.answerTruthfully(async () => true, 20_000).catch(() => 0);
      const runners = readdirSync(join(world.runtime.stateDir, 'runners')).map((name) =>
        Number(name.split('-')[0]),
      );
      const { process: started, runtimePid } = world.runtime;
      const parents = [...new Set([started.pid!, runtimePid])];
      const daemons = parents.flatMap((pid) => [...daemonPids(pid).values()]);
      const targets = random() < 0.7 ? runners : daemons;
      const pid = targets[Math.floor(random() * targets.length)];
      if (pid !== undefined) {
        try {
          process.kill(pid, 'SIGKILL');
          kills++;
        } catch {
          // It ended by itself.
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 40 + random() * 200));
    }
    questions += await world.answerTruthfully(async () => (await open()) === 0, 180_000);
    const tasks = await Promise.all(
      ids.map(async (id) => (await agentd.getTask({ params: { id: id as never } })).task),
    );
    assert.deepEqual(
      tasks
        .filter((task) => task.status !== 'completed')
        .map((task) => [task.id, task.status, task.error?.message]),
      [],
    );
    assert.deepEqual(
      [...world.effects()].filter(([, times]) => times !== 1),
      [],
      'no effect happened twice',
    );
    assert.equal(world.effects().size, ids.length * 3, 'no effect is missing');
    const { events } = await eventually('journals and log to agree', () =>
      assertReconciled(world.runtime),
    );
    await assertNothingLeft(world.runtime);
    await world.runtime.stop();
    await assertHostClean(world.runtime);
    execFileSync(process.execPath, [
      join(ROOT, 'src/daemons/auditd-ai/verify-main.ts'),
      '--json',
      join(world.runtime.stateDir, 'audit'),
    ]);
    console.log(
      `${ids.length} tasks, ${questions} questions answered, ${events} events reconciled`,
    );
  });
});
