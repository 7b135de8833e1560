// SIGKILL of each daemon at each point of pruning. Afterwards the next pass finishes: the tree is
// gone everywhere, its ids are `pruned`, and journal and audit agree.
import assert from 'node:assert/strict';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { StartPrune } from '../../src/wire/agentd.ts';
import { type CountingRuntime, startCountingRuntime } from '../support/counting-runtime.ts';
import { prune, writeInBox } from '../support/prune.ts';
import { assertReconciled } from '../support/reconcile.ts';
import { eventually, taskEnded } from '../support/runtime.ts';
import { refusedWith } from '../support/scripted-world.ts';

const MOMENTS = [
  'agentd.after-prune',
  'toold.before-prune',
  'toold.after-prune',
  'modeld.before-prune',
  'modeld.after-prune',
  'approvald.before-prune',
  'approvald.after-prune',
  'agentd.before-close-prune',
];
const FILE_MOMENTS = [
  'agentd.after-prune-part',
  'sandboxd.after-rename-files',
  'sandboxd.after-prune-files',
];
const ARTIFACT_MOMENTS = ['agentd.after-prune-artifact', 'agentd.after-remove-object'];

for (const mode of ['split', 'embedded'] as const)
  describe(`killed while pruning, ${mode}`, () => {
    let world: CountingRuntime;
    before(async () => {
      world = await startCountingRuntime(mode);
    });
    after(() => world.runtime.remove());

    for (const failpoint of MOMENTS)
      it(failpoint, async () => {
        const { task } = await eventually('a task to be accepted', () =>
          world.runtime.agentd.createTask({
            body: { goal: `count the effect 1 times with key ${failpoint}`, agent: 'coder' },
          }),
        );
        await taskEnded(world.runtime, task.id);
        const { runs } = await world.runtime.agentd.listRuns({ query: { task_id: task.id } });
        const { calls } = await world.runtime.toold.listCalls({ query: { task_id: task.id } });
        world.armCrash(failpoint);
        const body = { root_task_ids: [task.id], kinds: ['tasks' as const] };
        await eventually('a pass', () => world.runtime.agentd.startPrune({ body }));
        await crashed(world, body);
        if (mode === 'embedded') await restart(world);
        const isRemoved = async () => {
          const { status, open } = await prune(world.runtime, { kinds: ['tasks'] });
          return status === 'completed' && open === 0 ? true : undefined;
        };
        await eventually('everything to be removed', isRemoved, 90_000);
        const { agentd, toold } = world.runtime;
        await refusedWith('pruned', agentd.getTask({ params: { id: task.id } }));
        await refusedWith('pruned', agentd.getRun({ params: { id: runs[0]!.id } }));
        await refusedWith('pruned', toold.getCall({ params: { id: calls[0]!.call_id } }));
        const events = await world.runtime.audit.task({
          params: { task_id: task.id },
          query: { limit: 500 },
        });
        const pruned = events.events.filter(({ event }) => event === 'data.pruned');
        assert.equal(pruned.length, 1, 'recorded once');
      });

    for (const failpoint of FILE_MOMENTS)
      it(failpoint, async () => {
        const { task } = await eventually('a task to be accepted', () =>
          world.runtime.agentd.createTask({
            body: { goal: `count the effect 1 times with key ${failpoint}`, agent: 'coder' },
          }),
        );
        await taskEnded(world.runtime, task.id);
        const dir = join(world.runtime.stateDir, 'workspaces', task.id);
        await eventually('files', () => writeInBox(world.runtime, task.id, 'echo a > a'));
        assert.ok(existsSync(join(dir, 'a')));
        world.armCrash(failpoint);
        const body = { root_task_ids: [task.id], kinds: ['workspaces' as const] };
        await eventually('a pass', () => world.runtime.agentd.startPrune({ body }));
        await crashed(world, body);
        if (mode === 'embedded') await restart(world);
        const isRemoved = async () => {
          await prune(world.runtime, body);
          return readdirSync(join(dir, '..')).some((name) => name.endsWith(task.id))
            ? undefined
            : true;
        };
        await eventually('the files to be removed', isRemoved, 90_000);
        const { task: now } = await world.runtime.agentd.getTask({ params: { id: task.id } });
        assert.ok(now.pruned?.workspaces !== undefined);
      });

    for (const failpoint of ARTIFACT_MOMENTS)
      it(failpoint, async () => {
        const { artifact } = await eventually('an artifact to be accepted', () =>
          world.runtime.agentd.putArtifact({ body: { name: 'a', text: failpoint } }),
        );
        const { object_hash: hash } = artifact;
        const dir = join(world.runtime.stateDir, 'objects', 'sha256');
        const file = join(dir, hash.slice(0, 2), hash.slice(2, 4), hash);
        assert.ok(existsSync(file));
        world.armCrash(failpoint);
        const body = { older_than_s: 0, kinds: ['artifacts' as const] };
        await eventually('a pass', () => world.runtime.agentd.startPrune({ body }));
        await crashed(world, body);
        if (mode === 'embedded') await restart(world);
        const isRemoved = async () => {
          await prune(world.runtime, body);
          return existsSync(file) ? undefined : true;
        };
        await eventually('the blob to be removed', isRemoved, 90_000);
        const { agentd } = world.runtime;
        await refusedWith('pruned', agentd.getArtifact({ params: { id: artifact.id }, query: {} }));
      });

    it('journal and audit reconcile one to one', async () => {
      await eventually('the journals to be sent', () => assertReconciled(world.runtime));
    });
  });

/**
 * Starts passes until the failpoint is reached: an open box of the runner lets one stop early, and
 * after the kill before, the episode of the task may not have been kept yet.
 */
async function crashed(world: CountingRuntime, body: StartPrune): Promise<void> {
  const hasCrashed = async () => {
    if (world.hasCrashed()) return true;
    await world.runtime.agentd.startPrune({ body }).catch(() => undefined);
    return undefined;
  };
  await eventually('the crash', hasCrashed);
}

/** An embedded runtime dies as a whole, and nothing starts it again. */
async function restart(world: CountingRuntime): Promise<void> {
  const { process: child } = world.runtime;
  await eventually('the end of the runtime', async () =>
    child.exitCode !== null || child.signalCode !== null ? true : undefined,
  );
  world.runtime = await world.runtime.restart();
}
