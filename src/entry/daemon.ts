// One daemon in a process of its own: every daemon in split mode, auditd-ai in every mode.
import { join } from 'node:path';
import { agentd } from '../daemons/agentd/daemon.ts';
import { auditdAi } from '../daemons/auditd-ai/daemon.ts';
import { modeld } from '../daemons/modeld/daemon.ts';
import { toold } from '../daemons/toold/daemon.ts';
import { type Daemon, hostDaemon } from '../platform/daemon.ts';
import { waitForLock } from '../platform/state-dir.ts';
import { fault } from '../wire/errors.ts';
import {
  hostOptions,
  loadRuntimeConfig,
  onEnd,
  readArgv,
  refuseToStart,
  sayReady,
} from './options.ts';

const BY_NAME: Record<string, Daemon> = {
  agentd: agentd as unknown as Daemon,
  toold: toold as unknown as Daemon,
  modeld: modeld as unknown as Daemon,
  'auditd-ai': auditdAi as unknown as Daemon,
};

async function main(): Promise<void> {
  const told = readArgv(process.argv.slice(2));
  try {
    const daemon = BY_NAME[told.daemon ?? ''];
    if (daemon === undefined) throw fault('bad_usage', `there is no daemon ${told.daemon}`);
    process.title = daemon.name;
    const config = loadRuntimeConfig(told);
    const options = hostOptions(told, config);
    // An instance of an earlier life may still be draining.
    const lock = await waitForLock(join(told.stateDir, `${daemon.name}.lock`), 10_000);
    if (lock === undefined)
      throw fault('state_in_use', `another ${daemon.name} holds ${told.stateDir}`);
    const hosted = await hostDaemon(daemon, options);
    onEnd(async () => {
      await hosted.drain();
      await hosted.stop();
      lock.release();
    }, true);
    sayReady(told.readyFd);
    await hosted.begin();
  } catch (error) {
    refuseToStart(told.readyFd, error);
  }
}

await main();
