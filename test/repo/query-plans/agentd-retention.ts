// Runs the statements by which agentd prunes and erases; and what its other statements share.
import type { AgentdStore } from '../../../src/daemons/agentd/store/store.ts';
import type { NewTask } from '../../../src/daemons/agentd/store/tasks.ts';
import type { ManualClock } from '../../../src/platform/clock.ts';
import type { NewId } from '../../../src/platform/ids.ts';
import { toForgottenMemory } from '../../../src/wire/copies.ts';
import { FORGOTTEN_TEXT } from './erase-copies.ts';
import { forEachOf, HISTORY } from './record.ts';

export type World = { store: AgentdStore; clock: ManualClock; newId: NewId };
export type ClaimedRun = Awaited<ReturnType<AgentdStore['claimRuns']>>[number];

export const AGENT = 'worker';
export const PERSON = 'person:ann';

export const newTask = ({ newId }: World, more: Partial<NewTask> = {}): NewTask => ({
  id: newId('task'),
  parent: undefined,
  contextId: newId('ctx'),
  goal: 'do it',
  createdBy: PERSON,
  agent: AGENT,
  priority: 0,
  inputs: [],
  limits: {},
  delegation: undefined,
  after: [],
  deadlineMs: null,
  retryOf: null,
  labels: ['person'],
  ...more,
});

export const claimRuns = ({ store }: World) =>
  store.claimRuns({ slots: 1_000, leaseMs: 60_000, maxTimeS: () => 3_600 });

/** Prunes a tenth of the trees and artifacts, and looks at all of them. */
export async function retain(world: World): Promise<void> {
  for (const { task } of await world.store.dueEpisodes(100_000))
    await world.store.endEpisode(task.id);
  await world.store.endNotices((await world.store.dueNotices(100_000)).map(({ id }) => id));
  const { store, clock, newId } = world;
  const endedBeforeMs = clock.nowMs() + 1;
  const order = { cause: 'x', by: PERSON, rules: '' };
  const trees = await store.listEndedTrees({ endedBeforeMs, limit: HISTORY });
  await store.listEndedTrees({ endedBeforeMs, after: trees[0], limit: 1 });
  const [kept, ...others] = trees.map(({ rootTaskId }) => rootTaskId);
  for (const isKept of [true, false, true])
    await store.keepTask(kept!, { isKept, reason: 'x', by: PERSON });
  for (const rootTaskId of others.slice(0, 18)) {
    await store.findEndedTree(rootTaskId);
    await store.describeTree(rootTaskId);
    await store.listLayerLabels(rootTaskId, rootTaskId);
    await store.listArtifactsOfTree(rootTaskId);
    const input = { ...order, rootTaskId, endedBeforeMs };
    await store.inspectTree(input);
    await store.findPartTree(rootTaskId);
    for (const kind of ['workspaces', 'homes', 'model_contexts'] as const) {
      await store.inspectPart({ ...input, kind });
      await store.prunePart({ ...input, kind });
    }
    await store.pruneTree(input);
    const open = await store.findOpenPrune(rootTaskId);
    const isClosed = rootTaskId.charCodeAt(rootTaskId.length - 1) % 2 === 0;
    if (open !== undefined && isClosed) await store.closePrune(open.id);
    await store.task(rootTaskId).catch(() => undefined);
  }
  await store.listOpenPrunes(0, 10);
  await store.findTreeOfRun(newId<string>('run'));
  await store.countTasksByAgent();
  await forEachOf(2 * HISTORY, () =>
    store.putArtifact(
      {
        id: newId('artifact'),
        name: 'x',
        mimeType: 'text/plain',
        sizeBytes: 1,
        hash: newId('hash'),
        createdBy: PERSON,
        taskId: null,
        contextId: null,
        labels: [],
      },
      undefined,
      undefined,
    ),
  );
  const inputs = [
    { kind: 'artifact_ref', id: (await store.artifacts({}, { limit: 1 })).rows[0]!.id },
  ];
  await store.createTask(newTask(world, { inputs }), undefined);
  // Only the last one refers to its blob.
  const [last] = (await store.artifacts({}, { limit: 1, cursor: inputs[0]!.id })).rows;
  await store.pruneArtifact({ ...order, id: last!.id });
  const artifacts = { storedBeforeMs: endedBeforeMs, after: '', limit: HISTORY };
  for (const { id } of await store.listOldArtifacts(artifacts)) {
    await store.inspectArtifact(id);
    await store.pruneArtifact({ ...order, id });
  }
  await store.artifactSizes();
  await store.isObjectUnused('h');
  for (const hash of [...(await store.listUnusedObjects(10)), 'x']) await store.forgetObject(hash);
  await store.expireTombstones(clock.nowMs() + 1, 3);
}

/** Orders the removal of copies, and ends it. */
export async function erase(world: World): Promise<void> {
  const { store, newId } = world;
  await store.createTask(newTask(world, { goal: FORGOTTEN_TEXT }), undefined);
  const ids = Array.from({ length: HISTORY }, () => newId<string>('memory'));
  await store.orderErasures(ids.map((id) => toForgottenMemory(id, ['x'])));
  await store.openErasures(10);
  await store.addCopies(ids, { toold: 1 });
  await store.dropForgottenTexts(ids);
  await store.endErasures(ids.slice(3));
  await store.findErasure(ids[0]!);
  const [claim] = await claimRuns(world);
  if (claim !== undefined) await store.requeueForgotten([claim.run.id]);
  const [artifact] = await store.scanArtifacts('', 10);
  if (artifact !== undefined) await store.replaceObject(artifact.id, { hash: 'h2', sizeBytes: 2 });
}
