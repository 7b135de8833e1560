// Turns an agent's rules into a static plan for its box: visible paths and reachable hosts. A plan
// never opens more than policy allows; what it cannot express is left out.
import { type BoxNetwork, type HostPort, planNetwork } from './box-hosts.ts';
import type { Policy } from './decide.ts';
import { agentHome, parseHostRules, type Resources, WORKSPACE } from './manifest-rules.ts';
import { isWithin } from './paths.ts';
import { actionFits, findNamedEntity, type Rule, type Scope } from './rule.ts';

export type AgentBoxRules = {
  /** Canonical roots inside the box; no root is inside another of the same list. */
  read: string[];
  /** Readable too. */
  write: string[];
  /** Directories inside the roots that stay closed. */
  deny: string[];
  /** Paths that need approval: closed, except those in `opened`. */
  asked: string[];
  opened: string[];
  workspace: string;
  home: string;
  network: BoxNetwork;
  resources: Resources;
  /** The bundle's version. */
  version: number;
};

/** Every box has its own; the host's is not visible. */
const SCRATCH = '/tmp';

type FileAction = 'file.read' | 'file.write' | 'file.delete';
const FILE_ACTIONS: readonly FileAction[] = ['file.read', 'file.write', 'file.delete'];

/** Stands for all paths, in rules that name none. */
export const ANY_PATH = '*';

/**
 * `granted`: further hosts that people granted to the run. `opened`: the paths with an ask rule on
 * which this call was decided; the others are closed, because policy cannot ask while a command
 * runs.
 */
export async function planAgentBox(
  policy: Policy,
  agent: string,
  granted: readonly HostPort[] = [],
  opened: readonly string[] = [],
): Promise<AgentBoxRules> {
  const rules = await policy.listRules(`agent:${agent}`);
  const { agents } = policy.bundle;
  const rights = Object.hasOwn(agents, agent) ? agents[agent] : undefined;
  const home = agentHome(agent);
  const [reads, writes, deletes] = FILE_ACTIONS.map((action) =>
    rights === undefined ? NO_REACH : fileReach(rules, action, { home, opened }),
  ) as [Reach, Reach, Reach];
  // Write access to a directory implies that its entries can be listed and removed.
  const write = commonRoots([reads, writes, deletes]);
  const read = topmost(reads.roots).filter((path) => !write.some((root) => isWithin(path, root)));
  const inside = (closed: readonly string[], roots: readonly string[]) =>
    closed.filter((path) => roots.some((root) => path !== root && isWithin(path, root)));
  // Read-only paths inside writable roots are closed: a list of roots cannot express them, and less
  // than policy allows is safe.
  const deny = topmost([
    ...inside(reads.closed, [...read, ...write]),
    ...inside([...writes.closed, ...deletes.closed], write),
  ]);
  return {
    read,
    write,
    deny,
    asked: [...new Set(FILE_ACTIONS.flatMap((action) => askedFor(rules, action)))].sort(),
    opened: [...opened],
    workspace: WORKSPACE,
    home,
    network:
      rights === undefined
        ? { mode: 'none', allow: [], granted: [] }
        : await planNetwork(policy, agent, { allowed: parseHostRules(rights), granted }),
    resources: {
      cpu: rights?.resources.cpu ?? null,
      memoryBytes: rights?.resources.memory_bytes ?? null,
      pids: rights?.resources.pids ?? null,
      diskBytes: rights?.resources.disk_bytes ?? null,
    },
    version: policy.version,
  };
}

type Paths = Pick<AgentBoxRules, 'read' | 'write' | 'deny'>;

/** Returns true when `now` closes, or makes read-only, some path that `before` opened. */
export function isNarrower(now: Paths, before: Paths): boolean {
  const covers = (roots: readonly string[], path: string) =>
    roots.some((root) => isWithin(path, root));
  const visible = [...now.read, ...now.write];
  if (!before.write.every((path) => covers(now.write, path))) return true;
  if (!before.read.every((path) => covers(visible, path))) return true;
  /** The parts of `before` that closing this path closes. */
  const closedParts = (path: string) =>
    [...before.read, ...before.write].flatMap((root) => {
      if (isWithin(path, root)) return [path];
      return isWithin(root, path) ? [root] : [];
    });
  return now.deny.flatMap(closedParts).some((path) => !covers(before.deny, path));
}

