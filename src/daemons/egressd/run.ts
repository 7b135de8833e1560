// One run with egress: its current rules, its usage, and its open connections.
import type { ParseOutcome } from '../../policy/hosts.ts';
import type { EgressRule, PutEgressBody } from '../../wire/egressd.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId, TaskId } from '../../wire/primitives.ts';
import type { ConnectionRateLimit } from './connection-rate.ts';
import type { Denials } from './denials.ts';
import { type Destination, type ParsedEgressRule, parseRule } from './rules/match.ts';
import type { EgressUsage } from './store.ts';

export type ConnectionKind = 'tunnel' | 'http' | 'fetch';

export type TrackedConnection = {
  id: string;
  kind: ConnectionKind;
  /** The destination that must stay allowed; a reused connection has that of its request. */
  dest: Destination;
  /** It carries unchecked bytes, so only a rule with `plain` keeps it open. */
  isPlain: boolean;
  callId: string | undefined;
  address: string | null;
  openedMs: number;
  bytesSent: number;
  bytesReceived: number;
  requests: number;
  /** The status of its end; set before `ending` aborts. */
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
  /**
   * The first host that sent the run anything and is not a mirror; null when a restart lost its
   * name. See rules/first-responder.ts.
   */
  responder: string | null | undefined;
  connections: Set<TrackedConnection>;
  denials: Denials;
  rateLimit: ConnectionRateLimit;
  /** Closed, or replaced by a newer activation: no new connections. */
  isEnded: boolean;
};

export function parseRules({ allow, granted }: PutEgressBody): ParsedEgressRule[] {
  return [...allow, ...granted].map((rule) => requireParsed(parseRule(rule)));
}

export const isMarked = ({ body }: EgressRun): boolean => body.labels.includes('outside');

/** Returns the run with one more rule, for a single request. */
export function withRule(run: EgressRun, rule: EgressRule): EgressRun {
  const rules = [...run.rules, requireParsed(parseRule(rule))];
  return Object.create(run, { rules: { value: rules, enumerable: true } }) as EgressRun;
}

function requireParsed(read: ParseOutcome<ParsedEgressRule>): ParsedEgressRule {
  if ('value' in read) return read.value;
  throw fault('bad_request', `invalid rule: ${read.problem}`, {
    hint: 'Name a host such as github.com, *.github.com or an exact address.',
  });
}

export const countUsedBytes = ({ usage }: EgressRun): number =>
  usage.bytesSent + usage.bytesReceived;
