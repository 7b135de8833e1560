// Why a task that is ready does not begin: everything is halted, its agent is paused or busy, or
// the runtime is. agentd is asked only of what is still ready at a second look; each reason is told
// once.
import type { AgentView, StatusView, TreeNode } from '../../../wire/agentd.ts';
import { Fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';
import { some } from '../show/amounts.ts';
import { oneLine } from '../show/plain.ts';
import type { TaskChange } from './progress.ts';

/** Without a reason that can be named it may begin at any moment; for so long nothing is said. */
const QUIET_MS = 2_000;

export type QueueReasons = { look(tree: TreeNode): Promise<TaskChange[]> };

export function makeQueueReasons(
  runtime: Pick<RuntimeClient, 'ask'>,
  nowMs: () => number,
): QueueReasons {
  /** By task: which ready, and since when it was seen. */
  let seen = new Map<string, { since: string; atMs: number }>();
  const told = new Map<string, string>();
  return {
    async look(tree) {
      const before = seen;
      seen = new Map();
      const still: TreeNode[] = [];
      for (const node of readyIn(tree)) {
        const { id, updated_at: since } = node.task;
        const earlier = before.get(id);
        if (earlier?.since === since) still.push(node);
        seen.set(id, earlier?.since === since ? earlier : { since, atMs: nowMs() });
      }
      if (still.length === 0) return [];
      const facts = await ask(runtime, still);
      return still.flatMap((node) => {
        const isLong = nowMs() - seen.get(node.task.id)!.atMs >= QUIET_MS;
        const text = facts === undefined ? undefined : reasonOf(node, facts, isLong);
        if (text === undefined || told.get(node.task.id) === text) return [];
        told.set(node.task.id, text);
        const about = { task_id: node.task.id, agent: node.task.assigned_to };
        return [{ ...about, kind: 'trouble' as const, text, at: new Date(nowMs()).toISOString() }];
      });
    },
  };
}

function readyIn(node: TreeNode): TreeNode[] {
  const own = node.task.status === 'ready' && node.task.assigned_to !== null ? [node] : [];
  return [...own, ...node.children.flatMap(readyIn)];
}

type Facts = { status: StatusView; agents: ReadonlyMap<string, AgentView> };

/** Nothing while it cannot be had: the waiting itself says when the runtime is away. */
async function ask(
  runtime: Pick<RuntimeClient, 'ask'>,
  nodes: readonly TreeNode[],
): Promise<Facts | undefined> {
  const names = [...new Set(nodes.flatMap(({ task }) => task.assigned_to ?? []))];
  try {
    const [status, ...agents] = await Promise.all([
      runtime.ask('agentd', 'status', {}),
      ...names.map((name) => runtime.ask('agentd', 'getAgent', { params: { name } })),
    ]);
    return { status, agents: new Map(agents.map(({ agent }) => [agent.name, agent])) };
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}

function reasonOf({ task, runs }: TreeNode, facts: Facts, isLong: boolean): string | undefined {
  const { status, agents } = facts;
  const agent = agents.get(task.assigned_to ?? '');
  if (agent === undefined) return undefined;
  const says = (why: string, next: string): string =>
    `${agent.name}: does not begin, ${why}\n  ${next}`;
  if (status.halted) {
    const reason = status.halt_reason === null ? '' : ` (${oneLine(status.halt_reason)})`;
    return says(`every agent is halted${reason}`, 'let them go on: agentctl unhalt');
  }
  if (agent.status !== 'active')
    return says(
      `the agent is ${agent.status}`,
      agent.status === 'removed'
        ? `give the task to another: agentctl run AGENT --task ${task.id}`
        : `let it go on: agentctl resume ${agent.name}`,
    );
  const { working } = agent.tasks;
  if (working >= agent.replicas)
    return says(
      `it works on ${some(working, 'other task')}, as many as it may at once`,
      `see them: agentctl task list --agent ${agent.name} --status working`,
    );
  // One that was begun pauses after a failure, which was told.
  if (!isLong || runs.some(({ activations }) => activations > 0)) return undefined;
  const others = `${some(status.runs.live, 'run is', 'runs are')} live in this runtime`;
  return says(`it waits for its turn: ${others}`, 'see: agentctl status');
}
