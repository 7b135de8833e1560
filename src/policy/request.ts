// Policy requests and decisions, and builders for the requests of tool and model calls.
import { parseHost } from './hosts.ts';
import { readMailDomain, readPrincipal } from './principals.ts';

export type Action =
  | 'tool.call'
  | 'file.read'
  | 'file.write'
  | 'file.delete'
  | 'net.connect'
  | 'model.use'
  | 'memory.read'
  | 'memory.write'
  | 'task.delegate'
  | 'message.send'
  | 'workspace.apply'
  | 'approval.decide'
  | 'data.retain'
  | 'data.delete';

export type ResourceType =
  | 'Tool'
  | 'Path'
  | 'Host'
  | 'Model'
  | 'Scope'
  | 'Agent'
  | 'Person'
  | 'Service'
  | 'External'
  | 'Approval';

export type PolicyContext = Record<string, string | number | boolean | readonly string[]>;

export type PolicyValue = string | number | boolean | readonly PolicyValue[] | PolicyRecord;
export type PolicyRecord = { readonly [name: string]: PolicyValue };

export type Request = {
  /** agent:coder, person:alice, … */
  principal: string;
  action: Action;
  resource: { type: ResourceType; id: string };
  /** `labels` defaults to an empty list. */
  context: PolicyContext;
  /** `context.arguments` of a tool call; called only when a rule reads it. */
  arguments?: () => PolicyRecord;
};

export type PolicyDecision = {
  answer: 'allow' | 'ask' | 'deny';
  /** Ids of the rules that decided; empty for a deny because no rule permits it. */
  rules: string[];
  /** Shown to people and models. */
  reason: string;
  /** The bundle's version. */
  version: number;
};

/** A path, host or agent that a call would read, change, reach or hand work to. */
export type Touch =
  | {
      action: 'file.read' | 'file.write' | 'file.delete';
      path: string;
      recursive?: boolean;
      /** The tool's declaration lists this path, so that it needs no permit. */
      declared?: boolean;
    }
  | {
      action: 'net.connect';
      host: string;
      port: number;
      method?: string;
      urlPath?: string;
      /** A person granted this host and port to the run. */
      granted?: boolean;
    }
  | { action: 'task.delegate'; agent: string }
  /** `to` is a principal: agent:coder, person:alice, … */
  | { action: 'message.send'; to: string; messageType: string };

export type CallFacts = {
  agent: string;
  taskId: string;
  rootTaskId: string;
  tool: {
    name: string;
    risk: string;
    reversibility: string;
    idempotent: boolean;
    level: string;
  };
  touches: readonly Touch[];
  /** The run's marks. */
  labels: readonly string[];
  /** Absent where only the record of an older call is known. */
  arguments?: () => PolicyRecord;
  /** The run's grant, when policy is to check it too. */
  delegatedTools?: readonly string[];
};

export type ModelFacts = {
  agent: string;
  model: string;
  taskId: string | null;
  rootTaskId: string | null;
  labels: readonly string[];
};

export function modelRequest({ agent, model, taskId, rootTaskId, labels }: ModelFacts): Request {
  const task = taskId === null ? {} : { task_id: taskId };
  const root = rootTaskId === null ? {} : { root_task_id: rootTaskId };
  return {
    principal: `agent:${agent}`,
    action: 'model.use',
    resource: { type: 'Model', id: model },
    context: { model, ...task, ...root, labels },
  };
}

/** Returns one request for the tool itself and one for each thing it would touch. */
export function callRequests(facts: CallFacts): Request[] {
  const { agent, tool, labels } = facts;
  const principal = `agent:${agent}`;
  const run = { task_id: facts.taskId, root_task_id: facts.rootTaskId, labels: [...labels] };
  const call: Request = {
    principal,
    action: 'tool.call',
    resource: { type: 'Tool', id: tool.name },
    context: {
      tool: tool.name,
      risk: tool.risk,
      reversibility: tool.reversibility,
      idempotent: tool.idempotent,
      level: tool.level,
      ...run,
      ...(facts.delegatedTools === undefined ? {} : { delegated_tools: facts.delegatedTools }),
    },
    ...(facts.arguments === undefined ? {} : { arguments: facts.arguments }),
  };
  return [
    call,
    ...facts.touches.map((touch) => touchRequest(principal, touch, { ...run, tool: tool.name })),
  ];
}

export function touchRequest(principal: string, touch: Touch, run: PolicyContext): Request {
  if (touch.action === 'task.delegate' || touch.action === 'message.send')
    return teamRequest(principal, touch, run);
  if (touch.action !== 'net.connect') {
    const { action, path, recursive, declared } = touch;
    const context = {
      path,
      ...(recursive === undefined ? {} : { recursive }),
      ...(declared === undefined ? {} : { declared }),
      ...run,
    };
    return { principal, action, resource: { type: 'Path', id: path }, context };
  }
  const parsed = parseHost(touch.host);
  // Text that is not a host goes into the request unchanged, and decide() denies it.
  const host = 'value' in parsed ? parsed.value.name : touch.host;
  const context = {
    host,
    port: touch.port,
    is_address: 'value' in parsed && parsed.value.ip !== undefined,
    ...(touch.method === undefined ? {} : { method: touch.method.toUpperCase() }),
    ...(touch.urlPath === undefined ? {} : { url_path: touch.urlPath }),
    ...(touch.granted === undefined ? {} : { granted: touch.granted }),
    ...run,
  };
  return { principal, action: 'net.connect', resource: { type: 'Host', id: host }, context };
}

type TeamTouch = Extract<Touch, { action: 'task.delegate' | 'message.send' }>;

/** The context of these actions has no tool: only the tool of the same name asks them. */
function teamRequest(principal: string, touch: TeamTouch, run: PolicyContext): Request {
  const { tool: _, ...context } = run;
  const { action } = touch;
  if (action === 'task.delegate')
    return { principal, action, resource: { type: 'Agent', id: touch.agent }, context };
  // A receiver that is not a principal gets a type that no action has, and decide() denies it.
  const { type, id } = readPrincipal(touch.to) ?? { type: 'Scope', id: touch.to };
  const resource = { type: type as ResourceType, id };
  const domain = readMailDomain(touch.to);
  const message = {
    message_type: touch.messageType,
    ...(domain === undefined ? {} : { domain }),
  };
  return { principal, action, resource, context: { ...message, ...context } };
}

const ORDER = { allow: 0, ask: 1, deny: 2 } as const;

/** Returns the strictest decision, with the rules of all decisions that are equally strict. */
export function strictest(decisions: readonly PolicyDecision[]): PolicyDecision {
  const first = decisions.reduce((a, b) => (ORDER[b.answer] > ORDER[a.answer] ? b : a));
  const same = decisions.filter(({ answer }) => answer === first.answer);
  const reasons = first.answer === 'allow' ? [first.reason] : same.map(({ reason }) => reason);
  return {
    ...first,
    rules: [...new Set(same.flatMap(({ rules }) => rules))],
    reason: [...new Set(reasons)].join('; '),
  };
}
