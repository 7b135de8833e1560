// Takes mail for agents from maild. From a person it answers a question, reaches an agent that
// works in the thread, or becomes a task; from outside it becomes a task if a rule permits that.
import type { Clock } from '../../platform/clock.ts';
import { isFault } from '../../platform/daemon.ts';
import type { HandlerContext, Handlers } from '../../platform/dispatch.ts';
import { hashJson } from '../../platform/json.ts';
import type { IdempotencyKey } from '../../platform/sql/idempotency.ts';
import type { Policy } from '../../policy/decide.ts';
import type { mailRoutes } from '../../wire/agentd/mail.ts';
import type { TaskInput, TaskView } from '../../wire/agentd.ts';
import { fault } from '../../wire/errors.ts';
import type { ContextId, Label, TaskId } from '../../wire/primitives.ts';
import type { Artifacts } from './artifacts.ts';
import type { AgentdConfig } from './config.ts';
import { computeMessageLabels } from './message-rules.ts';
import type { AgentdService } from './service.ts';
import type { AgentdStore } from './store/store.ts';
import { findMailLoop, MAIL_WINDOW_MS } from './threads/mail-rules.ts';
import { readThreadLimits } from './threads/send-message.ts';
import { shorten, writeDigest } from './threads/thread-digest.ts';

type Routes = typeof mailRoutes;
type TakeMail = HandlerContext<Routes['takeMail']>['body'];
type Taken = { became: 'answer' | 'message' | 'task'; task_id: TaskId; context_id: ContextId };

export type IncomingMailDeps = {
  store: AgentdStore;
  service: Pick<AgentdService, 'createTask'>;
  artifacts: Pick<Artifacts, 'save'>;
  policy: () => Policy;
  config: AgentdConfig;
  clock: Clock;
};

const isOutside = (from: string): boolean => from.startsWith('external:');
const EARLIER_CHARS_MAX = 16_000;

export function makeIncomingMailHandlers(deps: IncomingMailDeps): Handlers<Routes> {
  const { store, artifacts } = deps;
  return {
    async takeAttachment({ body }) {
      const { key, from, artifact } = body;
      const row = await artifacts.save(artifact, {
        by: from,
        task: undefined,
        labels: [isOutside(from) ? 'outside' : 'person'],
        once: onceFor(from, key, artifact),
      });
      return { artifact_id: row.id as never };
    },
    async takeMail({ body }): Promise<Taken> {
      if (isOutside(body.from)) {
        await assertPermitted(deps, body);
        return createTask(deps, body);
      }
      const answered = await answerQuestion(store, body);
      if (answered !== undefined) return answered;
      await assertNoLoop(deps, body);
      return (await reachAgent(store, body)) ?? createTask(deps, body);
    },
  };
}

const onceFor = (from: string, key: string, request: unknown): IdempotencyKey => ({
  scope: `mail ${from}`,
  key,
  requestHash: hashJson(request),
});

/** maild has asked already, so that the mail could be refused to its sender; rules may change. */
async function assertPermitted(
  { policy }: IncomingMailDeps,
  { from, to }: TakeMail,
): Promise<void> {
  const { answer, reason } = await policy().decide({
    principal: from,
    action: 'task.delegate',
    resource: { type: 'Agent', id: to },
    context: { labels: ['outside'] },
  });
  if (answer !== 'allow') throw fault('denied', reason);
}

const onceForTask = (body: TakeMail) => onceFor(body.from, `${body.key} task`, body);

/** Its sender is told, and writes to nobody again: what refuses it is an automatic mail. */
async function assertNoLoop({ store, config, clock }: IncomingMailDeps, body: TakeMail) {
  if (body.context_id === null) return;
  for (const once of [onceForTask(body), onceFor(body.from, body.key, body)])
    if ((await store.findRecorded(once)) !== undefined) return;
  const nowMs = clock.nowMs();
  const words = await store.wordsOf(body.context_id, body.from, nowMs - MAIL_WINDOW_MS);
  const loop = findMailLoop(words, { text: body.text, atMs: nowMs }, readThreadLimits(config));
  if (loop === undefined) return;
  throw fault('limit', loop, {
    hint: 'Write it as a new mail, or wait; agentctl send AGENT "…" has no such limit.',
    details: { reason: 'repeats' },
  });
}

/** Undefined if it answers no question, or one that has ended. */
async function answerQuestion(store: AgentdStore, body: TakeMail): Promise<Taken | undefined> {
  if (body.wait_id === null) return undefined;
  const wait = await store.wait(body.wait_id);
  const text = matchChoice(wait.choices, body.text);
  const task = await store.task(wait.task_id);
  if (task.assigned_to !== body.to) return undefined;
  const taken: Taken = { became: 'answer', task_id: task.id, context_id: task.context_id };
  if (wait.status === 'open') {
    await store.answerWait(wait.id, text, body.from);
    return taken;
  }
  // Handed over before, by a maild that did not live to record it.
  const isRepeat = wait.answered_by === body.from && wait.answer?.text === text;
  return isRepeat ? taken : undefined;
}

