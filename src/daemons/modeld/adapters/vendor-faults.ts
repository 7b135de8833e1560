// Translates a vendor's error to a fault, by HTTP status, or by type inside a stream. The vendor's
// message is kept, clipped and without the key.
import { type Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import { asObject, asText, type JsonObject } from './reading.ts';

const MESSAGE_LENGTH_MAX = 500;
const RETRY_AFTER_MS_MAX = 3_600_000;

export type VendorError = {
  status?: number | undefined;
  type: string;
  code: string;
  message: string;
};

/** Both vendors write `{error: {type, message}}`; OpenAI adds `code`, and servers like it vary. */
export function readVendorError(json: unknown, status?: number): VendorError {
  const outer = asObject(json) ?? {};
  const error: JsonObject = asObject(outer.error) ?? outer;
  const message = asText(error.message) ?? asText(outer.error) ?? asText(outer.detail) ?? '';
  const code = error.code;
  return {
    status,
    type: asText(error.type) ?? '',
    code: typeof code === 'number' ? String(code) : (asText(code) ?? ''),
    message,
  };
}

const TOO_LONG = [
  /context (length|window|limit)/i,
  /prompt is too long/i,
  /exceeds? the (model'?s )?(max|context)/i,
  /too many (input )?tokens/i,
];

function isTooLong(error: VendorError): boolean {
  return (
    error.code === 'context_length_exceeded' ||
    TOO_LONG.some((pattern) => pattern.test(error.message))
  );
}

/** Waiting does not help an unpaid account; another provider may. */
function isUnpaid(error: VendorError): boolean {
  return error.code === 'insufficient_quota' || error.type === 'billing_error';
}

function chooseCodeByStatus(status: number, error: VendorError): FaultCode {
  if (isUnpaid(error)) return 'provider_refused';
  if (status === 401 || status === 403) return 'provider_auth';
  if (status === 429) return 'rate_limited';
  // Both vendors' SDKs retry these: a lock or the upload took too long.
  if (status === 408 || status === 409) return 'provider_down';
  if (status >= 500) return 'provider_down';
  if (status === 413) return 'too_large';
  if (status >= 400) return isTooLong(error) ? 'context_too_long' : 'provider_refused';
  return 'provider_malformed';
}

const CODE_BY_TYPE: Record<string, FaultCode> = {
  rate_limit_error: 'rate_limited',
  rate_limit_exceeded: 'rate_limited',
  authentication_error: 'provider_auth',
  permission_error: 'provider_auth',
  invalid_api_key: 'provider_auth',
  invalid_request_error: 'provider_refused',
  not_found_error: 'provider_refused',
  billing_error: 'provider_refused',
  invalid_prompt: 'provider_refused',
  request_too_large: 'too_large',
};

function chooseCodeByType(error: VendorError): FaultCode {
  if (isTooLong(error)) return 'context_too_long';
  if (isUnpaid(error)) return 'provider_refused';
  return CODE_BY_TYPE[error.code] ?? CODE_BY_TYPE[error.type] ?? 'provider_down';
}

const STATEMENTS: Partial<Record<FaultCode, string>> = {
  provider_auth: 'refused the key',
  rate_limited: 'rate limited the call',
  provider_down: 'could not respond',
  too_large: 'says the request is too large',
  context_too_long: 'says the context is too long',
  provider_refused: 'refused the request',
};

export function vendorFault(
  error: VendorError,
  context: { provider: string; key?: string | undefined; retryAfterMs?: number | undefined },
): Fault {
  const { status } = error;
  const code = status === undefined ? chooseCodeByType(error) : chooseCodeByStatus(status, error);
  const statement = STATEMENTS[code] ?? `answered with status ${status}`;
  const message = scrub(error.message, context.key);
  return fault(
    code,
    `the provider ${context.provider} ${statement}${message === '' ? '' : `: ${message}`}`,
    {
      retryAfterMs: context.retryAfterMs,
      details: {
        provider: context.provider,
        ...(status === undefined ? {} : { upstream_status: status }),
        ...(error.type === '' ? {} : { upstream_type: scrub(error.type, context.key) }),
        ...(error.code === '' ? {} : { upstream_code: scrub(error.code, context.key) }),
        ...(isUnpaid(error) ? { unpaid: true } : {}),
      },
    },
  );
}

/** Removes keys, which vendors quote in errors, whole or with the middle starred out. */
export function scrub(text: string, key: string | undefined): string {
  const whole = key === undefined || key === '' ? text : text.replaceAll(key, '[key]');
  const tidy = whole
    // biome-ignore lint/suspicious/noControlCharactersInRegex: a log line must stay one line
    .replace(/[\u0000-\u001f\u007f]+/g, ' ')
    .replace(/\b(sk|pk|key|Bearer)[-_ ][A-Za-z0-9*_-]{6,}/g, '[key]')
    .trim();
  return tidy.length <= MESSAGE_LENGTH_MAX ? tidy : `${tidy.slice(0, MESSAGE_LENGTH_MAX - 1)}…`;
}

/** `retry-after-ms`, or Retry-After in seconds or as an HTTP date. */
export function readRetryAfterMs(
  headers: Record<string, string | string[] | undefined>,
  nowMs: number,
): number | undefined {
  const exact = Number.parseFloat(asText(headers['retry-after-ms']) ?? '');
  if (exact >= 0) return Math.min(Math.ceil(exact), RETRY_AFTER_MS_MAX);
  const text = asText(headers['retry-after'])?.trim();
  if (text === undefined || text === '') return undefined;
  const isSeconds = /^\d+(\.\d+)?$/.test(text);
  // A date starts with a weekday; otherwise the date parser would accept almost anything.
  if (!isSeconds && !/^[A-Za-z]{3,9},? /.test(text)) return undefined;
  const ms = isSeconds ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(0, Math.ceil(ms)), RETRY_AFTER_MS_MAX);
}
