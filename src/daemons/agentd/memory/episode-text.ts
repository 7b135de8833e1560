// The two texts of an episode: what a task took, in words of the platform, and its goal and result.
// Pure.
import type { TaskView } from '../../../wire/agentd.ts';

export type EpisodeFacts = {
  task: TaskView;
  agent: string;
  startedMs: number;
  subtasks: number;
  modelCalls: number;
  costMicrousd: number;
  /** Calls that ended well, by tool. */
  tools: ReadonlyMap<string, number>;
  filesChanged: number;
};

const GOAL_CHARS_MAX = 800;
const RESULT_CHARS_MAX = 1_600;
const TOOLS_MAX = 40;

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
const cut = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, charsMax)}…`;

/** Nothing in it was written by a person or a model. */
export function writeStructure(facts: EpisodeFacts): string {
  const { task, agent, tools } = facts;
  const seconds = (Date.parse(task.ended_at ?? task.updated_at) - facts.startedMs) / 1_000;
  const used = [...tools].sort(([, a], [, b]) => b - a).slice(0, TOOLS_MAX);
  return [
    `Episode of ${task.id}: agent ${agent}, ${task.status}`,
    ...(task.error === null ? [] : [`fault ${task.error.code}`]),
    `${Math.max(0, seconds).toFixed(1)} s`,
    `$${(facts.costMicrousd / 1_000_000).toFixed(4)}`,
    count(facts.modelCalls, 'model call'),
    used.length === 0
      ? 'no tools'
      : `tools ${used.map(([name, n]) => (n === 1 ? name : `${name} ×${n}`)).join(', ')}`,
    `${count(facts.filesChanged, 'file')} changed`,
    count(facts.subtasks, 'subtask'),
  ].join('; ');
}

export function writeWords({ task, agent }: EpisodeFacts): string {
  const outcome = task.result ?? task.error?.message ?? task.reason ?? 'nothing';
  return [
    `${agent} was asked: ${cut(task.goal, GOAL_CHARS_MAX)}`,
    `It ${task.status}: ${cut(outcome, RESULT_CHARS_MAX)}`,
  ].join('\n');
}
