// Reading the audit log: agentctl audit tail, task, agent, tool, and agentctl logs.
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import { followEvents, newestSeq } from '../follow.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { agentEventLine, withoutAttempts } from '../show/agent-event.ts';
import { eventLine } from '../show/event.ts';
import { findTool } from './catalog.ts';

const PAGE = 1000;

function showEvent(event: AuditEvent, out: Out): void {
  const { columns, paint } = out;
  if (out.json) out.document(event);
  else out.line(eventLine(event, { nowMs: Date.now(), columns, paint }));
}

export async function tail({ args, out, runtime }: Session): Promise<void> {
  const filter = { event: args.text('event') };
  const events = await newest(runtime(), filter, args.number('lines') ?? 20);
  for (const event of events.toReversed()) showEvent(event, out);
  if (events.length === 0 && !out.json) out.note(`No events of ${filter.event ?? 'any kind'}.`);
  if (!args.flag('follow')) return;
  const after = events[0]?.seq ?? -1;
  await follow(runtime(), after, filter, { each: (event) => showEvent(event, out), out });
}

/** The last first. */
async function newest(
  runtime: RuntimeClient,
  filter: { event?: string | undefined },
  lines: number,
): Promise<AuditEvent[]> {
  const found: AuditEvent[] = [];
  let cursor: string | undefined;
  do {
    const limit = Math.min(lines - found.length, PAGE);
    const query = { ...filter, order: 'desc', limit, cursor } as const;
    const page = await runtime.ask('auditd-ai', 'events', { query });
    found.push(...page.events);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined && found.length < lines);
  return found;
}

async function follow(
  runtime: RuntimeClient,
  after: number,
  filter: { event?: string | undefined },
  { each, out }: { each: (event: AuditEvent) => void; out: Out },
): Promise<void> {
  const { signal, done } = onInterrupt();
  const onAway = () => out.note('The log does not answer; this goes on when it is back.');
  try {
    for await (const event of followEvents(runtime, { after, filter, signal, onAway })) each(event);
  } finally {
    done();
  }
}

type Pages = (
  cursor: string | undefined,
) => Promise<{ events: AuditEvent[]; cursor: string | null }>;

/** In the order they happened; with `lines` only the last so many. */
async function collect(read: Pages, lines: number | undefined): Promise<AuditEvent[]> {
  const found: AuditEvent[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    found.push(...page.events);
    cursor = page.cursor ?? undefined;
  } while (cursor !== undefined);
  found.sort((a, b) => a.seq - b.seq);
  return lines === undefined ? found : found.slice(-lines);
}

export const eventsOfTask = (runtime: RuntimeClient, id: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { task_id: id }, query: { limit: PAGE, cursor } };
    return runtime.ask('auditd-ai', 'task', request);
  }, lines);

const eventsOfAgent = (runtime: RuntimeClient, name: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { agent: name }, query: { limit: PAGE, cursor } };
    return runtime.ask('auditd-ai', 'agent', request);
  }, lines);

const eventsOfTool = (runtime: RuntimeClient, name: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { tool: name }, query: { limit: PAGE, cursor } };
    return runtime.ask('auditd-ai', 'tool', request);
  }, lines);

function giveEvents(events: readonly AuditEvent[], out: Out, of: string): void {
  if (out.json) {
    out.document({ events, cursor: null });
    return;
  }
  if (events.length === 0) out.note(`No events of ${of}.`);
  for (const event of events) showEvent(event, out);
}

// A wrong name is told as one, and not as something that never did anything. The log is asked
// first: it knows also who is gone.
export async function task({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  const events = await eventsOfTask(runtime(), id, args.number('lines'));
  if (events.length === 0) await runtime().ask('agentd', 'getTask', { params: { id } });
  giveEvents(events, out, id);
}

export async function agent({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!.replace(/^agent:/, '');
  const events = await eventsOfAgent(runtime(), name, args.number('lines'));
  if (events.length === 0) await runtime().ask('agentd', 'getAgent', { params: { name } });
  giveEvents(events, out, name);
}

export async function tool({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!;
  const events = await eventsOfTool(runtime(), name, args.number('lines'));
  if (events.length === 0) await findTool(runtime(), name);
  giveEvents(events, out, name);
}

export async function logs({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!;
  await runtime().ask('agentd', 'getAgent', { params: { name } });
  const isFollowing = args.flag('follow');
  const after = isFollowing ? await newestSeq(runtime()) : -1;
  const events = await eventsOfAgent(runtime(), name, args.number('lines') ?? 50);
  if (!isFollowing && (out.json || events.length === 0)) return giveEvents(events, out, name);
  const tell = (event: AuditEvent): void => {
    const { columns, paint } = out;
    if (out.json) out.document(event);
    else out.line(agentEventLine(event, { nowMs: Date.now(), columns, paint }));
  };
  for (const event of out.json ? events : withoutAttempts(events)) tell(event);
  if (!isFollowing) return;
  const shownTo = Math.max(after, events.at(-1)?.seq ?? -1);
  const each = (event: AuditEvent): void => {
    if (event.agent === name) tell(event);
  };
  await follow(runtime(), shownTo, {}, { each, out });
}
