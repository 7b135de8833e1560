// How a task ended, for people and for scripts: the result, the plain word when it was a
// rehearsal, and the exit status.
import type { TaskView } from '../../../wire/agentd.ts';
import { FAULTS } from '../../../wire/errors.ts';
import type { Paint } from '../out.ts';
import { replaceControls } from '../show/plain.ts';

/** Waits for a person, and the caller does not want to. */
export const EXIT_WAITING = 4;

export function exitStatusFor(task: TaskView): number {
  if (task.status === 'completed' || task.ended_at === null) return 0;
  const code = task.error?.code;
  const exit = code !== undefined && code in FAULTS ? FAULTS[code as keyof typeof FAULTS].exit : 1;
  // Only these say something of the task; the rest speak of programs.
  return exit === 3 || exit === 7 ? exit : 1;
}

export function renderOutcome(task: TaskView, paint: Paint): string[] {
  const lines: string[] = [];
  if (task.status === 'completed') {
    lines.push(replaceControls(task.result ?? '(no result)'));
    if (task.result_ref !== null)
      lines.push(`The whole result: agentctl artifact get ${task.result_ref}`);
  } else {
    const why = task.error?.message ?? task.reason ?? 'no reason was recorded';
    lines.push(paint('red', `${task.status}: ${replaceControls(why)}`));
    if (task.error?.hint) lines.push(replaceControls(task.error.hint));
    if (task.result !== null && task.result !== why) lines.push(replaceControls(task.result));
    lines.push(`What happened: agentctl task explain ${task.id}`);
  }
  return [...lines, ...renderRehearsalNotice(task, paint)];
}

export function renderRehearsalNotice(task: TaskView, paint: Paint): string[] {
  if (!task.rehearsal) return [];
  return [
    '',
    paint('yellow', 'This was a rehearsal: written lines answered, not a real model.'),
    'To add a model: agentctl model add --help',
  ];
}
