// Split mode: starts one process per daemon, in order, and supervises them. This process loads none
// of their code.
import { START_ORDER } from '../wire/daemons.ts';
import {
  assertNotRoot,
  logCleanupFailure,
  onShutdown,
  readArgv,
  refuseToStart,
  writeReadyLine,
} from './options.ts';
import { openRuntime, type Runtime } from './runtime.ts';

async function main(): Promise<void> {
  const args = { ...readArgv(process.argv.slice(2)), mode: 'split' as const };
  let opened: Runtime | undefined;
  try {
    assertNotRoot();
    const runtime = await openRuntime(args);
    opened = runtime;
    for (const name of START_ORDER) await runtime.daemonProcess(name);
    onShutdown(async (why) => {
      runtime.options.log.info('stopping', { why });
      await runtime.down();
    }, false);
    writeReadyLine(args.readyFd, await runtime.up());
  } catch (error) {
    // Left open, its sockets and files would look like those of a running runtime.
    await opened?.down().catch(logCleanupFailure);
    refuseToStart(args.readyFd, error);
  }
}

await main();
