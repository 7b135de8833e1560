// Embedded: starts the warden and auditd-ai as processes of their own and hosts every other daemon
// in this process, joined by local links.
import { hostDaemon, type RunningDaemon } from '../platform/daemon.ts';
import { DAEMON_TABLE, START_ORDER } from '../wire/daemons.ts';
import { LOADERS } from './daemon-modules.ts';
import { collectWhenIdle } from './idle-gc.ts';
import {
  assertNotRoot,
  endAll,
  endedBadly,
  onEnd,
  readArgv,
  refuseToStart,
  sayReady,
} from './options.ts';
import { type Runtime, takeState } from './runtime.ts';

async function main(): Promise<void> {
  const args = readArgv(process.argv.slice(2));
  let taken: Runtime | undefined;
  try {
    assertNotRoot();
    const runtime = await takeState(args);
    taken = runtime;
    const hosted: RunningDaemon[] = [];
    for (const name of START_ORDER) {
      if (DAEMON_TABLE[name].ownProcess === true) await runtime.daemonProcess(name);
      else hosted.push(await hostDaemon(await LOADERS[name](), runtime.options));
    }
    onEnd(async (why) => {
      runtime.options.log.info('stopping', { why });
      const last = hosted.toReversed();
      await endAll([
        ...last.map((one) => () => one.drain()),
        ...last.map((one) => () => one.stop()),
        () => runtime.down(),
      ]);
    }, false);
    const info = await runtime.up();
    for (const one of hosted) await one.begin();
    sayReady(args.readyFd, info);
    collectWhenIdle();
  } catch (error) {
    // What was opened before the refusal would lie there as if somebody listened.
    await taken?.down().catch(endedBadly);
    refuseToStart(args.readyFd, error);
  }
}

await main();
