// Makes and checks call ids. A call id ends like its run's id, so a daemon can reject a call id of
// another run without looking it up.
import { fault } from './errors.ts';
import type { CallId } from './primitives.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** 100 bits, of which 80 are random. */
const TAIL_CHARS = 20;

function encodeBase32(value: number, width: number): string {
  let text = '';
  for (let rest = value, i = 0; i < width; i++, rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text;
  return text;
}

/** Derives the id from the call's position in the run, so that a repeat is recognized. */
export function makeCallId(runId: string, kind: 'm' | 't', step: number, index = 0): CallId {
  const position = `${kind === 'm' ? '0' : '1'}${encodeBase32(step, 3)}${encodeBase32(index, 2)}`;
  return `call_${position}${runId.slice(-TAIL_CHARS)}` as CallId;
}

export const isCallOfRun = (runId: string, callId: string): boolean =>
  callId.slice(-TAIL_CHARS) === runId.slice(-TAIL_CHARS);

/** Throws bad_request; the fault does not reveal whether such a call exists. */
export function assertCallOfRun(runId: string, callId: string): void {
  if (isCallOfRun(runId, callId)) return;
  throw fault('bad_request', `body call_id: ${callId} is not the id of a call of this run`, {
    hint: `Use the last ${TAIL_CHARS} characters of the run's id; the others are free.`,
  });
}
