// Describes what was removed from a person's directory that a task changes in place, and how to
// restore it.
import { join } from 'node:path';
import { quoteWord } from '../../../platform/quote-word.ts';
import type { TaskView } from '../../../wire/agentd.ts';
import type { DisarmedFile } from '../../../wire/sandboxd/live.ts';
import type { RuntimeClient } from '../runtime.ts';
import { pluralize } from './amounts.ts';
import { toOneLine } from './plain.ts';

const SHOWN_MAX = 20;

/** None for tasks that do not work in place, and if it cannot be read now. */
export async function readDisarmed(
  runtime: RuntimeClient,
  task: TaskView,
): Promise<DisarmedFile[]> {
  if (task.workspace === null || task.workspace_mode === 'layer') return [];
  const query = { root_task_id: task.root_task_id, limit: 1_000 };
  const found = await runtime.call('sandboxd', 'listDisarmed', { query }).catch(() => undefined);
  return found?.disarmed ?? [];
}

function formatRestore(task: TaskView, { path, mode, link_target, kept_at }: DisarmedFile): string {
  const to = quoteWord(join(task.workspace!, path));
  if (link_target !== null) return `ln -s ${quoteWord(link_target)} ${to}`;
  if (kept_at === null) return 'not kept: it was too large, or no file';
  const bits = (mode & 0o777).toString(8);
  return `install -m ${bits} ${quoteWord(kept_at)} ${to}`;
}

export function describeDisarmed(task: TaskView, files: readonly DisarmedFile[]): string[] {
  if (files.length === 0) return [];
  const head = `Removed from ${task.workspace}, because git would run or follow it (${pluralize(files.length, 'file')}):`;
  const lines = files
    .slice(0, SHOWN_MAX)
    .flatMap((file) => [
      `  ${toOneLine(file.path)}  ${file.kind}, by ${file.agent}`,
      `    restore: ${formatRestore(task, file)}`,
    ]);
  const more = files.length - SHOWN_MAX;
  return [head, ...lines, ...(more > 0 ? [`  and ${more} more: --json`] : [])];
}
