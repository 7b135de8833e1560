// The kinds of tasks that the soak creates, and what must have happened once each has ended.
import type { TaskView } from '../../src/wire/agentd.ts';

export type KindName =
  | 'count'
  | 'delegate'
  | 'approval'
  | 'question'
  | 'cancel'
  | 'retry'
  | 'files';

/** How often an effect must have happened. */
export type EffectBounds = { key: string; min: number; max: number };

export type TaskKind = {
  agent: string;
  /** Its share of all tasks, relative to the other kinds. */
  weight: number;
  goal(key: string): string;
  status: readonly TaskView['status'][];
  effects(key: string, task: { status: TaskView['status'] }): EffectBounds[];
};

const once = (key: string): EffectBounds => ({ key, min: 1, max: 1 });

/** The person decides by the key, so that a decision repeated after a crash is the same. */
export const isApproved = (key: string): boolean => !key.endsWith('7');

export const KINDS: Readonly<Record<KindName, TaskKind>> = {
  count: {
    agent: 'coder',
    weight: 8,
    goal: (key) => `count the effect 2 times with key ${key}`,
    status: ['completed'],
    effects: (key) => [once(`${key}-1`), once(`${key}-2`)],
  },
  delegate: {
    agent: 'planner',
    weight: 3,
    goal: (key) => `share the work with key ${key}`,
    status: ['completed'],
    effects: (key) => [once(`${key}a-1`), once(`${key}b-1`)],
  },
  approval: {
    agent: 'releaser',
    weight: 2,
    goal: (key) => `count the effect 1 times with key ${key}`,
    status: ['completed'],
    effects: (key) => [isApproved(key) ? once(`${key}-1`) : { key: `${key}-1`, min: 0, max: 0 }],
  },
  question: {
    agent: 'planner',
    weight: 2,
    goal: (key) => `ask first, then count with key ${key}`,
    status: ['completed'],
    effects: (key) => [once(`${key}-2`)],
  },
  cancel: {
    agent: 'researcher',
    weight: 2,
    goal: (key) => `count slowly with key ${key}`,
    // A cancel that comes late finds the task ended.
    status: ['canceled', 'completed'],
    effects: (key, { status }) => [
      { key: `${key}-1`, min: status === 'completed' ? 1 : 0, max: 1 },
    ],
  },
  retry: {
    agent: 'coder',
    weight: 2,
    goal: (key) => `count and fail with key ${key}`,
    status: ['failed'],
    // Once by the task, once by its retry.
    effects: (key) => [{ key: `${key}-1`, min: 2, max: 2 }],
  },
  files: {
    agent: 'coder',
    weight: 1,
    goal: (key) => `write files with key ${key}`,
    status: ['completed'],
    effects: () => [],
  },
};

export const KIND_NAMES = Object.keys(KINDS) as KindName[];
