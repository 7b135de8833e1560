// What runs inside a runner sandbox: one activation of one run. It is told three sockets and
// nothing else, speaks only to them, and ends when the run is finished, parked, taken away, or its
// parent is gone.
import { Socket } from 'node:net';
import type { RunBriefing } from '../wire/agentd.ts';
import {
  type DaemonCall,
  isAway,
  makeDaemonCall,
  RefusedError,
  withRetry,
} from './daemon-client.ts';
import { type DaemonClients, Loop, type LoopResult } from './loop.ts';

const RETRY_TIMEOUT_MS = 60_000;
/** Exit statuses: 0 done here, 75 something else was away, 70 this went wrong itself. */
const TRY_AGAIN = 75;
const BROKEN = 70;

type Sockets = { agentd: string; toold: string; modeld: string };

/**
 * Standard input tells the sockets, and ends when agentd does: a runner without agentd has nobody
 * to work for. A socket, because a blocking read in Node's thread pool would keep the process from
 * ending.
 */
function listenToParent(): Promise<Sockets> {
  const lifeline = new Socket({ fd: 0, readable: true, writable: false });
  lifeline.on('close', () => process.exit(TRY_AGAIN));
  lifeline.on('error', () => process.exit(TRY_AGAIN));
  let text = '';
  return new Promise((resolve) => {
    lifeline.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const end = text.indexOf('\n');
      if (end >= 0) resolve(JSON.parse(text.slice(0, end)) as Sockets);
    });
  });
}

function keepBeating(agentd: DaemonCall, beatMs: number): void {
  const timer = setInterval(() => {
    agentd('POST', '/v1/run/beat').catch((error: unknown) => {
      // Anything else is left to the lease: the next beat may arrive.
      if (error instanceof RefusedError && error.refusal.code === 'stale_fence') process.exit(0);
    });
  }, beatMs);
  timer.unref();
}

/** Only the record answers, so nothing is asked twice; where it ends, so does the replay. */
async function replay(daemons: DaemonClients, loop: Loop): Promise<void> {
  const differences: { at: string; expected: string; got: string }[] = [];
  let ended: LoopResult | undefined;
  let recordEnded = false;
  try {
    ended = await loop.run();
  } catch (error) {
    if (!(error instanceof RefusedError) || isAway(error.refusal)) throw error;
    const { code, message, hint, retry, recordEnds } = error.refusal;
    // A failure that was tried again, without a later one in the record, is its last word.
    recordEnded = recordEnds || retry;
    const got = `${message} ${hint}`.slice(0, 4_000);
    differences.push({ at: code, expected: 'the recorded call', got });
  }
  await daemons.agentd('POST', '/v1/run/replayed', {
    calls: loop.calls,
    differences,
    record_ended: recordEnded,
    result: ended?.result ?? null,
  });
}

async function main(): Promise<void> {
  const sockets = await listenToParent();
  const connect = (wrap: (call: DaemonCall) => DaemonCall): DaemonClients => ({
    agentd: wrap(makeDaemonCall(sockets.agentd)),
    toold: wrap(makeDaemonCall(sockets.toold)),
    modeld: wrap(makeDaemonCall(sockets.modeld)),
  });
  const daemons = connect((call) => withRetry(call, RETRY_TIMEOUT_MS));
  const briefing = await daemons.agentd<RunBriefing>('GET', '/v1/run');
  if (briefing.mode === 'replay') {
    // Failures are recorded answers too, and asking for them again would be in vain.
    const recorded = connect((call) => withRetry(call, RETRY_TIMEOUT_MS, isAway));
    return replay(daemons, new Loop(recorded, briefing));
  }
  keepBeating(makeDaemonCall(sockets.agentd), briefing.beat_ms);
  const loop = new Loop(daemons, briefing);
  await loop.run().catch((error: unknown) => {
    // The record and this program do not go together any more: trying again cannot mend that.
    if (error instanceof RefusedError && error.refusal.code === 'replay_differs')
      return loop.giveUp(error.refusal);
    throw error;
  });
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    // Taken away or canceled: nothing to report, somebody else decides what follows.
    if (
      error instanceof RefusedError &&
      ['stale_fence', 'canceled', 'ended', 'forbidden_caller'].includes(error.refusal.code)
    )
      process.exit(0);
    process.stderr.write(
      `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
    process.exit(error instanceof RefusedError && error.refusal.retry ? TRY_AGAIN : BROKEN);
  },
);
