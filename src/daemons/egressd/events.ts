// The audit events of egress. A connection has one id, and its two events follow from it; a denial
// has an id of its own. They carry hosts, paths without query, sizes and counts, never content.
import type { EventDraft } from '../../wire/events.ts';
import type { EgressRefusal } from './rules/refusal.ts';

export type EgressSubject = { runId: string; agent: string; taskId: string; rootTaskId: string };

export type ConnectionInfo = {
  id: string;
  kind: 'tunnel' | 'http' | 'fetch';
  host: string;
  port: number;
  address: string;
  callId: string | undefined;
};

const about = ({ runId, agent, taskId, rootTaskId }: EgressSubject) => ({
  principal: `agent:${agent}`,
  agent,
  task_id: taskId,
  root_task_id: rootTaskId,
  run_id: runId,
});

/** Data takes at most 1,024 characters; nobody needs more of a name or a path. */
const short = (text: string): string => text.slice(0, 300);

const what = ({ kind, host, port, address, callId }: ConnectionInfo) => ({
  ...(callId === undefined ? {} : { call_id: callId }),
  data: { kind, host: short(host), port, address },
});

export function allowed(subject: EgressSubject, opened: ConnectionInfo): EventDraft {
  return {
    id: `${opened.id}.network.allowed`,
    event: 'network.allowed',
    ...about(subject),
    allowed: true,
    ...what(opened),
  };
}

export type ConnectionEnd = {
  /** closed, failed, cut, budget, idle, lost */
  status: string;
  bytesSent: number;
  bytesReceived: number;
  durationMs: number;
  requests: number;
};

export function closed(
  subject: EgressSubject,
  opened: ConnectionInfo,
  ended: ConnectionEnd,
): EventDraft {
  const { status, bytesSent, bytesReceived, durationMs, requests } = ended;
  const base = what(opened);
  return {
    id: `${opened.id}.network.closed`,
    event: 'network.closed',
    ...about(subject),
    status,
    ...base,
    data: {
      ...base.data,
      bytes_sent: bytesSent,
      bytes_received: bytesReceived,
      duration_ms: durationMs,
      requests,
    },
  };
}

/** `repeats`: how many equal ones before it had no event of their own. */
export function denied(
  subject: EgressSubject,
  id: string,
  refused: EgressRefusal,
  { repeats, callId }: { repeats: number; callId?: string | undefined },
): EventDraft {
  const { reason, host, port, method, path } = refused;
  return {
    id: `${id}.network.denied`,
    event: 'network.denied',
    ...about(subject),
    allowed: false,
    policy: `egress.${reason}`,
    status: 'denied',
    ...(callId === undefined ? {} : { call_id: callId }),
    data: {
      reason,
      host: short(host),
      port,
      ...(method === null ? {} : { method: method.slice(0, 24) }),
      ...(path === null ? {} : { path: short(path) }),
      ...(repeats === 0 ? {} : { repeats }),
    },
  };
}
