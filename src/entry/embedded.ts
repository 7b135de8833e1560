// Embedded: the warden and auditd-ai in processes of their own, every other daemon in this one,
// joined by local links.
import { agentd } from '../daemons/agentd/daemon.ts';
import { approvald } from '../daemons/approvald/daemon.ts';
import { egressd } from '../daemons/egressd/daemon.ts';
import { modeld } from '../daemons/modeld/daemon.ts';
import { sandboxd } from '../daemons/sandboxd/daemon.ts';
import { toold } from '../daemons/toold/daemon.ts';
import { type Hosted, hostDaemon } from '../platform/daemon.ts';
import { giveBackAtRest } from './at-rest.ts';
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
  const told = readArgv(process.argv.slice(2));
  let taken: Runtime | undefined;
  try {
    assertNotRoot();
    const runtime = await takeState(told);
    taken = runtime;
    await runtime.daemonProcess('auditd-ai');
    const hosted: Hosted[] = [];
    for (const daemon of [sandboxd, egressd, approvald, modeld, toold, agentd])
      hosted.push(await hostDaemon(daemon, runtime.options));
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
    sayReady(told.readyFd, info);
    giveBackAtRest();
  } catch (error) {
    // What was opened before the refusal would lie there as if somebody listened.
    await taken?.down().catch(endedBadly);
    refuseToStart(told.readyFd, error);
  }
}

await main();