/** People add to the word that was asked for: another case, a full stop, a second line. */
function matchChoice(choices: readonly string[], text: string): string {
  const first = text.trim().split('\n', 1)[0]!.trim();
  const bare = (word: string): string =>
    word
      .toLowerCase()
      .replace(/[.!]+$/, '')
      .trim();
  return choices.find((choice) => bare(choice) === bare(first)) ?? text;
}

/** Undefined if the agent has no live task in the thread. */
async function reachAgent(store: AgentdStore, body: TakeMail): Promise<Taken | undefined> {
  if (body.context_id === null) return undefined;
  const wasTask = await store.findRecorded(onceForTask(body));
  if (wasTask !== undefined) return undefined;
  const once = onceFor(body.from, body.key, body);
  const recorded = await store.findRecorded<{ task_id: TaskId; context_id: ContextId }>(once);
  if (recorded !== undefined) return { became: 'message', ...pickIds(recorded) };
  const filter = { context_id: body.context_id, assigned_to: body.to };
  const { rows } = await store.tasks(filter, { limit: 50 });
  const live = rows.find((task) => task.ended_at === null);
  if (live === undefined) return undefined;
  const row = await store.send(
    {
      type: 'TaskProgress',
      contextId: live.context_id,
      taskId: live.id,
      from: body.from,
      to: `agent:${body.to}`,
      inReplyTo: null,
      labels: computeMessageLabels(body.from, []),
      parts: [
        { kind: 'text', text: body.text },
        ...body.artifacts.map((id) => ({ kind: 'artifact_ref', id })),
      ],
      text: body.text,
      delivered: false,
    },
    once,
  );
  return { became: 'message', task_id: live.id, context_id: row.context_id as ContextId };
}

const pickIds = ({ task_id, context_id }: { task_id: TaskId; context_id: ContextId }) => ({
  task_id,
  context_id,
});

async function createTask({ store, service }: IncomingMailDeps, body: TakeMail): Promise<Taken> {
  const earlier = await findEarlier(store, body);
  const inputs: TaskInput[] = [
    ...(earlier === undefined ? [] : [await describeEarlier(store, earlier)]),
    ...body.artifacts.map((id): TaskInput => ({ kind: 'artifact_ref', id })),
  ];
  const labels: Label[] = [isOutside(body.from) ? 'outside' : 'person', ...(earlier?.labels ?? [])];
  const task = await service.createTask(
    {
      goal: body.text,
      agent: body.to,
      ...(body.context_id === null ? {} : { context_id: body.context_id }),
      ...(inputs.length === 0 ? {} : { inputs }),
    },
    { principal: body.from, owner: body.owner ?? undefined, labels: [...new Set(labels)] },
    // The result of the earlier task never changes, so neither does the request.
    onceForTask(body),
  );
  return { became: 'task', task_id: task.id, context_id: task.context_id };
}

/** The ended task that a reply is about, if it is still there. */
async function findEarlier(store: AgentdStore, body: TakeMail): Promise<TaskView | undefined> {
  if (body.task_id === null || isOutside(body.from)) return undefined;
  const task = await store.task(body.task_id).catch((error: unknown) => {
    if (isFault(error, 'not_found') || isFault(error, 'pruned')) return undefined;
    throw error;
  });
  return task?.ended_at == null || task.context_id !== body.context_id ? undefined : task;
}

/** The task that it replies to, and those before in a few lines: never a quote of quotes. */
async function describeEarlier(
  store: AgentdStore,
  { id, context_id, goal, status, result, error }: TaskView,
): Promise<TaskInput> {
  const before = (await store.earlierTasks(context_id)).filter((task) => task.id < id);
  const lines = before.map((task) => ({
    who: `${task.created_by} asked ${task.assigned_to ?? 'nobody yet'}`,
    ...(hasMarks(task.labels)
      ? { text: null, outcome: `${task.status}, ${task.id}` }
      : { text: task.goal, outcome: `${task.status}: ${shorten(task.result ?? '')}` }),
  }));
  return {
    kind: 'text',
    text: [
      'The request replies to an earlier task in this thread.',
      `Its goal: ${goal.slice(0, EARLIER_CHARS_MAX)}`,
      `It is ${status}: ${(result ?? error?.message ?? '').slice(0, EARLIER_CHARS_MAX)}`,
      ...(lines.length === 0 ? [] : [writeDigest('Earlier in this thread', lines)]),
    ].join('\n\n'),
  };
}

/** Reading them would mark the new task. */
const hasMarks = (labels: readonly Label[]): boolean =>
  labels.some((label) => label === 'outside' || label === 'secret' || label === 'personal');
