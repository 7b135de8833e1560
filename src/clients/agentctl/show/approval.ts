// Renders one approval for the person who decides: the agent, the exact call, why approval is
// needed, the run's marks, and what each decision would permit. Nothing is omitted, and no text of
// an agent can pass for a line of agentctl.
import { escapeHidden, escapeLines } from '../../../platform/text/hidden.ts';
import type { ProposedMemory } from '../../../wire/approvald/proposals.ts';
import type { ApprovalView } from '../../../wire/approvald.ts';
import type { Out, Style } from '../out.ts';
import { formatRelative, formatSize, pluralize } from './amounts.ts';
import { countNonAscii, fence, fold } from './exact.ts';
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
    ...(view.memory === null
      ? [
          ...heading(`Requested call (${formatHash(view)}):`),
          ...renderArguments(view.arguments, out),
        ]
      : []),
    ...(view.arguments_asked === null || view.memory !== null
      ? []
      : [
          ...heading('A person changed it. The agent requested:'),
          ...renderArguments(view.arguments_asked, out),
        ]),
    ...(view.diff === null
      ? []
      : [...heading(`Changes (${formatMeasure(view.diff)}):`), ...renderDiff(view.diff, out)]),
    ...(view.chain.length < 2
      ? []
      : [...heading('Side effects, rated by the worst:'), ...renderChain(view, out)]),
    ...(view.thread.length === 0
      ? []
      : [...heading('Earlier questions:'), ...renderThread(view, out)]),
    ...(view.answers.length === 0
      ? []
      : [...heading('Decisions so far:'), ...renderDecisions(view, out, nowMs)]),
    ...(view.status === 'pending'
      ? [...heading('Your decision:'), ...renderChoices(view, out)]
      : []),
  ];
}

function renderHead(view: ApprovalView, { paint }: Out, nowMs: number): string {
  const until =
    view.status === 'pending'
      ? `expires ${formatRelative(view.expires_at, nowMs)}, then counts as rejected`
      : `by ${view.decided_by ?? 'the runtime'} ${formatRelative(view.decided_at ?? view.expires_at, nowMs)}`;
  const id = paint('bold', view.id);
  return `${id}  ${paint(STATUS_STYLE[view.status], view.status)}, ${until}`;
}

type Fields = [string, string | undefined][];
const FIELD_COLUMNS = 16;

/** Folded here, not by the terminal, so that agent text never starts a line. */
const foldFields = (rows: Fields, { columns }: Out): Fields =>
  rows.map(([name, value]) => [
    name,
    value === undefined ? undefined : fold(value, columns - FIELD_COLUMNS).join('\n'),
  ]);

function listFields(view: ApprovalView, task: TaskGoal, { paint }: Out, nowMs: number): Fields {
  const marks = view.labels.includes('outside')
    ? paint('red', describeOutside(view))
    : `${view.labels.join(', ') || 'none'} (nothing from outside)`;
  const purposes = view.asks.map(({ purpose }) => purpose).filter((purpose) => purpose !== '');
  const needed =
    view.approvers_needed === 1
      ? undefined
      : `${view.approvers_needed} different people; so far ${view.approved_by.join(', ') || 'none'}`;
  if (view.memory !== null) return listMemoryFields(view, view.memory, { marks, needed });
  return [
    [
      'agent',
      `${view.agent} (${pluralize(view.calls, 'call')}, requested ${formatRelative(view.requested_at, nowMs)})`,
    ],
    ['task', `${view.task_id ?? ''}${task === undefined ? '' : `: ${escapeHidden(task.goal)}`}`],
    ['run', [...new Set(view.asks.map(({ run_id }) => run_id))].join(', ')],
    ['tool', view.action],
    [
      'class',
      `${view.class}, ${paint(RISK_STYLE[view.risk], `${view.risk} risk`)}, ${view.reversibility}`,
    ],
    ['repository', view.repo === null ? undefined : escapeHidden(view.repo)],
    ['summary', escapeHidden(view.summary)],
    ['purpose', [...new Set(purposes)].map((purpose) => `"${escapeHidden(purpose)}"`).join(' · ')],
    [
      'reason',
      `${escapeHidden(view.reason)} (${view.rules.map(escapeHidden).join(', ') || 'no rule named'})`,
    ],
    ['marks', marks],
    ['undo', view.rollback === null ? 'not stated' : escapeHidden(view.rollback)],
    ['needs', needed],
    ['escalated', view.escalated_to === null ? undefined : `to ${view.escalated_to}`],
    ['permit', view.permit_id ?? undefined],
  ];
}

