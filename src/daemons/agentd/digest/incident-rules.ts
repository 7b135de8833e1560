// Decides which events of the log a digest reports, in which words, and how equal ones become one.
// Pure.
import type { DigestIncident } from '../../../wire/agentd.ts';
import type { AuditEvent } from '../../../wire/events.ts';

type EventKind = AuditEvent['event'];
type Describe = (event: AuditEvent) => string | undefined;

const read = ({ data }: AuditEvent, name: string): string => String(data?.[name] ?? '');
const who = ({ agent, principal }: AuditEvent): string =>
  agent ?? principal?.replace(/^agent:/, '') ?? 'somebody';
const why = (text: string): string => (text === '' ? '' : `: ${text}`);

/** The gravest first. Undefined: this one is no incident. */
const INCIDENTS: readonly (readonly [EventKind, Describe])[] = [
  ['halt.set', (e) => `the runtime was halted${why(read(e, 'reason'))}`],
  [
    'runtime.started',
    (e) =>
      Number(e.data?.restarts ?? 0) === 0
        ? undefined
        : `the runtime was restarted after ${read(e, 'after') || 'a crash'}`,
  ],
  ['policy.refused', (e) => `a changed rule is not in force${why(read(e, 'first'))}`],
  ['tool.suspended', (e) => `the tool ${e.tool ?? '?'} was suspended${why(read(e, 'reason'))}`],
  ['run.broken', (e) => `${who(e)} was stopped without progress${why(read(e, 'reason'))}`],
  ['run.crashed', (e) => `a process of ${who(e)} crashed`],
  ['sandbox.refused', (e) => `a box of ${who(e)} was refused${why(read(e, 'reason'))}`],
  ['tool.call.denied', (e) => `${who(e)} was denied ${e.tool ?? 'a tool'}`],
  ['network.denied', (e) => `${who(e)} was denied ${read(e, 'host')}:${read(e, 'port')}`],
  [
    'model.call.refused',
    (e) => `a model call of ${who(e)} was refused${why((e.status ?? '').replaceAll('_', ' '))}`,
  ],
  ['policy.denied', (e) => `${who(e)} was denied ${e.status ?? 'a request'}`],
  [
    'approval.expired',
    (e) =>
      e.status === 'expired'
        ? `a request of ${who(e)} for ${e.tool ?? 'approval'} expired unanswered`
        : undefined,
  ],
  ['mail.refused', (e) => `a mail for ${read(e, 'to')} was not delivered`],
  ['key.refused', (e) => `the API key ${read(e, 'key')} was refused${why(e.status ?? '')}`],
];

export const INCIDENT_KINDS: readonly EventKind[] = INCIDENTS.map(([kind]) => kind);

/** The events of one kind, newest first; `more`: there were further ones. */
export type KindEvents = { kind: EventKind; events: readonly AuditEvent[]; more: boolean };

/** The gravest first, and of those the most frequent. */
export function listIncidents(found: readonly KindEvents[]): DigestIncident[] {
  return INCIDENTS.flatMap(([kind, describe]) => {
    const same = found.find((one) => one.kind === kind);
    return same === undefined ? [] : groupEvents(same, describe);
  });
}

function groupEvents({ kind, events, more }: KindEvents, describe: Describe): DigestIncident[] {
  const byText = new Map<string, DigestIncident>();
  for (const event of events) {
    const text = describe(event);
    if (text === undefined) continue;
    // One denied connection stands for equal ones before it.
    const times = 1 + Number(event.data?.repeats ?? 0);
    const known = byText.get(text);
    if (known !== undefined) known.count += times;
    else
      byText.set(text, {
        event: kind,
        text,
        count: times,
        more,
        last_at: event.ts,
        last_seq: event.seq,
      });
  }
  return [...byText.values()].toSorted((a, b) => b.count - a.count || b.last_seq - a.last_seq);
}
