// agentctl audit tail, task, agent, tool, and agentctl logs.
import type { AuditEvent } from '../../../wire/events.ts';
import { listSegments, readArchivedLines } from '../archive/read-archive.ts';
import type { Session } from '../command.ts';
import { followEvents, readNewestSeq } from '../follow.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { dropAttempts, renderAgentEvent } from '../show/agent-event.ts';
import { pluralize } from '../show/amounts.ts';
import { renderEvent } from '../show/event.ts';
import { requireDir } from './audit-files.ts';
import { findTool } from './catalog.ts';

const PAGE = 1000;

function printEvent(event: AuditEvent, out: Out): void {
  const { columns, paint } = out;
  if (out.json) out.printJson(event);
  else out.writeLine(renderEvent(event, { nowMs: Date.now(), columns, paint }));
}

export async function tail({ args, out, runtime }: Session): Promise<void> {
  const filter = { event: args.text('event') };
  const events = await printNewest(runtime(), out, {
    ...filter,
    lines: args.number('lines') ?? 20,
  });
  if (!args.flag('follow')) return;
  const after = events[0]?.seq ?? -1;
  await follow(runtime(), after, filter, { onEvent: (event) => printEvent(event, out), out });
}

/** Oldest first. */
export async function printNewest(
  runtime: RuntimeClient,
  out: Out,
  { event: kind, lines }: { event?: string | undefined; lines: number },
): Promise<AuditEvent[]> {
  const events = await readNewest(runtime, { event: kind }, lines);
  for (const event of events.toReversed()) printEvent(event, out);
  if (events.length === 0 && !out.json) out.info(`No events of ${kind ?? 'any kind'}.`);
  return events;
}

/** Newest first. */
async function readNewest(
  runtime: RuntimeClient,
  filter: { event?: string | undefined },
  lines: number,
): Promise<AuditEvent[]> {
  const found: AuditEvent[] = [];
  let cursor: string | undefined;
  do {
    const limit = Math.min(lines - found.length, PAGE);
    const query = { ...filter, order: 'desc', limit, cursor } as const;
    const page = await runtime.call('auditd-ai', 'events', { query });
    found.push(...page.events);
    // Archived events are the oldest: newest first, only such follow.
    cursor = page.archived === undefined ? (page.cursor ?? undefined) : undefined;
  } while (cursor !== undefined && found.length < lines);
  return found;
}

async function follow(
  runtime: RuntimeClient,
  after: number,
  filter: { event?: string | undefined },
  { onEvent, out }: { onEvent: (event: AuditEvent) => void; out: Out },
): Promise<void> {
  const { signal, done } = onInterrupt();
  const onDown = () => out.info('The log does not respond; waiting for it.');
  try {
    for await (const event of followEvents(runtime, { after, filter, signal, onDown }))
      onEvent(event);
  } finally {
    done();
  }
}

type Pages = (
  cursor: string | undefined,
) => Promise<{ events: AuditEvent[]; archived?: number[] | undefined; cursor: string | null }>;
/** Events oldest first, and the seqs of those that are archived. */
export type FoundEvents = { events: AuditEvent[]; archived: number[] };

/** With `lines` only the last ones. */
async function collect(read: Pages, lines: number | undefined): Promise<FoundEvents> {
  const events: AuditEvent[] = [];
  const archived: number[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    events.push(...page.events);
    archived.push(...(page.archived ?? []));
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  events.sort((a, b) => a.seq - b.seq);
  if (lines === undefined) return { events, archived };
  const missing = Math.max(0, lines - events.length);
  return { events: events.slice(-lines), archived: missing === 0 ? [] : archived.slice(-missing) };
}

export const readTaskEvents = (runtime: RuntimeClient, id: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { task_id: id }, query: { limit: PAGE, cursor } };
    return runtime.call('auditd-ai', 'task', request);
  }, lines);

const readAgentEvents = (runtime: RuntimeClient, name: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { agent: name }, query: { limit: PAGE, cursor } };
    return runtime.call('auditd-ai', 'agent', request);
  }, lines);

const readToolEvents = (runtime: RuntimeClient, name: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { tool: name }, query: { limit: PAGE, cursor } };
    return runtime.call('auditd-ai', 'tool', request);
  }, lines);

/** Adds the archived events, if a directory with their archives is named. */
async function addArchived(
  { events, archived }: FoundEvents,
  { args, runtime }: Session,
): Promise<FoundEvents> {
  const dir = args.text('archive');
  if (dir === undefined || archived.length === 0) return { events, archived };
  const lines = await readArchivedLines(requireDir(dir), await listSegments(runtime()), archived);
  const older = lines.map((line) => JSON.parse(line) as AuditEvent);
  return { events: [...older, ...events], archived: [] };
}

function printEvents({ events, archived }: FoundEvents, out: Out, subject: string): void {
  if (out.json) {
    out.printJson({ events, ...(archived.length === 0 ? {} : { archived }), cursor: null });
    return;
  }
  if (archived.length > 0)
    out.info(`${pluralize(archived.length, 'older event')} archived: --archive DIR shows them.`);
  else if (events.length === 0) out.info(`No events of ${subject}.`);
  for (const event of events) printEvent(event, out);
}

const isEmpty = ({ events, archived }: FoundEvents): boolean =>
  events.length === 0 && archived.length === 0;

// No events may mean a wrong name, which is then reported. The log is read first because it also
// knows removed agents and tools.
export async function task(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const id = args.positionals[0]!;
  const found = await readTaskEvents(runtime(), id, args.number('lines'));
  if (isEmpty(found)) await runtime().call('agentd', 'getTask', { params: { id } });
  printEvents(await addArchived(found, session), out, id);
}

export async function agent(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const name = args.positionals[0]!.replace(/^agent:/, '');
  const found = await readAgentEvents(runtime(), name, args.number('lines'));
  if (isEmpty(found)) await runtime().call('agentd', 'getAgent', { params: { name } });
  printEvents(await addArchived(found, session), out, name);
}

export async function tool(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const name = args.positionals[0]!;
  const found = await readToolEvents(runtime(), name, args.number('lines'));
  if (isEmpty(found)) await findTool(runtime(), name);
  printEvents(await addArchived(found, session), out, name);
}

export async function logs({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  await runtime().call('agentd', 'getAgent', { params: { name } });
  const isFollowing = args.flag('follow');
  const after = isFollowing ? await readNewestSeq(runtime()) : -1;
  const found = await readAgentEvents(runtime(), name, args.number('lines') ?? 50);
  const { events } = found;
  if (!isFollowing && (out.json || events.length === 0)) return printEvents(found, out, name);
  const print = (event: AuditEvent): void => {
    const { columns, paint } = out;
    if (out.json) out.printJson(event);
    else out.writeLine(renderAgentEvent(event, { nowMs: Date.now(), columns, paint }));
  };
  for (const event of out.json ? events : dropAttempts(events)) print(event);
  if (!isFollowing) return;
  const shownTo = Math.max(after, events.at(-1)?.seq ?? -1);
  const onEvent = (event: AuditEvent): void => {
    if (event.agent === name) print(event);
  };
  await follow(runtime(), shownTo, {}, { onEvent, out });
}
