// The peer table: which daemon may call which. A link that is not here cannot be made.

export const DAEMONS = [
  'agentd',
  'toold',
  'modeld',
  'sandboxd',
  'approvald',
  'egressd',
  'auditd-ai',
] as const;
export type DaemonName = (typeof DAEMONS)[number];

/** caller → the daemons it may call. */
export const PEERS: { readonly [caller in DaemonName]: readonly DaemonName[] } = {
  agentd: ['toold', 'modeld', 'sandboxd', 'approvald', 'auditd-ai'],
  toold: ['agentd', 'sandboxd', 'approvald', 'egressd', 'auditd-ai'],
  modeld: ['agentd', 'auditd-ai'],
  sandboxd: ['auditd-ai'],
  approvald: ['agentd', 'auditd-ai'],
  egressd: ['auditd-ai'],
  'auditd-ai': [],
};

/** Which daemon answers a path on the one TCP port; the longest prefix wins. */
export const PATH_OWNERS: readonly { prefix: string; daemon: DaemonName }[] = [
  { prefix: '/v1/tools', daemon: 'toold' },
  { prefix: '/v1/models', daemon: 'modeld' },
  { prefix: '/v1/sandboxes', daemon: 'sandboxd' },
  { prefix: '/v1/approvals', daemon: 'approvald' },
  { prefix: '/v1/permits', daemon: 'approvald' },
  { prefix: '/v1/egress', daemon: 'egressd' },
  { prefix: '/openai/', daemon: 'modeld' },
  { prefix: '/anthropic/', daemon: 'modeld' },
  { prefix: '/v1/audit', daemon: 'auditd-ai' },
  { prefix: '/', daemon: 'agentd' },
];
