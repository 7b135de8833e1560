// Describes the changes between two snapshots of a task tree, one sentence each.
import type { TaskView, TreeNode, WaitView } from '../../../wire/agentd.ts';
import { formatSpan } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';

/** `working`: started or restarted; not resumed after a wait. */
type ChangeKind =
  | 'created'
  | 'working'
  | 'status'
  | 'question'
  | 'answered'
  | 'crashed'
  | 'trouble'
  | 'ended';
export type TaskChange = {
  task_id: string;
  agent: string | null;
  kind: ChangeKind;
  text: string;
  /** The time of the change, which may be long before the first snapshot. */
  at: string;
};

const quote = (text: string, columns: number): string => `"${truncate(toOneLine(text), columns)}"`;
export const formatAgent = (task: TaskView): string => task.assigned_to ?? 'unassigned';

function flatten(tree: TreeNode | undefined): Map<string, TreeNode> {
  const found = new Map<string, TreeNode>();
  const walk = (node: TreeNode): void => {
    found.set(node.task.id, node);
    for (const child of node.children) walk(child);
  };
  if (tree !== undefined) walk(tree);
  return found;
}

export function diffTrees(before: TreeNode | undefined, now: TreeNode): TaskChange[] {
  const changes = diffNode(flatten(before), now, undefined);
  return changes.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}

/** Order within one moment: the task starts, its subtasks change, it resumes or ends. */
function diffNode(
  old: ReadonlyMap<string, TreeNode>,
  now: TreeNode,
  parent: TreeNode | undefined,
): TaskChange[] {
  const { task } = now;
  const before = old.get(task.id);
  const about = { task_id: task.id, agent: task.assigned_to };
  const started: TaskChange[] = [];
  if (before === undefined && parent !== undefined) {
    const text = `${formatAgent(parent.task)} → ${formatAgent(task)}: ${quote(task.goal, 60)}`;
    started.push({ ...about, kind: 'created', text, at: task.created_at });
  }
  if (countCrashes(now) > (before === undefined ? 0 : countCrashes(before))) {
    const text = `${formatAgent(task)}: the run crashed and is being resumed`;
    started.push({ ...about, kind: 'crashed', text, at: task.ended_at ?? task.updated_at });
  }
  const status = diffStatus(before, now);
  const isBeginning = before === undefined || before.task.status !== 'waiting';
  const startsNow = status !== undefined && status.kind !== 'ended' && isBeginning ? [status] : [];
  const endsNow = status !== undefined && startsNow.length === 0 ? [status] : [];
  const parts = now.children.flatMap((child) => diffNode(old, child, now));
  return [...started, ...startsNow, ...diffWaits(before, now), ...parts, ...endsNow];
}

function diffStatus(before: TreeNode | undefined, now: TreeNode): TaskChange | undefined {
  const { task } = now;
  if (before?.task.status === task.status) return undefined;
  const text = describeStatus(task, before?.task.status);
  const isStart = task.status === 'working' && before?.task.status !== 'waiting';
  const kind = task.ended_at !== null ? 'ended' : isStart ? 'working' : 'status';
  const about = { task_id: task.id, agent: task.assigned_to };
  // In the first snapshot updated_at may be later than the start.
  const startedAt = before === undefined ? now.runs[0]?.created_at : undefined;
  const at = task.ended_at ?? startedAt ?? task.updated_at;
  return text === undefined ? undefined : { ...about, kind, text, at };
}

const countCrashes = ({ runs }: TreeNode): number =>
  runs.reduce((sum, run) => sum + run.crashes, 0);

function diffWaits(before: TreeNode | undefined, { task, waits }: TreeNode): TaskChange[] {
  const about = { task_id: task.id, agent: task.assigned_to };
  return waits.flatMap((wait): TaskChange[] => {
    if (wait.kind !== 'question' && wait.kind !== 'approval') return [];
    const old = before?.waits.find(({ id }) => id === wait.id);
    const asks =
      wait.kind === 'approval'
        ? `${formatAgent(task)} needs approval`
        : `${formatAgent(task)} asks: ${quote(wait.question ?? '', 200)}`;
    const how = `  ${wait.kind === 'approval' ? 'review and decide' : 'answer it'}: ${formatAnswerCommand(wait)}`;
    const opened: TaskChange[] =
      old === undefined && wait.status === 'open'
        ? [{ ...about, kind: 'question', text: `${asks}\n${how}`, at: wait.opened_at }]
        : [];
    const wasOpen = old?.status === 'open';
    const who = wait.answered_by ?? 'the runtime';
    const at = wait.ended_at ?? wait.opened_at;
    return wasOpen && wait.status === 'ended'
      ? [{ ...about, kind: 'answered', text: `${who}: ${describeEnd(wait)}`, at }]
      : opened;
  });
}

/** The command that ends this wait. For an approval, `question` holds its id. */
export const formatAnswerCommand = ({ kind, id, question }: WaitView): string =>
  kind === 'approval' ? `agentctl approvals ${question}` : `agentctl answer ${id} "…"`;

const DECISION_TEXTS: Readonly<Record<string, string>> = {
  approved: 'approved',
  rejected: 'rejected',
  info: 'asked a question back',
};

const describeEnd = ({ answer, outcome }: WaitView): string =>
  DECISION_TEXTS[String(answer?.decision)] ?? outcome ?? 'ended';

/** Returns undefined for statuses that other lines show. */
function describeStatus(task: TaskView, before: string | undefined): string | undefined {
  const name = formatAgent(task);
  const took = () =>
    formatSpan(Date.parse(task.ended_at ?? task.updated_at) - Date.parse(task.created_at));
  const why = task.error?.message ?? task.reason;
  switch (task.status) {
    case 'working':
      return before === 'waiting' ? `${name}: resumed` : `${name}: working`;
    case 'blocked':
      return `${name}: blocked${why ? ` (${toOneLine(why)})` : ''}`;
    case 'completed':
      return `${name}: completed in ${took()}`;
    case 'failed':
    case 'canceled':
    case 'rejected':
      return `${name}: ${task.status} after ${took()}${why ? ` (${truncate(toOneLine(why), 200)})` : ''}`;
    default:
      return undefined;
  }
}

/** Finds an open wait in the tree that a person must end. */
export function findOpenQuestion(tree: TreeNode) {
  for (const { waits } of flatten(tree).values()) {
    const open = waits.find(
      ({ status, kind }) =>
        status === 'open' && ['question', 'approval', 'input', 'auth'].includes(kind),
    );
    if (open !== undefined) return open;
  }
  return undefined;
}
