// The rows of agentd's retention routes: for each, a request that succeeds and ones it must refuse.
import assert from 'node:assert/strict';
import type { IdleWorld } from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { rows, withBody } from './row.ts';

async function endedTask(world: IdleWorld) {
  const body = { goal: 'Hold still', agent: 'worker', after: [world.someRun.taskId] };
  const { task } = await world.agentd.createTask({ body });
  await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
  return task.id;
}

/** Those that other rows left. */
async function endBackups({ agentd }: IdleWorld): Promise<void> {
  const { backups } = await agentd.getPrune({ query: {} });
  const body = { status: 'failed', manifest_sha256: null, events: null, size_bytes: null } as const;
  for (const id of backups) await agentd.endBackup({ params: { id }, body });
}

export const retentionRows = rows({
  keepTask: {
    good: async (world) => ({
      params: { id: world.someRun.taskId },
      body: { kept: true, reason: 'evidence' },
    }),
    check: (answer: { task: { kept?: { reason: string } } }) =>
      assert.equal(answer.task.kept?.reason, 'evidence'),
    bad: [['no decision', (g) => ({ ...g, body: { reason: 'x' } }), 'bad_request']],
  },
  startPrune: {
    good: async (world) => {
      // A pass of another caller must have ended.
      await eventually('no pass', async () => {
        const { prune } = await world.agentd.getPrune({ query: {} });
        return prune?.status === 'running' ? undefined : true;
      });
      return { body: { dry_run: true, kinds: ['tasks'] } };
    },
    check: (answer: { prune: { dry_run: boolean } }) => assert.equal(answer.prune.dry_run, true),
    bad: [['an unknown kind', (g) => withBody(g, { kinds: ['all'] }), 'bad_request']],
  },
  getPrune: { good: async () => ({ query: {} }) },
  getDiskUsage: {
    good: async () => ({}),
    check: ({ usage }: { usage: { kinds: { kind: string; bytes: number }[] } }) => {
      const bytesOf = (name: string) => usage.kinds.find(({ kind }) => kind === name)?.bytes ?? 0;
      assert.ok(bytesOf('tasks') > 0 && bytesOf('audit') > 0);
    },
  },
  getTombstone: {
    good: async (world) => {
      await endBackups(world);
      const id = await endedTask(world);
      const body = { root_task_ids: [id], kinds: ['tasks' as const] };
      await eventually('the tombstone', async () => {
        await world.agentd.startPrune({ body }).catch(() => undefined);
        return world.agentd.getTombstone({ params: { id } });
      });
      return { params: { id } };
    },
    check: (answer: { tombstone: { cause: string } }) =>
      assert.match(answer.tombstone.cause, /^person:.* pruned ended tasks$/),
  },
});
