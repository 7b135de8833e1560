// Builds the audit events of egress. A connection's two events derive their ids from its id. Events
// carry hosts, paths without query, sizes and counts, never content.
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

const subjectFields = ({ runId, agent, taskId, rootTaskId }: EgressSubject) => ({
  principal: `agent:${agent}`,
  agent,
  task_id: taskId,
  root_task_id: rootTaskId,
  run_id: runId,
});

/** Event data is limited to 1,024 characters per value. */
const truncate = (text: string): string => text.slice(0, 300);

const connectionFields = ({ kind, host, port, address, callId }: ConnectionInfo) => ({
  ...(callId === undefined ? {} : { call_id: callId }),
  data: { kind, host: truncate(host), port, address },
});

export function allowed(subject: EgressSubject, connection: ConnectionInfo): EventDraft {
  return {
    id: `${connection.id}.network.allowed`,
    event: 'network.allowed',
    ...subjectFields(subject),
    allowed: true,
    ...connectionFields(connection),
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
  connection: ConnectionInfo,
  end: ConnectionEnd,
): EventDraft {
  const { status, bytesSent, bytesReceived, durationMs, requests } = end;
  const base = connectionFields(connection);
  return {
    id: `${connection.id}.network.closed`,
    event: 'network.closed',
    ...subjectFields(subject),
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

/** `repeats`: the number of equal denials before it that got no event. */
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
    ...subjectFields(subject),
    allowed: false,
    policy: `egress.${reason}`,
    status: 'denied',
    ...(callId === undefined ? {} : { call_id: callId }),
    data: {
      reason,
      host: truncate(host),
      port,
      ...(method === null ? {} : { method: method.slice(0, 24) }),
      ...(path === null ? {} : { path: truncate(path) }),
      ...(repeats === 0 ? {} : { repeats }),
    },
  };
}
