// Renders how a task ended, with a notice for rehearsals.
import type { TaskView } from '../../../wire/agentd.ts';
import type { Paint } from '../out.ts';
import { replaceControls } from '../show/plain.ts';

export function renderOutcome(task: TaskView, paint: Paint): string[] {
  const lines: string[] = [];
  if (task.status === 'completed') {
    lines.push(replaceControls(task.result ?? '(no result)'));
    if (task.result_ref !== null)
      lines.push(`Full result: agentctl artifact get ${task.result_ref}`);
  } else {
    const why = task.error?.message ?? task.reason ?? 'no reason recorded';
    lines.push(paint('red', `${task.status}: ${replaceControls(why)}`));
    if (task.error?.hint) lines.push(replaceControls(task.error.hint));
    if (task.result !== null && task.result !== why) lines.push(replaceControls(task.result));
    lines.push(`See what happened: agentctl task explain ${task.id}`);
  }
  return [...lines, ...renderRehearsalNotice(task, paint)];
}

export function renderRehearsalNotice(task: TaskView, paint: Paint): string[] {
  if (!task.rehearsal) return [];
  return [
    '',
    paint('yellow', 'This was a rehearsal: a script responded, not a real model.'),
    'To add a model: agentctl model add --help',
  ];
}
