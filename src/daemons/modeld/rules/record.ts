// What the record of earlier attempts says to a call that is asked (again).
import { FAULTS, type FaultCode } from '../../../wire/errors.ts';

export type RecordedAttempt = {
  attempt: number;
  status: 'running' | 'completed' | 'failed' | 'canceled' | 'unknown';
  requestHash: string;
  errorCode: FaultCode | null;
};
export type RecordedCall =
  | { result: 'recorded' | 'fault'; attempt: number }
  /** `ends`: nothing else is recorded in its place; the run was ended there. */
  | { result: 'differs'; reason: string; ends?: true }
  | { result: 'none' };

/** Failures that would come again because the request itself is the reason. */
function isFinal(code: FaultCode | null): boolean {
  if (code === null || code === 'provider_auth' || code === 'canceled' || code === 'internal')
    return false;
  return !FAULTS[code].retry;
}

/** What the record says to a call that is asked (again). A completed call is never made twice. */
export function findRecorded(
  attempts: readonly RecordedAttempt[],
  asked: { requestHash: string; mode: 'live' | 'replay' },
): RecordedCall {
  const same = attempts.filter((a) => a.requestHash === asked.requestHash);
  const completed = same.find((a) => a.status === 'completed');
  if (completed !== undefined) return { result: 'recorded', attempt: completed.attempt };
  if (attempts.some((a) => a.status === 'completed'))
    return { result: 'differs', reason: 'the recorded call had another request' };
  const failed = same.findLast((a) => a.status === 'failed');
  if (asked.mode === 'replay') {
    if (failed !== undefined) return { result: 'fault', attempt: failed.attempt };
    const reason =
      attempts.length === 0 ? 'no such call is recorded' : 'no outcome of this call is recorded';
    return { result: 'differs', reason, ends: true };
  }
  if (failed !== undefined && isFinal(failed.errorCode))
    return { result: 'fault', attempt: failed.attempt };
  return { result: 'none' };
}
