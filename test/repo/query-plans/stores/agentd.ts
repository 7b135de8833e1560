// Runs every statement of agentd's store.

import { readManifest } from '../../../../src/daemons/agentd/manifests/read-manifest.ts';
import { releaseBriefing } from '../../../../src/daemons/agentd/store/briefings.ts';
import { COPY_PLACES } from '../../../../src/daemons/agentd/store/erasures.ts';
import { openStore } from '../../../../src/daemons/agentd/store/open-store.ts';
import { ID_COLUMNS, MIGRATIONS } from '../../../../src/daemons/agentd/store/schema.ts';
import { manualClock } from '../../../../src/platform/clock.ts';
import { makeIdMaker } from '../../../../src/platform/ids.ts';
import { silentLog } from '../../../../src/platform/log.ts';
import { IDEMPOTENCY_WINDOW_MS } from '../../../../src/platform/sql/idempotency.ts';
import { openSqlite } from '../../../../src/platform/sql/sqlite.ts';
import { agentdRoutes } from '../../../../src/wire/agentd.ts';
import {
  AGENT,
  type ClaimedRun,
  claimRuns,
  erase,
  newTask,
  PERSON,
  retain,
  type World,
} from '../agentd-retention.ts';
import {
  BOUNDS,
  callOf,
  keyOf,
  LIMITS,
  MATCH,
  message,
  newOnce,
  readMoves,
  useThread,
} from '../agentd-threads.ts';
import { eraseEverything } from '../erase-copies.ts';
import {
  forEachOf,
  HISTORY,
  listChoices,
  listFilterNames,
  type StoreUse,
  useIds,
} from '../record.ts';

const REPLICAS = HISTORY + 20;
const CRASH = { detail: 'x', counts: true, crashesMax: 0 };

