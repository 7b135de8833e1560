// Runs the statements by which agentd counts turns in threads and finds whose move is next; and
// what its other statements share about calls and messages.
import type { RunCall } from '../../../src/daemons/agentd/store/store.ts';
import {
  AGENT,
  type ClaimedRun,
  claimRuns,
  newTask,
  PERSON,
  type World,
} from './agentd-retention.ts';

export const LIMITS = { turnsMax: 1_000, repeatsMax: 0, costMicrousdMax: 1 };
export const BOUNDS = { childrenMax: 10, limits: LIMITS };
export const MATCH = {
  needs: [],
  agent: null,
  reason: 'unassigned' as const,
  candidates: [AGENT, 'other'].map((agent) => ({
    agent: agent as never,
    score: 1,
    words: [],
    load: 0,
    accepted: 0,
    failed: 0,
    median_cost_microusd: null,
  })),
  excluded: [],
  tried: [],
};

export const keyOf = ({ run }: ClaimedRun) => ({ runId: run.id, fence: run.fence });
export const callOf = (world: World, claim: ClaimedRun): RunCall => ({
  ...keyOf(claim),
  callId: world.newId('call'),
  requestHash: 'h',
});
export const newOnce = ({ newId }: World) => ({
  scope: PERSON,
  key: newId<string>('key'),
  requestHash: 'h',
});

export const message = (
  claim: ClaimedRun,
  more: { from?: string; to?: string; delivered?: boolean } = {},
) => ({
  type: 'Message',
  contextId: claim.task.context_id,
  taskId: claim.task.id,
  from: PERSON,
  to: `agent:${AGENT}`,
  inReplyTo: null,
  labels: ['outside' as const],
  parts: [{ kind: 'text', text: 'x' }],
  text: 'x',
  delivered: false,
  ...more,
});

const subtaskOf = (world: World, { task }: ClaimedRun) =>
  newTask(world, {
    agent: 'other',
    parent: task,
    contextId: task.context_id,
    createdBy: `agent:${AGENT}`,
  });

/** A message to a colleague, a refused one, the question about it, and its answer. */
export async function useThread(world: World, claim: ClaimedRun): Promise<void> {
  const { store } = world;
  const exchange = { limits: LIMITS, questionExpiresMs: world.clock.nowMs() + 60_000 };
  await store.delegate(callOf(world, claim), subtaskOf(world, claim), undefined, BOUNDS);
  const send = (text: string, more: object) =>
    store.sendFromRun(
      callOf(world, claim),
      { ...message(claim, { from: `agent:${AGENT}`, to: 'agent:other' }), text },
      { expiresMs: exchange.questionExpiresMs },
      { ...exchange, ...more },
    );
  await send('x', {});
  await store.send(message(claim, { from: 'agent:other', to: `agent:${AGENT}` }), newOnce(world));
  const full = { limits: { ...LIMITS, turnsMax: 1 } };
  await send('y', full);
  const asked = await send('y', full);
  if (asked.wait !== null) await store.answerWait(asked.wait.id, 'stop', PERSON);
  const { context_id: thread } = claim.task;
  await store.threadCost(thread);
  await store.earlierTasks(thread);
  await store.wordsOf(thread, PERSON, 0);
}

/** Whose move it is: of what waits for a child, a reply or a person, is blocked, or has ended. */
export async function readMoves(world: World): Promise<void> {
  const { store } = world;
  const expiresMs = world.clock.nowMs() + 1e9;
  const [one, two] = await claimRuns(world);
  const forChild = callOf(world, one!);
  await store.delegate(forChild, subtaskOf(world, one!), { expiresMs }, BOUNDS);
  await store.park(keyOf(one!), [forChild.callId]);
  await store.delegate(callOf(world, two!), subtaskOf(world, two!), undefined, BOUNDS);
  const forReply = callOf(world, two!);
  const sent = message(two!, { from: `agent:${AGENT}`, to: 'agent:other' });
  const exchange = { limits: LIMITS, questionExpiresMs: expiresMs };
  await store.sendFromRun(forReply, sent, { expiresMs }, exchange);
  await store.park(keyOf(two!), [forReply.callId]);
  await store.createTask(newTask(world, { agent: null, match: MATCH }), undefined);
  const ended = await store.createTask(newTask(world), undefined);
  await store.cancelTask(ended.id, 'x', PERSON);
  await store.thread(ended.context_id);
  for (const status of ['waiting', 'blocked', 'submitted'] as const)
    for (const { context_id, parent_task_id } of (await store.tasks({ status }, { limit: 50 }))
      .rows)
      if (parent_task_id === null) await store.thread(context_id);
}
