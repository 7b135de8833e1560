// Builds a task's transcript: its goal, what the models said, each call with its result, and what
// people and other agents said. A subtask's entries follow the call that created it.
import type { MessageView, TaskView, WaitView } from '../../../wire/agentd.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import { findCreatingCall, type TaskRecord } from '../timeline/gather.ts';
import {
  listNewMessages,
  readMessageParts,
  readResponseParts,
  type SpokenPart,
} from './message-texts.ts';

export type Entry = {
  at: string;
  depth: number;
  task_id: string;
  /** Who speaks: an agent's name, or person:NAME. */
  from: string;
  kind: 'goal' | 'text' | 'thinking' | 'call' | 'result' | 'message' | 'answer' | 'end' | 'failed';
  text: string;
  call_id?: string;
  tool?: string;
  arguments?: unknown;
};

/** The bodies of a call, which its view does not have. */
export type CallBody = { messages: readonly unknown[]; response: unknown };
export type ReadCallBody = (call: ModelCallView) => Promise<CallBody>;

type Draft = Omit<Entry, 'depth' | 'task_id'>;
/** A call's entries stay together, before the subtask that the call created. */
type Group = { at: string; entries: Draft[]; callId?: string; after?: Draft[] };

export async function buildTranscript(
  record: TaskRecord,
  readBody: ReadCallBody,
  depth = 0,
): Promise<Entry[]> {
  const groups = (await listGroups(record, readBody)).sort((a, b) => compare(a.at, b.at));
  const waiting = new Set(record.children);
  const entries: Entry[] = [];
  const add = (drafts: readonly Draft[] = []): void => {
    for (const draft of drafts) entries.push({ ...draft, depth, task_id: record.task.id });
  };
  const addChildren = async (isDue: (child: TaskRecord) => boolean): Promise<void> => {
    for (const child of [...waiting].filter(isDue)) {
      waiting.delete(child);
      entries.push(...(await buildTranscript(child, readBody, depth + 1)));
    }
  };
  for (const group of groups) {
    await addChildren(
      (child) => findCreatingCall(child, record) === undefined && child.task.created_at < group.at,
    );
    add(group.entries);
    if (group.callId !== undefined)
      await addChildren((child) => findCreatingCall(child, record) === group.callId);
    add(group.after);
  }
  await addChildren(() => true);
  add(describeEnd(record.task));
  return entries;
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);
const stripKind = (principal: string): string => principal.replace(/^agent:/, '');
const nameOf = (task: TaskView): string => task.assigned_to ?? 'unassigned';

async function listGroups(record: TaskRecord, readBody: ReadCallBody): Promise<Group[]> {
  const { task } = record;
  const from = stripKind(task.created_by);
  const groups: Group[] = [
    {
      at: task.created_at,
      entries: [{ at: task.created_at, from, kind: 'goal', text: task.goal }],
    },
  ];
  for (const call of record.modelCalls) groups.push(await describeModelCall(call, task, readBody));
  groups.push(
    ...record.toolCalls.map((call) => describeToolCall(call, task)),
    ...(record.messages ?? []).flatMap((message) => describeMessage(message, task)),
    ...record.waits.flatMap(describeAnswer),
  );
  return groups;
}

async function describeModelCall(
  call: ModelCallView,
  task: TaskView,
  readBody: ReadCallBody,
): Promise<Group> {
  const name = nameOf(task);
  const at = call.created_at;
  const one = { at: call.ended_at ?? at, from: name, call_id: call.call_id };
  if (call.status === 'running') return { at, entries: [] };
  if (call.status !== 'completed') {
    const why = String(call.error?.message ?? 'no reason recorded');
    const text = `no response from the model ${call.model} (${call.status}): ${why}`;
    return { at, entries: [{ ...one, kind: 'failed', text }] };
  }
  const { messages, response } = await readBody(call);
  // A program runs its tools itself: only its messages show them.
  const isProgram = task.program !== undefined;
  const told = isProgram ? listNewMessages(messages).flatMap(readMessageParts) : [];
  const said = readResponseParts(response);
  const toDraft = (part: SpokenPart): Draft =>
    part.kind === 'call' ? { ...one, ...part, text: toJson(part.arguments) } : { ...one, ...part };
  return {
    at,
    entries: [
      ...told.map((part) => ({ ...toDraft(part), ...(part.kind === 'text' ? FROM_PROGRAM : {}) })),
      ...said.filter(({ kind }) => isProgram || kind !== 'call').map(toDraft),
    ],
  };
}

