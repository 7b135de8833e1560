// One run with a way out: its rules as they are now, what it has used, and what it has open. Who
// may reach what is decided in rules/; how a connection comes about is connector.ts.

import type { ParseOutcome } from '../../policy/hosts.ts';
import type { EgressRule, PutEgressBody } from '../../wire/egressd.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';
import type { ConnectionRateLimit } from './connection-rate.ts';
import type { Denials } from './denials.ts';
import { type ParsedEgressRule, readRule, type Wanted } from './rules/match.ts';
import type { EgressUsage } from './store.ts';

export type ConnectionKind = 'tunnel' | 'http' | 'fetch';

export type TrackedConnection = {
  id: string;
  kind: ConnectionKind;
  /** What must stay allowed for it to stay open; of a reused one, what it does now. */
  wanted: Wanted;
  /** It carries bytes that nobody has looked at, so only a rule that says so keeps it open. */
  isPlain: boolean;
  callId: string | undefined;
  address: string | null;
  openedMs: number;
  bytesSent: number;
  bytesReceived: number;
  requests: number;
  /** What its end will be called; set before `ending` aborts. */
  status: string;
  ending: AbortController;
  isRecorded: boolean;
  isFinished: boolean;
};

export type EgressRun = {
  runId: RunId;
  fence: number;
  agent: string;
  taskId: TaskId;
  rootTaskId: TaskId;
  body: PutEgressBody;
  rules: readonly ParsedEgressRule[];
  usage: EgressUsage;
  connections: Set<TrackedConnection>;
  denials: Denials;
  openings: ConnectionRateLimit;
  /** Dismissed, or held by a newer activation: nothing is opened any more. */
  isOver: boolean;
};

export function rulesOf({ allow, granted }: PutEgressBody): ParsedEgressRule[] {
  return [...allow, ...granted].map((rule) => taken(readRule(rule)));
}

export const isMarked = ({ body }: EgressRun): boolean => body.labels.includes('outside');

/** The same run, for one request that may go a little further. */
export function withRule(run: EgressRun, rule: EgressRule): EgressRun {
  const rules = [...run.rules, taken(readRule(rule))];
  return Object.create(run, { rules: { value: rules, enumerable: true } }) as EgressRun;
}

function taken(read: ParseOutcome<ParsedEgressRule>): ParsedEgressRule {
  if ('value' in read) return read.value;
  throw fault('bad_request', `a rule cannot be used: ${read.problem}`, {
    hint: 'Name a host such as github.com, *.github.com or an exact address.',
  });
}

export const usedBytes = ({ usage }: EgressRun): number => usage.bytesSent + usage.bytesReceived;
