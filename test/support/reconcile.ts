// Compares journals and audit log: every record of every daemon has exactly its events, and every
// event has its record. Also finds duplicate ids, gaps and unfinished records.
import assert from 'node:assert/strict';
import type { AuditEvent } from '../../src/wire/events.ts';
import type { Clients } from './runtime.ts';

type Pager<T> = (cursor: string | undefined) => Promise<{ rows: T[]; cursor: string | null }>;

async function all<T>(page: Pager<T>): Promise<T[]> {
  const rows: T[] = [];
  for (let cursor: string | undefined; ; ) {
    const next = await page(cursor);
    rows.push(...next.rows);
    if (next.cursor === null) return rows;
    cursor = next.cursor;
  }
}

const PAGE = 500;

export async function allEvents(clients: Clients): Promise<AuditEvent[]> {
  return all(async (cursor) => {
    const { events, cursor: next } = await clients.audit.events({ query: { limit: PAGE, cursor } });
    return { rows: events, cursor: next };
  });
}

/** Ids of the events that follow from the journals. */
async function expectedIds(
  clients: Clients,
): Promise<{ must: Set<string>; modelCalls: Set<string> }> {
  const must = new Set<string>();
  const { agentd, toold, modeld, sandboxd } = clients;
  for (const task of await all(async (cursor) => {
    const p = await agentd.listTasks({ query: { limit: PAGE, cursor } });
    return { rows: p.tasks, cursor: p.cursor };
  })) {
    must.add(`${task.id}.created`);
    if (task.ended_at !== null) must.add(`${task.id}.ended`);
  }
  for (const run of await all(async (cursor) => {
    const p = await agentd.listRuns({ query: { limit: PAGE, cursor } });
    return { rows: p.runs, cursor: p.cursor };
  })) {
    for (let fence = 1; fence <= run.fence; fence++) must.add(`${run.id}.started.${fence}`);
    if (run.ended_at !== null) must.add(`${run.id}.ended`);
  }
  for (const wait of await all(async (cursor) => {
    const p = await agentd.listWaits({ query: { limit: PAGE, cursor } });
    return { rows: p.waits, cursor: p.cursor };
  })) {
    must.add(`${wait.id}.opened`);
    if (wait.ended_at !== null) must.add(`${wait.id}.ended`);
  }
  for (const message of await all(async (cursor) => {
    const p = await agentd.listMessages({ query: { limit: PAGE, cursor } });
    return { rows: p.messages, cursor: p.cursor };
  }))
    must.add(`${message.id}.sent`);
  for (const artifact of await all(async (cursor) => {
    const p = await agentd.listArtifacts({ query: { limit: PAGE, cursor } });
    return { rows: p.artifacts, cursor: p.cursor };
  }))
    must.add(`${artifact.id}.stored`);
  for (const call of await all(async (cursor) => {
    const p = await toold.listCalls({ query: { limit: PAGE, cursor } });
    return { rows: p.calls, cursor: p.cursor };
  })) {
    for (let attempt = 1; attempt <= call.attempts; attempt++)
      must.add(`${call.call_id}.attempted.${attempt}`);
    if (call.status === 'denied') must.add(`${call.call_id}.denied`);
    else if (call.ended_at !== null) must.add(`${call.call_id}.ended`);
  }
  for (const box of await all(async (cursor) => {
    const p = await sandboxd.listBoxes({ query: { limit: PAGE, cursor } });
    return { rows: p.boxes, cursor: p.cursor };
  })) {
    must.add(`${box.id}.opened`);
    if (box.closed_at !== null) must.add(`${box.id}.ended`);
  }
  const modelCalls = new Set<string>();
  for (const call of await all(async (cursor) => {
    const p = await modeld.listCalls({ query: { limit: PAGE, cursor } });
    return { rows: p.calls, cursor: p.cursor };
  }))
    modelCalls.add(call.call_id);
  return { must, modelCalls };
}

