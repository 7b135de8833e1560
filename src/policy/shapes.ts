// Validates requests: the principals, resources and context of each action. A test compares the
// table with schema.cedarschema. Cedar's evaluation is not enough: a malformed request must be
// denied even when no condition reads the wrong part.
import type { Action, PolicyContext, ResourceType } from './request.ts';

type Kind = 'String' | 'Long' | 'Bool' | 'Strings';
export type Shape = {
  principals: readonly string[];
  resources: readonly ResourceType[];
  required: Readonly<Record<string, Kind>>;
  optional: Readonly<Record<string, Kind>>;
};

const run = { task_id: 'String', root_task_id: 'String' } as const;
const labels = 'Strings';

const onPath: Shape = {
  principals: ['Agent'],
  resources: ['Path'],
  required: { path: 'String', labels },
  optional: { tool: 'String', recursive: 'Bool', declared: 'Bool', ...run },
};
const onMemory: Shape = {
  principals: ['Agent', 'Person'],
  resources: ['Scope'],
  required: { scope: 'String', labels },
  optional: { own: 'Bool', ...run },
};
const onData: Shape = {
  ...onMemory,
  principals: ['Agent', 'Person', 'Service'],
  optional: { age_days: 'Long', own: 'Bool', ...run },
};

export const SHAPES: Readonly<Record<Action, Shape>> = {
  'tool.call': {
    principals: ['Agent'],
    resources: ['Tool'],
    required: {
      tool: 'String',
      risk: 'String',
      reversibility: 'String',
      idempotent: 'Bool',
      level: 'String',
      labels,
      ...run,
    },
    optional: { delegated_tools: 'Strings' },
  },
  'file.read': onPath,
  'file.write': onPath,
  'file.delete': onPath,
  'net.connect': {
    principals: ['Agent'],
    resources: ['Host'],
    required: { host: 'String', port: 'Long', is_address: 'Bool', labels },
    optional: { method: 'String', url_path: 'String', granted: 'Bool', tool: 'String', ...run },
  },
  'model.use': {
    principals: ['Agent'],
    resources: ['Model'],
    required: { model: 'String', labels },
    optional: run,
  },
  'memory.read': onMemory,
  'memory.write': onMemory,
  'task.delegate': {
    principals: ['Agent', 'Person', 'External'],
    resources: ['Agent'],
    required: { labels },
    optional: run,
  },
  'message.send': {
    principals: ['Agent', 'Person', 'Service', 'External'],
    resources: ['Agent', 'Person', 'Service', 'External'],
    required: { message_type: 'String', labels },
    optional: { ...run, domain: 'String' },
  },
  'workspace.apply': {
    principals: ['Person'],
    resources: ['Path'],
    required: {
      path: 'String',
      undo: 'Bool',
      added: 'Long',
      modified: 'Long',
      deleted: 'Long',
      replaced: 'Long',
      mode: 'Long',
      kinds: 'Strings',
      labels,
    },
    optional: run,
  },
  'approval.decide': {
    principals: ['Person'],
    resources: ['Approval'],
    required: {
      agent: 'String',
      tool: 'String',
      class: 'String',
      risk: 'String',
      reversibility: 'String',
      decision: 'String',
      reach: 'String',
      channel: 'String',
      labels,
    },
    optional: run,
  },
  'data.retain': onData,
  'data.delete': onData,
};

function isKind(value: PolicyContext[string], kind: Kind): boolean {
  switch (kind) {
    case 'String':
      return typeof value === 'string';
    case 'Long':
      return Number.isSafeInteger(value);
    case 'Bool':
      return typeof value === 'boolean';
    case 'Strings':
      return Array.isArray(value) && value.every((item) => typeof item === 'string');
  }
}

/** Returns why a request is malformed, or undefined. */
export function shapeProblem(request: {
  principal: string;
  action: string;
  resource: string;
  context: PolicyContext;
}): string | undefined {
  const { principal, action, resource, context } = request;
  if (!Object.hasOwn(SHAPES, action)) return `unknown action ${action}`;
  const shape = SHAPES[action as Action];
  if (!shape.principals.includes(principal))
    return `${action} does not apply to principals of type ${principal}`;
  if (!shape.resources.includes(resource as ResourceType))
    return `${action} does not apply to resources of type ${resource}`;
  for (const name of Object.keys(shape.required))
    if (!Object.hasOwn(context, name)) return `${action} needs ${name}`;
  for (const [name, value] of Object.entries(context)) {
    const { required, optional } = shape;
    const kind = Object.hasOwn(required, name)
      ? required[name]
      : Object.hasOwn(optional, name)
        ? optional[name]
        : undefined;
    if (kind === undefined) return `${action} has no ${name}`;
    if (!isKind(value, kind)) return `${name} is not a ${kind}`;
  }
  return undefined;
}