const FROM_PROGRAM = { from: 'the program' } as const;
const toJson = (value: unknown): string =>
  typeof value === 'string' ? value : (JSON.stringify(value) ?? '');

/** The result of the task comes at its end, and needs no second place. */
function describeToolCall(call: ToolCallView, task: TaskView): Group {
  const name = nameOf(task);
  const about = { call_id: call.call_id, tool: call.tool };
  const at = call.created_at;
  if (call.tool === 'task.finish' && call.status === 'completed') return { at, entries: [] };
  const asked: Draft = {
    at,
    from: name,
    kind: 'call',
    ...about,
    arguments: call.arguments,
    text: toJson(call.arguments),
  };
  return { at, entries: [asked], callId: call.call_id, after: describeResult(call, name) };
}

/** Their results are the end of the subtask, and the person's answer. */
const SHOWN_ELSEWHERE: readonly string[] = ['task.delegate', 'person.ask'];

function describeResult(call: ToolCallView, from: string): Draft[] {
  const at = call.ended_at ?? call.created_at;
  const one = { at, from, call_id: call.call_id, tool: call.tool };
  if (call.status === 'completed') {
    const text = SHOWN_ELSEWHERE.includes(call.tool) ? '' : formatResult(call.result);
    return text === '' ? [] : [{ ...one, kind: 'result', text }];
  }
  if (call.ended_at === null) return [];
  const why = String(call.error?.message ?? 'no reason recorded');
  return [{ ...one, kind: 'failed', text: `${call.status}: ${why}` }];
}

/** A text of several lines, such as a program's output, needs no name; the other fields follow. */
function formatResult(result: unknown): string {
  if (typeof result !== 'object' || result === null) return toJson(result ?? '');
  const fields = Object.entries(result);
  const isOutput = ([, value]: [string, unknown]): boolean =>
    typeof value === 'string' && value.includes('\n');
  return [
    ...fields.filter(isOutput).map(([, value]) => String(value).replace(/\n$/, '')),
    ...fields
      .filter((field) => !isOutput(field))
      .map(([name, value]) => `${name}: ${toJson(value)}`),
  ].join('\n');
}

/** Requests and results of tasks stand elsewhere, as do the agent's own messages, as its calls. */
function describeMessage(message: MessageView, task: TaskView): Group[] {
  if (message.from === `agent:${nameOf(task)}`) return [];
  if (['TaskRequest', 'TaskAccepted', 'TaskResult'].includes(message.type)) return [];
  const text = message.parts
    .map((part) => (part.kind === 'text' ? part.text : `[${part.kind}]`))
    .join('\n');
  const at = message.sent_at;
  return [{ at, entries: [{ at, from: stripKind(message.from), kind: 'message', text }] }];
}

function describeAnswer(wait: WaitView): Group[] {
  if (wait.kind !== 'question' || wait.outcome !== 'answered' || wait.ended_at === null) return [];
  const answer = wait.answer?.answer ?? wait.answer?.text ?? wait.answer ?? '';
  const from = stripKind(wait.answered_by ?? 'a person');
  const at = wait.ended_at;
  return [{ at, entries: [{ at, from, kind: 'answer', text: toJson(answer) }] }];
}

function describeEnd(task: TaskView): Draft[] {
  if (task.ended_at === null) return [];
  const one = { at: task.ended_at, from: nameOf(task) };
  if (task.status === 'completed') return [{ ...one, kind: 'end', text: task.result ?? '' }];
  const why = task.error?.message ?? task.reason ?? 'no reason recorded';
  return [{ ...one, kind: 'failed', text: `${task.status}: ${why}` }];
}