const JOURNALED =
  /^[a-z]+_\w{26}\.(created|ended|opened|sent|stored|denied|(started|attempted)\.\d+)$/;

/** sandboxd forgets closed boxes after 30 days; some margin for clocks that tests advance. */
const BOXES_KEPT_MS = 29 * 86_400_000;

/** A record that was pruned still has its tombstone. */
async function isPruned({ agentd, toold, modeld }: Clients, eventId: string): Promise<boolean> {
  const id = eventId.split('.')[0]!;
  const isPrunedFault = (error: unknown) => (error as { code?: string }).code === 'pruned';
  const asks: Promise<unknown>[] = id.startsWith('call_')
    ? [
        toold.getCall({ params: { id: id as never } }),
        modeld.getCall({ params: { id: id as never } }),
      ]
    : [agentd.getTombstone({ params: { id } }).then(() => Promise.reject({ code: 'pruned' }))];
  const results = await Promise.allSettled(asks);
  return results.some((result) => result.status === 'rejected' && isPrunedFault(result.reason));
}

/** Each memory has the event of its first change, and each event of a memory has its memory. */
async function assertMemoriesReconciled(
  { memoryd }: Clients,
  events: readonly AuditEvent[],
): Promise<void> {
  const listed = await all(async (cursor) => {
    const page = await memoryd.listMemories({ query: { limit: PAGE, cursor } });
    return { rows: page.memories, cursor: page.cursor };
  });
  const known = new Set<unknown>(listed.map(({ id }) => id));
  const isPrivate = ({ data }: AuditEvent) => String(data?.scope ?? '').startsWith('person:');
  const told = events.filter((event) => /^memory_\w{26}\.\d+$/.test(event.id) && !isPrivate(event));
  const idsOf = (some: readonly AuditEvent[]) =>
    new Set<unknown>(some.map(({ data }) => data?.memory_id));
  const named = idsOf(told);
  const pruned = idsOf(told.filter(({ event }) => event === 'memory.pruned'));
  assert.deepEqual([...known.difference(named)], [], 'memories without their events');
  assert.deepEqual([...named.difference(known)], [...pruned], 'events without their memories');
}

/** Assumes that nothing is running and every outbox has been delivered. */
export async function assertReconciled(clients: Clients): Promise<{ events: number }> {
  const events = await allEvents(clients);
  const ids = events.map((event) => event.id);
  const seen = new Set<string>();
  const twice = ids.find((id) => seen.size === seen.add(id).size);
  const both = events.filter(({ id }) => id === twice);
  assert.equal(twice, undefined, `an event is in the log twice: ${JSON.stringify(both)}`);
  const { must, modelCalls } = await expectedIds(clients);
  const missing = [...must].filter((id) => !seen.has(id));
  assert.deepEqual(missing, [], 'records without their events');
  const isModel = (id: string) => modelCalls.has(id.split('.')[0]!);
  const extra: string[] = [];
  const lastMs = events.reduce((last, { ts }) => Math.max(last, Date.parse(ts)), 0);
  const isForgottenBox = ({ id, ts }: AuditEvent) =>
    id.startsWith('box_') && lastMs - Date.parse(ts) > BOXES_KEPT_MS;
  for (const event of events) {
    const { id } = event;
    if (!JOURNALED.test(id) || must.has(id) || isModel(id) || isForgottenBox(event)) continue;
    if (!(await isPruned(clients, id))) extra.push(id);
  }
  assert.deepEqual(extra, [], 'events without their records');
  await assertMemoriesReconciled(clients, events);
  // A model call may have several attempts; every attempt has its end.
  const modelIds = events.filter(
    (event) => event.event.startsWith('model.call.') && event.call_id !== undefined,
  );
  for (const event of modelIds) {
    if (event.event !== 'model.call.attempted') continue;
    assert.ok(seen.has(event.id.replace('.attempted.', '.ended.')), `${event.id} has no end`);
  }
  return { events: ids.length };
}
