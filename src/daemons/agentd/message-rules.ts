// Decides who may send which message to whom, and the labels it carries. Pure.
import type { MessageType, SendMessage } from '../../wire/agentd.ts';
import { type FaultCode, fault } from '../../wire/errors.ts';
import type { Label, Principal } from '../../wire/primitives.ts';

export type MessageInput = {
  /** The TaskRequest that task.delegate sends is not checked here. */
  type: MessageType;
  from: Principal;
  to: Principal;
  /** The receiver takes part in the sending agent's thread. */
  inThread: boolean;
  /** Other agents that the sending agent's manifest lets it write to. */
  talkTo: readonly string[] | null;
};

export type MessageDecision =
  | { allow: true }
  | { allow: false; code: FaultCode; message: string; hint?: string };

/** The calls to make instead: services have no mailbox (decision 0037). */
const CALLS_INSTEAD: Partial<Record<MessageType, { agent: string; others: string }>> = {
  MemoryRecallRequest: { agent: 'Call memory.recall.', others: 'Use agentctl memory search.' },
  MemoryWriteProposal: { agent: 'Call memory.propose.', others: 'Use agentctl memory propose.' },
  ToolRequest: {
    agent: 'Call the tool directly.',
    others: 'Have an agent do it: agentctl task create.',
  },
  ApprovalRequest: {
    agent: 'Call the tool directly: if the call needs a person, a person is asked.',
    others: 'Decide those of agents: agentctl approvals.',
  },
};

const allowed: MessageDecision = { allow: true };

function refuse(code: FaultCode, message: string, hint?: string): MessageDecision {
  return { allow: false, code, message, ...(hint === undefined ? {} : { hint }) };
}

function parsePrincipal(principal: Principal): { kind: string; name: string } {
  const at = principal.indexOf(':');
  return { kind: principal.slice(0, at), name: principal.slice(at + 1) };
}

export function assertMessageAllowed(input: MessageInput): void {
  const decision = checkMessage(input);
  if (!decision.allow) throw fault(decision.code, decision.message, { hint: decision.hint });
}

export function checkMessage(input: MessageInput): MessageDecision {
  if (input.from === input.to) return refuse('bad_request', `${input.from} cannot write to itself`);
  const decision = checkType(input);
  return decision.allow ? checkParties(input) : decision;
}

function checkType({ type, from, to }: MessageInput): MessageDecision {
  const [sender, receiver] = [parsePrincipal(from), parsePrincipal(to)];
  if (type === 'TaskRequest' && (sender.kind !== 'person' || receiver.kind !== 'agent')) {
    return sender.kind === 'person'
      ? refuse('bad_request', `a TaskRequest goes to an agent, not to ${to}`)
      : refuse('denied', `${from} cannot write a TaskRequest`, 'Use task.delegate.');
  }
  const instead = CALLS_INSTEAD[type];
  if (instead !== undefined) {
    const hint = sender.kind === 'agent' ? instead.agent : instead.others;
    return refuse('bad_request', `a ${type} is not delivered: services are called`, hint);
  }
  if (receiver.kind === 'service') {
    return refuse('bad_request', `${to} accepts no messages`, 'Write to an agent or a person.');
  }
  return allowed;
}

function checkParties({ from, to, inThread, talkTo }: MessageInput): MessageDecision {
  const [sender, receiver] = [parsePrincipal(from), parsePrincipal(to)];
  if (receiver.kind === 'external') {
    return refuse(
      'unavailable',
      `${to} cannot be reached: there is no gateway for external messages`,
    );
  }
  if (sender.kind === 'external' && !inThread) {
    return refuse('denied', `${from} is not in this thread`, 'Create a new task.');
  }
  if (sender.kind !== 'agent' || receiver.kind !== 'agent' || inThread) return allowed;
  if (talkTo?.includes(receiver.name) === true) return allowed;
  return refuse(
    'denied',
    `${from} may not write to ${to}: it is neither in this thread nor in team.talkTo`,
    'Write to the agent that delegated the task, or ask a person to change the manifest.',
  );
}

/** Returns the text of a message; parts of other kinds are shown as `[kind]`. */
export const formatText = (parts: SendMessage['parts']): string =>
  parts.map((part) => (part.kind === 'text' ? part.text : `[${part.kind}]`)).join('\n');

const ORDER: readonly Label[] = ['person', 'agent', 'tool', 'outside', 'secret', 'personal'];

/**
 * Returns the label of the sender's kind and all labels of the sending run. Labels say what a text
 * may contain: `person` among them makes it no more trusted.
 */
export function computeMessageLabels(from: Principal, runLabels: readonly Label[] = []): Label[] {
  const { kind } = parsePrincipal(from);
  // The sender's own text is an agent's text to every receiver.
  const labels = new Set<Label>(runLabels.map((label) => (label === 'own' ? 'agent' : label)));
  if (kind === 'person') labels.add('person');
  else if (kind === 'agent') labels.add('agent');
  else if (kind === 'service') labels.add('tool');
  else labels.add('outside');
  return ORDER.filter((label) => labels.has(label));
}
