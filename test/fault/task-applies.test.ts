// SIGKILL of agentd at each point of an apply by a person: it is finished at the next start, once,
// and a repeated request gets its result.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { killRequested } from '../support/kills.ts';
import { type LayeredTasks, startLayeredTasks } from '../support/layered-tasks.ts';
import { LAYER_MODES } from '../support/layers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';

describe('agentd killed while a person applies', { timeout: 200_000 }, () => {
  let world: LayeredTasks;
  before(async () => {
    world = await startLayeredTasks(LAYER_MODES[0], undefined, { mode: 'split', faults: true });
    setInterval(() => killRequested(world.runtime()), 5).unref();
  });
  after(() => world?.stop());

  for (const failpoint of ['agentd.before-apply', 'agentd.after-layer-action'])
    it(failpoint, async (t) => {
      if (world.missing !== undefined) return t.skip(world.missing);
      const dir = world.makeDirectory(failpoint, { 'a.txt': 'person\n' });
      const { id } = await world.work(dir, 'echo agent > a.txt');
      const { agentd, stateDir } = world.runtime();
      const crashFile = join(stateDir, 'crash-at');
      const apply = () =>
        agentd.applyChanges({ params: { id }, body: {} }, { idempotencyKey: failpoint });
      writeFileSync(crashFile, failpoint);
      await assert.rejects(apply());
      assert.equal(existsSync(crashFile), false, 'it was reached');
      const isApplied = async () =>
        readFileSync(join(dir, 'a.txt'), 'utf8') === 'agent\n' ? true : undefined;
      await eventually('the file', isApplied, 60_000);
      const { apply: done } = await eventually('agentd again', () =>
        apply().catch(() => undefined),
      );
      assert.deepEqual([done.status, done.applied], ['applied', ['a.txt']]);
      const kinds = await eventually('the events', async () => {
        const events = await allEvents(world.runtime()).catch(() => []);
        const own = events.filter(({ id: one }) => one.startsWith(done.apply_id));
        return own.some(({ event }) => event === 'task.applied') ? own : undefined;
      });
      assert.deepEqual(
        kinds.map(({ event }) => event),
        ['task.changes.attempted', 'task.applied'],
      );
    });
});
