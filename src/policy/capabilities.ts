// Maps capabilities and groups to tools, and computes the grant that delegations leave. Pure. Site
// rules, approvals and budgets narrow a grant further elsewhere; nothing ever widens one.
import type { Delegation } from '../wire/agentd.ts';
import type { Manifest } from '../wire/manifest.ts';

/** Without it no run could end, so no deny list can remove it. */
const finish = 'task.finish';

/** The tools that every agent has by default. */
const BASIC = [
  finish,
  'message.send',
  'artifact.put',
  'artifact.get',
  'person.ask',
  'timer.wait',
  'team.list',
  'skill.read',
] as const;

const CAPABILITIES = new Map<string, readonly string[]>([
  ['team.basic', BASIC],
  ['task.delegate', ['task.delegate', 'task.update', 'task.apply', 'task.discard']],
  ['git.read', ['git.status', 'git.diff', 'git.log', 'git.show']],
  ['git.write_branch', ['git.commit', 'git.branch', 'git.worktree']],
  ['tests.run', ['tests.run']],
  ['file.read', ['file.read', 'file.list', 'file.search']],
  ['file.write_workspace', ['file.write', 'file.edit', 'file.delete']],
  ['delete.recursive', ['delete.recursive']],
  ['shell.exec', ['shell.exec']],
  ['package.request', ['package.request']],
  ['http.fetch', ['http.fetch']],
  ['network.request', ['network.request']],
  ['network.external', ['http.fetch', 'network.request']],
  ['email.send_external', ['email.send_external']],
  ['logs.read', ['logs.read']],
  ['metrics.read', ['metrics.read']],
  ['secrets.read', ['secrets.read']],
  ['memory.read', ['memory.recall']],
  ['memory.write', ['memory.remember', 'memory.propose']],
  ['memory.propose', ['memory.propose']],
  ['memory.forget', ['memory.forget']],
  ['team.artifacts', ['artifact.list', 'artifact.share']],
  ['skill.propose', ['skill.propose']],
  ['persona.propose', ['persona.propose']],
  ['staging.deploy', ['staging.deploy']],
  ['prod.deploy', ['prod.deploy']],
  ['prod.write', ['prod.write']],
  ['production.change', ['prod.deploy', 'prod.write']],
  // Run by the provider of a model, not by toold; modeld checks them.
  ['model.web_search', ['model.web_search']],
  ['model.web_fetch', ['model.web_fetch']],
  ['model.code_execution', ['model.code_execution']],
  ['model.mcp', ['model.mcp']],
  [
    'model.server_tools',
    ['model.web_search', 'model.web_fetch', 'model.code_execution', 'model.mcp', 'model.other'],
  ],
  ['test.tools', ['test.count_effect', 'test.echo']],
]);

/** Groups with capabilities. A manifest may name others too, for site rules to refer to. */
const GROUPS = new Map<string, readonly string[]>([
  ['agent-read-docs', ['file.read']],
  ['agent-write-workspace', ['file.read', 'file.write_workspace']],
  ['agent-run-tests', ['tests.run']],
  ['agent-read-logs', ['logs.read']],
  ['agent-deploy-staging', ['staging.deploy']],
  ['agent-deploy-prod', ['prod.deploy']],
]);

/** Returns each group with each capability that it brings. */
export function expandGroups(groups: readonly string[]): [group: string, word: string][] {
  return groups.flatMap((group) =>
    (GROUPS.get(group) ?? []).map((word): [string, string] => [group, word]),
  );
}

const TOOLS: ReadonlySet<string> = new Set([...CAPABILITIES.values()].flat());

/** The sorted names that a manifest or delegation may use: of capabilities and of tools. */
export const CAPABILITY_NAMES: readonly string[] = [
  ...new Set([...CAPABILITIES.keys(), ...TOOLS]),
].sort();

export const isBasicTool = (tool: string): boolean => (BASIC as readonly string[]).includes(tool);

/** A person can delegate every tool in the table. */
export const ALL_TOOLS: readonly string[] = [...TOOLS].sort();

/** Returns the tools of a capability, or the tool itself; a capability of that name wins. */
export function expandCapability(word: string): readonly string[] | undefined {
  return CAPABILITIES.get(word) ?? (TOOLS.has(word) ? [word] : undefined);
}

