// Embedded mode: starts the warden and auditd-ai as separate processes and hosts every other daemon
// in this process, joined by local links.
import { hostDaemon, type RunningDaemon } from '../platform/daemon.ts';
import { DAEMON_TABLE, START_ORDER } from '../wire/daemons.ts';
import { LOADERS } from './daemon-modules.ts';
import { collectWhenIdle } from './idle-gc.ts';
import {
  assertNotRoot,
  logCleanupFailure,
  onShutdown,
  readArgv,
  refuseToStart,
  runAllSteps,
  writeReadyLine,
} from './options.ts';
import { openRuntime, type Runtime } from './runtime.ts';

async function main(): Promise<void> {
  const args = readArgv(process.argv.slice(2));
  let opened: Runtime | undefined;
  try {
    assertNotRoot();
    const runtime = await openRuntime(args);
    opened = runtime;
    const hosted: RunningDaemon[] = [];
    for (const name of START_ORDER) {
      if (DAEMON_TABLE[name].ownProcess === true) await runtime.daemonProcess(name);
      else hosted.push(await hostDaemon(await LOADERS[name](), runtime.options));
    }
    onShutdown(async (why) => {
      runtime.options.log.info('stopping', { why });
      const reversed = hosted.toReversed();
      await runAllSteps([
        ...reversed.map((daemon) => () => daemon.drain()),
        ...reversed.map((daemon) => () => daemon.stop()),
        () => runtime.down(),
      ]);
    }, false);
    const info = await runtime.up();
    for (const daemon of hosted) await daemon.begin();
    writeReadyLine(args.readyFd, info);
    collectWhenIdle();
  } catch (error) {
    // Left open, its sockets and files would look like those of a running runtime.
    await opened?.down().catch(logCleanupFailure);
    refuseToStart(args.readyFd, error);
  }
}

await main();
