// One daemon in a process of its own: every daemon in split mode, auditd-ai in every mode.
import { join } from 'node:path';
import { type AnyDaemon, hostDaemon } from '../platform/daemon.ts';
import { waitForLock } from '../platform/state-dir.ts';
import { fault } from '../wire/errors.ts';
import { giveBackAtRest } from './at-rest.ts';
import {
  endAll,
  hostOptions,
  loadRuntimeConfig,
  onEnd,
  readArgv,
  refuseToStart,
  sayReady,
} from './options.ts';

/** Only the one that is asked for is loaded: the others would cost memory and start time. */
const LOAD: Record<string, () => Promise<AnyDaemon>> = {
  agentd: async () => (await import('../daemons/agentd/daemon.ts')).agentd,
  toold: async () => (await import('../daemons/toold/daemon.ts')).toold,
  modeld: async () => (await import('../daemons/modeld/daemon.ts')).modeld,
  sandboxd: async () => (await import('../daemons/sandboxd/daemon.ts')).sandboxd,
  approvald: async () => (await import('../daemons/approvald/daemon.ts')).approvald,
  egressd: async () => (await import('../daemons/egressd/daemon.ts')).egressd,
  'auditd-ai': async () => (await import('../daemons/auditd-ai/daemon.ts')).auditdAi,
};

async function main(): Promise<void> {
  const told = readArgv(process.argv.slice(2));
  try {
    const load = LOAD[told.daemon ?? ''];
    if (load === undefined) throw fault('bad_usage', `there is no daemon ${told.daemon}`);
    const daemon = await load();
    process.title = daemon.name;
    const config = loadRuntimeConfig(told);
    const options = hostOptions(told, config);
    // An instance of an earlier life may still be draining.
    const lock = await waitForLock(join(told.stateDir, `${daemon.name}.lock`), 10_000);
    if (lock === undefined)
      throw fault('state_in_use', `another ${daemon.name} holds ${told.stateDir}`);
    const hosted = await hostDaemon(daemon, options);
    onEnd(async () => {
      await endAll([() => hosted.drain(), () => hosted.stop(), () => lock.release()]);
    }, true);
    sayReady(told.readyFd);
    await hosted.begin();
    giveBackAtRest();
  } catch (error) {
    refuseToStart(told.readyFd, error);
  }
}

await main();
