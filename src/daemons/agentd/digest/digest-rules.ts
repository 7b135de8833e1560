// Writes a digest as lines of up to 80 characters: a person reads them in mail and on a terminal.
import type { DigestIncident, DigestTask, DigestView } from '../../../wire/agentd.ts';

type Digest = Omit<DigestView, 'text'>;

const COLUMNS = 80;
const DETAIL = '    ';
const EXPLAINED: readonly DigestIncident['event'][] = ['tool.call.denied', 'model.call.refused'];

export function renderDigest(digest: Digest): string {
  const { since, until, missing } = digest;
  const sections = [
    [`${formatTime(since)} to ${formatTime(until)} UTC`],
    renderWaiting(digest),
    renderTrouble(digest),
    renderDone(digest),
    renderCost(digest),
    renderBoard(digest),
    missing.map(({ part, message }) => cut(`NOT READ: ${part}: ${message}`)),
  ];
  return sections
    .filter((lines) => lines.length > 0)
    .map((lines) => lines.map((line) => line.trimEnd()).join('\n'))
    .join('\n\n');
}

/** One line that says what is in it. */
export function titleDigest({ waiting, failed, completed }: Digest): string {
  const waits = countWaiting(waiting);
  return [
    `${completed.count}${plus(completed)} done`,
    ...(failed.count === 0 ? [] : [`${failed.count}${plus(failed)} failed`]),
    waits === 0
      ? 'nothing waits for you'
      : `${waits}${plus(waiting)} ${waits === 1 && !waiting.more ? 'waits' : 'wait'} for you`,
  ].join(', ');
}

const plus = ({ more }: { more: boolean }): string => (more ? '+' : '');
const countWaiting = ({ questions, approvals, unapplied }: DigestView['waiting']): number =>
  questions.length + approvals.length + unapplied.length;

function renderWaiting({ waiting }: Digest): string[] {
  const count = countWaiting(waiting);
  if (count === 0) return ['WAITS FOR YOU: nothing'];
  return [
    `WAITS FOR YOU: ${count}${plus(waiting)}`,
    ...waiting.questions.flatMap(({ id, agent, question }) => [
      cut(`  ${agent ?? 'agentd'} asks: ${question}`),
      `${DETAIL}agentctl answer ${id} "…"`,
    ]),
    ...waiting.approvals.flatMap(({ id, agent, risk, summary }) => [
      cut(`  ${agent} requests (${risk} risk): ${summary}`),
      `${DETAIL}agentctl approvals ${id}`,
    ]),
    ...waiting.unapplied.flatMap(({ id, goal }) => [
      cut(`  its changes, if any, are not applied: ${goal}`),
      `${DETAIL}agentctl task diff ${id}`,
    ]),
  ];
}

function renderTrouble({ failed, incidents }: Digest): string[] {
  if (failed.count + incidents.length === 0) return ['WENT WRONG: nothing'];
  return [
    `WENT WRONG: ${pluralize(failed.count, 'task', plus(failed))}, ${pluralize(incidents.length, 'incident')}`,
    ...failed.tasks.flatMap((task) => [
      cut(`  ${task.status}: ${task.goal}`),
      ...(task.reason === null ? [] : [cut(`${DETAIL}${task.reason}`)]),
      `${DETAIL}${describeTask(task)}`,
      ...(task.retried_as === null ? [] : [`${DETAIL}tried again: ${task.retried_as}`]),
    ]),
    ...renderRest(failed, 'failed'),
    ...incidents.flatMap(renderIncident),
  ];
}

function renderIncident({ event, text, count, more, last_seq }: DigestIncident): string[] {
  const times = count === 1 && !more ? '' : ` (${count}${more ? ' times or more' : ' times'})`;
  return [
    `${cut(`  ${text}`, COLUMNS - times.length)}${times}`,
    ...(EXPLAINED.includes(event) ? [`${DETAIL}agentctl policy explain ${last_seq}`] : []),
  ];
}

function renderDone({ completed, canceled }: Digest): string[] {
  const also = canceled === 0 ? '' : `, and ${canceled} canceled`;
  if (completed.count === 0) return [`DONE: nothing${also}`];
  return [
    `DONE: ${pluralize(completed.count, 'task', plus(completed))}${also}`,
    ...completed.tasks.flatMap((task) => [cut(`  ${task.goal}`), `${DETAIL}${describeTask(task)}`]),
    ...renderRest(completed, 'completed'),
    ...(completed.tasks.some(({ rehearsal }) => rehearsal)
      ? ['  *: the rehearsal, a scripted stand-in for a model, did some of it']
      : []),
  ];
}

const renderRest = ({ count, tasks }: Digest['completed'], status: string): string[] =>
  count > tasks.length
    ? [`  … and ${count - tasks.length} more: agentctl task list --status ${status}`]
    : [];

function describeTask({ id, agent, cost_microusd, created_at, ended_at, rehearsal }: DigestTask) {
  const took = formatSpan(Date.parse(ended_at) - Date.parse(created_at));
  const parts = [
    `${id}${rehearsal ? ' *' : ''}`,
    agent ?? 'no agent',
    ...(cost_microusd === null ? [] : [formatMoney(cost_microusd)]),
    took,
  ];
  return cut(parts.join(' · '), COLUMNS - DETAIL.length);
}

function renderCost({ cost }: Digest): string[] {
  const { calls, input_tokens, output_tokens, cost_microusd, is_guess, agents } = cost;
  const total = `COST: ${is_guess ? 'up to ' : ''}${formatMoney(cost_microusd)}`;
  const width = Math.max(0, ...agents.map(({ agent }) => nameOf(agent).length));
  return [
    `${total}, ${pluralize(calls, 'model call')}, ${formatCount(input_tokens)} tokens in, ${formatCount(output_tokens)} out`,
    ...agents.map(
      ({ agent, calls: own, cost_microusd: spent }) =>
        `  ${nameOf(agent).padEnd(width)}  ${formatMoney(spent).padStart(9)}  ${pluralize(own, 'call')}`,
    ),
  ];
}

const nameOf = (agent: string | null): string => agent ?? 'people and programs';

const renderBoard = ({ board }: Digest): string[] => [
  `NOW: ${board.working} working, ${board.ready} ready, ${board.waiting} waiting, ${board.blocked} blocked`,
];

/** On one line, without what a terminal would obey, up to so many characters. */
function cut(text: string, columns = COLUMNS): string {
  const indent = /^ */.exec(text)![0];
  const line = text
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, ' ')
    .replace(/\s+/g, ' ')
    .trim();
  const characters = Array.from(line);
  const room = columns - indent.length;
  if (characters.length <= room) return indent + line;
  return `${indent}${characters
    .slice(0, room - 1)
    .join('')
    .trimEnd()}…`;
}

const formatTime = (at: string): string => at.slice(0, 16).replace('T', ' ');
const formatMoney = (microusd: number): string => `$${(microusd / 1_000_000).toFixed(4)}`;
const formatCount = (n: number): string => String(n).replace(/\B(?=(\d{3})+$)/g, ',');
const pluralize = (n: number, one: string, more = ''): string =>
  `${formatCount(n)}${more} ${one}${n === 1 && more === '' ? '' : 's'}`;

function formatSpan(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000));
  if (s < 60) return `${s} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}
