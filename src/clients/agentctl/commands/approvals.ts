// agentctl approvals, approve, reject, ask, escalate.
import { escapeHidden } from '../../../platform/text/hidden.ts';
import type { ApprovalSummary, ApprovalView } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { readNewestSeq } from '../follow.ts';
import { readInput, readTextArgument } from '../input.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatRelative, formatSize, pluralize } from '../show/amounts.ts';
import { renderApproval } from '../show/approval.ts';
import { type Cell, renderTable, type TableColumn } from '../show/table.ts';
import { subscribeWakeups } from '../wakeups.ts';

/** Polls for changes without an event, and faster while the log is unavailable. */
const POLL_INTERVAL_MS = { connected: 15_000, disconnected: 1_000 };

export async function approvals(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const id = args.positionals[0];
  if (id !== undefined) return show(runtime(), id, out);
  if (args.flag('follow')) return follow(runtime(), out);
  const status = args.flag('all') ? {} : { status: 'pending' as const };
  const query = { ...status, limit: 1000 };
  const answer = await runtime().call('approvald', 'listApprovals', { query });
  out.print(answer, () => {
    if (answer.approvals.length > 0)
      return [...renderList(answer.approvals, out), ...renderNextStep(answer)];
    return [args.flag('all') ? 'No approvals.' : 'No pending approvals.'];
  });
}

const renderNextStep = ({ pending }: { pending: number }): string[] =>
  pending === 0 ? [] : ['', 'Review one in full before you decide: agentctl approvals ID'];

type ListColumn = { head: TableColumn; cell(one: ApprovalSummary, nowMs: number): Cell };
const COLUMNS: readonly ListColumn[] = [
  { head: { title: 'ID', minWidth: 'distinct' }, cell: ({ id }) => id },
  { head: { title: 'STATUS' }, cell: ({ status }) => status },
  { head: { title: 'AGENT', minWidth: 6 }, cell: ({ agent, memory }) => memory?.by ?? agent },
  { head: { title: 'TOOL', minWidth: 8 }, cell: ({ action }) => action },
  { head: { title: 'SCOPE', minWidth: 6 }, cell: ({ memory }) => memory?.scope ?? '' },
  {
    head: { title: 'RISK' },
    cell: ({ risk }) => ({ text: risk, style: risk === 'high' ? 'red' : 'dim' }),
  },
  {
    head: { title: 'MARKS' },
    cell: ({ labels }) => (labels.includes('outside') ? { text: 'outside', style: 'red' } : ''),
  },
  { head: { title: 'CALLS' }, cell: ({ calls }) => (calls === 1 ? '' : `${calls}×`) },
  {
    head: { title: 'EXPIRES' },
    cell: (one, nowMs) =>
      formatRelative(one.status === 'pending' ? one.expires_at : (one.decided_at ?? ''), nowMs),
  },
  {
    head: { title: 'SIZE + DIFF' },
    cell: ({ arguments_bytes, diff_bytes }) =>
      `${formatSize(arguments_bytes)}${diff_bytes === null ? '' : ` + ${formatSize(diff_bytes)}`}`,
  },
  { head: { title: 'SUMMARY', minWidth: 20 }, cell: ({ summary }) => escapeHidden(summary) },
];

/** Omits columns that are empty in every row, to fit the terminal. */
function renderList(list: readonly ApprovalSummary[], { columns, paint }: Out): string[] {
  const nowMs = Date.now();
  const hasContent = ({ head, cell: of }: ListColumn): boolean =>
    head.title === 'STATUS'
      ? list.some(({ status }) => status !== 'pending')
      : list.some((one) => of(one, nowMs) !== '');
  const isWide = columns >= 120;
  const shown = COLUMNS.filter(
    (one) => (one.head.title !== 'SUMMARY' || isWide) && hasContent(one),
  );
  const rows = list.map((one) => shown.map(({ cell: of }) => of(one, nowMs)));
  const heads = shown.map(({ head }) => head);
  return renderTable(heads, rows, { columns, paint });
}

