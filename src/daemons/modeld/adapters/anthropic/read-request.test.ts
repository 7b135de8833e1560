// Tests reading the bodies of Anthropic clients, and writing their errors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCreateParams } from '@anthropic-ai/sdk/resources/messages';
import { type Fault, fault } from '../../../../wire/errors.ts';
import { assistant, call, isFault, result, text, user } from '../../testing/requests.ts';
import { anthropic } from '../anthropic.ts';
import type { JsonObject } from '../reading.ts';

test("a client's body becomes a neutral request", () => {
  const read = anthropic.readRequest({
    model: 'coder',
    max_tokens: 50,
    system: [{ type: 'text', text: 's', cache_control: { type: 'ephemeral' } }],
    messages: [
      { role: 'user', content: 'a' },
      { role: 'system', content: 'now' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'h', signature: 'sig' },
          { type: 'text', text: 'b' },
          { type: 'tool_use', id: '1', name: 'f', input: { a: 1 } },
        ],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: '1',
            content: [{ type: 'text', text: 'r' }],
            is_error: true,
          },
          { type: 'tool_result', tool_use_id: '2' },
        ],
      },
    ],
    tools: [{ name: 'f', input_schema: { type: 'object' } }],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    stop_sequences: ['X'],
  } satisfies MessageCreateParams as unknown as JsonObject);
  assert.deepEqual(read.messages, [
    { role: 'system', parts: [text('s')] },
    user(text('a')),
    { role: 'system', parts: [text('now')] },
    assistant(
      { type: 'thinking', text: 'h', signature: 'sig' },
      text('b'),
      call('1', 'f', { a: 1 }),
    ),
    user(result('1', 'r', true), result('2', '')),
  ]);
  assert.deepEqual(
    [read.toolChoice, read.parallelToolCalls, read.maxOutputTokens, read.stop],
    ['required', false, 50, ['X']],
  );
});

const base = { model: 'm', max_tokens: 5, messages: [{ role: 'user', content: 'a' }] };
const refused: [string, JsonObject, RegExp][] = [
  ['no max_tokens', { ...base, max_tokens: undefined }, /max_tokens/],
  [
    'an image stored at the vendor',
    {
      ...base,
      messages: [
        { role: 'user', content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }] },
      ],
    },
    /messages\[0\]\.content\[0\] that is stored at the vendor/,
  ],
  [
    'a server tool',
    { ...base, tools: [{ type: 'web_search_20260318', name: 'web_search' }] },
    /tools\[0\] of type web_search/,
  ],
  ['a container', { ...base, container: 'c' }, /container/],
  ['no messages', { ...base, messages: [] }, /messages must/],
  ['a wrong role', { ...base, messages: [{ role: 'tool', content: 'a' }] }, /messages\[0\]\.role/],
  ['a wrong choice', { ...base, tool_choice: { type: 'maybe' } }, /tool_choice/],
];
for (const [name, body, words] of refused) {
  test(`a client's body with ${name} is refused by name`, () => {
    assert.throws(() => anthropic.readRequest(body), isFault('bad_request', words));
  });
}

test('a body with sampling settings is sent as the version that accepts them', () => {
  const pass = (body: JsonObject) => anthropic.passHeaders(body, {});
  assert.deepEqual(pass({}), { 'anthropic-version': '2026-10-21' });
  assert.deepEqual(pass({ top_k: 5 }), { 'anthropic-version': '2023-06-01' });
});

test("the caller's version and betas are passed on, and nothing that is neither", () => {
  const given = { 'anthropic-version': '2023-01-01', 'anthropic-beta': 'a-2025-05-14, b:c' };
  assert.deepEqual(anthropic.passHeaders({ top_k: 5 }, given), given);
  for (const value of ['a\r\nx-api-key: k', 'ä', '"', 'b'.repeat(5_000)])
    assert.throws(
      () => anthropic.passHeaders({}, { 'anthropic-beta': value }),
      isFault('bad_request', /anthropic-beta/),
    );
});

const errors: [Fault, number, string][] = [
  [fault('budget', 'm'), 402, 'billing_error'],
  [fault('rate_limited', 'm', { retryAfterMs: 1500 }), 429, 'rate_limit_error'],
  [fault('context_too_long', 'm'), 400, 'invalid_request_error'],
  [fault('unauthenticated', 'm'), 401, 'authentication_error'],
  [fault('denied', 'm'), 403, 'permission_error'],
  [fault('overloaded', 'm'), 529, 'overloaded_error'],
  [fault('deadline', 'm'), 504, 'timeout_error'],
  [fault('provider_down', 'm', { details: { upstream_status: 529 } }), 529, 'overloaded_error'],
  [fault('provider_down', 'm'), 502, 'api_error'],
  [fault('provider_refused', 'm', { details: { upstream_status: 404 } }), 404, 'not_found_error'],
];
for (const [reason, status, type] of errors) {
  test(`the fault ${reason.code} is written as ${type}`, () => {
    const written = anthropic.writeError(reason);
    const body = JSON.parse(written.body) as { type: string; error: JsonObject };
    assert.deepEqual([body.type, written.status, body.error.type], ['error', status, type]);
    assert.equal((body.error.details as JsonObject).error_code, reason.code);
    if (reason.retryAfterMs !== undefined) assert.equal(written.headers['retry-after'], '2');
  });
}
