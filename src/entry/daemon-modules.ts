// Lists the modules of every daemon: its configuration schema, which all processes load, and the
// daemon itself, which only its host process loads.
import { agentdConfig } from '../daemons/agentd/config.ts';
import { approvaldConfig } from '../daemons/approvald/config.ts';
import { auditdConfig } from '../daemons/auditd-ai/config.ts';
import { egressdConfig } from '../daemons/egressd/config.ts';
import { maildConfig } from '../daemons/maild/config.ts';
import { memorydConfig } from '../daemons/memoryd/config.ts';
import { modeldConfig } from '../daemons/modeld/config.ts';
import { sandboxdConfig } from '../daemons/sandboxd/config.ts';
import { tooldConfig } from '../daemons/toold/config.ts';
import type { Sections } from '../platform/config.ts';
import type { AnyDaemon } from '../platform/daemon.ts';
import { retentionConfig } from '../platform/retention-config.ts';
import { runtimeConfig } from '../platform/runtime-config.ts';
import type { DaemonName } from '../wire/daemons.ts';

/** The sections of agentd.yaml: one per daemon, and two for all of them. */
export const SECTIONS = {
  runtime: runtimeConfig,
  retention: retentionConfig,
  agentd: agentdConfig,
  toold: tooldConfig,
  modeld: modeldConfig,
  memoryd: memorydConfig,
  maild: maildConfig,
  approvald: approvaldConfig,
  egressd: egressdConfig,
  sandboxd: sandboxdConfig,
  'auditd-ai': auditdConfig,
} satisfies Sections & Record<'runtime' | 'retention' | DaemonName, unknown>;

/** Imported on demand, so that a process does not load daemons that run elsewhere. */
export const LOADERS: {
  readonly [D in DaemonName]: () => Promise<AnyDaemon<D> & { config: (typeof SECTIONS)[D] }>;
} = {
  agentd: async () => (await import('../daemons/agentd/daemon.ts')).agentd,
  toold: async () => (await import('../daemons/toold/daemon.ts')).toold,
  modeld: async () => (await import('../daemons/modeld/daemon.ts')).modeld,
  memoryd: async () => (await import('../daemons/memoryd/daemon.ts')).memoryd,
  maild: async () => (await import('../daemons/maild/daemon.ts')).maild,
  approvald: async () => (await import('../daemons/approvald/daemon.ts')).approvald,
  egressd: async () => (await import('../daemons/egressd/daemon.ts')).egressd,
  sandboxd: async () => (await import('../daemons/sandboxd/daemon.ts')).sandboxd,
  'auditd-ai': async () => (await import('../daemons/auditd-ai/daemon.ts')).auditdAi,
};
