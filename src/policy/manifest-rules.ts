// Extracts an agent's rights from its manifest and expands them into Cedar rules. A runtime keeps
// only the rights; the rules are generated at an agent's first request.
import type { Manifest } from '../wire/manifest.ts';
import { expandGroups, findAllowedTools } from './capabilities.ts';
import { type HostPattern, type HostRule, parseHostRule } from './hosts.ts';
import { quote, type RuleText } from './rule.ts';

type Spec = Manifest['spec'];

/** The part of a manifest that policy needs. */
export type AgentRights = Pick<
  Spec,
  'model' | 'groups' | 'memory' | 'tools' | 'filesystem' | 'network' | 'approvals' | 'team'
> & {
  /** The host account to run as, where agents have accounts. */
  linux_user?: string;
  resources: {
    cpu: number | null;
    memory_bytes: number | null;
    pids: number | null;
    /** Absent in bundles of earlier versions. */
    disk_bytes?: number | null;
  };
};

/** The resource limits of an agent's box; null where its manifest sets none. */
export type Resources = {
  cpu: number | null;
  memoryBytes: number | null;
  pids: number | null;
  diskBytes: number | null;
};

export function extractRights({ spec }: Manifest, resources: Resources): AgentRights {
  const { model, groups, memory, tools, filesystem, network, approvals, team } = spec;
  return {
    ...(spec.linuxUser === undefined ? {} : { linux_user: spec.linuxUser }),
    ...(model === undefined ? {} : { model }),
    ...(groups === undefined ? {} : { groups }),
    ...(memory === undefined ? {} : { memory }),
    ...(tools === undefined ? {} : { tools }),
    ...(filesystem === undefined ? {} : { filesystem }),
    ...(network === undefined ? {} : { network }),
    ...(approvals === undefined ? {} : { approvals }),
    ...(team === undefined ? {} : { team }),
    resources: {
      cpu: resources.cpu,
      memory_bytes: resources.memoryBytes,
      pids: resources.pids,
      disk_bytes: resources.diskBytes,
    },
  };
}

export const WORKSPACE = '/workspace';
/** No manifest can open these; base.cedar and the rule about homes below forbid them. */
export const NEVER_FOR_AGENTS: readonly string[] = [
  '/etc',
  '/home',
  '/root',
  '/boot',
  '/proc',
  '/sys',
  '/dev',
  '/run',
];
export const agentHome = (agent: string): string => `/home/${agent}`;

const FILES = '[Action::"file.read", Action::"file.write", Action::"file.delete"]';
const CHANGES = '[Action::"file.write", Action::"file.delete"]';

/** Tools that work in the workspace; those of the second list change it. */
const READS_WORKSPACE = /^(file|git|tests|shell|delete)\./;
const WRITES_WORKSPACE = new Set([
  'file.write',
  'file.edit',
  'file.delete',
  'git.commit',
  'git.branch',
  'git.worktree',
  'shell.exec',
  'tests.run',
  'delete.recursive',
]);

type Add = (subject: string, from: string, text: string) => void;

/** Returns an agent's rules; each id names the agent, the subject and a number. */
export function expandManifestRules(agent: string, rights: AgentRights): RuleText[] {
  const rules: RuleText[] = [];
  const count = new Map<string, number>();
  const add: Add = (subject, from, text) => {
    const n = (count.get(subject) ?? 0) + 1;
    count.set(subject, n);
    rules.push({ id: `manifest:${agent}:${subject}:${n}`, from, text });
  };
  const who = `principal == Agent::${quote(agent)}`;
  const tools = new Set(findAllowedTools({ spec: rights }).tools);
  addTools(add, who, rights);
  addFiles(add, who, agent, rights, tools);
  addNetwork(add, who, rights);
  addMemory(add, who, agent, rights);
  addTeam(add, who, rights, tools);
  const model = quote(rights.model ?? 'default');
  add(
    'model.use',
    'spec.model',
    `permit (${who}, action == Action::"model.use", resource == Model::${model});`,
  );
  addApprovals(add, who, rights);
  return rules;
}

