// Tests the translation of vendors' errors to faults.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRetryAfterMs, readVendorError, scrub, vendorFault } from './vendor-faults.ts';

const openai = (message: string, code: string | null = null, type = 'invalid_request_error') => ({
  error: { message, type, param: null, code },
});
const anthropic = (type: string, message: string) => ({ type: 'error', error: { type, message } });

const rows: [number, unknown, string][] = [
  [401, openai('Incorrect API key provided', 'invalid_api_key'), 'provider_auth'],
  [403, anthropic('permission_error', 'no'), 'provider_auth'],
  [400, openai('bad'), 'provider_refused'],
  [404, openai('The model `x` does not exist', 'model_not_found'), 'provider_refused'],
  [422, openai('bad'), 'provider_refused'],
  [402, anthropic('billing_error', 'pay'), 'provider_refused'],
  [413, anthropic('request_too_large', 'large'), 'too_large'],
  [400, openai('This model has 128000', 'context_length_exceeded'), 'context_too_long'],
  [
    400,
    anthropic('invalid_request_error', 'prompt is too long: 219898 tokens > 200000 maximum'),
    'context_too_long',
  ],
  [
    400,
    anthropic(
      'invalid_request_error',
      'input length and `max_tokens` exceed context limit: 1 + 2 > 3',
    ),
    'context_too_long',
  ],
  [400, openai("This model's maximum context length is 4097 tokens"), 'context_too_long'],
  [408, openai('slow'), 'provider_down'],
  [409, openai('lock'), 'provider_down'],
  [429, openai('wait', 'rate_limit_exceeded'), 'rate_limited'],
  [429, anthropic('rate_limit_error', 'wait'), 'rate_limited'],
  [
    429,
    openai('You exceeded your current quota', 'insufficient_quota', 'insufficient_quota'),
    'provider_refused',
  ],
  [500, anthropic('api_error', 'x'), 'provider_down'],
  [502, 'plain text', 'provider_down'],
  [503, null, 'provider_down'],
  [529, anthropic('overloaded_error', 'Overloaded'), 'provider_down'],
  [302, null, 'provider_malformed'],
];
for (const [status, body, code] of rows) {
  test(`status ${status} ${JSON.stringify(body)?.slice(0, 60)} is ${code}`, () => {
    const reason = vendorFault(readVendorError(body, status), { provider: 'p' });
    assert.equal(reason.code, code);
    assert.equal(reason.details?.upstream_status, status);
  });
}

test("the vendor's message is kept, clipped and without the key", () => {
  const key = 'secret/key+1';
  const error = readVendorError(openai(`wrong key ${key}, see ${'x'.repeat(900)}`), 400);
  const reason = vendorFault(error, { provider: 'p', key });
  assert.match(reason.message, /^the provider p refused the request: wrong key \[key\], see x/);
  assert.ok(reason.message.length < 600);
  assert.ok(!JSON.stringify(reason.toBody()).includes(key));
});

test('keys are removed whole, starred, and with line ends', () => {
  assert.equal(
    scrub('Incorrect API key: sk-proj-abc***********wxyz.', undefined),
    'Incorrect API key: [key].',
  );
  assert.equal(scrub('got Bearer abcdefghijk', undefined), 'got [key]');
  assert.equal(scrub('a\r\n{"level":"error"}', undefined), 'a {"level":"error"}');
  assert.equal(scrub('nothing here', ''), 'nothing here');
});

const now = Date.parse('2026-11-11T10:00:00Z');
const waits: [Record<string, string>, number | undefined][] = [
  [{ 'retry-after': '2' }, 2000],
  [{ 'retry-after': '1.5' }, 1500],
  [{ 'retry-after': 'Wed, 11 Nov 2026 10:00:10 GMT' }, 10_000],
  [{ 'retry-after': 'Wed, 11 Nov 2026 09:00:00 GMT' }, 0],
  [{ 'retry-after-ms': '250', 'retry-after': '9' }, 250],
  [{ 'retry-after': 'soon' }, undefined],
  [{ 'retry-after': '-3' }, undefined],
  [{ 'retry-after': '99999999' }, 3_600_000],
  [{}, undefined],
];
for (const [headers, expected] of waits) {
  test(`Retry-After ${JSON.stringify(headers)} is ${expected}`, () => {
    assert.equal(readRetryAfterMs(headers, now), expected);
  });
}
