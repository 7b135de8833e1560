// Builds refusals with Anthropic's own messages, types and status codes. The check-*.ts files
// decide which request gets which refusal.
import type { RehearsalRefusal } from '../refusal.ts';

export function refuse(message: string): RehearsalRefusal {
  return { status: 400, type: 'invalid_request_error', message };
}

export const refuseMissingField = (path: string) => refuse(`${path}: Field required`);
export const refuseExtraField = (path: string) => refuse(`${path}: Extra inputs are not permitted`);
export const refuseWrongType = (path: string, type: string) =>
  refuse(`${path}: Input should be a valid ${type}`);
export const refusePattern = (path: string, pattern: string) =>
  refuse(`${path}: String should match pattern '${pattern}'`);

export function refuseUnknownTag(
  path: string,
  tag: unknown,
  expected: readonly string[],
): RehearsalRefusal {
  const tags = expected.map((expectedTag) => `'${expectedTag}'`).join(', ');
  return refuse(
    `${path}: Input tag '${String(tag)}' found using 'type' does not match any of the expected ` +
      `tags: ${tags}`,
  );
}

export const BODY_NOT_JSON = refuse('The request body is not valid JSON');

export function checkKey(key: string | undefined, isBearer: boolean): RehearsalRefusal | undefined {
  const type = 'authentication_error';
  if (key === undefined || key === '') {
    return { status: 401, type, message: 'x-api-key header is required' };
  }
  if (key !== 'bad-key') return undefined;
  return { status: 401, type, message: isBearer ? 'Invalid bearer token' : 'invalid x-api-key' };
}

export const API_VERSIONS = ['2023-01-01', '2023-06-01', '2026-10-21'] as const;
export type ApiVersion = (typeof API_VERSIONS)[number];

export function checkVersion(version: string | undefined): RehearsalRefusal | undefined {
  if (version === undefined) return refuse('anthropic-version: header is required');
  return API_VERSIONS.some((supported) => supported === version)
    ? undefined
    : refuse(`anthropic-version: "${version}" is not a valid version`);
}

export const refuseUnknownModel = (model: string): RehearsalRefusal => ({
  status: 404,
  type: 'not_found_error',
  message: `model: ${model}`,
});

const ERROR_TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  402: 'billing_error',
  403: 'permission_error',
  404: 'not_found_error',
  409: 'conflict_error',
  413: 'request_too_large',
  429: 'rate_limit_error',
  504: 'timeout_error',
  529: 'overloaded_error',
};

/** Returns the vendor's `error.type` for a status, for errors whose screenplay names none. */
export function mapStatusToErrorType(status: number): string {
  return ERROR_TYPES[status] ?? (status >= 500 ? 'api_error' : 'invalid_request_error');
}

export function formatRefusal(refusal: RehearsalRefusal, requestId: string): string {
  const { type, message } = refusal;
  return JSON.stringify({ type: 'error', error: { type, message }, request_id: requestId });
}
