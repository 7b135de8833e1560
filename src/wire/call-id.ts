// The id of a call says whose call it is: it ends as its run's id does. So a run cannot name a call
// of another, whatever it knows, and who checks needs no record to know it.
import { fault } from './errors.ts';
import type { CallId } from './primitives.ts';

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
/** 100 bits, of which 80 are random. */
const TAIL_CHARS = 20;

function digits(value: number, width: number): string {
  let text = '';
  for (let rest = value, i = 0; i < width; i++, rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text;
  return text;
}

/** It follows from its place in the run, so that asking again is recognised. */
export function callIdOf(runId: string, kind: 'm' | 't', step: number, index = 0): CallId {
  const place = `${kind === 'm' ? '0' : '1'}${digits(step, 3)}${digits(index, 2)}`;
  return `call_${place}${runId.slice(-TAIL_CHARS)}` as CallId;
}

export const isCallOf = (runId: string, callId: string): boolean =>
  callId.slice(-TAIL_CHARS) === runId.slice(-TAIL_CHARS);

/** The same whether such a call exists or not. */
export function assertCallOf(runId: string, callId: string): void {
  if (isCallOf(runId, callId)) return;
  throw fault('bad_request', `body call_id: ${callId} is no id of a call of this run`, {
    hint: `The last ${TAIL_CHARS} characters are those of the run's id; the others are free.`,
  });
}
