// The sections of agentd.yaml, each with the schema of whoever it configures.
import { agentdConfig } from '../daemons/agentd/config.ts';
import { approvaldConfig } from '../daemons/approvald/config.ts';
import { auditdConfig } from '../daemons/auditd-ai/config.ts';
import { egressdConfig } from '../daemons/egressd/config.ts';
import { modeldConfig } from '../daemons/modeld/config.ts';
import { sandboxdConfig } from '../daemons/sandboxd/config.ts';
import { tooldConfig } from '../daemons/toold/config.ts';
import { runtimeConfig } from '../platform/runtime-config.ts';

export const SECTIONS = {
  runtime: runtimeConfig,
  agentd: agentdConfig,
  toold: tooldConfig,
  modeld: modeldConfig,
  sandboxd: sandboxdConfig,
  approvald: approvaldConfig,
  egressd: egressdConfig,
  'auditd-ai': auditdConfig,
};
