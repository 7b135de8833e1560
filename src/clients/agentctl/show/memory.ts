// Renders memories: their text behind a bar, because others may have written it, and where it came
// from.
import { escapeHidden, escapeLines } from '../../../platform/text/hidden.ts';
import type {
  MemoryLink,
  MemoryVersion,
  MemoryView,
  RecalledMemory,
} from '../../../wire/memoryd/records.ts';
import type { Out } from '../out.ts';
import { formatRelative, formatSize } from './amounts.ts';
import { fence } from './exact.ts';
import { renderFields, renderTable } from './table.ts';

/** Authors of labels are shown with `by`; these say what a reader takes over. */
const MARKS: ReadonlySet<string> = new Set(['outside', 'secret', 'personal']);
const LINES_MAX = 12;

const showMarks = (labels: readonly string[]): string =>
  labels.filter((label) => MARKS.has(label)).join(', ');

const showTime = (time: string | null): string | undefined =>
  time === null ? undefined : time.replace(/\.000Z$/, 'Z');

function renderText(text: string, out: Out, linesMax: number): string[] {
  const lines = escapeLines(text);
  const rest = lines.length - linesMax;
  const shown = rest > 0 ? [...lines.slice(0, linesMax), `… ${rest} more lines`] : lines;
  return fence(shown, out);
}

export function renderRecalled(memory: RecalledMemory, out: Out): string[] {
  const { id, scope, text, score, ref, occurred_at, speaker, labels, reasons } = memory;
  const marks = showMarks(labels);
  const parts = [
    out.paint('bold', id),
    scope,
    ...(occurred_at === null ? [] : [showTime(occurred_at)!]),
    ...(speaker === null ? [] : [escapeHidden(speaker)]),
    ...(ref === null ? [] : [escapeHidden(ref)]),
    `score ${score.toFixed(2)}`,
    ...(marks === '' ? [] : [out.paint('red', marks)]),
  ];
  return [
    parts.join('  '),
    ...renderText(text, out, LINES_MAX),
    ...(reasons === undefined ? [] : [`  ${out.paint('dim', explainScore(memory))}`]),
  ];
}

const SUMMANDS: ReadonlySet<string> = new Set(['own', 'neighbours', 'conversation']);

function explainScore({ words = [], reasons = {} }: RecalledMemory): string {
  const parts = Object.entries(reasons).filter(([, part]) => part !== 0);
  const sum = parts.filter(([name]) => SUMMANDS.has(name));
  const factors = parts.filter(([name]) => !SUMMANDS.has(name));
  const show = ([name, part]: [string, number]): string => `${name} ${part.toFixed(2)}`;
  const product = factors.map((factor) => ` × ${show(factor)}`).join('');
  return `(${sum.map(show).join(' + ')})${product}  words: ${words.join(' ')}`;
}

const showLinks = (links: readonly MemoryLink[]): string =>
  links.map(({ kind, id, version }) => `${kind} ${id} (version ${version})`).join('\n');

/** How far the removal of its copies is. */
function showErasure({ erasure }: MemoryView): string | undefined {
  if (erasure == null) return undefined;
  const found = Object.entries(erasure.copies).map(([daemon, n]) => `${daemon} ${n}`);
  const removed = found.length === 0 ? 'none found' : `removed at ${found.join(', ')}`;
  const left = { waiting: 'waiting for agentd', running: 'still looking', done: undefined };
  return [left[erasure.status], removed].filter((part) => part !== undefined).join('; ');
}

export function renderMemory(memory: MemoryView, out: Out): string[] {
  const nowMs = Date.now();
  const { run_id, task_id, call_id } = memory;
  const valid = [memory.valid_from, memory.valid_to].map((time) => showTime(time) ?? '');
  const fields: [string, string | undefined][] = [
    ['status', memory.status],
    ['class', memory.class],
    ['scope', memory.scope],
    ['version', String(memory.version)],
    ['by', memory.by],
    ['run', [run_id, task_id, call_id].filter((one) => one !== null).join(' ')],
    ['marks', showMarks(memory.labels)],
    ['labels', memory.labels.join(', ')],
    ['ref', memory.ref === null ? undefined : escapeHidden(memory.ref)],
    ['speaker', memory.speaker === null ? undefined : escapeHidden(memory.speaker)],
    ['occurred', showTime(memory.occurred_at)],
    ['valid', valid.join('') === '' ? undefined : valid.join(' to ')],
    ['recorded', formatRelative(memory.recorded_at, nowMs)],
    ['ended', memory.ended_at === null ? undefined : formatRelative(memory.ended_at, nowMs)],
    ['expires', memory.expires_at === null ? undefined : formatRelative(memory.expires_at, nowMs)],
    ['size', formatSize(memory.size_bytes)],
    ['made of', showLinks(memory.links)],
    ['used by', showLinks(memory.used_by)],
    ['copies', showErasure(memory)],
  ];
  return [
    out.paint('bold', memory.id),
    ...renderFields(fields, out.paint, out.columns).map((line) => `  ${line}`),
    '',
    ...(memory.text === null ? ['  [forgotten]'] : renderText(memory.text, out, Number.MAX_VALUE)),
  ];
}

const HEADERS = [
  { title: 'ID' },
  { title: 'STATUS' },
  { title: 'CLASS' },
  { title: 'SCOPE', minWidth: 8 },
  { title: 'MARKS' },
  { title: 'TEXT', minWidth: 20 },
] as const;

export function renderList(memories: readonly MemoryView[], out: Out): string[] {
  const rows = memories.map(({ id, status, class: kind, scope, labels, text }) => [
    id,
    status,
    kind,
    scope,
    { text: showMarks(labels), style: 'red' as const },
    text === null ? '[forgotten]' : escapeHidden(text.split('\n', 1)[0]!),
  ]);
  return renderTable(HEADERS, rows, out);
}

export function renderVersion(version: MemoryVersion, out: Out): string[] {
  const { version: number, by, recorded_at, labels, links, text } = version;
  const marks = showMarks(labels);
  const head = [`version ${number}`, by, showTime(recorded_at)!];
  const why = links.map(({ kind, id }) => `${kind} ${id}`).join(', ');
  return [
    [out.paint('bold', head.join('  ')), ...[marks, why].filter((part) => part !== '')].join('  '),
    ...(text === null ? ['  [forgotten]'] : renderText(text, out, LINES_MAX)),
    '',
  ];
}
