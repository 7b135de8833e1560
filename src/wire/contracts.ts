// Lists the route table of every daemon, for types, tests and tools. A daemon itself imports only
// the contracts of the peers it calls.
import { agentdRoutes } from './agentd.ts';
import { approvaldRoutes } from './approvald.ts';
import { auditRoutes } from './auditd-ai.ts';
import type { DaemonName } from './daemons.ts';
import { egressdRoutes } from './egressd.ts';
import { maildRoutes } from './maild.ts';
import { memorydRoutes } from './memoryd.ts';
import { modeldRoutes } from './modeld.ts';
import type { RouteTable } from './route.ts';
import { sandboxdRoutes } from './sandboxd.ts';
import { tooldRoutes } from './toold.ts';

export const CONTRACTS = {
  agentd: agentdRoutes,
  toold: tooldRoutes,
  modeld: modeldRoutes,
  memoryd: memorydRoutes,
  maild: maildRoutes,
  approvald: approvaldRoutes,
  egressd: egressdRoutes,
  sandboxd: sandboxdRoutes,
  'auditd-ai': auditRoutes,
} satisfies Record<DaemonName, RouteTable>;
