// Reading the audit log: agentctl audit tail, task, agent, tool, and agentctl logs.
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import { followEvents, newestSeq } from '../follow.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { Runtime } from '../runtime.ts';
import { eventLine } from '../show/event.ts';
import { happeningLine, withoutAttempts } from '../show/happening.ts';

const PAGE = 1000;

function showEvent(event: AuditEvent, out: Out): void {
  const { columns, paint } = out;
  if (out.json) out.document(event);
  else out.line(eventLine(event, { nowMs: Date.now(), columns, paint }));
}

export async function tail({ args, out, runtime }: Session): Promise<void> {
  const filter = { event: args.text('event') };
  const limit = Math.min(args.number('lines') ?? 20, PAGE);
  const query = { ...filter, order: 'desc', limit } as const;
  const { events } = await runtime().ask('auditd-ai', 'events', { query });
  for (const event of events.toReversed()) showEvent(event, out);
  if (events.length === 0 && !out.json) out.note(`No events of ${filter.event ?? 'any kind'}.`);
  if (!args.flag('follow')) return;
  const after = events[0]?.seq ?? -1;
  await follow(runtime(), after, filter, (event) => showEvent(event, out));
}

async function follow(
  runtime: Runtime,
  after: number,
  filter: { event?: string | undefined },
  each: (event: AuditEvent) => void,
): Promise<void> {
  const { signal, done } = onInterrupt();
  try {
    for await (const event of followEvents(runtime, { after, filter, signal })) each(event);
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

export const eventsOfTask = (runtime: Runtime, id: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { task_id: id }, query: { limit: PAGE, cursor } };
    return runtime.ask('auditd-ai', 'task', request);
  }, lines);

const eventsOfAgent = (runtime: Runtime, name: string, lines?: number) =>
  collect((cursor) => {
    const request = { params: { agent: name }, query: { limit: PAGE, cursor } };
    return runtime.ask('auditd-ai', 'agent', request);
  }, lines);

const eventsOfTool = (runtime: Runtime, name: string, lines?: number) =>
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

export async function task({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  giveEvents(await eventsOfTask(runtime(), id, args.number('lines')), out, id);
}

export async function agent({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!.replace(/^agent:/, '');
  giveEvents(await eventsOfAgent(runtime(), name, args.number('lines')), out, name);
}

export async function tool({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!;
  giveEvents(await eventsOfTool(runtime(), name, args.number('lines')), out, name);
}

export async function logs({ args, out, runtime }: Session): Promise<void> {
  const name = args.words[0]!;
  // A wrong name is told as one, and not as an agent that never did anything.
  await runtime().ask('agentd', 'getAgent', { params: { name } });
  const isFollowing = args.flag('follow');
  const after = isFollowing ? await newestSeq(runtime()) : -1;
  const events = await eventsOfAgent(runtime(), name, args.number('lines') ?? 50);
  if (!isFollowing && (out.json || events.length === 0)) return giveEvents(events, out, name);
  const tell = (event: AuditEvent): void => {
    const { columns, paint } = out;
    if (out.json) out.document(event);
    else out.line(happeningLine(event, { nowMs: Date.now(), columns, paint }));
  };
  for (const event of out.json ? events : withoutAttempts(events)) tell(event);
  if (!isFollowing) return;
  const shownTo = Math.max(after, events.at(-1)?.seq ?? -1);
  await follow(runtime(), shownTo, {}, (event) => {
    if (event.agent === name) tell(event);
  });
}
