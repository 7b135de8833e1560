// What needs a person: agentctl approvals, approve, reject, ask, escalate.
import type { ApprovalSummary, ApprovalView } from '../../../wire/approvald.ts';
import { fault } from '../../../wire/errors.ts';
import type { Session } from '../command.ts';
import { newestSeq } from '../follow.ts';
import { readInput, wordOrStdin } from '../input.ts';
import { onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { relative, size, some } from '../show/amounts.ts';
import { approvalLines } from '../show/approval.ts';
import { exact } from '../show/exact.ts';
import { type Cell, renderTable, type TableColumn } from '../show/table.ts';
import { subscribeWakeups } from '../wakeups.ts';

/** What comes rings; this is for what no event tells, and for when the log does not answer. */
const LOOK_EVERY_MS = { heard: 15_000, unheard: 1_000 };

export async function approvals(session: Session): Promise<void> {
  const { args, out, runtime } = session;
  const id = args.words[0];
  if (id !== undefined) return show(runtime(), id, out);
  if (args.flag('follow')) return follow(runtime(), out);
  const status = args.flag('all') ? {} : { status: 'pending' as const };
  const query = { ...status, limit: 1000 };
  const answer = await runtime().ask('approvald', 'listApprovals', { query });
  out.print(answer, () => {
    if (answer.approvals.length > 0) return [...listLines(answer.approvals, out), ...howTo(answer)];
    return [args.flag('all') ? 'Nothing has needed a person.' : 'Nothing waits for a person.'];
  });
}

const howTo = ({ pending }: { pending: number }): string[] =>
  pending === 0 ? [] : ['', 'See one in full before you answer: agentctl approvals ID'];

type ListColumn = { head: TableColumn; of(one: ApprovalSummary, nowMs: number): Cell };
const LIST: readonly ListColumn[] = [
  { head: { title: 'ID' }, of: ({ id }) => id },
  { head: { title: 'STATUS' }, of: ({ status }) => status },
  { head: { title: 'AGENT', least: 6 }, of: ({ agent }) => agent },
  { head: { title: 'TOOL', least: 8 }, of: ({ action }) => action },
  {
    head: { title: 'RISK' },
    of: ({ risk }) => ({ text: risk, style: risk === 'high' ? 'red' : 'dim' }),
  },
  {
    head: { title: 'MARKS' },
    of: ({ labels }) => (labels.includes('outside') ? { text: 'outside', style: 'red' } : ''),
  },
  { head: { title: 'CALLS' }, of: ({ calls }) => (calls === 1 ? '' : `${calls}×`) },
  {
    head: { title: 'EXPIRES' },
    of: (one, nowMs) =>
      relative(one.status === 'pending' ? one.expires_at : (one.decided_at ?? ''), nowMs),
  },
  {
    head: { title: 'SIZE + DIFF' },
    of: ({ arguments_bytes, diff_bytes }) =>
      `${size(arguments_bytes)}${diff_bytes === null ? '' : ` + ${size(diff_bytes)}`}`,
  },
  { head: { title: 'SUMMARY', least: 20 }, of: ({ summary }) => exact(summary) },
];

/** A column that says nothing of any of them is left out: there are too many for a terminal. */
function listLines(list: readonly ApprovalSummary[], { columns, paint }: Out): string[] {
  const nowMs = Date.now();
  const isTold = ({ head, of }: ListColumn): boolean =>
    head.title === 'STATUS'
      ? list.some(({ status }) => status !== 'pending')
      : list.some((one) => of(one, nowMs) !== '');
  const isWide = columns >= 120;
  const told = LIST.filter((one) => (one.head.title !== 'SUMMARY' || isWide) && isTold(one));
  const rows = list.map((one) => told.map(({ of }) => of(one, nowMs)));
  const heads = told.map(({ head }) => head);
  return renderTable(heads, rows, { columns, paint });
}

async function view(runtime: RuntimeClient, id: string): Promise<ApprovalView> {
  return (await runtime.ask('approvald', 'getApproval', { params: { id } })).approval;
}

/** The goal is agentd's; an approval can be looked at without it. */
const goalOf = (runtime: RuntimeClient, { task_id }: ApprovalView) =>
  runtime.ask('agentd', 'getTask', { params: { id: task_id } }).then(
    ({ task }) => task,
    () => undefined,
  );

async function show(runtime: RuntimeClient, id: string, out: Out): Promise<void> {
  const approval = await view(runtime, id);
  const task = out.json ? undefined : await goalOf(runtime, approval);
  out.print({ approval }, () => approvalLines(approval, task, { out, nowMs: Date.now() }));
}

/** Each one that waits, in full, as it comes; and what became of it. */
async function follow(runtime: RuntimeClient, out: Out): Promise<void> {
  const { signal, done } = onInterrupt();
  const from = newestSeq(runtime).then(
    (after) => ({ after, filter: { event: 'approval' } }),
    () => undefined,
  );
  const bell = subscribeWakeups(runtime, { from, outer: signal });
  const waiting = new Map<string, string>();
  out.note('Waiting for approvals that need a person (Ctrl-C ends this, nothing else).');
  try {
    await from; // Whatever comes after the first look rings.
    while (!signal.aborted) {
      bell.reset();
      const query = { status: 'pending', limit: 1000 } as const;
      const { approvals: now } = await runtime.ask('approvald', 'listApprovals', { query });
      const open = new Set<string>(now.map(({ id }) => id));
      for (const id of waiting.keys()) {
        if (open.has(id)) continue;
        waiting.delete(id);
        tellEnd(await view(runtime, id), out);
      }
      for (const { id, calls, approved_by, escalated_to } of now.toReversed()) {
        const state = `${calls} ${approved_by.join(' ')} ${escalated_to}`;
        if (waiting.get(id) === state) continue;
        waiting.set(id, state);
        await show(runtime, id, out);
        if (!out.json) out.line();
      }
      await bell.wait(bell.isConnected() ? LOOK_EVERY_MS.heard : LOOK_EVERY_MS.unheard);
    }
  } finally {
    bell.stop();
    done();
  }
}

function tellEnd(approval: ApprovalView, out: Out): void {
  if (out.json) out.document({ approval });
  else out.line(`${approval.id}  ${approval.status} by ${approval.decided_by ?? 'nobody'}\n`);
}

export async function approve({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  const seen = await view(runtime(), id);
  const nonce = args.text('seen') ?? nonceOf(seen);
  const reach = args.text('for') as 'once' | 'task' | 'repo' | 'class' | undefined;
  const expires_in_s = args.number('expires');
  const edit = args.text('edit');
  const edited = edit === undefined ? undefined : readArguments(edit);
  if (edited !== undefined) await assertTaken(runtime(), seen, edited);
  const body = {
    nonce,
    ...(reach === undefined ? {} : { for: reach }),
    ...(expires_in_s === undefined ? {} : { expires_in_s }),
    ...(edited === undefined ? {} : { edited_arguments: edited }),
  };
  const answer = await runtime().ask('approvald', 'approve', { params: { id }, body });
  // The same answer once more is no error, and changes nothing.
  out.print(answer, () =>
    seen.status === 'approved'
      ? [`${id} was approved already, by ${seen.decided_by ?? 'a person'}.`]
      : approvedLines(answer.approval),
  );
}

/** What somebody else has changed must have been looked at: the word for it is on its screen. */
function nonceOf(seen: ApprovalView): string {
  if (seen.arguments_asked === null || seen.status !== 'pending') return seen.nonce;
  throw fault('bad_usage', `${seen.id} was changed by a person since the agent asked`, {
    hint: `Look at it: agentctl approvals ${seen.id}, then add the --seen that it shows.`,
  });
}

/** A no, a question and passing it on do no harm to what it has become meanwhile. */
const nonceNow = async (runtime: RuntimeClient, id: string): Promise<string> =>
  (await view(runtime, id)).nonce;

/** toold looks again when they are used; by then the person's answer is given and spent. */
async function assertTaken(
  runtime: RuntimeClient,
  { action }: ApprovalView,
  edited: Record<string, unknown>,
): Promise<void> {
  const [name = action] = action.split(' ');
  const asked = { params: { name }, body: { arguments: edited } };
  const { problem } = await runtime.ask('toold', 'checkArguments', asked);
  if (problem === null) return;
  throw fault('bad_usage', `${name} does not take these arguments: ${problem}`, {
    hint: `agentctl tool show ${name} says what it takes. Nothing was approved.`,
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
    throw fault('bad_usage', `${file} does not hold a JSON object`, {
      hint: 'Write the arguments as agentctl approvals ID --json shows them.',
    });
  return value as Record<string, unknown>;
}

function approvedLines(approval: ApprovalView): string[] {
  const what = `${approval.agent}: ${approval.action}`;
  if (approval.status === 'pending') {
    const left = approval.approvers_needed - approval.approved_by.length;
    return [
      `Your approval of ${what} counts; ${some(left, 'more person', 'more people')} must approve it.`,
    ];
  }
  const permit =
    approval.permit_id === null
      ? []
      : [`A permit was given; take it back with: agentctl permit revoke ${approval.permit_id}`];
  const calls = approval.calls === 1 ? '' : ` (${some(approval.calls, 'call')})`;
  return [`Approved ${what}${calls}; ${approval.task_id} goes on.`, ...permit];
}

export async function reject({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  const reason = args.text('reason');
  const nonce = await nonceNow(runtime(), id);
  const body = { nonce, ...(reason === undefined ? {} : { reason }) };
  const answer = await runtime().ask('approvald', 'reject', { params: { id }, body });
  out.print(answer, () => [`Rejected; ${answer.approval.agent} is told so.`]);
}

export async function ask({ args, out, runtime }: Session): Promise<void> {
  const [id, text] = args.words as [string, string];
  const question = wordOrStdin(text).trim();
  const body = { nonce: await nonceNow(runtime(), id), question };
  const answer = await runtime().ask('approvald', 'requestInfo', { params: { id }, body });
  out.print(answer, () => [
    `Asked; ${answer.approval.agent} gets the question and may ask for the approval again.`,
  ]);
}

export async function escalate({ args, out, runtime }: Session): Promise<void> {
  const id = args.words[0]!;
  const to = args.text('to');
  const reason = args.text('reason');
  const body = {
    nonce: await nonceNow(runtime(), id),
    ...(to === undefined ? {} : { to: to.includes(':') ? to : `person:${to}` }),
    ...(reason === undefined ? {} : { reason }),
  };
  const answer = await runtime().ask('approvald', 'escalate', { params: { id }, body });
  out.print(answer, () => [
    `Passed on to ${to ?? 'whoever else may decide it'}; it goes on waiting.`,
    'They answer with --as NAME and a key of their own: agentctl person list',
  ]);
}