const describeOutside = ({ memory, labels }: ApprovalView): string =>
  memory === null
    ? 'this run has read outside text and may be following its instructions'
    : `${labels.join(', ')}: others wrote it, and the mark stays after an approval`;

function listMemoryFields(
  view: ApprovalView,
  memory: ProposedMemory,
  { marks, needed }: { marks: string; needed: string | undefined },
): Fields {
  return [
    ['memory', `${memory.memory_id}, version ${memory.version}`],
    ['scope', memory.scope],
    ['kind', memory.class],
    ['proposed by', memory.by],
    ['task', memory.task_id ?? undefined],
    ['run', memory.run_id ?? undefined],
    [
      'reason',
      `${escapeHidden(view.reason)} (${view.rules.map(escapeHidden).join(', ') || 'no rule named'})`,
    ],
    ['marks', marks],
    ['needs', needed],
    ['escalated', view.escalated_to === null ? undefined : `to ${view.escalated_to}`],
  ];
}

const renderChain = (view: ApprovalView, out: Out): string[] =>
  view.chain.flatMap(({ part, what, class: word, risk, reversibility }) => {
    if (part === 'call') return [];
    const words = what === '' ? word : escapeHidden(what);
    const how = part === 'beside' ? 'requested with it' : 'side effect';
    return fence([`${how}: ${words} (${word}, ${risk} risk, ${reversibility})`], out);
  });

const formatMeasure = (text: string): string =>
  `${pluralize(text.split('\n').length - (text.endsWith('\n') ? 1 : 0), 'line')}, ${formatSize(Buffer.byteLength(text))}`;

function formatHash(view: ApprovalView): string {
  const odd = countNonAscii(JSON.stringify(view.arguments));
  const warning = odd === 0 ? '' : `, ${pluralize(odd, 'character')} beyond plain ASCII`;
  return `${formatSize(view.arguments_bytes)}, sha256 ${view.arguments_hash}${warning}`;
}

/** Multi-line text is shown as lines, everything else as JSON. */
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
  approve: 'approved',
  reject: 'rejected',
  'request-info': 'asked',
  escalate: 'escalated',
} as const;

function renderDecisions(view: ApprovalView, out: Out, nowMs: number): string[] {
  return view.answers.flatMap((decision) => {
    const scope =
      decision.for === null || decision.for === 'once' ? '' : ` for this ${decision.for}`;
    const edited = decision.edited_hash === null ? '' : ', with changes';
    const to = decision.to === null ? '' : ` to ${decision.to}`;
    const by = decision.channel === 'mail' ? ' by mail' : '';
    const text =
      decision.text === null || decision.text === '' ? '' : `: ${escapeHidden(decision.text)}`;
    const when = formatRelative(decision.at, nowMs);
    return fence(
      [
        `${decision.by} ${DECISION_VERBS[decision.answer]}${to}${scope}${edited}${by} ${when}${text}`,
      ],
      out,
    );
  });
}

function renderChoices(view: ApprovalView, { paint, columns }: Out): string[] {
  const isUnseen = view.arguments_asked !== null || (view.memory?.version ?? 1) > 1;
  const seen = isUnseen ? ` --seen ${view.nonce}` : '';
  const rows: [string, string][] = Object.entries(view.would_permit).map(([scope, what]) => [
    `agentctl approve ${view.id}${scope === 'once' ? '' : ` --for ${scope}`}${seen}`,
    escapeHidden(what),
  ]);
  const isMemory = view.memory !== null;
  rows.push(
    [
      `agentctl approve ${view.id} --edit FILE`,
      isMemory ? 'approve it in other words' : 'approve it with other arguments',
    ],
    [`agentctl reject ${view.id}`, 'reject it'],
  );
  if (!isMemory) rows.push([`agentctl ask ${view.id} "…"`, 'ask the agent before you decide']);
  rows.push([`agentctl escalate ${view.id}`, 'hand the decision to another person']);
  return rows.flatMap(([command, what]) => [
    `  ${command}`,
    ...fold(what, columns - 6).map((line) => paint('dim', `      ${line}`)),
  ]);
}