export const isKnownWord = (word: string): boolean => expandCapability(word) !== undefined;

/** Returns the tools of a capability; a name that is not in the table is that of a tool. */
export const expandWord = (word: string): readonly string[] => expandCapability(word) ?? [word];

/** A name that is not in the table can only be that of a declared tool. */
function expandAll(words: readonly string[]): Set<string> {
  return new Set(words.flatMap((word) => expandCapability(word) ?? [word]));
}

function deniedTools(words: readonly string[]): Set<string> {
  const denied = expandAll(words);
  denied.delete(finish);
  return denied;
}

/** Returns the capabilities that grant a tool. */
export function findGrantingCapabilities(tool: string): string[] {
  return [...CAPABILITIES].filter(([, tools]) => tools.includes(tool)).map(([word]) => word);
}

/** Returns the names that include `task.finish`. A deny list with one of them is rejected. */
export function findUndeniable(words: readonly string[]): string[] {
  return words.filter((word) => expandCapability(word)?.includes(finish) === true);
}

/** Returns the tools a manifest allows, sorted, and its unknown names. */
export function findAllowedTools({
  spec,
}: {
  spec: Pick<Manifest['spec'], 'tools' | 'approvals' | 'groups'>;
}): {
  tools: string[];
  unknown: string[];
} {
  const { allow = [], deny = [] } = spec.tools ?? {};
  const required = spec.approvals?.required ?? [];
  const denied = deniedTools(deny);
  const fromGroups = expandGroups(spec.groups ?? []).map(([, word]) => word);
  const tools = new Set([...BASIC, ...expandAll([...allow, ...fromGroups])]);
  const words = new Set([...allow, ...deny, ...required]);
  return {
    tools: [...tools].filter((tool) => !denied.has(tool)).sort(),
    unknown: [...words].filter((word) => !isKnownWord(word)),
  };
}

export type Grant = {
  /** Sorted names. */
  tools: string[];
  /** The earliest expiry of the delegations above; null when none of them expires. */
  expiresAt: string | null;
};

/**
 * Computes a run's grant: its agent's tools, minus those that any delegation above it excludes. A
 * delegation without an allow list excludes only its deny list.
 */
export function computeGrant(input: {
  tools: readonly string[];
  delegations: readonly Delegation[];
}): Grant {
  let tools = [...new Set(input.tools)].sort();
  let expiresAt: string | null = null;
  for (const { allow, deny, expires_at: end } of input.delegations) {
    if (allow !== undefined) {
      const allowed = new Set([...BASIC, ...expandAll(allow)]);
      tools = tools.filter((tool) => allowed.has(tool));
    }
    const denied = deniedTools(deny ?? []);
    tools = tools.filter((tool) => !denied.has(tool));
    if (end !== undefined && (expiresAt === null || Date.parse(end) < Date.parse(expiresAt))) {
      expiresAt = end;
    }
  }
  return { tools, expiresAt };
}

/** Returns the problems of a delegation. An agent can delegate only tools that it has. */
export function delegationProblems(
  delegatorTools: readonly string[],
  delegation: Delegation,
  nowMs?: number,
): string[] {
  const has = new Set(delegatorTools);
  const { allow = [], deny = [] } = delegation;
  const isKnown = (word: string) => isKnownWord(word) || has.has(word);
  const unknown = [...new Set([...allow, ...deny])].filter((word) => !isKnown(word));
  const excessive = [...new Set(allow)].flatMap((word) => {
    const missing = (expandCapability(word) ?? []).filter((tool) => !has.has(tool));
    const list = missing.length === 1 && missing[0] === word ? '' : ` (${missing.join(', ')})`;
    return missing.length === 0
      ? []
      : [`${word} cannot be delegated: the delegator lacks it${list}`];
  });
  const end = delegation.expires_at;
  const isPast = end !== undefined && nowMs !== undefined && Date.parse(end) <= nowMs;
  return [
    ...unknown.map((word) => `${word} is not a known capability or tool`),
    ...excessive,
    ...(isPast ? [`expires_at ${end} is in the past`] : []),
    ...findUndeniable(deny).map(
      (word) => `${word} cannot be denied: without ${finish} the task could not end`,
    ),
  ];
}
