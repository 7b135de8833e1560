// Checks that a response is one that a daemon may send: well-formed, and either a valid success or
// a fault from the table; never a bug.
import { FAULTS, type FaultCode } from '../../src/wire/errors.ts';
import type { RawResponse } from '../support/raw-http.ts';

/** Faults that are bugs of the daemon, not of the caller. */
const OURS: ReadonlySet<string> = new Set([
  'internal',
  'bad_output',
  'storage_broken',
  'bad_config',
]);

type ErrorBody = {
  error?: { code?: string; message?: unknown; hint?: unknown; retry?: unknown; type?: unknown };
};

function parsed(response: RawResponse): ErrorBody | undefined {
  try {
    return JSON.parse(response.body.toString('utf8')) as ErrorBody;
  } catch {
    return undefined;
  }
}

/** Describes the defect of the response, if any. */
export function findDefect(
  response: RawResponse,
  { isHead, dialect }: { isHead: boolean; dialect: boolean },
): string | undefined {
  const { status, headers } = response;
  const shown = `${status} ${response.body.toString('utf8').slice(0, 500)}`;
  if (isHead) return status === 500 ? shown : undefined;
  const isJson = headers['content-type']?.startsWith('application/json') === true;
  const body = isJson ? parsed(response) : undefined;
  if (isJson && body === undefined) return `no JSON: ${shown}`;
  if (status < 400) return undefined;
  const error = body?.error;
  if (error === undefined) return `an error without a body: ${shown}`;
  if (typeof error.message !== 'string' || error.message === '') return `no message: ${shown}`;
  if (status === 500 || OURS.has(String(error.code))) return `a bug: ${shown}`;
  if (dialect && typeof error.type === 'string') return undefined;
  if (!(String(error.code) in FAULTS)) return `not in the table: ${shown}`;
  const row = FAULTS[error.code as FaultCode];
  if (row.http !== status) return `the status is not that of its code: ${shown}`;
  if (typeof error.hint !== 'string' || error.retry !== row.retry) return `incomplete: ${shown}`;
  return undefined;
}
