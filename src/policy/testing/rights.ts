// Builds and generates bundles, requests and rules for the tests of policy.
import fc from 'fast-check';
import type { Bundle, BundleContent } from '../bundle.ts';
import { sealBundle } from '../bundle-file.ts';
import { CAPABILITY_NAMES } from '../capabilities.ts';
import { makePolicy, type Policy } from '../decide.ts';
import type { AgentRights } from '../manifest-rules.ts';
import type { Action, PolicyContext, Request } from '../request.ts';

const noLimits = { cpu: null, memory_bytes: null, pids: null };
export const rights = (more: Partial<AgentRights> = {}): AgentRights => ({
  resources: noLimits,
  ...more,
});

export function makeBundle(
  agents: Record<string, Partial<AgentRights>>,
  more: Partial<Omit<BundleContent, 'site'>> & { site?: Record<string, string> } = {},
): Bundle {
  const { site = {}, ...rest } = more;
  return sealBundle(
    {
      people: null,
      protected: [],
      ...rest,
      site: Object.entries(site).map(([file, text]) => ({ file, text })),
      agents: Object.fromEntries(
        Object.entries(agents).map(([name, some]) => [name, rights(some)]),
      ),
    },
    { version: 1, madeAt: '2026-01-01T00:00:00.000Z' },
  );
}

export const makeTestPolicy = (
  agents: Record<string, Partial<AgentRights>>,
  more: Parameters<typeof makeBundle>[1] & { nowMs?: () => number } = {},
): Policy => {
  const { nowMs = () => 0, ...rest } = more;
  return makePolicy(makeBundle(agents, rest), { nowMs });
};

/** Returns each decision with the rules that decided. */
export async function decideEach(policy: Policy, requests: readonly Request[]): Promise<string[]> {
  const found = await Promise.all(requests.map((request) => policy.decide(request)));
  return found.map(({ answer, rules }) => [answer, ...rules].join(' '));
}

const by = 'agent:coder';

export const file = (action: Action, path: string, context: PolicyContext = {}): Request => ({
  principal: by,
  action,
  resource: { type: 'Path', id: path },
  context: { path, ...context },
});

export const net = (host: string, port: number, context: PolicyContext = {}): Request => ({
  principal: by,
  action: 'net.connect',
  resource: { type: 'Host', id: host },
  context: { host, port, is_address: /^[\d.]+$|:/.test(host), ...context },
});

export const call = (tool: string, context: PolicyContext = {}): Request => ({
  principal: by,
  action: 'tool.call',
  resource: { type: 'Tool', id: tool },
  context: {
    tool,
    risk: 'low',
    reversibility: 'reversible',
    idempotent: true,
    level: 'L1',
    task_id: 'task_1',
    root_task_id: 'task_1',
    ...context,
  },
});

const DIRS = ['/srv', '/srv/app', '/srv/app2', '/srv/app/src', '/workspace', '/workspace/x'];
const NEVER = ['/etc', '/home', '/home/coder', '/home/other', '/run', '/tmp', '/usr'];
export const somePath = fc
  .tuple(fc.constantFrom(...DIRS, ...NEVER), fc.constantFrom('', '/a', '/a/b', '/x', '/src/y'))
  .map(([dir, rest]) => dir + rest);
const someDir = fc.constantFrom(...DIRS, ...NEVER);
const dirs = fc.array(someDir, { maxLength: 3 });
const words = fc.array(fc.constantFrom(...CAPABILITY_NAMES), { maxLength: 5 });
const deniable = words.map((list) =>
  list.filter((word) => word !== 'team.basic' && word !== 'task.finish'),
);
export const someLabels = fc.subarray(['outside', 'secret', 'personal', 'tool']);
const someHost = fc.constantFrom('github.com', 'a.github.com', '*.github.com', 'reg.local:5000');

export const someRights: fc.Arbitrary<Partial<AgentRights>> = fc.record(
  {
    groups: fc.subarray(['agent-read-docs', 'agent-run-tests', 'agent-deploy-prod', 'ours']),
    tools: fc.record({ allow: words, deny: deniable }),
    filesystem: fc.record({ read: dirs, write: dirs, deny: dirs }),
    network: fc.record({
      mode: fc.constantFrom('none' as const, 'restricted' as const),
      allow: fc.array(someHost, { maxLength: 3 }),
      change: fc.dictionary(someHost, fc.constant(['POST' as const]), { maxKeys: 2 }),
    }),
    approvals: fc.record({ required: words }),
  },
  { requiredKeys: [] },
);

export const someRequest: fc.Arbitrary<Request> = fc.oneof(
  fc
    .tuple(
      fc.constantFrom<Action>('file.read', 'file.write', 'file.delete'),
      somePath,
      someLabels,
      fc.boolean(),
    )
    .map(([action, path, labels, recursive]) => file(action, path, { labels, recursive })),
  fc
    .tuple(
      fc.constantFrom(...CAPABILITY_NAMES),
      someLabels,
      fc.constantFrom('read-only', 'reversible', 'irreversible'),
      fc.constantFrom('low', 'high'),
    )
    .map(([tool, labels, reversibility, risk]) => call(tool, { labels, reversibility, risk })),
  fc
    .tuple(
      fc.constantFrom('github.com', 'a.github.com', 'evil.org', '10.0.0.1', 'reg.local'),
      fc.constantFrom(443, 80, 22, 5000),
      fc.constantFrom('GET', 'POST', 'CONNECT'),
      someLabels,
    )
    .map(([host, port, method, labels]) => net(host, port, { method, labels })),
);

/** Lifts the question before a POST, in a permit of a host. */
const METHOD_CONDITION = ' when { context has method && context.method == "POST" }';

/** One site rule. The effect `ask` is a forbid with @ask. */
export const someRule = (effects: readonly ('permit' | 'forbid' | 'ask')[]) =>
  fc
    .tuple(
      fc.constantFrom(...effects),
      fc.constantFrom(
        'principal',
        'principal is Agent',
        'principal == Agent::"coder"',
        'principal in Group::"ours"',
        'principal == Agent::"other"',
      ),
      fc.constantFrom<[string, string]>(
        ['action', 'resource'],
        ['action == Action::"file.write"', 'resource'],
        ['action in [Action::"file.read", Action::"file.delete"]', 'resource'],
        ['action == Action::"file.read"', 'resource in Path::"/srv/app"'],
        ['action == Action::"file.read"', 'resource == Path::"/srv/app2"'],
        ['action == Action::"file.write"', 'resource == Path::"/workspace/x"'],
        ['action == Action::"file.delete"', 'resource is Path in Path::"/workspace"'],
        ['action == Action::"tool.call"', 'resource in Capability::"git.read"'],
        ['action == Action::"tool.call"', 'resource == Tool::"file.read"'],
        ['action == Action::"net.connect"', 'resource in Host::"*.github.com"'],
        ['action == Action::"net.connect"', 'resource == Host::"github.com"'],
      ),
      fc.constantFrom(
        '',
        ' when { context.labels.contains("outside") }',
        ' unless { context.labels.containsAny(["secret", "personal"]) }',
        METHOD_CONDITION,
      ),
    )
    .filter(
      ([, , [action], condition]) =>
        condition !== METHOD_CONDITION || action.includes('net.connect'),
    )
    .map(([effect, principal, [action, resource], condition]) => {
      const head = effect === 'ask' ? '@ask("because") forbid' : effect;
      return `${head} (${principal}, ${action}, ${resource})${condition};`;
    });
