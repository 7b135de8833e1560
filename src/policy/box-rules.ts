// The same rules as a plan for the kernel: which paths a box of this agent shows, which hosts it
// may reach. Never more than policy allows: what a plan cannot express is left out of the box.
import { type BoxNetwork, type HostPort, networkOf } from './box-hosts.ts';
import type { Policy } from './decide.ts';
import { homeOf, hostRulesOf, type Resources, WORKSPACE } from './manifest-rules.ts';
import { isWithin } from './paths.ts';
import { actionFits, namedIn, type Rule, type Scope } from './rule.ts';

export type AgentBoxRules = {
  /** Canonical roots, as the box shows them; no root lies in another of the same list. */
  read: string[];
  /** Readable too. */
  write: string[];
  /** Directories inside these roots that stay closed. */
  deny: string[];
  /** Paths that a rule asks a person about: closed, but for those opened for a call. */
  asked: string[];
  opened: string[];
  workspace: string;
  home: string;
  network: BoxNetwork;
  resources: Resources;
  /** Of the bundle it was made from. */
  version: number;
};

/** Every box has one of its own; the host's is not shown. */
const SCRATCH = '/tmp';

type FileAction = 'file.read' | 'file.write' | 'file.delete';
const FILE_ACTIONS: readonly FileAction[] = ['file.read', 'file.write', 'file.delete'];

/** Stands for all paths, of rules that name none. */
export const ANY_PATH = '*';

/**
 * `granted`: what people let one run of the agent reach besides. `opened`: of the paths that rules
 * ask about, those that a call was decided on; nobody can be asked while a command runs, so that
 * the others are closed.
 */
export async function boxRulesOf(
  policy: Policy,
  agent: string,
  granted: readonly HostPort[] = [],
  opened: readonly string[] = [],
): Promise<AgentBoxRules> {
  const rules = await policy.rulesOf(`agent:${agent}`);
  const { agents } = policy.bundle;
  const rights = Object.hasOwn(agents, agent) ? agents[agent] : undefined;
  const home = homeOf(agent);
  const [reads, writes, deletes] = FILE_ACTIONS.map((action) =>
    rights === undefined ? nothing : reachOf(rules, action, { home, opened }),
  ) as [Reach, Reach, Reach];
  // Who can write into a directory can remove what is in it, and see it.
  const write = commonRoots([reads, writes, deletes]);
  const read = topmost(reads.roots).filter((path) => !write.some((root) => isWithin(path, root)));
  const inside = (closed: readonly string[], roots: readonly string[]) =>
    closed.filter((path) => roots.some((root) => path !== root && isWithin(path, root)));
  // What may be read but not written, inside what may be written, is closed too: a plan of roots
  // cannot say it, and less than policy allows is safe.
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
        : await networkOf(policy, agent, { allowed: hostRulesOf(rights), granted }),
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

/** True when some path that the one plan opens is closed, or may only be read, by the other. */
export function isNarrower(now: Paths, before: Paths): boolean {
  const covers = (roots: readonly string[], path: string) =>
    roots.some((root) => isWithin(path, root));
  const seen = [...now.read, ...now.write];
  if (!before.write.every((path) => covers(now.write, path))) return true;
  if (!before.read.every((path) => covers(seen, path))) return true;
  /** What of a root is closed by a path: a part of it, all of it, or nothing. */
  const closedBy = (path: string) =>
    [...before.read, ...before.write].flatMap((root) => {
      if (isWithin(path, root)) return [path];
      return isWithin(root, path) ? [root] : [];
    });
  return now.deny.flatMap(closedBy).some((path) => !covers(before.deny, path));
}

/** The paths that an operator declared for a tool, less what rules close for the agent. */
export type DeclaredRules = { deny: string[] } | { refused: string };

export async function declaredRulesOf(
  policy: Policy,
  agent: string,
  { read, write }: { read: readonly string[]; write: readonly string[] },
): Promise<DeclaredRules> {
  const rules = await policy.rulesOf(`agent:${agent}`);
  const deny: string[] = [];
  for (const action of FILE_ACTIONS) {
    const roots = action === 'file.read' ? [...read, ...write] : write;
    // A person was asked about the roots themselves, and not about what lies in them.
    const isAsked = (path: string) => roots.some((root) => isWithin(root, path));
    const opened = askedFor(rules, action).filter(isAsked);
    const closed = closedFor(rules, action, opened);
    if (closed === 'all' && roots.length > 0)
      return { refused: `a rule about ${action} that names no path could concern any` };
    for (const path of closed === 'all' ? [] : closed) {
      const root = roots.find((one) => isWithin(one, path));
      if (root !== undefined) return { refused: `a rule closes ${root} to ${action}` };
      if (roots.some((one) => isWithin(path, one))) deny.push(path);
    }
  }
  return { deny: topmost(deny) };
}

/** Roots that are open in all circumstances, and what is closed in any. */
type Reach = { roots: string[]; closed: string[] };
const nothing: Reach = { roots: [], closed: [] };

function reachOf(
  rules: readonly Rule[],
  action: FileAction,
  { home, opened }: { home: string; opened: readonly string[] },
): Reach {
  const closed = closedFor(rules, action, opened);
  if (closed === 'all') return nothing;
  const fitting = rules.filter(({ scope }) => actionFits(scope.action, action));
  const roots = fitting.flatMap(({ effect, isUnconditional, scope }) => {
    // `== X` is about X alone; a root shows all that is in it.
    const named = scope.resource.op === '==' ? undefined : namedIn(scope.resource);
    const isOpen = effect === 'permit' && isUnconditional && named?.type === 'Path';
    return isOpen && named.id !== SCRATCH ? [named.id] : [];
  });
  // Its own home is a private directory of the box, not one of those below the host's /home.
  const isClosed = (path: string) =>
    closed.some((one) => isWithin(path, one) && !(one === '/home' && isWithin(path, home)));
  return { roots: roots.filter((path) => !isClosed(path)), closed };
}

/** What a rule closes in a box: a path, all of them, or none. */
function closedBy(rule: Rule, action: FileAction): string | undefined {
  const { effect, scope, ask, isAboutTrees } = rule;
  if (effect !== 'forbid' || !actionFits(scope.action, action)) return undefined;
  // What a command removes one by one is another thing, and nobody is asked about that.
  if (ask !== null && isAboutTrees) return undefined;
  const named = namedIn(scope.resource);
  // The kernel sees no circumstances: a rule about any path in some of them closes all.
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

/** Of all these roots, those that lie in a root of every list. */
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
