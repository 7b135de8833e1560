// Who may send which message to whom, and the labels it carries. Pure: the service looks up the
// facts, and stores and delivers what is allowed.
import type { MessageType } from '../../wire/agentd.ts';
import type { FaultCode } from '../../wire/errors.ts';
import type { Label, Principal } from '../../wire/primitives.ts';

export type MessageInput = {
  /** As somebody writes it; what task.delegate itself sends does not come through here. */
  type: MessageType;
  from: Principal;
  to: Principal;
  /**
   * Of an agent's message, which stays in its own thread: the receiver has a part in that thread.
   */
  inThread: boolean;
  /** The sending agent's manifest: whom else it may write to. */
  talkTo: readonly string[] | null;
  /** Whether a service takes messages now. */
  serviceRunning: (name: string) => boolean;
};

export type MessageDecision =
  | { allow: true }
  | { allow: false; code: FaultCode; message: string; hint?: string };

/** The service a type is for. No other party can do anything with it. */
const SERVICE_OF: Partial<Record<MessageType, string>> = {
  MemoryRecallRequest: 'memoryd',
  MemoryWriteProposal: 'memoryd',
  ApprovalRequest: 'approvald',
  ToolRequest: 'toold',
};

const allowed: MessageDecision = { allow: true };

function refuse(code: FaultCode, message: string, hint?: string): MessageDecision {
  return { allow: false, code, message, ...(hint === undefined ? {} : { hint }) };
}

/** agent:coder → agent and coder. */
function split(principal: Principal): { kind: string; name: string } {
  const at = principal.indexOf(':');
  return { kind: principal.slice(0, at), name: principal.slice(at + 1) };
}

export function checkMessage(input: MessageInput): MessageDecision {
  if (input.from === input.to) return refuse('bad_request', `${input.from} cannot write to itself`);
  const decision = checkType(input);
  return decision.allow ? checkParties(input) : decision;
}

/** Some types have a way of their own, or one service that they are for. */
function checkType({ type, from, to, serviceRunning }: MessageInput): MessageDecision {
  const [sender, receiver] = [split(from), split(to)];
  if (type === 'TaskRequest' && (sender.kind !== 'person' || receiver.kind !== 'agent')) {
    return sender.kind === 'person'
      ? refuse('bad_request', `a TaskRequest goes to an agent, not to ${to}`)
      : refuse('denied', `${from} cannot write a TaskRequest`, 'Use task.delegate.');
  }
  const service = SERVICE_OF[type];
  if (service !== undefined && to !== `service:${service}`) {
    return refuse('bad_request', `a ${type} goes to service:${service}, not to ${to}`);
  }
  if (receiver.kind !== 'service') return allowed;
  if (!serviceRunning(receiver.name)) return absent(type, receiver.name);
  if (service === undefined && type !== 'Error' && type !== 'Heartbeat') {
    return refuse('bad_request', `${to} takes no ${type}`);
  }
  return allowed;
}

function absent(type: MessageType, service: string): MessageDecision {
  return refuse(
    'unavailable',
    `a ${type} cannot be delivered: ${service} takes no messages here`,
    type === 'ToolRequest' ? 'Call the tool itself.' : 'Go on without it.',
  );
}

function checkParties({ from, to, inThread, talkTo }: MessageInput): MessageDecision {
  const [sender, receiver] = [split(from), split(to)];
  if (receiver.kind === 'external') {
    return refuse('unavailable', `${to} cannot be reached: no gateway carries messages out`);
  }
  if (sender.kind === 'external' && !inThread) {
    return refuse('denied', `${from} has no part in this thread`, 'Ask with a new task.');
  }
  if (sender.kind !== 'agent' || receiver.kind !== 'agent' || inThread) return allowed;
  if (talkTo?.includes(receiver.name) === true) return allowed;
  return refuse(
    'denied',
    `${from} may not write to ${to}: it is neither in this thread nor in team.talkTo`,
    'Write to whoever gave you the task, or ask a person to change the manifest.',
  );
}

const ORDER: readonly Label[] = ['person', 'agent', 'tool', 'outside', 'secret', 'personal'];

/**
 * The labels of a message: where it comes from, and everything the sending run was marked with. A
 * label says what a text may contain; having `person` among them makes nothing more trusted.
 */
export function labelsOfMessage(from: Principal, runLabels: readonly Label[] = []): Label[] {
  const { kind } = split(from);
  // `own` is what the sender's text is to the sender; to everybody else it is an agent's.
  const labels = new Set<Label>(runLabels.map((label) => (label === 'own' ? 'agent' : label)));
  if (kind === 'person') labels.add('person');
  else if (kind === 'agent') labels.add('agent');
  else if (kind === 'service') labels.add('tool');
  else labels.add('outside');
  return ORDER.filter((label) => labels.has(label));
}
