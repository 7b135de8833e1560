// Runs one daemon in its own process: every daemon in split mode, auditd-ai in every mode.
import { join } from 'node:path';
import { hostDaemon } from '../platform/daemon.ts';
import { waitForLock } from '../platform/lock.ts';
import { DAEMONS } from '../wire/daemons.ts';
import { fault } from '../wire/errors.ts';
import { LOADERS } from './daemon-modules.ts';
import { collectWhenIdle } from './idle-gc.ts';
import {
  hostOptions,
  loadRuntimeConfig,
  onShutdown,
  readArgv,
  refuseToStart,
  runAllSteps,
  writeReadyLine,
} from './options.ts';

async function main(): Promise<void> {
  const args = readArgv(process.argv.slice(2));
  try {
    const name = DAEMONS.find((known) => known === args.daemon);
    if (name === undefined) throw fault('bad_usage', `daemon ${args.daemon} not found`);
    const daemon = await LOADERS[name]();
    process.title = name;
    const config = loadRuntimeConfig(args);
    const options = hostOptions(args, config);
    // The previous process may still be draining.
    const lock = await waitForLock(join(args.stateDir, `${name}.lock`), 10_000);
    if (lock === undefined)
      throw fault('state_in_use', `${args.stateDir} is in use by another ${name}`);
    const hosted = await hostDaemon(daemon, options);
    onShutdown(async () => {
      await runAllSteps([() => hosted.drain(), () => hosted.stop(), () => lock.release()]);
    }, true);
    writeReadyLine(args.readyFd);
    await hosted.begin();
    collectWhenIdle();
  } catch (error) {
    refuseToStart(args.readyFd, error);
  }
}

await main();
