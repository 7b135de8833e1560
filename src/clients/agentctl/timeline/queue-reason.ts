// Explains why a ready task does not start: a halt, or a paused or busy agent or runtime. Queries
// agentd only for tasks still ready in a second snapshot, and reports each reason once.
import type { AgentView, StatusView, TreeNode } from '../../../wire/agentd.ts';
import { Fault } from '../../../wire/errors.ts';
import type { RuntimeClient } from '../runtime.ts';
import { pluralize } from '../show/amounts.ts';
import { toOneLine } from '../show/plain.ts';
import type { TaskChange } from './progress.ts';

/** Without a known reason a task may start any moment; report only after this long. */
const GRACE_MS = 2_000;

export type QueueReasons = { check(tree: TreeNode): Promise<TaskChange[]> };

export function makeQueueReasons(
  runtime: Pick<RuntimeClient, 'call'>,
  nowMs: () => number,
): QueueReasons {
  let seen = new Map<string, { since: string; atMs: number }>();
  const reported = new Map<string, string>();
  return {
    async check(tree) {
      const before = seen;
      seen = new Map();
      const stillReady: TreeNode[] = [];
      for (const node of listReady(tree)) {
        const { id, updated_at: since } = node.task;
        const earlier = before.get(id);
        if (earlier?.since === since) stillReady.push(node);
        seen.set(id, earlier?.since === since ? earlier : { since, atMs: nowMs() });
      }
      if (stillReady.length === 0) return [];
      const facts = await readFacts(runtime, stillReady);
      return stillReady.flatMap((node) => {
        const isLong = nowMs() - seen.get(node.task.id)!.atMs >= GRACE_MS;
        const text = facts === undefined ? undefined : explain(node, facts, isLong);
        if (text === undefined || reported.get(node.task.id) === text) return [];
        reported.set(node.task.id, text);
        const about = { task_id: node.task.id, agent: node.task.assigned_to };
        return [{ ...about, kind: 'trouble' as const, text, at: new Date(nowMs()).toISOString() }];
      });
    },
  };
}

function listReady(node: TreeNode): TreeNode[] {
  const own = node.task.status === 'ready' && node.task.assigned_to !== null ? [node] : [];
  return [...own, ...node.children.flatMap(listReady)];
}

type Facts = { status: StatusView; agents: ReadonlyMap<string, AgentView> };

/** Resolves to undefined on a fault: the wait loop reports an unavailable runtime. */
async function readFacts(
  runtime: Pick<RuntimeClient, 'call'>,
  nodes: readonly TreeNode[],
): Promise<Facts | undefined> {
  const names = [...new Set(nodes.flatMap(({ task }) => task.assigned_to ?? []))];
  try {
    const [status, ...agents] = await Promise.all([
      runtime.call('agentd', 'status', {}),
      ...names.map((name) => runtime.call('agentd', 'getAgent', { params: { name } })),
    ]);
    return { status, agents: new Map(agents.map(({ agent }) => [agent.name, agent])) };
  } catch (error) {
    if (error instanceof Fault) return undefined;
    throw error;
  }
}

function explain({ task, runs }: TreeNode, facts: Facts, isLong: boolean): string | undefined {
  const { status, agents } = facts;
  const agent = agents.get(task.assigned_to ?? '');
  if (agent === undefined) return undefined;
  const format = (why: string, next: string): string =>
    `${agent.name}: not started, ${why}\n  ${next}`;
  if (status.halted) {
    const reason = status.halt_reason === null ? '' : ` (${toOneLine(status.halt_reason)})`;
    return format(`every agent is halted${reason}`, 'resume them: agentctl unhalt');
  }
  if (agent.status !== 'active')
    return format(
      `the agent is ${agent.status}`,
      agent.status === 'removed'
        ? `assign the task to another agent: agentctl run AGENT --task ${task.id}`
        : `resume it: agentctl resume ${agent.name}`,
    );
  const { working } = agent.tasks;
  if (working >= agent.replicas)
    return format(
      `it is busy with ${pluralize(working, 'other task')}, its maximum`,
      `list them: agentctl task list --agent ${agent.name} --status working`,
    );
  // A run that has started before is in backoff after a failure, which was reported.
  if (!isLong || runs.some(({ activations }) => activations > 0)) return undefined;
  const others = `${pluralize(status.runs.live, 'run is', 'runs are')} live in this runtime`;
  // A runtime of an older version does not report its queue.
  const isFull = status.queue?.for_machine > 0;
  return format(
    `it is queued: ${others}${isFull ? ', its maximum (agentd.runs_live_max)' : ''}`,
    'see: agentctl status',
  );
}