function addTools(add: Add, who: string, { tools, groups }: AgentRights): void {
  const call = `${who}, action == Action::"tool.call"`;
  const rule = (effect: string, capability: string) =>
    `${effect} (${call}, resource in Capability::${quote(capability)});`;
  for (const capability of tools?.allow ?? [])
    add('tool.call', `spec.tools.allow: ${capability}`, rule('permit', capability));
  for (const [group, capability] of expandGroups(groups ?? []))
    add('tool.call', `spec.groups: ${group}`, rule('permit', capability));
  for (const capability of tools?.deny ?? []) {
    const why = `@why(${quote(`its manifest denies ${capability}`)}) `;
    add('tool.call', `spec.tools.deny: ${capability}`, why + rule('forbid', capability));
  }
}

function addFiles(
  add: Add,
  who: string,
  agent: string,
  { filesystem }: AgentRights,
  tools: ReadonlySet<string>,
): void {
  const permit = (actions: string, path: string) =>
    `permit (${who}, action ${actions}, resource in Path::${quote(path)});`;
  const read = '== Action::"file.read"';
  if ([...tools].some((tool) => READS_WORKSPACE.test(tool)))
    add('file.read', 'its tools', permit(read, WORKSPACE));
  if ([...tools].some((tool) => WRITES_WORKSPACE.has(tool)))
    add('file.write', 'its tools', permit(`in ${CHANGES}`, WORKSPACE));
  add('home', 'its home', permit(`in ${FILES}`, agentHome(agent)));
  for (const path of filesystem?.read ?? [])
    add('file.read', `spec.filesystem.read: ${path}`, permit(read, trimSlash(path)));
  for (const path of filesystem?.write ?? [])
    add('file.write', `spec.filesystem.write: ${path}`, permit(`in ${FILES}`, trimSlash(path)));
  for (const path of filesystem?.deny ?? []) {
    const below = trimSlash(path);
    add(
      'file.deny',
      `spec.filesystem.deny: ${path}`,
      `@why(${quote(`its manifest denies ${path}`)}) forbid (${who}, action in ${FILES}, ` +
        `resource in Path::${quote(below)})${exceptHome(agent, below)};`,
    );
  }
  add(
    'file.deny',
    'every agent',
    `@why("agents may not access other homes") forbid (${who}, action in ${FILES}, ` +
      `resource in Path::"/home")${exceptHome(agent, '/home')};`,
  );
}

/** The agent's own home is a private directory of its box, not one of the host's. */
function exceptHome(agent: string, below: string): string {
  const home = agentHome(agent);
  return below === '/home' ? ` unless { resource in Path::${quote(home)} }` : '';
}

/** Removes a trailing slash, which canonical paths do not have. */
export const trimSlash = (path: string): string => path.replace(/(.)\/$/, '$1');

/** Returns the hosts a manifest allows; entries that do not parse are skipped. */
export function parseHostRules({ network }: AgentRights): HostRule[] {
  if (network === undefined || network.mode === 'none') return [];
  return (network.allow ?? []).flatMap((written) => {
    const rule = parseHostRule(written);
    return 'value' in rule ? [rule.value] : [];
  });
}

const hostCondition = ({ text, isSuffix }: HostPattern): string =>
  `resource ${isSuffix ? 'in' : '=='} Host::${quote(text)}`;
const portCondition = (ports: readonly number[]): string =>
  ports.map((port) => `context.port == ${port}`).join(' || ');

