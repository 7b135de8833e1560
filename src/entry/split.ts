// Split: starts one process per daemon, in order, and supervises them. This process loads none of
// their code.
import { START_ORDER } from '../wire/daemons.ts';
import { assertNotRoot, endedBadly, onEnd, readArgv, refuseToStart, sayReady } from './options.ts';
import { type Runtime, takeState } from './runtime.ts';

async function main(): Promise<void> {
  const args = { ...readArgv(process.argv.slice(2)), mode: 'split' as const };
  let taken: Runtime | undefined;
  try {
    assertNotRoot();
    const runtime = await takeState(args);
    taken = runtime;
    for (const name of START_ORDER) await runtime.daemonProcess(name);
    onEnd(async (why) => {
      runtime.options.log.info('stopping', { why });
      await runtime.down();
    }, false);
    sayReady(args.readyFd, await runtime.up());
  } catch (error) {
    // What was opened before the refusal would lie there as if somebody listened.
    await taken?.down().catch(endedBadly);
    refuseToStart(args.readyFd, error);
  }
}

await main();
