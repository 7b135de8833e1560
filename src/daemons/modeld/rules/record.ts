// Decides from the recorded attempts whether a repeated call is answered from the record.
import { FAULTS, type FaultCode } from '../../../wire/errors.ts';

export type RecordedAttempt = {
  attempt: number;
  status: 'running' | 'completed' | 'failed' | 'canceled' | 'unknown';
  requestHash: string;
  errorCode: FaultCode | null;
};
export type RecordedCall =
  | { result: 'recorded' | 'fault'; attempt: number }
  /** `ends`: the record ends here. */
  | { result: 'differs'; reason: string; ends?: true }
  | { result: 'none' };

/** Returns true for permanent failures, caused by the request itself. */
function isFinal(code: FaultCode | null): boolean {
  if (code === null || code === 'provider_auth' || code === 'canceled' || code === 'internal')
    return false;
  return !FAULTS[code].retry;
}

/** A completed call is never made twice. */
export function findRecorded(
  attempts: readonly RecordedAttempt[],
  call: { requestHash: string; mode: 'live' | 'replay'; hasForgotten: () => boolean },
): RecordedCall {
  const same = attempts.filter((a) => a.requestHash === call.requestHash);
  const completed = same.find((a) => a.status === 'completed');
  if (completed !== undefined) return { result: 'recorded', attempt: completed.attempt };
  const other = attempts.find((a) => a.status === 'completed');
  // Its request had a text that was forgotten since.
  if (other !== undefined && call.hasForgotten())
    return { result: 'recorded', attempt: other.attempt };
  if (other !== undefined)
    return { result: 'differs', reason: 'the recorded call had another request' };
  const failed = same.findLast((a) => a.status === 'failed');
  if (call.mode === 'replay') {
    if (failed !== undefined) return { result: 'fault', attempt: failed.attempt };
    const reason =
      attempts.length === 0 ? 'no such call is recorded' : 'no outcome of this call is recorded';
    return { result: 'differs', reason, ends: true };
  }
  if (failed !== undefined && isFinal(failed.errorCode))
    return { result: 'fault', attempt: failed.attempt };
  return { result: 'none' };
}
