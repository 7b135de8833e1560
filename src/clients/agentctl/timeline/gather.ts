// Gathers the records of a task and its subtasks: agentd's tree, toold's and modeld's calls, and
// for the timeline also messages and audit events.
import type { MessageView, TaskView, TreeNode } from '../../../wire/agentd.ts';
import { Fault } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { MemoryView } from '../../../wire/memoryd/records.ts';
import type { ModelCallView } from '../../../wire/modeld.ts';
import type { ToolCallView } from '../../../wire/toold.ts';
import { readTaskEvents } from '../commands/audit-read.ts';
import type { RuntimeClient } from '../runtime.ts';
import { listReadIds, type ReadMemories } from './describe-memory.ts';

export type CallPages = { modelCalls: ModelCallView[]; toolCalls: ToolCallView[] };
/** `archivedEvents` counts events of the task that only an archive has. */
export type Records = {
  messages: MessageView[];
  events: AuditEvent[];
  archivedEvents: number;
  memories: ReadMemories;
};

export type TaskRecord = Omit<TreeNode, 'children'> &
  CallPages &
  Partial<Records> & { children: TaskRecord[] };

type Page = { cursor: string | null };

async function readAllPages<P extends Page>(read: (cursor: string | undefined) => Promise<P>) {
  const pages: P[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    pages.push(page);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  return pages;
}

const limit = 1000;

async function readCalls(runtime: RuntimeClient, task_id: string): Promise<CallPages> {
  const [tools, models] = await Promise.all([
    readAllPages((cursor) =>
      runtime.call('toold', 'listCalls', { query: { task_id, limit, cursor } }),
    ),
    readAllPages((cursor) =>
      runtime.call('modeld', 'listCalls', { query: { task_id, limit, cursor } }),
    ),
  ]);
  return {
    toolCalls: sortByStart(tools.flatMap(({ calls }) => calls)),
    modelCalls: sortByStart(models.flatMap(({ calls }) => calls)),
  };
}

/** Calls come newest first; reversing first keeps the order within a millisecond. */
const sortByStart = <T extends { created_at: string }>(calls: readonly T[]): T[] =>
  calls
    .toReversed()
    .sort((a, b) => (a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0));

async function readRecords(runtime: RuntimeClient, task_id: string): Promise<Records> {
  const [messages, found] = await Promise.all([
    readAllPages((cursor) =>
      runtime.call('agentd', 'listMessages', { query: { task_id, limit, cursor } }),
    ),
    readTaskEvents(runtime, task_id),
  ]);
  const events = found.events.filter((event) => event.task_id === task_id);
  return {
    messages: messages.flatMap((page) => page.messages),
    events,
    archivedEvents: found.archived.length,
    memories: await readMemories(runtime, listReadIds(events)),
  };
}

async function readMemories(runtime: RuntimeClient, ids: readonly string[]): Promise<ReadMemories> {
  const read = async (id: string): Promise<MemoryView | null> => {
    try {
      return (await runtime.call('memoryd', 'getMemory', { params: { id } })).memory;
    } catch (error) {
      if (error instanceof Fault && ['not_found', 'unavailable'].includes(error.code)) return null;
      throw error;
    }
  };
  const found = await Promise.all(ids.map(async (id) => [id, await read(id)] as const));
  return Object.fromEntries(found);
}

/** Caches the calls of ended tasks. */
export class CallReader {
  readonly #runtime: RuntimeClient;
  readonly #settled = new Map<string, CallPages>();

  constructor(runtime: RuntimeClient) {
    this.#runtime = runtime;
  }

  async read(task: TaskView): Promise<CallPages> {
    const known = this.#settled.get(task.id);
    if (known !== undefined) return known;
    const calls = await readCalls(this.#runtime, task.id);
    if (task.ended_at !== null) this.#settled.set(task.id, calls);
    return calls;
  }
}

export async function addCalls(tree: TreeNode, reader: CallReader): Promise<TaskRecord> {
  const calls = await reader.read(tree.task);
  const children: TaskRecord[] = [];
  // Sequential: a wide tree must not open hundreds of connections.
  for (const child of tree.children) children.push(await addCalls(child, reader));
  return { ...tree, ...calls, children };
}

export async function gatherRecords(runtime: RuntimeClient, id: string): Promise<TaskRecord> {
  const { tree } = await runtime.call('agentd', 'getTree', { params: { id } });
  const record = await addCalls(tree, new CallReader(runtime));
  const addRecords = async (record: TaskRecord): Promise<void> => {
    Object.assign(record, await readRecords(runtime, record.task.id));
    for (const child of record.children) await addRecords(child);
  };
  await addRecords(record);
  return record;
}

/** Finds the parent's call that created this subtask. */
export function findCreatingCall(child: TaskRecord, parent: TaskRecord): string | undefined {
  const wait = parent.waits.find(({ child_task_id }) => child_task_id === child.task.id);
  if (wait !== undefined) return wait.call_id ?? undefined;
  const call = parent.toolCalls.find(({ result }) => result?.task_id === child.task.id);
  return call?.call_id;
}
