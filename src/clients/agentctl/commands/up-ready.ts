// Waiting for a runtime that was just started: until it answers, refuses, dies, takes too long, or
// somebody presses Ctrl-C.
import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { type FaultBody, fault, faultFromBody } from '../../../wire/errors.ts';
import { pause } from '../follow.ts';
import type { Out } from '../out.ts';
import { answersHealth } from '../running.ts';
import { readRuntimeInfo } from '../state.ts';

const readyWithinMs = 60_000;

type Starting = {
  stateDir: string;
  out: Out;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  words: () => string | undefined;
};

/** False when somebody broke it off; then nothing of it runs. */
export async function untilUp(
  child: ChildProcess,
  { stateDir, out, signal, words }: Starting,
): Promise<boolean> {
  const started = readyOrFault(child, words).then(() => answersSoon(stateDir));
  const first = Promise.race([started.then(() => 'up'), aborted(signal)]);
  try {
    if ((await first) === 'up') return true;
    // What it says while it ends is no news any more.
    started.catch(() => undefined);
    await breakOff(child, out);
    return false;
  } catch (error) {
    if (child.exitCode === null) child.kill('SIGTERM');
    throw error;
  }
}

const aborted = (signal: AbortSignal): Promise<'aborted'> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve('aborted');
    signal.addEventListener('abort', () => resolve('aborted'));
  });

/** It is in a group of its own: left alone it would start all the same. */
async function breakOff(child: ChildProcess, out: Out): Promise<void> {
  out.note('Breaking off …');
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  if (child.exitCode === null && child.signalCode === null) {
    child.kill('SIGTERM');
    await ended;
  }
  out.note('The runtime was not started.');
}

type ReadyLine = { ready?: boolean; error?: FaultBody };

/** The one line the entry says on descriptor 3. */
export async function readyOrFault(
  child: ChildProcess,
  words: () => string | undefined,
): Promise<void> {
  const ended = new Promise<string>((done) => {
    child.once('error', (error) => done(error.message));
    child.once('exit', (code, signal) => done(signal ?? `exit ${code}`));
  });
  const said = readLine(child.stdio[3] as Readable);
  const late = new AbortController();
  const first = await Promise.race([
    said,
    pause(readyWithinMs, late.signal).then(() => 'late'),
  ]).finally(() => late.abort());
  if (first === 'late')
    throw fault('deadline', `the runtime was not ready within ${readyWithinMs / 1_000} s`);
  if (first === undefined) {
    const how = await ended;
    const why = words();
    throw fault('internal', `the runtime ended while starting (${how})${why ? `: ${why}` : ''}`, {
      hint: 'Its whole log is in logs/runtime.log of the state directory.',
    });
  }
  const line = JSON.parse(first) as ReadyLine;
  if (line.error !== undefined) throw faultFromBody(line);
}

/** The first line, or nothing when the other side went away before it. */
async function readLine(stream: Readable): Promise<string | undefined> {
  let text = '';
  stream.setEncoding('utf8');
  for await (const chunk of stream.iterator({ destroyOnReturn: false }) as AsyncIterable<string>) {
    text += chunk;
    if (text.includes('\n')) return text.slice(0, text.indexOf('\n'));
  }
  return undefined;
}

async function answersSoon(stateDir: string): Promise<void> {
  const endMs = Date.now() + 10_000;
  while (readRuntimeInfo(stateDir) === undefined || !(await answersHealth(stateDir))) {
    if (Date.now() > endMs)
      throw fault('unavailable', 'the runtime says it is ready, but agentd does not answer');
    await pause(50);
  }
}
