// Calls a daemon through the run's own sockets. Every request has its own connection, and every
// response is one JSON document. Retries what a retry can fix.
import { sendRequest, unixPool } from '../platform/http1/request.ts';

export type Refusal = {
  code: string;
  message: string;
  hint: string;
  retry: boolean;
  retryAfterMs: number;
  /** In a replay: the record has no further calls. */
  recordEnds: boolean;
};

/** A daemon refused the call, or did not respond (`unavailable`). */
export class RefusedError extends Error {
  override name = 'RefusedError';
  refusal: Refusal;

  constructor(refusal: Refusal) {
    super(`${refusal.message} (${refusal.code})`);
    this.refusal = refusal;
  }
}

export type DaemonCall = <T>(method: 'GET' | 'POST', path: string, body?: unknown) => Promise<T>;

const DEADLINE_MS = 900_000;
/** Longer than the deadline, so that the daemon's own fault arrives first. */
const TIMEOUT_MS = 960_000;

export function makeDaemonCall(socketPath: string): DaemonCall {
  const pool = unixPool(socketPath);
  return async <T>(method: 'GET' | 'POST', path: string, body?: unknown) => {
    const { status, body: text } = await sendRequest(pool, {
      method,
      path,
      headers: { connection: 'close', 'agentd-deadline-ms': DEADLINE_MS },
      body: body === undefined ? undefined : JSON.stringify(body),
      timeoutMs: TIMEOUT_MS,
    }).catch((error: Error) => {
      throw refusalFrom({
        code: 'unavailable',
        message: `${socketPath}: ${error.message}`,
        retry: true,
      });
    });
    const value = JSON.parse(text) as { error?: Record<string, unknown> };
    if (status >= 400) throw refusalFrom(value.error ?? {});
    return value as T;
  };
}

function refusalFrom(error: Record<string, unknown>): RefusedError {
  return new RefusedError({
    code: String(error.code ?? 'internal'),
    message: String(error.message ?? 'refused without a reason'),
    hint: String(error.hint ?? ''),
    retry: error.retry === true,
    retryAfterMs: Number(error.retry_after_ms ?? 0),
    recordEnds: (error.details as Record<string, unknown> | undefined)?.record_ends === true,
  });
}

/** The daemon does not respond now; the call can be repeated. */
export function isUnavailable({ code }: Refusal): boolean {
  return code === 'unavailable' || code === 'stopping';
}

/** The loop counts malformed responses itself. */
const isRetryable = ({ retry, code }: Refusal): boolean => retry && code !== 'provider_malformed';

/** Retries with exponential backoff until `timeoutMs` have passed. */
export function withRetry(
  call: DaemonCall,
  timeoutMs: number,
  shouldRetry: (refusal: Refusal) => boolean = isRetryable,
): DaemonCall {
  return async <T>(method: 'GET' | 'POST', path: string, body?: unknown) => {
    const end = performance.now() + timeoutMs;
    for (let backoffMs = 20; ; backoffMs = Math.min(backoffMs * 2, 2_000)) {
      try {
        return await call<T>(method, path, body);
      } catch (error) {
        const retry = error instanceof RefusedError && shouldRetry(error.refusal);
        if (!retry || performance.now() > end) throw error;
        const waitMs = Math.max(error.refusal.retryAfterMs, backoffMs * (0.5 + Math.random()));
        await new Promise((resolve) => setTimeout(resolve, waitMs));
      }
    }
  };
}
