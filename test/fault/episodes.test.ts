// SIGKILL of agentd between the end of a task and its episode, before and after memoryd has kept
// it: there is exactly one episode.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { killRequested } from '../support/kills.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

describe('killed between the end of a task and its episode', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true });
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(async () => {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  });

  for (const [i, failpoint] of ['agentd.before-episode', 'agentd.after-episode'].entries())
    it(`${failpoint}: there is exactly one`, async () => {
      writeFileSync(crashFile, failpoint);
      const body = { goal: `Look at heron ${i}`, agent: 'coder' };
      const { task } = await runtime.agentd.createTask({ body });
      const query = { limit: 500 };
      const count = async () => {
        const { memories } = await runtime.memoryd.listMemories({ query });
        return memories.filter(({ task_id }) => task_id === task.id).length;
      };
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      await eventually('the episode', async () => (await count()) > 0 || undefined);
      // A task after it has its episode too, so the queue of episodes is empty.
      const next = await eventually('another task', () =>
        runtime.agentd.createTask({ body: { goal: 'Look again', agent: 'coder' } }),
      );
      await eventually('its episode', async () => {
        const { memories } = await runtime.memoryd.listMemories({ query });
        return memories.some(({ task_id }) => task_id === next.task.id) || undefined;
      });
      assert.equal(await count(), 2, 'structure and words, once');
      const events = (await allEvents(runtime)).filter(
        ({ event, task_id }) => event === 'memory.remembered' && task_id === task.id,
      );
      assert.equal(events.length, 2);
    });
});