function addNetwork(add: Add, who: string, rights: AgentRights): void {
  const connect = `${who}, action == Action::"net.connect"`;
  const rules = parseHostRules(rights);
  for (const { pattern, ports } of rules)
    add(
      'net.connect',
      `spec.network.allow: ${pattern.text}`,
      `permit (${connect}, ${hostCondition(pattern)}) when { ${portCondition(ports)} };`,
    );
  for (const [written, methods] of Object.entries(rights.network?.change ?? {})) {
    const rule = parseHostRule(written);
    if (rights.network?.mode === 'none' || 'problem' in rule) continue;
    const { pattern, ports } = rule.value;
    add(
      'net.connect',
      `spec.network.change: ${written}`,
      `permit (${connect}, ${hostCondition(pattern)}) when { (${portCondition(ports)}) && ` +
        `context has method && [${methods.map(quote).join(', ')}].contains(context.method) };`,
    );
  }
  const asks = (rights.approvals?.required ?? []).includes('network.external');
  if (!asks || rights.network?.mode === 'none') return;
  // Hosts beyond the list need approval.
  add(
    'net.connect',
    'spec.approvals.required: network.external',
    `permit (${connect}, resource) when { !context.is_address };`,
  );
  const listed = rules.map(
    ({ pattern, ports }) => `(${hostCondition(pattern)} && (${portCondition(ports)}))`,
  );
  const known = ['(context has granted && context.granted)', ...listed].join(' || ');
  add(
    'net.connect',
    'spec.approvals.required: network.external',
    `@ask("it reaches a host that its manifest does not list") forbid (${connect}, resource) ` +
      `unless { ${known} };`,
  );
}

function addMemory(add: Add, who: string, agent: string, { memory }: AgentRights): void {
  const permit = (action: string, scope: string) =>
    `permit (${who}, action == Action::"${action}", resource in Scope::${quote(scope)});`;
  const own = `agent:${agent}`;
  const read = new Set([own, ...(memory?.read ?? []), ...(memory?.write ?? [])]);
  const from = (key: string, scope: string) =>
    scope === own ? 'its own memory' : `spec.memory.${key}: ${scope}`;
  for (const scope of read) {
    const key = memory?.read?.includes(scope) === true ? 'read' : 'write';
    add('memory.read', from(key, scope), permit('memory.read', scope));
  }
  for (const scope of new Set([own, ...(memory?.write ?? [])])) {
    add('memory.write', from('write', scope), permit('memory.write', scope));
    // Which a person approves each time.
    add('data.delete', from('write', scope), permit('data.delete', scope));
  }
}

function addTeam(add: Add, who: string, { team }: AgentRights, tools: ReadonlySet<string>): void {
  const delegate = `${who}, action == Action::"task.delegate"`;
  if (tools.has('task.delegate')) {
    if (team?.delegateTo === undefined)
      add('task.delegate', 'spec.team', `permit (${delegate}, resource is Agent);`);
    for (const name of team?.delegateTo ?? [])
      add(
        'task.delegate',
        `spec.team.delegateTo: ${name}`,
        `permit (${delegate}, resource == Agent::${quote(name)});`,
      );
    // Without it, the agent would read that no rule allows it, and not whom it may ask instead.
    if (team?.delegateTo !== undefined) {
      const names = team.delegateTo.map((name) => `Agent::${quote(name)}`);
      const whom = team.delegateTo.join(', ') || 'no agent';
      const except =
        names.length === 0 ? '' : ` unless { [${names.join(', ')}].contains(resource) }`;
      add(
        'task.delegate',
        'spec.team.delegateTo',
        `@why(${quote(`its manifest lets it delegate only to ${whom}`)}) forbid (${delegate}, ` +
          `resource)${except};`,
      );
    }
  }
  for (const name of team?.talkTo ?? [])
    add(
      'message.send',
      `spec.team.talkTo: ${name}`,
      `permit (${who}, action == Action::"message.send", resource == Agent::${quote(name)});`,
    );
}

/** network.external requires approval per host instead of per tool; see addNetwork. */
function addApprovals(add: Add, who: string, { approvals }: AgentRights): void {
  for (const word of approvals?.required ?? []) {
    if (word === 'network.external') continue;
    add(
      'approval',
      `spec.approvals.required: ${word}`,
      `@ask(${quote(`its manifest requires approval of ${word}`)}) forbid (${who}, ` +
        `action == Action::"tool.call", resource in Capability::${quote(word)});`,
    );
  }
}
