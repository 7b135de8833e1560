// agentctl task graph: prints subtasks and dependencies as a tree, or for Graphviz.
import type { TaskView, TreeNode } from '../../../wire/agentd.ts';
import type { Session } from '../command.ts';
import type { Out } from '../out.ts';
import type { RuntimeClient } from '../runtime.ts';
import { toOneLine } from '../show/plain.ts';
import { truncate } from '../show/width.ts';

export async function graph({ args, out, runtime }: Session): Promise<void> {
  const tasks = await readTasks(runtime(), args.positionals[0]);
  const edges = listEdges(tasks);
  if (out.json) return out.printJson({ graph: { tasks, edges } });
  const lines = args.flag('dot') ? renderDot(tasks, edges) : renderForest(tasks, out);
  for (const line of lines) out.writeLine(line);
}

async function readTasks(runtime: RuntimeClient, id: string | undefined): Promise<TaskView[]> {
  if (id === undefined) {
    const { tasks } = await runtime.call('agentd', 'listTasks', { query: { limit: 200 } });
    return tasks.toReversed();
  }
  const { tree } = await runtime.call('agentd', 'getTree', { params: { id } });
  const tasks: TaskView[] = [];
  const walk = ({ task, children }: TreeNode): void => {
    tasks.push(task);
    children.forEach(walk);
  };
  walk(tree);
  return [...(await readPrerequisites(runtime, tasks)), ...tasks];
}

/** Reads dependencies outside the tree. */
async function readPrerequisites(
  runtime: RuntimeClient,
  tasks: readonly TaskView[],
): Promise<TaskView[]> {
  const known = new Set<string>(tasks.map(({ id }) => id));
  const ids = new Set(tasks.flatMap(({ after }) => after).filter((id) => !known.has(id)));
  const found: TaskView[] = [];
  for (const id of ids)
    found.push((await runtime.call('agentd', 'getTask', { params: { id } })).task);
  return found;
}

type Edge = { from: string; to: string; kind: 'part' | 'before' | 'retry' };

export function listEdges(tasks: readonly TaskView[]): Edge[] {
  const known = new Set<string>(tasks.map(({ id }) => id));
  const edges = tasks.flatMap((task): Edge[] => [
    ...(task.parent_task_id === null
      ? []
      : [{ from: task.parent_task_id, to: task.id, kind: 'part' as const }]),
    ...task.after.map((id) => ({ from: id, to: task.id, kind: 'before' as const })),
    ...(task.retry_of === null
      ? []
      : [{ from: task.retry_of, to: task.id, kind: 'retry' as const }]),
  ]);
  return edges.filter(({ from }) => known.has(from));
}

const EDGE_STYLES = { part: '', before: ' [style=dashed,label="then"]', retry: ' [label="retry"]' };

export function renderDot(tasks: readonly TaskView[], edges: readonly Edge[]): string[] {
  const nodes = tasks.map(({ id, assigned_to, status, goal }) => {
    const label = `${assigned_to ?? 'unassigned'}: ${status}\n${truncate(toOneLine(goal), 40)}`;
    return `  ${id} [label=${JSON.stringify(label)}];`;
  });
  const arrows = edges.map(({ from, to, kind }) => `  ${from} -> ${to}${EDGE_STYLES[kind]};`);
  return ['digraph tasks {', '  node [shape=box];', ...nodes, ...arrows, '}'];
}

export function renderForest(
  tasks: readonly TaskView[],
  { columns, paint }: Pick<Out, 'columns' | 'paint'>,
): string[] {
  const known = new Set<string>(tasks.map(({ id }) => id));
  const isTop = (task: TaskView) => task.parent_task_id === null || !known.has(task.parent_task_id);
  const lines: string[] = [];
  const add = (task: TaskView, lead: string, ownLead: string): void => {
    const after = task.after.length === 0 ? '' : `  after ${task.after.join(', ')}`;
    const again = task.retry_of === null ? '' : `  retry of ${task.retry_of}`;
    const head = `${ownLead}${task.id}  `;
    const facts = `${task.assigned_to ?? 'unassigned'}: ${task.status}${after}${again}`;
    lines.push(
      paint('dim', head) + truncate(`${facts}  ${toOneLine(task.goal)}`, columns - head.length),
    );
    const children = tasks.filter(({ parent_task_id }) => parent_task_id === task.id);
    children.forEach((child, i) => {
      const isLast = i === children.length - 1;
      add(child, `${lead}${isLast ? '   ' : '│  '}`, `${lead}${isLast ? '└─ ' : '├─ '}`);
    });
  };
  for (const task of tasks.filter(isTop)) add(task, '', '');
  return lines.length === 0 ? ['No tasks.'] : lines;
}
