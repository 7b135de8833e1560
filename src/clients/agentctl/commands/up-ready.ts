// Waits for a runtime that was just started until it is ready, fails, times out or Ctrl-C is
// pressed.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { type FaultBody, fault, faultFromBody } from '../../../wire/errors.ts';
import { sleep } from '../follow.ts';
import type { Out } from '../out.ts';
import { answersHealth } from '../running.ts';
import { readRuntimeInfo } from '../state.ts';

/** Long, because a migration that is killed starts over. */
const READY_TIMEOUT_MS = 30 * 60_000;
const SLOW_START_MS = 5_000;

type StartOptions = {
  stateDir: string;
  out: Out;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  readLastError: () => string | undefined;
};

/** Resolves to false when Ctrl-C canceled it; then the runtime has exited. */
export async function waitUntilUp(
  child: ChildProcess,
  { stateDir, out, signal, readLastError }: StartOptions,
): Promise<boolean> {
  const started = waitUntilReady(child, readLastError).then(() => waitForAgentd(stateDir));
  const first = Promise.race([started.then(() => 'up'), waitForAbort(signal)]);
  const slow = setTimeout(
    () =>
      out.info('Still starting. After an upgrade, a long history is migrated; Ctrl-C cancels it.'),
    SLOW_START_MS,
  );
  try {
    if ((await first) === 'up') return true;
    // Errors while it exits are expected.
    started.catch(() => undefined);
    await cancelStart(child, out);
    return false;
  } catch (error) {
    if (child.exitCode === null) child.kill('SIGTERM');
    throw error;
  } finally {
    clearTimeout(slow);
  }
}

const waitForAbort = (signal: AbortSignal): Promise<'aborted'> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve('aborted');
    signal.addEventListener('abort', () => resolve('aborted'));
  });

/** It has its own process group, so Ctrl-C did not reach it. */
async function cancelStart(child: ChildProcess, out: Out): Promise<void> {
  out.info('Canceling …');
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await ended;
  }
  out.info('The runtime was not started.');
}

type ReadyLine = { ready?: boolean; error?: FaultBody };

/** Reads the one line that the entry program writes to descriptor 3. */
export async function waitUntilReady(
  child: ChildProcess,
  readLastError: () => string | undefined,
): Promise<void> {
  const ended = new Promise<string>((done) => {
    child.once('error', (error) => done(error.message));
    child.once('exit', (code, signal) => done(signal ?? `exit ${code}`));
  });
  const received = readLine(child.stdio[3] as Readable);
  const late = new AbortController();
  const first = await Promise.race([
    received,
    sleep(READY_TIMEOUT_MS, late.signal).then(() => 'late'),
  ]).finally(() => late.abort());
  if (first === 'late')
    throw fault('deadline', `the runtime was not ready within ${READY_TIMEOUT_MS / 60_000} min`);
  if (first === undefined) {
    const how = await ended;
    const why = readLastError();
    throw fault('internal', `the runtime ended while starting (${how})${why ? `: ${why}` : ''}`, {
      hint: 'See logs/runtime.log in the state directory.',
    });
  }
  const line = JSON.parse(first) as ReadyLine;
  if (line.error !== undefined) throw faultFromBody(line);
}

/** Resolves to the first line, or undefined if the stream ends before it. */
async function readLine(stream: Readable): Promise<string | undefined> {
  let text = '';
  stream.setEncoding('utf8');
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<string>) {
    text += chunk;
    if (text.includes('\n')) return text.slice(0, text.indexOf('\n'));
  }
  return undefined;
}

async function waitForAgentd(stateDir: string): Promise<void> {
  const endMs = Date.now() + 10_000;
  while (readRuntimeInfo(stateDir) === undefined || !(await answersHealth(stateDir))) {
    if (Date.now() > endMs)
      throw fault('unavailable', 'the runtime is ready, but agentd does not respond');
    await sleep(50);
  }
}
