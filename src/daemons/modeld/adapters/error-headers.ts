// Error headers for both dialects, which tell the vendors' SDKs whether and when to retry.
import type { Fault } from '../../../wire/errors.ts';

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

/** Returns the vendor's 4xx status: the client's request was wrong, not the gateway. */
export function readUpstreamStatus(fault: Fault): number | undefined {
  const status = fault.details?.upstream_status;
  return typeof status === 'number' && status >= 400 && status < 500 ? status : undefined;
}
