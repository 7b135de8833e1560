// Pure decisions about tasks: when one has ended, its limits, its default agent, crash backoff.
import { BOX_AGENT, type TaskStatus } from '../../wire/agentd.ts';

const ENDED: ReadonlySet<string> = new Set<TaskStatus>([
  'completed',
  'failed',
  'canceled',
  'rejected',
]);

export function isEnded(status: string): boolean {
  return ENDED.has(status);
}

/** Returns the delay before a crashed run restarts: doubles from 100 ms, up to 10 s. */
export function crashBackoffMs(crashes: number): number {
  return Math.min(100 * 2 ** Math.max(0, crashes - 1), 10_000);
}

export type TaskLimits = {
  max_steps?: number | undefined;
  max_tokens?: number | undefined;
  max_cost_microusd?: number | undefined;
  max_time_s?: number | undefined;
};

/** For each limit, the task takes precedence over its agent, and the agent over the site. */
export function effectiveLimits(task: TaskLimits, agent: TaskLimits, site: TaskLimits): TaskLimits {
  const result: TaskLimits = {};
  for (const name of ['max_steps', 'max_tokens', 'max_cost_microusd', 'max_time_s'] as const) {
    const value = task[name] ?? agent[name] ?? site[name];
    if (value !== undefined) result[name] = value;
  }
  return result;
}

/** A child's limits never exceed its parent's. */
export function clampToParent(child: TaskLimits, parent: TaskLimits): TaskLimits {
  const result: TaskLimits = { ...child };
  for (const name of ['max_tokens', 'max_cost_microusd', 'max_time_s'] as const) {
    const limit = parent[name];
    if (limit !== undefined) result[name] = Math.min(child[name] ?? limit, limit);
  }
  return result;
}

/** Returns the agent for a task that names none. */
export function defaultAgent(names: readonly string[]): string | undefined {
  if (names.includes('planner')) return 'planner';
  // Declared for programs, not for tasks.
  const others = names.filter((name) => name !== BOX_AGENT);
  return others.length === 1 ? others[0] : undefined;
}
