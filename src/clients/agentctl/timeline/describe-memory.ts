// Describes what a task read from memory, in its briefing or by recalling it, and the episode that
// it left.
import type { AuditEvent } from '../../../wire/events.ts';
import type { MemoryView } from '../../../wire/memoryd/records.ts';
import { toOneLine } from '../show/plain.ts';
import { quote } from './describe-call.ts';

/** By id. Null for one that was not found, or that this person may not read. */
export type ReadMemories = Readonly<Record<string, MemoryView | null>>;

type MemoryStep = {
  at: string;
  kind: 'memory';
  text: string;
  call_id?: string;
  memory_ids: string[];
};

type Ended = { ended_at: string | null };

const idsOf = ({ data }: AuditEvent, key: string): string[] =>
  String(data?.[key] ?? '')
    .split(' ')
    .filter((id) => id !== '');

/** A briefing's own recall is in the event of the briefing. */
const readIds = (event: AuditEvent): string[] => {
  if (event.event === 'memory.recalled' && event.call_id !== undefined)
    return idsOf(event, 'memories');
  return event.event === 'memory.briefed'
    ? [...idsOf(event, 'memories'), ...idsOf(event, 'named')]
    : [];
};

export const listReadIds = (events: readonly AuditEvent[]): string[] => [
  ...new Set(events.flatMap(readIds)),
];

export function buildMemorySteps(
  record: { task: Ended; events?: readonly AuditEvent[]; memories?: ReadMemories },
  name: string,
): MemoryStep[] {
  const { events = [], memories = {} } = record;
  return [
    ...events.flatMap((event) => buildReadSteps(event, { name, memories })),
    ...buildEpisodeStep(record.task, events),
  ];
}

function buildReadSteps(
  event: AuditEvent,
  { name, memories }: { name: string; memories: ReadMemories },
): MemoryStep[] {
  const step = (text: string, ...memory_ids: string[]): MemoryStep => ({
    at: event.ts,
    kind: 'memory',
    text,
    memory_ids,
    ...(event.call_id === undefined ? {} : { call_id: event.call_id }),
  });
  if (event.event === 'memory.recalled')
    return readIds(event).map((id) => step(`${name} recalled ${describe(id, memories)}`, id));
  if (event.event !== 'memory.briefed') return [];
  if (event.status === 'silent')
    return [step(`${name} started without memories: memoryd did not answer in time`)];
  return [
    ...idsOf(event, 'memories').map((id) =>
      step(`${name} was briefed with ${describe(id, memories)}`, id),
    ),
    ...idsOf(event, 'named').map((id) =>
      step(`${name} was told the name of ${id}, which is marked: its text was not shown`, id),
    ),
  ];
}

function describe(id: string, memories: ReadMemories): string {
  const memory = memories[id] ?? undefined;
  if (memory === undefined) return id;
  const text = memory.text === null ? '[forgotten]' : quote(memory.text);
  return `${id} (${toOneLine(memory.scope)}): ${text}`;
}

/** memoryd keeps it after the task has ended, and it is shown before the end. */
function buildEpisodeStep({ ended_at }: Ended, events: readonly AuditEvent[]): MemoryStep[] {
  const kept = events.filter(
    ({ event, principal }) => event === 'memory.remembered' && principal === 'service:agentd',
  );
  if (ended_at === null || kept.length === 0) return [];
  const scopes = [...new Set(kept.map(({ data }) => toOneLine(String(data?.scope ?? ''))))];
  const memory_ids = kept.map(({ data }) => String(data?.memory_id ?? ''));
  const text = `its episode is remembered in ${scopes.join(' and ')}`;
  return [{ at: ended_at, kind: 'memory', text, memory_ids }];
}
