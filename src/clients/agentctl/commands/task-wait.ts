// Waits for a task: reports progress as it happens, then prints the result.
import type { TaskView, TreeNode } from '../../../wire/agentd.ts';
import { FAULTS } from '../../../wire/errors.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import type { Session } from '../command.ts';
import { EXIT_INTERRUPTED, onInterrupt } from '../interrupt.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { formatSpan } from '../show/amounts.ts';
import { describeWaitingChanges } from '../show/waiting-changes.ts';
import { pad } from '../show/width.ts';
import { followTree } from '../timeline/follow-tree.ts';
import { makeModelTrouble, SEE_MODELS } from '../timeline/model-trouble.ts';
import { renderOutcome } from '../timeline/outcome.ts';
import {
  diffTrees,
  findOpenQuestion,
  formatAnswerCommand,
  type TaskChange,
} from '../timeline/progress.ts';
import { makeQueueReasons } from '../timeline/queue-reason.ts';

/** The task waits for a person and --no-wait is set. */
const EXIT_WAITING = 4;

export function exitStatusFor(task: TaskView): number {
  if (task.status === 'completed' || task.ended_at === null) return 0;
  const code = task.error?.code;
  const exit = code !== undefined && code in FAULTS ? FAULTS[code as keyof typeof FAULTS].exit : 1;
  // Only 3 (denied) and 7 (limit) describe a task; the other statuses describe programs.
  return exit === 3 || exit === 7 ? exit : 1;
}

function renderChange(change: TaskChange, start: string, out: Out): string[] {
  const sinceMs = Math.max(0, Date.parse(change.at) - Date.parse(start));
  const time = pad(formatSpan(sinceMs), 9, 'left');
  const style = ['question', 'trouble'].includes(change.kind) ? 'yellow' : undefined;
  return change.text.split('\n').map((line, i) => {
    const head = out.paint('dim', i === 0 ? time : ' '.repeat(9));
    return `${head}  ${style === undefined ? line : out.paint(style, line)}`;
  });
}

/** Reports changes, and conditions that block the task without changing it. */
export function makeReporter(
  start: string,
  { out, runtime }: { out: Out; runtime: RuntimeClient },
  writeLine: (line: string) => void,
) {
  const trouble = makeModelTrouble();
  const queueReasons = makeQueueReasons(runtime, Date.now);
  let before: TreeNode | undefined;
  const report = (change: TaskChange): void => renderChange(change, start, out).forEach(writeLine);
  return {
    onEvent(event: AuditEvent): void {
      const text = trouble.onEvent(event);
      if (text === undefined) return;
      const about = { task_id: event.task_id ?? '', agent: event.agent ?? null };
      report({ ...about, kind: 'trouble', text: `${text}\n  ${SEE_MODELS}`, at: event.ts });
    },
    async show(tree: TreeNode): Promise<void> {
      for (const change of diffTrees(before, tree)) report(trouble.relabel(change));
      before = tree;
      for (const change of await queueReasons.check(tree)) report(change);
    },
  };
}

/** With --json prints only one document, at the end. */
export async function waitForTask(session: Session, task: TaskView): Promise<number> {
  const { args, out, runtime } = session;
  const { signal, done } = onInterrupt();
  let last: TreeNode | undefined;
  const parts = { out, runtime: runtime() };
  const reporter = makeReporter(task.created_at, parts, (line) => out.info(line));
  try {
    for await (const tree of followTree(runtime(), task.id, signal, reporter.onEvent)) {
      if (!out.json) await reporter.show(tree);
      last = tree;
      if (args.flag('no-wait') && findOpenQuestion(tree) !== undefined) break;
    }
  } finally {
    done();
  }
  const end = last?.task ?? task;
  const status = printEnd({ task: end, tree: last }, signal.aborted, out);
  if (!out.json)
    for (const line of await describeWaitingChanges(runtime(), end)) out.writeLine(line);
  return status;
}

/** `tree` is the last snapshot, if there was one. */
export function printEnd(
  { task, tree }: { task: TaskView; tree: TreeNode | undefined },
  isInterrupted: boolean,
  out: Out,
): number {
  if (task.ended_at !== null) {
    out.print({ task }, () => renderOutcome(task, out.paint));
    return exitStatusFor(task);
  }
  const open = tree === undefined ? undefined : findOpenQuestion(tree);
  const how = open === undefined ? 'agentctl status' : formatAnswerCommand(open);
  out.print({ task }, () => [
    isInterrupted
      ? `${task.id} continues in the background: ${task.status}`
      : `${task.id} waits for a person; see: ${how}`,
    `Follow it: agentctl task watch ${task.id}`,
  ]);
  return isInterrupted ? EXIT_INTERRUPTED : EXIT_WAITING;
}
