// The one table from capability words to tools, and what delegation leaves of them. Pure. Site
// rules, approvals and budgets narrow a grant further elsewhere; nothing here or there ever widens
// one.
import type { Delegation } from '../wire/agentd.ts';
import type { Manifest } from '../wire/manifest.ts';

/** Without it no run could end, so no deny list takes it away. */
const finish = 'task.finish';

/** What every agent has without naming it. */
const BASIC = [
  finish,
  'message.send',
  'artifact.put',
  'artifact.get',
  'person.ask',
  'timer.wait',
] as const;

const CAPABILITIES = new Map<string, readonly string[]>([
  ['team.basic', BASIC],
  ['task.delegate', ['task.delegate']],
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
  ['staging.deploy', ['staging.deploy']],
  ['prod.deploy', ['prod.deploy']],
  ['prod.write', ['prod.write']],
  ['production.change', ['prod.deploy', 'prod.write']],
  ['test.tools', ['test.count_effect', 'test.echo']],
]);

/**
 * Groups that bring capabilities with them. A manifest may name others too: they bring nothing by
 * themselves, and the site's own rules can refer to them.
 */
const GROUPS = new Map<string, readonly string[]>([
  ['agent-read-docs', ['file.read']],
  ['agent-write-workspace', ['file.read', 'file.write_workspace']],
  ['agent-run-tests', ['tests.run']],
  ['agent-read-logs', ['logs.read']],
  ['agent-deploy-staging', ['staging.deploy']],
  ['agent-deploy-prod', ['prod.deploy']],
]);

/** Each group with each word that it brings. */
export function wordsOfGroups(groups: readonly string[]): [group: string, word: string][] {
  return groups.flatMap((group) =>
    (GROUPS.get(group) ?? []).map((word): [string, string] => [group, word]),
  );
}

const TOOLS: ReadonlySet<string> = new Set([...CAPABILITIES.values()].flat());

/**
 * Every word a manifest or a delegation may use, sorted: capabilities, and tools by their own name.
 */
export const CAPABILITY_WORDS: readonly string[] = [
  ...new Set([...CAPABILITIES.keys(), ...TOOLS]),
].sort();

/** What every agent has, and ends its work with; how its risk is meant differs from the others'. */
export const isBasicTool = (tool: string): boolean => (BASIC as readonly string[]).includes(tool);

/** What a person may pass on: everything the table knows. */
export const ALL_TOOLS: readonly string[] = [...TOOLS].sort();

/** A word that is both a capability and a tool means the capability. */
function expand(word: string): readonly string[] | undefined {
  return CAPABILITIES.get(word) ?? (TOOLS.has(word) ? [word] : undefined);
}

const isKnownWord = (word: string): boolean => expand(word) !== undefined;

/** A word that is not in the table can only be the name of a tool that an operator declared. */
function allowedBy(words: readonly string[]): Set<string> {
  return new Set(words.flatMap((word) => expand(word) ?? [word]));
}

/** An unknown word still denies the tool of exactly that name. */
function deniedBy(words: readonly string[]): Set<string> {
  const denied = new Set(words.flatMap((word) => expand(word) ?? [word]));
  denied.delete(finish);
  return denied;
}

/** The capability words that grant a tool. */
export function wordsGranting(tool: string): string[] {
  return [...CAPABILITIES].filter(([, tools]) => tools.includes(tool)).map(([word]) => word);
}

/** The words that would take away what every run needs. A deny list that has one is refused. */
export function undeniableWords(words: readonly string[]): string[] {
  return words.filter((word) => expand(word)?.includes(finish) === true);
}

/** The tools a manifest allows, sorted, and the words in it that mean nothing. */
export function toolsOf({
  spec,
}: {
  spec: Pick<Manifest['spec'], 'tools' | 'approvals' | 'groups'>;
}): {
  tools: string[];
  unknown: string[];
} {
  const { allow = [], deny = [] } = spec.tools ?? {};
  const required = spec.approvals?.required ?? [];
  const denied = deniedBy(deny);
  const fromGroups = wordsOfGroups(spec.groups ?? []).map(([, word]) => word);
  const tools = new Set([...BASIC, ...allowedBy([...allow, ...fromGroups])]);
  const words = new Set([...allow, ...deny, ...required]);
  return {
    tools: [...tools].filter((tool) => !denied.has(tool)).sort(),
    unknown: [...words].filter((word) => !isKnownWord(word)),
  };
}

export type Grant = {
  /** Sorted names. */
  tools: string[];
  /** The earliest end of the delegations above; null when none of them has one. */
  expiresAt: string | null;
};

/**
 * What a run may do: its agent's tools, less whatever any delegation above it left out. A
 * delegation without an allow list passes on all that the receiver has itself.
 */
export function grantOf(input: {
  tools: readonly string[];
  delegations: readonly Delegation[];
}): Grant {
  let tools = [...new Set(input.tools)].sort();
  let expiresAt: string | null = null;
  for (const { allow, deny, expires_at: end } of input.delegations) {
    if (allow !== undefined) {
      const allowed = new Set([...BASIC, ...allowedBy(allow)]);
      tools = tools.filter((tool) => allowed.has(tool));
    }
    const denied = deniedBy(deny ?? []);
    tools = tools.filter((tool) => !denied.has(tool));
    if (end !== undefined && (expiresAt === null || Date.parse(end) < Date.parse(expiresAt))) {
      expiresAt = end;
    }
  }
  return { tools, expiresAt };
}

/** Sentences for what is wrong with a delegation. An agent can delegate only what it has. */
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
    const missing = (expand(word) ?? []).filter((tool) => !has.has(tool));
    const what = missing.length === 1 && missing[0] === word ? '' : ` (${missing.join(', ')})`;
    return missing.length === 0 ? [] : [`${word} cannot be delegated by who has not got it${what}`];
  });
  const end = delegation.expires_at;
  const isPast = end !== undefined && nowMs !== undefined && Date.parse(end) <= nowMs;
  return [
    ...unknown.map((word) => `${word} is not a known capability or tool`),
    ...excessive,
    ...(isPast ? [`its end ${end} is past`] : []),
    ...undeniableWords(deny).map(
      (word) => `${word} cannot be denied: without ${finish} the task could not end`,
    ),
  ];
}