const manifest = (name: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name} }
spec: { replicas: ${REPLICAS}, tools: { allow: [task.delegate] } }
`;

function declare(name: string) {
  const read = readManifest(manifest(name), `${name}.yaml`);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return { spec: read.agent, file: `${name}.yaml` };
}

async function finish(world: World, claim: ClaimedRun): Promise<void> {
  const ending = { status: 'completed' as const, reason: null, result: 'x', by: `agent:${AGENT}` };
  await world.store.finish(callOf(world, claim), ending);
}

/** A run that does everything a run can do, up to its waits. */
async function work(world: World, claim: ClaimedRun): Promise<void> {
  const { store, clock, newId } = world;
  const { run, task } = claim;
  const later = clock.nowMs() + 600_000;
  const memory = { recall: 'silent', found: [] };
  await store.saveBriefing(run.id, { persona: `${run.id}${'x'.repeat(300)}`, step: 1, memory });
  const sent = await store.send(message(claim), newOnce(world));
  await store.message(sent.id);
  await store.inbox(keyOf(claim), 0);
  await store.renewLease(keyOf(claim), 60_000);
  await store.mark(callOf(world, claim), ['secret'], 'x');
  const artifact = {
    id: newId<string>('artifact'),
    name: 'x',
    mimeType: 'text/plain',
    sizeBytes: 1,
    hash: 'h',
    createdBy: `agent:${AGENT}`,
    taskId: task.id,
    contextId: task.context_id,
    labels: [],
  };
  const second = { ...artifact, id: newId<string>('artifact') };
  for (const stored of [artifact, second]) {
    await store.putArtifact(stored, callOf(world, claim), undefined);
    await store.shareArtifact(callOf(world, claim), stored.id);
  }
  await store.recordArtifactRead(callOf(world, claim), { id: artifact.id, labels: [] });
  const child = newTask(world, {
    parent: task,
    contextId: task.context_id,
    createdBy: `agent:${AGENT}`,
  });
  await store.delegate(callOf(world, claim), child, { expiresMs: later }, BOUNDS);
  const next = newTask(world, { parent: task, after: [child.id] });
  await store.delegate(callOf(world, claim), next, undefined, BOUNDS);
  const question = callOf(world, claim);
  const wait = { kind: 'question' as const, by: ['person:*'], question: 'x?', expiresMs: later };
  const { id } = await store.openWait(question, wait);
  await store.park(keyOf(claim), [question.callId]);
  await store.answerWait(id, 'yes', PERSON);
}

/** Waits that end in other ways, by a run that then ends. */
async function waitAndFinish(world: World, claim: ClaimedRun): Promise<void> {
  const { store } = world;
  const approval = callOf(world, claim);
  const wait = { kind: 'approval' as const, by: ['person:*'], question: 'approval_1' };
  await store.openWait(approval, wait);
  await store.endApprovalWait({
    approvalId: 'approval_1',
    run_id: claim.run.id,
    call_id: approval.callId,
    outcome: 'answered',
    decision: 'approved',
    by: PERSON,
  });
  const sent = message(claim, { from: `agent:${AGENT}`, to: PERSON });
  const later = world.clock.nowMs() + 60_000;
  const exchange = { limits: LIMITS, questionExpiresMs: later };
  await store.sendFromRun(callOf(world, claim), sent, { expiresMs: later }, exchange);
  await store.send(message(claim), newOnce(world));
  await finish(world, claim);
}

async function makeHistory(world: World): Promise<ClaimedRun> {
  const { store, clock } = world;
  await forEachOf(REPLICAS, () => store.createTask(newTask(world), newOnce(world)));
  const first = await claimRuns(world);
  await useThread(world, first[0]!);
  await Promise.all(first.map((claim) => work(world, claim)));
  // Parents that were answered, and their children.
  for (let claims = await claimRuns(world); claims.length > 0; claims = await claimRuns(world))
    await Promise.all(
      claims.map((claim) =>
        claim.task.parent_task_id === null ? waitAndFinish(world, claim) : finish(world, claim),
      ),
    );
  // Some end by their crash, some by their deadline, some are canceled.
  const deadlineMs = clock.nowMs() + 1_000;
  await forEachOf(HISTORY, () => store.createTask(newTask(world, { deadlineMs }), undefined));
  const third = await claimRuns(world);
  const timer = { kind: 'timer' as const, by: [], dueMs: clock.nowMs() + 500 };
  await Promise.all(third.map((claim) => store.openWait(callOf(world, claim), timer)));
  await Promise.all(third.slice(20).map((claim) => store.endActivation(keyOf(claim), CRASH)));
  await store.cancelTask(third[0]!.task.id, 'x', PERSON);
  await store.breakRun(keyOf(third[1]!), 'x');
  clock.advance(100_000);
  await store.processDue();
  return first[0]!;
}

/** Tasks that fail and are tried again, tasks that get their agent from a person, and changes. */
async function useBoard(world: World): Promise<void> {
  const { store } = world;
  const failed = { status: 'failed' as const, reason: null, result: 'x', by: `agent:${AGENT}` };
  for (const onFailure of ['retry', 'reassign'] as const)
    await forEachOf(HISTORY, () => {
      const match = { ...MATCH, agent: AGENT as never, reason: 'score' as const };
      const policy = { onFailure, attemptsMax: 2, match };
      return store.createTask(newTask(world, policy), undefined);
    });
  const [first] = (await store.tasks({ status: 'ready' }, { limit: 1 })).rows;
  await store.createTask(newTask(world, { after: [first!.id] }), undefined);
  for (let claims = await claimRuns(world); claims.length > 0; claims = await claimRuns(world))
    for (const claim of claims) await store.finish(callOf(world, claim), failed);
  const halting = await store.createTask(newTask(world, { onFailure: 'halt' }), undefined);
  await store.updateTask(halting.id, { status: 'failed', result: 'x' }, PERSON);
  await store.liftHalt(PERSON);
  const asked = newTask(world, { agent: null, match: MATCH });
  const { id } = await store.createTask(asked, undefined);
  const [wait] = (await store.waits({ task_id: id }, { limit: 1 })).rows;
  await store.answerWait(wait!.id, AGENT, PERSON);
  const before = await store.createTask(newTask(world), undefined);
  await store.createTask(newTask(world, { after: [id] }), undefined);
  await store.updateTask(id, { priority: 1, on_failure: 'stop', agent: 'other' }, PERSON);
  await store.updateTask(id, { after: [before.id] }, PERSON);
  await store.board({ limit: 20, sinceMs: 0 });
  const layer = { workspace: '/srv/app', workspaceMode: 'layer' as const };
  const layered = await store.createTask(newTask(world, layer), undefined);
  await store.updateTask(layered.id, { status: 'completed', result: 'x' }, PERSON);
  const untilMs = world.clock.nowMs();
  await store.digestTasks({ sinceMs: untilMs - 1, untilMs, limit: 20 });
  await store.digestQuestions(20);
  await store.orderDigest({ person: 'x', digest: { since_ms: 0, key: 'x' } }, newOnce(world));
  await store.match(id);
  await store.agentRecord(AGENT);
  for (const open of [id, before.id]) await store.cancelTask(open, 'x', PERSON);
}

/** Some tasks in each state that does not end by itself. */
async function leaveOpen(world: World): Promise<void> {
  const { store } = world;
  const [one, two] = await Promise.all(
    [1, 2, 3, 4].map(() => store.createTask(newTask(world), undefined)),
  );
  await store.createTask(newTask(world, { after: [one!.id] }), undefined);
  await store.addRun(two!.id);
  await store.assignTask(one!.id, 'other', PERSON);
  const claims = await claimRuns(world);
  const call = callOf(world, claims[0]!);
  await store.openWait(call, { kind: 'timer', by: [], dueMs: world.clock.nowMs() + 1e9 });
  await store.park(keyOf(claims[0]!), [call.callId]);
  await forEachOf(3, () => store.createTask(newTask(world), undefined));
}

/** A person's program that ends. */
async function runProgram(world: World): Promise<void> {
  const program = { argv: ['true'] };
  const options = { leaseMs: 60_000, maxTimeS: () => 3_600 };
  const claim = await world.store.createProgram({ ...newTask(world), program }, options);
  await world.store.endProgram(keyOf(claim), { code: 0, signal: null });
}

async function readAll({ store, newId }: World, claim: ClaimedRun): Promise<void> {
  const { run, task } = claim;
  const column: Record<string, string> = { agent: 'assigned_to', to: 'to_principal' };
  const lists = {
    listTasks: store.tasks,
    listRuns: store.runs,
    listWaits: store.waits,
    listMessages: store.messages,
    listArtifacts: store.artifacts,
  };
  for (const [route, list] of Object.entries(lists)) {
    const names = listFilterNames(agentdRoutes[route as keyof typeof lists].query);
    const columns = names.filter((name) => name !== 'program');
    const filters = listChoices(
      Object.fromEntries(columns.map((name) => [column[name] ?? name, 'x'])),
    );
    for (const filter of filters)
      for (const cursor of [undefined, newId<string>('task')])
        for (const arePrograms of names.includes('program') ? [false, true] : [false])
          await list(filter as Record<string, string>, { limit: 10, cursor, arePrograms });
  }
  const [wait] = (await store.waits({}, { limit: 1 })).rows;
  const [artifact] = (await store.artifacts({}, { limit: 1 })).rows;
  await store.wait(wait!.id);
  await store.artifact(artifact!.id);
  await store.sharedArtifacts(10);
  await store.isShared(artifact!.id);
  await store.task(task.id);
  await store.ancestry(task.id);
  await store.tree(task.id);
  await store.briefing(await store.runRow(run.id));
  await store.deliveredMessages(run.id, 0);
  await store.agents();
  await store.agent(AGENT);
  await store.agent('unknown').catch(() => undefined);
  await store.counts();
  await store.countRunsByAgent();
  await store.queuedSinceMs();
  await store.halt();
  await store.listStoppedRuns(10);
  await store.nextDueMs();
}

/** Applies something in each tree; one in ten does not end. */
async function act({ store, newId }: World): Promise<void> {
  const trees = await store.listEndedTrees({
    endedBeforeMs: Number.MAX_SAFE_INTEGER,
    limit: HISTORY,
  });
  const twice = [...trees, ...trees];
  for (const [i, { rootTaskId }] of twice.entries()) {
    const { id } = await store.beginLayerAction(
      {
        id: newId<string>('apply'),
        root_task_id: rootTaskId,
        layer_task_id: null,
        action: 'apply',
        principal: PERSON,
        status: 'waiting',
        request: '{"path":"/srv/app"}',
        approval_id: null,
        rules: '[]',
      },
      undefined,
    );
    await store.setLayerApproval(id, 'x');
    await store.attemptLayerAction(id);
    if (i % 10 > 0) await store.endLayerAction(id, { status: 'done', outcome: {}, data: {} });
    await store.layerAction(id);
  }
  await store.listOpenLayerActions();
}

async function use(file: string): Promise<void> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const newId = makeIdMaker(clock);
  const db = openSqlite({ file, migrations: MIGRATIONS });
  const options = { db, clock, newId, log: silentLog, onCommitted: () => {} };
  const store = await openStore({ ...options, append: async () => {} });
  const world = { store, clock, newId };
  await store.applyAgents({ agents: [declare(AGENT), declare('other')] });
  await store.putAgent(declare(AGENT), PERSON);
  const first = await makeHistory(world);
  await useBoard(world);
  await leaveOpen(world);
  await readMoves(world);
  await runProgram(world);
  await readAll(world, first);
  await act(world);
  await retain(world);
  await store.setAgentStatus('other', 'stopped', PERSON);
  await store.setHalt('x', PERSON);
  await store.liftHalt(PERSON);
  await store.recoverRuns();
  await store.recordRuntimeEvent('runtime.started', {});
  await store.recordRestore({
    backup: 'backup_1',
    taken_at: '2026-01-01T00:00:00.000Z',
    restored_at: '2026-01-01T00:00:00.000Z',
    events: 1,
    root: 'x',
    manifest_sha256: 'x',
    changed_trees: [first.task.id],
  });
  await store.restoredTree(first.task.id);
  await store.createTask({ ...newTask(world), retryOf: first.task.id }, undefined);
  await db.write((sql) => releaseBriefing(sql, first.run.id));
  clock.advance(IDEMPOTENCY_WINDOW_MS + 1);
  await store.createTask(newTask(world), newOnce(world));
  await erase(world);
  await eraseEverything(db, COPY_PLACES);
  await useIds(db, ID_COLUMNS);
  await store.close();
}

export const agentd: StoreUse = {
  daemon: 'agentd',
  smallTables: {
    agents: 'one row for each manifest',
    task_counts: 'one row for each agent and status',
    halt: 'one row',
    artifact_sizes: 'one row for each agent and person',
    kept_trees: 'a person sets each',
    message_pairs: 'one row for each two principals',
    episodes_due: 'emptied as soon as memoryd has kept them',
    notices_due: 'emptied as soon as maild has delivered them',
    pruned_parts: 'not filled here; each query names one tree',
    unused_objects: 'removed with their blobs',
    restores: 'one row for each restore of a backup',
    restored_trees: 'one row for each task tree that was open in a backup that was restored',
    outbox: 'delivered events are deleted',
    outbox_store: 'one row',
  },
  use,
};