async function readApproval(runtime: RuntimeClient, id: string): Promise<ApprovalView> {
  return (await runtime.call('approvald', 'getApproval', { params: { id } })).approval;
}

/** An approval can be shown without its task, which agentd keeps. */
const readTask = async (runtime: RuntimeClient, { task_id: id }: ApprovalView) =>
  id === null
    ? undefined
    : runtime.call('agentd', 'getTask', { params: { id } }).then(
        ({ task }) => task,
        () => undefined,
      );

async function show(runtime: RuntimeClient, id: string, out: Out): Promise<void> {
  const approval = await readApproval(runtime, id);
  const task = out.json ? undefined : await readTask(runtime, approval);
  out.print({ approval }, () => renderApproval(approval, task, { out, nowMs: Date.now() }));
}

/** Prints each pending approval in full as it arrives, and later its outcome. */
async function follow(runtime: RuntimeClient, out: Out): Promise<void> {
  const { signal, done } = onInterrupt();
  const from = readNewestSeq(runtime).then(
    (after) => ({ after, filter: { event: 'approval' } }),
    () => undefined,
  );
  const wakeups = subscribeWakeups(runtime, { from, outer: signal });
  const waiting = new Map<string, string>();
  out.info('Waiting for approvals (Ctrl-C stops watching, nothing else).');
  try {
    await from; // Events after the first read wake the loop.
    while (!signal.aborted) {
      wakeups.reset();
      const query = { status: 'pending', limit: 1000 } as const;
      const { approvals: now } = await runtime.call('approvald', 'listApprovals', { query });
      const open = new Set<string>(now.map(({ id }) => id));
      for (const id of waiting.keys()) {
        if (open.has(id)) continue;
        waiting.delete(id);
        printEnd(await readApproval(runtime, id), out);
      }
      for (const { id, calls, approved_by, escalated_to } of now.toReversed()) {
        const state = `${calls} ${approved_by.join(' ')} ${escalated_to}`;
        if (waiting.get(id) === state) continue;
        waiting.set(id, state);
        await show(runtime, id, out);
        if (!out.json) out.writeLine();
      }
      await wakeups.wait(
        wakeups.isConnected() ? POLL_INTERVAL_MS.connected : POLL_INTERVAL_MS.disconnected,
      );
    }
  } finally {
    wakeups.stop();
    done();
  }
}

function printEnd(approval: ApprovalView, out: Out): void {
  if (out.json) out.printJson({ approval });
  else
    out.writeLine(
      `${approval.id}  ${approval.status} by ${approval.decided_by ?? 'the runtime'}\n`,
    );
}

