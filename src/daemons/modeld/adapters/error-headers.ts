// Common parts of errors in both dialects: the headers that tell the vendors' SDKs whether and
// when to retry, and the message.
import type { Fault, FaultCode } from '../../../wire/errors.ts';

export function makeErrorHeaders(fault: Fault): Record<string, string> {
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  // Without it both SDKs retry every 409, 429 and 5xx, also where that cannot help.
  if (!fault.retry) headers['x-should-retry'] = 'false';
  if (fault.retryAfterMs !== undefined) {
    headers['retry-after-ms'] = String(fault.retryAfterMs);
    headers['retry-after'] = String(Math.ceil(fault.retryAfterMs / 1000));
  }
  return headers;
}

/** Clients show only the message: it must say what to do where only we can know. */
const HINTED: readonly FaultCode[] = ['budget', 'limit', 'denied', 'data_not_allowed'];

export function writeErrorMessage({ code, message, hint }: Fault): string {
  return HINTED.includes(code) ? `${message}. ${hint}` : message;
}

/** Returns the vendor's 4xx status: the client's request was wrong, not the gateway. */
export function readUpstreamStatus(fault: Fault): number | undefined {
  const status = fault.details?.upstream_status;
  return typeof status === 'number' && status >= 400 && status < 500 ? status : undefined;
}
