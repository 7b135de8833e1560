// Runs one activation of a run inside a runner sandbox. It gets three sockets, uses nothing else,
// and exits when the run has ended or parked, when a newer activation holds it, or when its parent
// exits.
import { Socket } from 'node:net';
import type { RunBriefing } from '../wire/agentd.ts';
import {
  type DaemonCall,
  isUnavailable,
  makeDaemonCall,
  RefusedError,
  withRetry,
} from './daemon-client.ts';
import { type DaemonClients, Loop, type LoopResult } from './loop.ts';

const RETRY_TIMEOUT_MS = 60_000;
/** Exit statuses besides 0: a retry may help, or this program failed. */
const EXIT_RETRY = 75;
const EXIT_BROKEN = 70;

type Sockets = { agentd: string; toold: string; modeld: string };

/**
 * Reads the socket paths from standard input, and exits when it closes, as it does when agentd
 * exits. It is read as a socket, because a blocking read in Node's thread pool would prevent the
 * exit.
 */
function readSockets(): Promise<Sockets> {
  const lifeline = new Socket({ fd: 0, readable: true, writable: false });
  lifeline.on('close', () => process.exit(EXIT_RETRY));
  lifeline.on('error', () => process.exit(EXIT_RETRY));
  let text = '';
  return new Promise((resolve) => {
    lifeline.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
      const end = text.indexOf('\n');
      if (end >= 0) resolve(JSON.parse(text.slice(0, end)) as Sockets);
    });
  });
}

function startHeartbeat(agentd: DaemonCall, beatMs: number): void {
  const timer = setInterval(() => {
    agentd('POST', '/v1/run/beat').catch((error: unknown) => {
      // Other failures are ignored: a later heartbeat may arrive before the lease expires.
      if (error instanceof RefusedError && error.refusal.code === 'stale_fence') process.exit(0);
    });
  }, beatMs);
  timer.unref();
}

/** In a replay every response is a recorded one. The replay ends where the record ends. */
async function replay(daemons: DaemonClients, loop: Loop): Promise<void> {
  const differences: { at: string; expected: string; got: string }[] = [];
  let ended: LoopResult | undefined;
  let recordEnded = false;
  try {
    ended = await loop.run();
  } catch (error) {
    if (!(error instanceof RefusedError) || isUnavailable(error.refusal)) throw error;
    const { code, message, hint, retry, recordEnds } = error.refusal;
    // A retryable failure is recorded only if no later attempt was, so the record ends with it.
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
  const sockets = await readSockets();
  const connect = (wrap: (call: DaemonCall) => DaemonCall): DaemonClients => ({
    agentd: wrap(makeDaemonCall(sockets.agentd)),
    toold: wrap(makeDaemonCall(sockets.toold)),
    modeld: wrap(makeDaemonCall(sockets.modeld)),
  });
  const daemons = connect((call) => withRetry(call, RETRY_TIMEOUT_MS));
  const briefing = await daemons.agentd<RunBriefing>('GET', '/v1/run');
  if (briefing.mode === 'replay') {
    // Failures are recorded responses too, so a retry would only return them again.
    const recorded = connect((call) => withRetry(call, RETRY_TIMEOUT_MS, isUnavailable));
    return replay(daemons, new Loop(recorded, briefing));
  }
  startHeartbeat(makeDaemonCall(sockets.agentd), briefing.beat_ms);
  const loop = new Loop(daemons, briefing);
  await loop.run().catch((error: unknown) => {
    // This program no longer matches the run's record, so a retry cannot help.
    if (error instanceof RefusedError && error.refusal.code === 'replay_differs')
      return loop.fail(error.refusal);
    throw error;
  });
}

main().then(
  () => process.exit(0),
  (error: unknown) => {
    // The run was canceled, or a newer activation holds it: there is nothing to report.
    if (
      error instanceof RefusedError &&
      ['stale_fence', 'canceled', 'ended', 'forbidden_caller'].includes(error.refusal.code)
    )
      process.exit(0);
    process.stderr.write(
      `${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`,
    );
    process.exit(error instanceof RefusedError && error.refusal.retry ? EXIT_RETRY : EXIT_BROKEN);
  },
);