/** The denied parts of a declared tool's paths, or why a rule closes one of them altogether. */
export type DeclaredRules = { deny: string[] } | { refused: string };

export async function planDeclaredPaths(
  policy: Policy,
  agent: string,
  { read, write }: { read: readonly string[]; write: readonly string[] },
): Promise<DeclaredRules> {
  const rules = await policy.listRules(`agent:${agent}`);
  const deny: string[] = [];
  for (const action of FILE_ACTIONS) {
    const roots = action === 'file.read' ? [...read, ...write] : write;
    // Approval covered the roots themselves, not paths inside them that have their own ask rule.
    const isAsked = (path: string) => roots.some((root) => isWithin(root, path));
    const opened = askedFor(rules, action).filter(isAsked);
    const closed = closedFor(rules, action, opened);
    if (closed === 'all' && roots.length > 0)
      return { refused: `a rule about ${action} that names no path may apply to any path` };
    for (const path of closed === 'all' ? [] : closed) {
      const root = roots.find((candidate) => isWithin(candidate, path));
      if (root !== undefined) return { refused: `a rule closes ${root} to ${action}` };
      if (roots.some((outer) => isWithin(path, outer))) deny.push(path);
    }
  }
  return { deny: topmost(deny) };
}

/** `roots` are open under all conditions; `closed` paths are closed under some condition. */
type Reach = { roots: string[]; closed: string[] };
const NO_REACH: Reach = { roots: [], closed: [] };

function fileReach(
  rules: readonly Rule[],
  action: FileAction,
  { home, opened }: { home: string; opened: readonly string[] },
): Reach {
  const closed = closedFor(rules, action, opened);
  if (closed === 'all') return NO_REACH;
  const fitting = rules.filter(({ scope }) => actionFits(scope.action, action));
  const roots = fitting.flatMap(({ effect, isUnconditional, scope }) => {
    // `== X` covers X alone; a root would show everything inside it.
    const named = scope.resource.op === '==' ? undefined : findNamedEntity(scope.resource);
    const isOpen = effect === 'permit' && isUnconditional && named?.type === 'Path';
    return isOpen && named.id !== SCRATCH ? [named.id] : [];
  });
  // The agent's home is a private directory of the box, not one below the host's /home.
  const isClosed = (path: string) =>
    closed.some((dir) => isWithin(path, dir) && !(dir === '/home' && isWithin(path, home)));
  return { roots: roots.filter((path) => !isClosed(path)), closed };
}

/** Returns the path that a rule closes in a box, ANY_PATH, or undefined when it closes none. */
function closedBy(rule: Rule, action: FileAction): string | undefined {
  const { effect, scope, ask, isAboutTrees } = rule;
  if (effect !== 'forbid' || !actionFits(scope.action, action)) return undefined;
  // Such a rule covers one recursive delete call, not a command that deletes files one by one.
  if (ask !== null && isAboutTrees) return undefined;
  const named = findNamedEntity(scope.resource);
  // A plan cannot express conditions: a conditional rule about any path closes all paths.
  if (named === undefined) return concernsPaths(scope.resource) ? ANY_PATH : undefined;
  return named.type === 'Path' ? named.id : undefined;
}

function closedFor(
  rules: readonly Rule[],
  action: FileAction,
  opened: readonly string[],
): string[] | 'all' {
  const closed = rules.flatMap((rule) => {
    const path = closedBy(rule, action);
    return path === undefined || (rule.ask !== null && opened.includes(path)) ? [] : [path];
  });
  return closed.includes(ANY_PATH) ? 'all' : closed;
}

const askedFor = (rules: readonly Rule[], action: FileAction): string[] =>
  rules.flatMap((rule) => (rule.ask === null ? [] : (closedBy(rule, action) ?? [])));

const concernsPaths = (resource: Scope['resource']): boolean =>
  resource.op !== 'is' || resource.entity_type === 'Path';

/** Returns the roots that are inside a root of every list. */
function commonRoots(lists: readonly Reach[]): string[] {
  const all = lists.flatMap(({ roots }) => roots);
  return topmost(
    all.filter((path) => lists.every(({ roots }) => roots.some((root) => isWithin(path, root)))),
  );
}

function topmost(paths: readonly string[]): string[] {
  const sorted = [...new Set(paths)].sort();
  return sorted.filter((path) => !sorted.some((other) => other !== path && isWithin(path, other)));
}
