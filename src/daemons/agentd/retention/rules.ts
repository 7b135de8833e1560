// Decides what is old enough or too much, and words why. Pure.
import type { RetentionRule } from '../../../platform/retention-config.ts';
import type { RetentionKind } from '../../../wire/agentd/retention.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** More recent data stays, whatever a size or a rule says. */
export const AGE_MS_MIN = HOUR_MS;

const NOUNS: Readonly<Record<RetentionKind, string>> = {
  tasks: 'ended tasks',
  artifacts: 'artifacts',
  workspaces: 'workspaces of ended tasks',
  homes: 'homes of ended tasks',
  model_contexts: 'model contexts of ended tasks',
  memories: 'episodes of ended tasks',
};

export function formatAge(ms: number): string {
  const [n, unit] =
    ms % DAY_MS === 0
      ? [ms / DAY_MS, 'day']
      : ms >= HOUR_MS
        ? [Math.round(ms / HOUR_MS), 'hour']
        : [Math.round(ms / 1_000), 'second'];
  return `${n} ${unit}${n === 1 ? '' : 's'}`;
}

const formatSize = (bytes: number): string => `${(bytes / 1_073_741_824).toFixed(1)} GiB`;

/** The limits of one pass for one kind, in absolute terms. */
export type PassLimits = {
  /** Older data is due; undefined: none is, by age. */
  endedBeforeMs: number | undefined;
  ageCause: string;
  sizeMax: number | undefined;
  sizeCause: string;
};

export function computeLimits(options: {
  kind: RetentionKind;
  rule: RetentionRule;
  nowMs: number;
  /** A person's choice instead of the configuration. */
  request?: { olderThanMs: number; by: string } | undefined;
}): PassLimits {
  const { kind, rule, nowMs, request } = options;
  const noun = NOUNS[kind];
  if (request !== undefined) {
    const { by, olderThanMs } = request;
    const old = olderThanMs === 0 ? '' : ` older than ${formatAge(olderThanMs)}`;
    return {
      // Includes this very millisecond.
      endedBeforeMs: nowMs - olderThanMs + 1,
      ageCause: `${by} pruned ${noun}${old}`,
      sizeMax: undefined,
      sizeCause: '',
    };
  }
  const name = `retention.${kind}`;
  return {
    endedBeforeMs: rule.age === null ? undefined : nowMs - rule.age,
    ageCause: rule.age === null ? '' : `${name} keeps ${noun} for ${formatAge(rule.age)}`,
    sizeMax: rule.size ?? undefined,
    sizeCause: rule.size === null ? '' : `${name} keeps up to ${formatSize(rule.size)} of ${noun}`,
  };
}
