// Builds refusals with OpenAI's own messages, types and status codes. The check-*.ts files
// decide which request gets which refusal.
import type { RehearsalRefusal } from '../refusal.ts';

export function refuse(
  message: string,
  param: string | null = null,
  code: string | null = null,
): RehearsalRefusal {
  return { status: 400, type: 'invalid_request_error', message, param, code };
}

export const refuseMissingParam = (param: string) =>
  refuse(`Missing required parameter: '${param}'.`, param, 'missing_required_parameter');

function describeType(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'number') return Number.isInteger(value) ? 'an integer' : 'a decimal';
  if (typeof value === 'boolean') return 'a boolean';
  return typeof value === 'string' ? 'a string' : 'an object';
}

export const refuseWrongType = (param: string, expected: string, value: unknown) =>
  refuse(
    `Invalid type for '${param}': expected ${expected}, but got ${describeType(value)} instead.`,
    param,
    'invalid_type',
  );

export function refuseUnsupportedValue(
  param: string,
  value: unknown,
  supported: readonly string[],
): RehearsalRefusal {
  const quoted = supported.map((supportedValue) => `'${supportedValue}'`);
  const list =
    quoted.length < 3
      ? quoted.join(' and ')
      : `${quoted.slice(0, -1).join(', ')}, and ${quoted.at(-1)}`;
  const message = `Invalid value: '${String(value)}'. Supported values are: ${list}.`;
  return refuse(message, param, 'invalid_value');
}

export const refuseEmptyArray = (param: string) =>
  refuse(
    `Invalid '${param}': empty array. Expected an array with minimum length 1, ` +
      'but got an empty array instead.',
    param,
    'empty_array',
  );

export const refuseLongArray = (param: string, max: number, length: number) =>
  refuse(
    `Invalid '${param}': array too long. Expected an array with maximum length ${max}, ` +
      `but got an array with length ${length} instead.`,
    param,
    'array_above_max_length',
  );

export const refuseLongString = (param: string, max: number, length: number) =>
  refuse(
    `Invalid '${param}': string too long. Expected a string with maximum length ${max}, ` +
      `but got a string with length ${length} instead.`,
    param,
    'string_above_max_length',
  );

export const refusePattern = (param: string, pattern: string) =>
  refuse(
    `Invalid '${param}': string does not match pattern. ` +
      `Expected a string that matches the pattern '${pattern}'.`,
    param,
    'invalid_value',
  );

export function refuseOutOfRange(
  param: string,
  kind: 'integer' | 'decimal',
  value: number,
  limits: { readonly min: number; readonly max: number },
): RehearsalRefusal {
  const isAbove = value > limits.max;
  const [bound, sign, limit] = isAbove
    ? ['above maximum', '<=', limits.max]
    : ['below minimum', '>=', limits.min];
  return refuse(
    `Invalid '${param}': ${kind} ${bound} value. ` +
      `Expected a value ${sign} ${limit}, but got ${value} instead.`,
    param,
    `${kind}_${isAbove ? 'above_max' : 'below_min'}_value`,
  );
}

export const BODY_NOT_JSON = refuse(
  "We could not parse the JSON body of your request. (HINT: This likely means you aren't using " +
    'your HTTP library correctly. The OpenAI API expects a JSON payload, but what was sent was ' +
    'not valid JSON.)',
);

export function checkKey(key: string | undefined): RehearsalRefusal | undefined {
  if (key === undefined || key === '') {
    const message =
      "You didn't provide an API key. You need to provide your API key in an Authorization " +
      'header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).';
    return { status: 401, type: 'invalid_request_error', message, param: null, code: null };
  }
  if (key !== 'bad-key') return undefined;
  const message = `Incorrect API key provided: ${key}. Use any key but this one.`;
  const type = 'invalid_request_error';
  return { status: 401, type, message, param: null, code: 'invalid_api_key' };
}

export const refuseUnknownModel = (model: string): RehearsalRefusal => ({
  status: 404,
  type: 'invalid_request_error',
  message: `The model \`${model}\` does not exist or you do not have access to it.`,
  param: null,
  code: 'model_not_found',
});

/** Returns the vendor's `error.type` for a status, for errors whose screenplay names none. */
export function mapStatusToErrorType(status: number): string {
  if (status === 429) return 'rate_limit_error';
  return status >= 500 ? 'server_error' : 'invalid_request_error';
}

export function formatRefusal(refusal: RehearsalRefusal): string {
  const { message, type, param = null, code = null } = refusal;
  return JSON.stringify({ error: { message, type, param, code } });
}
