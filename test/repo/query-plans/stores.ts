// The stores whose statements are checked.
import type { StoreUse } from './record.ts';
import { agentd } from './stores/agentd.ts';
import { approvald } from './stores/approvald.ts';
import { auditdAi } from './stores/auditd-ai.ts';
import { egressd } from './stores/egressd.ts';
import { maild } from './stores/maild.ts';
import { memoryd } from './stores/memoryd.ts';
import { modeld } from './stores/modeld.ts';
import { sandboxd } from './stores/sandboxd.ts';
import { toold } from './stores/toold.ts';

export const STORES: readonly StoreUse[] = [
  agentd,
  toold,
  modeld,
  memoryd,
  maild,
  approvald,
  egressd,
  sandboxd,
  auditdAi,
];
