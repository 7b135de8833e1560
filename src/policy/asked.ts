// Lists who asks policy about each action. A site rule about anything else would decide nothing, so
// the check of rule files rejects it.
import type { Action } from './request.ts';

type Asked = {
  /** The types of principals that some daemon asks about. */
  principals: readonly string[];
  /** A person can be asked: the effect of a rule with @ask. */
  canWait: boolean;
};

const agents: Asked = { principals: ['Agent'], canWait: true };

export const ASKED: Readonly<Record<Action, Asked>> = {
  'tool.call': agents,
  'file.read': agents,
  'file.write': agents,
  'file.delete': agents,
  'net.connect': agents,
  // A step of a run cannot wait for a person.
  'model.use': { principals: ['Agent'], canWait: false },
  // A recall leaves out what a person would have to allow.
  'memory.read': { principals: ['Agent', 'Person'], canWait: false },
  // Asking means here: it becomes a proposal.
  'memory.write': { principals: ['Agent', 'Person'], canWait: true },
  // Mail from outside cannot wait for a person: for it, asking means no.
  'task.delegate': { principals: ['Agent', 'External'], canWait: true },
  'message.send': { principals: ['Agent', 'External'], canWait: true },
  'workspace.apply': { principals: ['Person'], canWait: true },
  // Asking means here: two people must approve.
  'approval.decide': { principals: ['Person'], canWait: true },
  'data.retain': { principals: ['Person', 'Service'], canWait: false },
  'data.delete': { principals: ['Agent', 'Person', 'Service'], canWait: true },
};
