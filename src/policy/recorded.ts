// Encodes a call's policy decision into its audit event (toold, modeld), and decodes it to replay
// decisions against changed rules. Paths and hosts are included; arguments, contents and URL paths
// are not, because they may contain secrets.
import type { AuditEvent, EventDraft } from '../wire/events.ts';
import { pickArguments } from './arguments.ts';
import {
  type CallFacts,
  callRequests,
  modelRequest,
  type PolicyDecision,
  type Request,
  type Touch,
  touchRequest,
} from './request.ts';

const TOUCHES_MAX = 8;
const TOUCH_CHARS_MAX = 1_024;
const POLICY_CHARS_MAX = 512;

type Data = NonNullable<EventDraft['data']>;

/** Returns `policy` and `data` for the events tool.call.attempted, .denied and .waiting. */
export function recordDecision(
  { tool, labels, touches }: Pick<CallFacts, 'tool' | 'labels' | 'touches'>,
  { answer, rules, version }: PolicyDecision,
): { policy: string; data: Data } {
  const data: Data = {
    answer,
    policy_version: version,
    risk: tool.risk,
    reversibility: tool.reversibility,
    idempotent: tool.idempotent,
    level: tool.level,
    labels: [...labels].sort().join(' '),
    touches: touches.length,
  };
  for (const [i, touch] of touches.slice(0, TOUCHES_MAX).entries()) {
    const text = writeTouch(touch);
    if (text.length <= TOUCH_CHARS_MAX) data[`touch_${i + 1}`] = text;
  }
  return { policy: joinRules(rules), data };
}

/** Returns `policy` and `data` for the events model.call.attempted and .refused. */
export function recordModelUse({
  answer,
  rules,
  version,
  labels,
}: PolicyDecision & { labels: readonly string[] }): { policy: string; data: Data } {
  const data = { answer, policy_version: version, labels: [...labels].sort().join(' ') };
  return { policy: joinRules(rules), data };
}

/** Joins as many whole ids as fit into an event's `policy`, and counts the rest. */
export function joinRules(rules: readonly string[]): string {
  if (rules.length === 0) return 'policy:nothing-allows-it';
  let text = '';
  for (const [i, id] of rules.entries()) {
    const next = text === '' ? id : `${text} ${id}`;
    if (next.length > POLICY_CHARS_MAX - 12) return `${text} +${rules.length - i}`.trim();
    text = next;
  }
  return text;
}

function writeTouch(touch: Touch): string {
  if (touch.action === 'task.delegate') return JSON.stringify([touch.action, touch.agent]);
  if (touch.action === 'message.send')
    return JSON.stringify([touch.action, touch.to, touch.messageType]);
  if (touch.action === 'net.connect')
    return JSON.stringify([
      touch.action,
      touch.host,
      touch.port,
      touch.method ?? null,
      ...(touch.granted === true ? ['granted'] : []),
    ]);
  return JSON.stringify([
    touch.action,
    touch.path,
    touch.recursive === true,
    ...(touch.declared === true ? ['declared'] : []),
  ]);
}

export type RecordedDecision = {
  eventId: string;
  ts: string;
  agent: string;
  /** The tool that was called, or `model.use`. */
  tool: string;
  taskId: string;
  callId: string | null;
  answer: PolicyDecision['answer'];
  rules: string[];
  version: number;
  requests: Request[];
  /** False when the event does not list everything that was touched. */
  isWhole: boolean;
};

const asText = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The arguments of the call, which the event omits, and the schema of its tool. */
type CallRecord = {
  call?: Record<string, unknown> | undefined;
  schema?: Record<string, unknown> | undefined;
};

/** Returns undefined for an event without a policy decision. */
export function readDecision(
  event: AuditEvent,
  record: CallRecord = {},
): RecordedDecision | undefined {
  const { data, agent, task_id: taskId } = event;
  const answer = data?.answer;
  if (answer !== 'allow' && answer !== 'ask' && answer !== 'deny') return undefined;
  if (data === undefined || agent === undefined || taskId === undefined) return undefined;
  const labels = asText(data.labels).split(' ').filter(Boolean);
  const decided =
    event.model === undefined
      ? toolRequests(event, { agent, taskId, labels, data }, record)
      : modelRequests(event.model, event, { agent, taskId, labels });
  if (decided === undefined) return undefined;
  return {
    eventId: event.id,
    ts: event.ts,
    agent,
    taskId,
    callId: event.call_id ?? null,
    answer,
    rules: (event.policy ?? '').split(' ').filter((id) => id !== '' && !/^\+\d+$/.test(id)),
    version: Number(data.policy_version ?? 0),
    ...decided,
  };
}

type EventFacts = { agent: string; taskId: string; labels: string[] };
type DecidedRequests = Pick<RecordedDecision, 'tool' | 'requests' | 'isWhole'>;

function modelRequests(
  model: string,
  { root_task_id }: AuditEvent,
  facts: EventFacts,
): DecidedRequests {
  const request = modelRequest({ ...facts, model, rootTaskId: root_task_id ?? facts.taskId });
  return { tool: 'model.use', requests: [request], isWhole: true };
}

function toolRequests(
  { tool, root_task_id }: AuditEvent,
  { agent, taskId, labels, data }: EventFacts & { data: Data },
  { call, schema }: CallRecord,
): DecidedRequests | undefined {
  if (tool === undefined) return undefined;
  const url = typeof call?.url === 'string' ? call.url : undefined;
  const count = Number(data.touches ?? 0);
  const touches = Array.from({ length: Math.min(count, TOUCHES_MAX) }, (_, i) =>
    readTouch(asText(data[`touch_${i + 1}`])),
  );
  const known = touches.filter((touch) => touch !== undefined);
  const facts: CallFacts = {
    agent,
    taskId,
    rootTaskId: root_task_id ?? taskId,
    tool: {
      name: tool,
      risk: asText(data.risk),
      reversibility: asText(data.reversibility),
      idempotent: data.idempotent === true,
      level: asText(data.level),
    },
    touches: known.map((touch) => withUrlPath(touch, url)),
    labels,
    ...(call === undefined || schema === undefined
      ? {}
      : { arguments: () => pickArguments(schema, call) }),
  };
  return {
    tool,
    requests: callRequests(facts),
    isWhole: known.length === count,
  };
}

function readTouch(text: string): Touch | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!Array.isArray(value)) return undefined;
  const [action, target, third, fourth, granted] = value as unknown[];
  if (typeof target !== 'string') return undefined;
  if (action === 'task.delegate') return { action, agent: target };
  if (action === 'message.send')
    return typeof third === 'string' ? { action, to: target, messageType: third } : undefined;
  if (action === 'net.connect') {
    if (typeof third !== 'number') return undefined;
    return {
      action,
      host: target,
      port: third,
      ...(typeof fourth === 'string' ? { method: fourth } : {}),
      ...(granted === 'granted' ? { granted: true } : {}),
    };
  }
  if (action !== 'file.read' && action !== 'file.write' && action !== 'file.delete')
    return undefined;
  return {
    action,
    path: target,
    ...(third === true ? { recursive: true } : {}),
    ...(fourth === 'declared' ? { declared: true } : {}),
  };
}

function withUrlPath(touch: Touch, url: string | undefined): Touch {
  if (touch.action !== 'net.connect' || url === undefined || !URL.canParse(url)) return touch;
  const { hostname, pathname } = new URL(url);
  const hostId = (host: string) => touchRequest('agent:a', { ...touch, host }, {}).resource.id;
  return hostId(hostname) === hostId(touch.host) ? { ...touch, urlPath: pathname } : touch;
}
