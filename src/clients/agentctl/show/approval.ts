// One approval as the person who decides sees it: who asks, what exactly, why a person is needed,
// what the run has read, what each answer would permit. Nothing is left out and nothing can pass
// for a line of ours.
import type { ApprovalView } from '../../../wire/approvald.ts';
import type { Out, Style } from '../out.ts';
import { formatRelative, formatSize, pluralize } from './amounts.ts';
import { countNonAscii, escapeHidden, escapeLines, fence, fold } from './exact.ts';
import { renderFields } from './table.ts';

export type TaskGoal = { goal: string } | undefined;

const RISK_STYLE = { low: 'green', medium: 'yellow', high: 'red' } as const;
const STATUS_STYLE = {
  pending: 'yellow',
  approved: 'green',
  rejected: 'red',
  info: 'cyan',
  expired: 'red',
  canceled: 'dim',
} as const;

export function renderApproval(
  view: ApprovalView,
  task: TaskGoal,
  { out, nowMs }: { out: Out; nowMs: number },
): string[] {
  const { paint } = out;
  const heading = (text: string) => ['', paint('bold', text)];
  return [
    renderHead(view, out, nowMs),
    ...renderFields(foldFields(listFields(view, task, out, nowMs), out), paint).map(
      (line) => `  ${line}`,
    ),
    ...heading(`What would be done (${formatHash(view)}):`),
    ...renderArguments(view.arguments, out),
    ...(view.arguments_asked === null
      ? []
      : [
          ...heading('A person changed it. The agent had asked for:'),
          ...renderArguments(view.arguments_asked, out),
        ]),
    ...(view.diff === null
      ? []
      : [
          ...heading(`What would change (${formatMeasure(view.diff)}):`),
          ...renderDiff(view.diff, out),
        ]),
    ...(view.chain.length < 2
      ? []
      : [
          ...heading('What else would happen, judged by its worst part:'),
          ...renderChain(view, out),
        ]),
    ...(view.thread.length === 0
      ? []
      : [...heading('Asked before, and answered with a question:'), ...renderThread(view, out)]),
    ...(view.answers.length === 0
      ? []
      : [...heading('Answers so far:'), ...renderDecisions(view, out, nowMs)]),
    ...(view.status === 'pending' ? [...heading('Your answer:'), ...renderChoices(view, out)] : []),
  ];
}

function renderHead(view: ApprovalView, { paint }: Out, nowMs: number): string {
  const until =
    view.status === 'pending'
      ? `expires ${formatRelative(view.expires_at, nowMs)}: no answer is a no`
      : `by ${view.decided_by ?? 'nobody'} ${formatRelative(view.decided_at ?? view.expires_at, nowMs)}`;
  const id = paint('bold', view.id);
  return `${id}  ${paint(STATUS_STYLE[view.status], view.status)}, ${until}`;
}

type Fields = [string, string | undefined][];
const FIELD_COLUMNS = 16;

/** Folded here and not by the terminal, so that no words of others start a line. */
const foldFields = (rows: Fields, { columns }: Out): Fields =>
  rows.map(([name, value]) => [
    name,
    value === undefined ? undefined : fold(value, columns - FIELD_COLUMNS).join('\n'),
  ]);

/** The values stand on their own lines, so what others wrote has no line break in it. */
function listFields(view: ApprovalView, task: TaskGoal, { paint }: Out, nowMs: number): Fields {
  const marks = view.labels.includes('outside')
    ? paint('red', 'this run has read text from outside: it may be doing what that text says')
    : `${view.labels.join(', ') || 'none'} (nothing from outside)`;
  const said = view.asks.map(({ purpose }) => purpose).filter((purpose) => purpose !== '');
  const needed =
    view.approvers_needed === 1
      ? undefined
      : `${view.approvers_needed} different people; so far ${view.approved_by.join(', ') || 'nobody'}`;
  return [
    [
      'agent',
      `${view.agent} (${pluralize(view.calls, 'call')}, asked ${formatRelative(view.requested_at, nowMs)})`,
    ],
    ['task', `${view.task_id}${task === undefined ? '' : `: ${escapeHidden(task.goal)}`}`],
    ['run', [...new Set(view.asks.map(({ run_id }) => run_id))].join(', ')],
    ['tool', view.action],
    [
      'class',
      `${view.class}, ${paint(RISK_STYLE[view.risk], `${view.risk} risk`)}, ${view.reversibility}`,
    ],
    ['repository', view.repo === null ? undefined : escapeHidden(view.repo)],
    ['summary', escapeHidden(view.summary)],
    ['it says', [...new Set(said)].map((words) => `"${escapeHidden(words)}"`).join(' · ')],
    [
      'why asked',
      `${escapeHidden(view.reason)} (${view.rules.map(escapeHidden).join(', ') || 'no rule named'})`,
    ],
    ['marks', marks],
    ['undo', view.rollback === null ? 'nothing was said' : escapeHidden(view.rollback)],
    ['needs', needed],
    ['passed on', view.escalated_to === null ? undefined : `to ${view.escalated_to}`],
    ['permit', view.permit_id ?? undefined],
  ];
}