export async function approve({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const seen = await readApproval(runtime(), id);
  const nonce = args.text('seen') ?? reviewedNonce(seen);
  const scope = args.text('for') as 'once' | 'task' | 'repo' | 'class' | undefined;
  const expires_in_s = args.number('expires');
  const edit = args.text('edit');
  const edited = edit === undefined ? undefined : await readEdit(runtime(), seen, edit);
  const body = {
    nonce,
    ...(scope === undefined ? {} : { for: scope }),
    ...(expires_in_s === undefined ? {} : { expires_in_s }),
    ...(edited === undefined ? {} : { edited_arguments: edited }),
  };
  const answer = await runtime().call('approvald', 'approve', { params: { id }, body });
  // Repeating the same decision is no error.
  out.print(answer, () =>
    seen.status === 'approved'
      ? [`${id} was already approved by ${seen.decided_by ?? 'a person'}.`]
      : renderApproved(answer.approval),
  );
}

/** A version that another person edited must be reviewed first: its screen shows the token. */
function reviewedNonce(seen: ApprovalView): string {
  const isUnseen = seen.arguments_asked !== null || (seen.memory?.version ?? 1) > 1;
  if (!isUnseen || seen.status !== 'pending') return seen.nonce;
  throw fault('bad_usage', `${seen.id} was changed by a person since the agent asked`, {
    hint: `Review it with agentctl approvals ${seen.id}, then add the --seen TOKEN it shows.`,
  });
}

/** Rejecting, asking and escalating are safe on any version. */
const readNonce = async (runtime: RuntimeClient, id: string): Promise<string> =>
  (await readApproval(runtime, id)).nonce;

/** People edit the text of a proposed memory, and the arguments of a call. */
async function readEdit(
  runtime: RuntimeClient,
  seen: ApprovalView,
  file: string,
): Promise<Record<string, unknown>> {
  if (seen.memory !== null) return { text: readInput(file).replace(/\n$/, '') };
  const edited = readArguments(file);
  await assertValidArguments(runtime, seen, edited);
  return edited;
}

/** toold checks again on use, but by then the approval would be spent. */
async function assertValidArguments(
  runtime: RuntimeClient,
  { action }: ApprovalView,
  edited: Record<string, unknown>,
): Promise<void> {
  const [name = action] = action.split(' ');
  const request = { params: { name }, body: { arguments: edited } };
  const { problem } = await runtime.call('toold', 'checkArguments', request);
  if (problem === null) return;
  throw fault('bad_usage', `invalid arguments for ${name}: ${problem}`, {
    hint: `Nothing was approved. See the schema: agentctl tool show ${name}`,
  });
}

function readArguments(file: string): Record<string, unknown> {
  let value: unknown;
  try {
    value = JSON.parse(readInput(file));
  } catch (cause) {
    if (!(cause instanceof SyntaxError)) throw cause;
    throw fault('bad_usage', `${file} is not JSON: ${cause.message}`, { cause });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw fault('bad_usage', `${file} is not a JSON object`, {
      hint: 'Write the arguments as agentctl approvals ID --json shows them.',
    });
  return value as Record<string, unknown>;
}

function renderApproved(approval: ApprovalView): string[] {
  const { memory } = approval;
  const what =
    memory === null ? `${approval.agent}: ${approval.action}` : `memory ${memory.memory_id}`;
  if (approval.status === 'pending') {
    const remaining = approval.approvers_needed - approval.approved_by.length;
    return [
      `Your approval of ${what} is recorded; ${pluralize(remaining, 'more approval is', 'more approvals are')} needed.`,
    ];
  }
  if (memory !== null) return [`Approved ${what}; it is recalled in ${memory.scope} from now on.`];
  const permit =
    approval.permit_id === null
      ? []
      : [`Permit created; to revoke it: agentctl permit revoke ${approval.permit_id}`];
  const calls = approval.calls === 1 ? '' : ` (${pluralize(approval.calls, 'call')})`;
  return [`Approved ${what}${calls}; ${approval.task_id} resumes.`, ...permit];
}

export async function reject({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const reason = args.text('reason');
  const nonce = await readNonce(runtime(), id);
  const body = { nonce, ...(reason === undefined ? {} : { reason }) };
  const answer = await runtime().call('approvald', 'reject', { params: { id }, body });
  const { agent, memory } = answer.approval;
  out.print(answer, () => [
    memory === null ? `Rejected; ${agent} is notified.` : 'Rejected; nobody recalls it.',
  ]);
}

export async function ask({ args, out, runtime }: Session): Promise<void> {
  const [id, text] = args.positionals as [string, string];
  const question = readTextArgument(text).trim();
  const body = { nonce: await readNonce(runtime(), id), question };
  const answer = await runtime().call('approvald', 'requestInfo', { params: { id }, body });
  out.print(answer, () => [
    `Asked; ${answer.approval.agent} gets the question and may request approval again.`,
  ]);
}

export async function escalate({ args, out, runtime }: Session): Promise<void> {
  const id = args.positionals[0]!;
  const to = args.text('to');
  const reason = args.text('reason');
  const body = {
    nonce: await readNonce(runtime(), id),
    ...(to === undefined ? {} : { to: to.includes(':') ? to : `person:${to}` }),
    ...(reason === undefined ? {} : { reason }),
  };
  const answer = await runtime().call('approvald', 'escalate', { params: { id }, body });
  out.print(answer, () => [
    `Escalated to ${to ?? 'another approver'}; it stays pending.`,
    'They decide with --as NAME and their own key: agentctl person list',
  ]);
}
