// agentctl audit tail, task, agent, tool, and agentctl logs.
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import { followEvents, readNewestSeq } from '../follow.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { dropAttempts, renderAgentEvent } from '../show/agent-event.ts';
import { renderEvent } from '../show/event.ts';
import { findTool } from './catalog.ts';

const PAGE = 1000;

function printEvent(event: AuditEvent, out: Out): void {
  const { columns, paint } = out;
  if (out.json) out.printJson(event);
  else out.writeLine(renderEvent(event, { nowMs: Date.now(), columns, paint }));
}

export async function tail({ args, out, runtime }: Session): Promise<void> {
  const filter = { event: args.text('event') };
  const events = await readNewest(runtime(), filter, args.number('lines') ?? 20);
  for (const event of events.toReversed()) printEvent(event, out);
  if (events.length === 0 && !out.json) out.info(`No events of ${filter.event ?? 'any kind'}.`);
  if (!args.flag('follow')) return;
  const after = events[0]?.seq ?? -1;
  await follow(runtime(), after, filter, { onEvent: (event) => printEvent(event, out), out });
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
    cursor = page.cursor ?? undefined;
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
) => Promise<{ events: AuditEvent[]; cursor: string | null }>;

/** Oldest first; with `lines` only the last ones. */
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

function printEvents(events: readonly AuditEvent[], out: Out, subject: string): void {
  if (out.json) {
    out.printJson({ events, cursor: null });
    return;
  }
  if (events.length === 0) out.info(`No events of ${subject}.`);
  for (const event of events) printEvent(event, out);
}

// No events may mean a wrong name, which is then reported. The log is read first because it also
// knows removed agents and tools.
export async function task({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const events = await readTaskEvents(runtime(), id, args.number('lines'));
  if (events.length === 0) await runtime().call('agentd', 'getTask', { params: { id } });
  printEvents(events, out, id);
}

export async function agent({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!.replace(/^agent:/, '');
  const events = await readAgentEvents(runtime(), name, args.number('lines'));
  if (events.length === 0) await runtime().call('agentd', 'getAgent', { params: { name } });
  printEvents(events, out, name);
}

export async function tool({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  const events = await readToolEvents(runtime(), name, args.number('lines'));
  if (events.length === 0) await findTool(runtime(), name);
  printEvents(events, out, name);
}

export async function logs({ args, out, runtime }: Session): Promise<void> {
  const name = args.positionals[0]!;
  await runtime().call('agentd', 'getAgent', { params: { name } });
  const isFollowing = args.flag('follow');
  const after = isFollowing ? await readNewestSeq(runtime()) : -1;
  const events = await readAgentEvents(runtime(), name, args.number('lines') ?? 50);
  if (!isFollowing && (out.json || events.length === 0)) return printEvents(events, out, name);
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
