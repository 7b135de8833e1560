// The table of daemons: their names, the links between them, and the paths each serves on the TCP
// port. Wiring, peer sockets, configuration sections, docs and tests are derived from it.

type DaemonRow<Name extends string> = {
  /** Its responsibilities, for the docs. */
  owns: string;
  /** The daemons it may call. No other link can be opened. */
  calls: readonly Name[];
  /** The path prefixes it serves on the TCP port; the longest match wins. */
  paths: readonly string[];
  /** Runs in its own process even in embedded mode. */
  ownProcess?: true;
  /** Runs call it, each through its own socket. */
  servesRuns?: true;
};

/** Ordered so that daemons precede those they need at startup: startup goes from last to first. */
const TABLE = {
  agentd: {
    owns: 'agents, tasks, runs, waits, messages, artifacts, scheduling, retention, halt',
    calls: ['toold', 'modeld', 'memoryd', 'maild', 'approvald', 'sandboxd', 'auditd-ai'],
    paths: ['/'],
    servesRuns: true,
  },
  toold: {
    owns: 'tools, the checks before each call, the journal of tool calls, grants, the breaker',
    calls: ['agentd', 'memoryd', 'maild', 'approvald', 'egressd', 'sandboxd', 'auditd-ai'],
    paths: ['/v1/tools'],
    servesRuns: true,
  },
  modeld: {
    owns: 'providers and their keys, API keys, model names, budgets, the record of model calls',
    calls: ['agentd', 'auditd-ai'],
    paths: ['/v1/models', '/v1/keys', '/openai', '/anthropic'],
    servesRuns: true,
  },
  memoryd: {
    owns: 'memories: their journal, versions, labels and index, and who may recall them',
    calls: ['agentd', 'modeld', 'approvald', 'auditd-ai'],
    paths: ['/v1/memory'],
  },
  maild: {
    owns: 'mailboxes of people, mail that came in, until agentd has it, and mail to others, until the smarthost has it',
    calls: ['agentd', 'approvald', 'auditd-ai'],
    paths: ['/v1/mail'],
  },
  approvald: {
    owns: 'approvals and permits, and who was notified of them',
    calls: ['agentd', 'memoryd', 'maild', 'auditd-ai'],
    paths: ['/v1/approvals', '/v1/permits'],
  },
  egressd: {
    owns: 'the hosts that a run may reach, and the connections it made',
    calls: ['auditd-ai'],
    paths: ['/v1/egress'],
  },
  sandboxd: {
    owns: 'boxes: the Linux user of each agent, its files, the plans for the warden',
    calls: ['auditd-ai'],
    paths: ['/v1/sandboxes'],
  },
  'auditd-ai': { owns: 'the audit log', calls: [], paths: ['/v1/audit'], ownProcess: true },
} as const;

export type DaemonName = keyof typeof TABLE;
/** The daemons that runs call. */
export type RunDaemonName = {
  [D in DaemonName]: (typeof TABLE)[D] extends { servesRuns: true } ? D : never;
}[DaemonName];

export const DAEMON_TABLE: { readonly [D in DaemonName]: DaemonRow<DaemonName> } = TABLE;
export const DAEMONS = Object.keys(TABLE) as readonly DaemonName[];
export const START_ORDER: readonly DaemonName[] = DAEMONS.toReversed();
export const RUN_DAEMONS = DAEMONS.filter(
  (name): name is RunDaemonName => DAEMON_TABLE[name].servesRuns === true,
);

export const findCallers = (callee: DaemonName): DaemonName[] =>
  DAEMONS.filter((name) => DAEMON_TABLE[name].calls.includes(callee));

/** Every path prefix with its daemon, longest first. */
export const PATH_OWNERS: readonly { prefix: string; daemon: DaemonName }[] = DAEMONS.flatMap(
  (daemon) => DAEMON_TABLE[daemon].paths.map((prefix) => ({ prefix, daemon })),
).toSorted((a, b) => b.prefix.length - a.prefix.length);
