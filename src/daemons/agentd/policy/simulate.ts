// Replays recorded decisions against a changed policy and reports those that would change. Requests
// are read from audit events; toold's record of a call supplies its arguments.
import type { Client } from '../../../platform/link.ts';
import type { Policy } from '../../../policy/decide.ts';
import { type RecordedDecision, readDecision } from '../../../policy/recorded.ts';
import type { ToolSchemas } from '../../../policy/site.ts';
import type { SimulationView } from '../../../wire/agentd.ts';
import type { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { CallId } from '../../../wire/primitives.ts';
import type { tooldRoutes } from '../../../wire/toold.ts';

const EVENT_KINDS = [
  'tool.call.attempted',
  'tool.call.waiting',
  'tool.call.denied',
  'model.call.attempted',
  'model.call.refused',
] as const;
/** Per kind, to limit how long a simulation takes. */
const EVENTS_MAX = 10_000;
const CHANGES_MAX = 1_000;
const PAGE_SIZE = 1_000;

type Audit = Pick<Client<typeof auditRoutes>, 'events'>;
type Toold = Pick<Client<typeof tooldRoutes>, 'getCall'>;

export async function simulate(deps: {
  today: Policy;
  changed: Policy;
  audit: Audit;
  toold: Toold;
  listToolSchemas: () => Promise<ToolSchemas | undefined>;
  since: string | null;
}): Promise<SimulationView> {
  const { today, changed, since } = deps;
  await Promise.all([today.warm(), changed.warm()]);
  const { events, truncated } = await readPast(deps.audit, since);
  const view: SimulationView = {
    version: today.version,
    since,
    decisions: 0,
    unreadable: 0,
    truncated,
    changes: [],
  };
  const isRead = (word: string): boolean =>
    [today, changed].some(({ bundle }) => bundle.site.some(({ text }) => text.includes(word)));
  const needsUrl = isRead('url_path');
  const schemas = isRead('arguments') ? await deps.listToolSchemas() : undefined;
  let processed = 0;
  for (const event of events) {
    const { tool = '' } = event;
    const schema = isRead(`Tool::"${tool}"`) ? schemas?.get(tool) : undefined;
    const call =
      (needsUrl && touchesNet(event)) || schema !== undefined
        ? await readArguments(deps.toold, event)
        : undefined;
    const past = readDecision(event, { call, schema });
    if (past === undefined) continue;
    // Yields regularly, so that a long history does not block this process.
    if (++processed % 200 === 0) await new Promise((resolve) => setImmediate(resolve));
    if (!past.isWhole || (schema !== undefined && call === undefined)) {
      view.unreadable++;
      continue;
    }
    view.decisions++;
    const decision = await changed.decideAll(past.requests);
    if (decision.answer === past.answer) continue;
    if (view.changes.length >= CHANGES_MAX) {
      view.truncated = true;
      continue;
    }
    const now = await today.decideAll(past.requests);
    view.changes.push({
      event: past.eventId,
      ts: past.ts,
      agent: past.agent,
      tool: past.tool,
      task_id: past.taskId,
      touches: formatTouches(past),
      recorded: { answer: past.answer, rules: past.rules },
      today: { answer: now.answer, rules: now.rules },
      changed: { answer: decision.answer, rules: decision.rules, reason: decision.reason },
    });
  }
  return view;
}

const formatTouches = ({ requests }: RecordedDecision): string[] =>
  requests
    .filter(({ action }) => action !== 'tool.call')
    .map(({ action, resource }) => `${action} ${resource.id}`);

/** Returns the first event with a decision for each call, oldest first. */
async function readPast(
  audit: Audit,
  since: string | null,
): Promise<{ events: AuditEvent[]; truncated: boolean }> {
  const found: AuditEvent[] = [];
  let truncated = false;
  for (const event of EVENT_KINDS) {
    let cursor: string | null | undefined;
    let read = 0;
    do {
      const query = { event, order: 'desc', limit: PAGE_SIZE } as const;
      const page = await audit.events({
        query: cursor === undefined || cursor === null ? query : { ...query, cursor },
      });
      const recent = page.events.filter(({ ts }) => since === null || ts >= since);
      found.push(...recent.filter(({ data }) => data?.answer !== undefined));
      read += page.events.length;
      cursor = recent.length < page.events.length ? null : page.cursor;
      // Newest first, so only archived events follow an archived one.
      if (page.archived !== undefined) cursor = null;
      truncated ||= page.archived !== undefined || (cursor !== null && read >= EVENTS_MAX);
    } while (cursor !== null && read < EVENTS_MAX);
  }
  found.sort((a, b) => a.seq - b.seq);
  const first = new Map<string, AuditEvent>();
  for (const event of found) {
    const key = event.call_id ?? event.id;
    if (!first.has(key)) first.set(key, event);
  }
  return { events: [...first.values()], truncated };
}

const touchesNet = ({ data = {} }: AuditEvent): boolean =>
  Object.values(data).some(
    (value) => typeof value === 'string' && value.startsWith('["net.connect"'),
  );

async function readArguments(
  toold: Toold,
  event: AuditEvent,
): Promise<Record<string, unknown> | undefined> {
  const id = CallId.safeParse(event.call_id);
  if (!id.success) return undefined;
  try {
    const { arguments: given } = (await toold.getCall({ params: { id: id.data } })).call;
    // toold keeps long arguments shortened.
    return given.shortened === true && typeof given.size_chars === 'number' ? undefined : given;
  } catch {
    // The record may be gone; the event still has the tool, and what it touched.
    return undefined;
  }
}
