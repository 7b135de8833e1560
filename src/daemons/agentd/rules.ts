// What agentd decides, as pure functions: values in, decision out.
import type { TaskStatus } from '../../wire/agentd.ts';

const ENDED: ReadonlySet<string> = new Set<TaskStatus>([
  'completed',
  'failed',
  'canceled',
  'rejected',
]);

export function isEnded(status: string): boolean {
  return ENDED.has(status);
}

/** The pause before a crashed run is started again: doubles from 100 ms, at most 10 s. */
export function crashPauseMs(crashes: number): number {
  return Math.min(100 * 2 ** Math.max(0, crashes - 1), 10_000);
}

export type TaskLimits = {
  max_steps?: number | undefined;
  max_tokens?: number | undefined;
  max_cost_microusd?: number | undefined;
  max_time_s?: number | undefined;
};

/** What the task says; where it says nothing, its agent; where that is silent too, the site. */
export function effectiveLimits(task: TaskLimits, agent: TaskLimits, site: TaskLimits): TaskLimits {
  const pick = (name: keyof TaskLimits): number | undefined =>
    task[name] ?? agent[name] ?? site[name];
  const result: TaskLimits = {};
  for (const name of ['max_steps', 'max_tokens', 'max_cost_microusd', 'max_time_s'] as const) {
    const value = pick(name);
    if (value !== undefined) result[name] = value;
  }
  return result;
}

/** A child never gets more of a limit than its parent has. */
export function clampToParent(child: TaskLimits, parent: TaskLimits): TaskLimits {
  const result: TaskLimits = { ...child };
  for (const name of ['max_tokens', 'max_cost_microusd', 'max_time_s'] as const) {
    const limit = parent[name];
    if (limit !== undefined) result[name] = Math.min(child[name] ?? limit, limit);
  }
  return result;
}

/** Who takes a task that names nobody. */
export function defaultAgent(names: readonly string[]): string | undefined {
  if (names.includes('planner')) return 'planner';
  return names.length === 1 ? names[0] : undefined;
}
