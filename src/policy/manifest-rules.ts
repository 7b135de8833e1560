// What a manifest says about rights, and the rules it means. Pure text: a runtime with a thousand
// agents keeps the short form and writes the rules out when an agent first asks.
import type { Manifest } from '../wire/manifest.ts';
import { toolsOf, wordsOfGroups } from './capabilities.ts';
import { type HostPattern, type HostRule, parseHostRule } from './hosts.ts';
import { quote, type RuleText } from './rule.ts';

type Spec = Manifest['spec'];

/** The part of a manifest that policy needs. Absent members say nothing. */
export type AgentRights = Pick<
  Spec,
  'model' | 'groups' | 'memory' | 'tools' | 'filesystem' | 'network' | 'approvals' | 'team'
> & {
  /** The account it asks to be, where agents are accounts of the host. */
  linux_user?: string;
  resources: {
    cpu: number | null;
    memory_bytes: number | null;
    pids: number | null;
    /** Absent in bundles of earlier versions. */
    disk_bytes?: number | null;
  };
};

/** What the box of an agent may take, as far as its manifest says. */
export type Resources = {
  cpu: number | null;
  memoryBytes: number | null;
  pids: number | null;
  diskBytes: number | null;
};

export function rightsOf({ spec }: Manifest, resources: Resources): AgentRights {
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
/** No manifest opens these; base.cedar and the rule about homes below forbid them. */
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
export const homeOf = (agent: string): string => `/home/${agent}`;

const FILES = '[Action::"file.read", Action::"file.write", Action::"file.delete"]';
const CHANGES = '[Action::"file.write", Action::"file.delete"]';

/** Tools whose work is in the workspace; the second list changes it. */
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

/** The rules of one agent, each with an id that names the agent, the subject and its number. */
export function rulesOfManifest(agent: string, rights: AgentRights): RuleText[] {
  const rules: RuleText[] = [];
  const count = new Map<string, number>();
  const add: Add = (subject, from, text) => {
    const n = (count.get(subject) ?? 0) + 1;
    count.set(subject, n);
    rules.push({ id: `manifest:${agent}:${subject}:${n}`, from, text });
  };
  const who = `principal == Agent::${quote(agent)}`;
  const tools = new Set(toolsOf({ spec: rights }).tools);
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
  const word = (effect: string, one: string) =>
    `${effect} (${call}, resource in Capability::${quote(one)});`;
  for (const one of tools?.allow ?? [])
    add('tool.call', `spec.tools.allow: ${one}`, word('permit', one));
  for (const [group, one] of wordsOfGroups(groups ?? []))
    add('tool.call', `spec.groups: ${group}`, word('permit', one));
  for (const one of tools?.deny ?? []) {
    const why = `@why(${quote(`its manifest denies ${one}`)}) `;
    add('tool.call', `spec.tools.deny: ${one}`, why + word('forbid', one));
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
  add('home', 'its home', permit(`in ${FILES}`, homeOf(agent)));
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
    `@why("the homes of others are not for agents") forbid (${who}, action in ${FILES}, ` +
      `resource in Path::"/home")${exceptHome(agent, '/home')};`,
  );
}

/** Its own home is a private directory that only its box shows, not one of the host's. */
function exceptHome(agent: string, below: string): string {
  const home = homeOf(agent);
  return below === '/home' ? ` unless { resource in Path::${quote(home)} }` : '';
}

/** People write /srv/app/; policy knows /srv/app. */
export const trimSlash = (path: string): string => path.replace(/(.)\/$/, '$1');

/** The hosts a manifest allows, as far as they mean anything. */
export function hostRulesOf({ network }: AgentRights): HostRule[] {
  if (network === undefined || network.mode === 'none') return [];
  return (network.allow ?? []).flatMap((written) => {
    const rule = parseHostRule(written);
    return 'value' in rule ? [rule.value] : [];
  });
}

const isHost = ({ text, isSuffix }: HostPattern): string =>
  `resource ${isSuffix ? 'in' : '=='} Host::${quote(text)}`;
const isPort = (ports: readonly number[]): string =>
  ports.map((port) => `context.port == ${port}`).join(' || ');

function addNetwork(add: Add, who: string, rights: AgentRights): void {
  const connect = `${who}, action == Action::"net.connect"`;
  const rules = hostRulesOf(rights);
  for (const { pattern, ports } of rules)
    add(
      'net.connect',
      `spec.network.allow: ${pattern.text}`,
      `permit (${connect}, ${isHost(pattern)}) when { ${isPort(ports)} };`,
    );
  const asks = (rights.approvals?.required ?? []).includes('network.external');
  if (!asks || rights.network?.mode === 'none') return;
  // Beyond its list an agent may not go alone, but it may ask.
  add(
    'net.connect',
    'spec.approvals.required: network.external',
    `permit (${connect}, resource) when { !context.is_address };`,
  );
  const listed = rules.map(({ pattern, ports }) => `(${isHost(pattern)} && (${isPort(ports)}))`);
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
  for (const scope of new Set([own, ...(memory?.write ?? [])]))
    add('memory.write', from('write', scope), permit('memory.write', scope));
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
  }
  for (const name of team?.talkTo ?? [])
    add(
      'message.send',
      `spec.team.talkTo: ${name}`,
      `permit (${who}, action == Action::"message.send", resource == Agent::${quote(name)});`,
    );
}

/** Of the network the hosts beyond its list are asked for, not the tool; see addNetwork. */
function addApprovals(add: Add, who: string, { approvals }: AgentRights): void {
  for (const word of approvals?.required ?? []) {
    if (word === 'network.external') continue;
    add(
      'approval',
      `spec.approvals.required: ${word}`,
      `@ask(${quote(`its manifest asks for approval of ${word}`)}) forbid (${who}, ` +
        `action == Action::"tool.call", resource in Capability::${quote(word)});`,
    );
  }
}
