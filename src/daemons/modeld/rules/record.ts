// What the record of earlier attempts says to a call that is asked (again).
import { FAULTS, type FaultCode } from '../../../wire/errors.ts';

export type RecordedAttempt = {
  attempt: number;
  status: 'running' | 'completed' | 'failed' | 'canceled' | 'unknown';
  requestHash: string;
  errorCode: FaultCode | null;
};
export type RecordedCall =
  | { answer: 'recorded' | 'fault'; attempt: number }
  /** `ends`: nothing else is recorded in its place; the run was ended there. */
  | { answer: 'differs'; reason: string; ends?: true }
  | { answer: 'none' };

/** Failures that would come again because the request itself is the reason. */
function isFinal(code: FaultCode | null): boolean {
  if (code === null || code === 'provider_auth' || code === 'canceled' || code === 'internal')
    return false;
  return !FAULTS[code].retry;
}

/** What the record says to a call that is asked (again). A completed call is never made twice. */
export function askRecord(
  attempts: readonly RecordedAttempt[],
  asked: { requestHash: string; mode: 'live' | 'replay' },
): RecordedCall {
  const same = attempts.filter((a) => a.requestHash === asked.requestHash);
  const completed = same.find((a) => a.status === 'completed');
  if (completed !== undefined) return { answer: 'recorded', attempt: completed.attempt };
  if (attempts.some((a) => a.status === 'completed'))
    return { answer: 'differs', reason: 'the recorded call had another request' };
  const failed = same.findLast((a) => a.status === 'failed');
  if (asked.mode === 'replay') {
    if (failed !== undefined) return { answer: 'fault', attempt: failed.attempt };
    const reason =
      attempts.length === 0 ? 'no such call is recorded' : 'no outcome of this call is recorded';
    return { answer: 'differs', reason, ends: true };
  }
  if (failed !== undefined && isFinal(failed.errorCode))
    return { answer: 'fault', attempt: failed.attempt };
  return { answer: 'none' };
}