/** What would happen with it. The class, the risk and the way back above are the worst of all. */
const renderChain = (view: ApprovalView, out: Out): string[] =>
  view.chain.flatMap(({ part, what, class: word, risk, reversibility }) => {
    if (part === 'call') return [];
    const words = what === '' ? word : escapeHidden(what);
    const how = part === 'beside' ? 'asked for beside it' : 'it brings along';
    return fence([`${how}: ${words} (${word}, ${risk} risk, ${reversibility})`], out);
  });

const formatMeasure = (text: string): string =>
  `${pluralize(text.split('\n').length - (text.endsWith('\n') ? 1 : 0), 'line')}, ${formatSize(Buffer.byteLength(text))}`;

function formatHash(view: ApprovalView): string {
  const odd = countNonAscii(JSON.stringify(view.arguments));
  const warning = odd === 0 ? '' : `, ${pluralize(odd, 'character')} beyond plain ASCII`;
  return `${formatSize(view.arguments_bytes)}, sha256 ${view.arguments_hash}${warning}`;
}

/** Text of several lines is shown as lines, everything else as JSON. */
function renderArguments(args: Record<string, unknown>, out: Out): string[] {
  const names = Object.keys(args).sort();
  if (names.length === 0) return fence(['(no arguments)'], out);
  return names.flatMap((name) => {
    const value = args[name];
    if (typeof value === 'string' && value.includes('\n')) {
      const title = `${escapeHidden(JSON.stringify(name))}: text of ${formatMeasure(value)}:`;
      return [
        ...fence([title], out),
        ...fence(
          escapeLines(value).map((l) => `  ${l}`),
          out,
        ),
      ];
    }
    const text = `${JSON.stringify(name)}: ${JSON.stringify(value, null, 2) ?? 'null'}`;
    return fence(escapeLines(text), out);
  });
}

const DIFF_STYLE: Readonly<Record<string, Style>> = { '+': 'green', '-': 'red', '@': 'cyan' };

export const renderDiff = (diff: string, out: Out): string[] =>
  fence(escapeLines(diff.replace(/\n$/, '')), out, (line) => DIFF_STYLE[line[0] ?? '']);

const renderThread = (view: ApprovalView, out: Out): string[] =>
  view.thread.flatMap(({ by, question, approval_id }) =>
    fence([`${by} (${approval_id}): ${escapeHidden(question)}`], out),
  );

const DECISION_VERBS = {
  approve: 'approved it',
  reject: 'said no',
  'request-info': 'asked',
  escalate: 'passed it on',
} as const;

function renderDecisions(view: ApprovalView, out: Out, nowMs: number): string[] {
  return view.answers.flatMap((one) => {
    const reach = one.for === null || one.for === 'once' ? '' : ` for this ${one.for}`;
    const edited = one.edited_hash === null ? '' : ', with changes';
    const to = one.to === null ? '' : ` to ${one.to}`;
    const text = one.text === null || one.text === '' ? '' : `: ${escapeHidden(one.text)}`;
    const when = formatRelative(one.at, nowMs);
    return fence(
      [`${one.by} ${DECISION_VERBS[one.answer]}${to}${reach}${edited} ${when}${text}`],
      out,
    );
  });
}

function renderChoices(view: ApprovalView, { paint, columns }: Out): string[] {
  const seen = view.arguments_asked === null ? '' : ` --seen ${view.nonce}`;
  const rows: [string, string][] = Object.entries(view.would_permit).map(([reach, what]) => [
    `agentctl approve ${view.id}${reach === 'once' ? '' : ` --for ${reach}`}${seen}`,
    escapeHidden(what),
  ]);
  rows.push(
    [`agentctl approve ${view.id} --edit FILE`, 'approve other arguments instead'],
    [`agentctl reject ${view.id}`, 'no'],
    [`agentctl ask ${view.id} "…"`, 'not yet: the agent gets your question'],
    [`agentctl escalate ${view.id}`, 'somebody else must decide'],
  );
  return rows.flatMap(([command, what]) => [
    `  ${command}`,
    ...fold(what, columns - 6).map((line) => paint('dim', `      ${line}`)),
  ]);
}
