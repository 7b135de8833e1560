// Tests reading the bodies of OpenAI clients, and writing their errors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions';
import { type Fault, fault } from '../../../../wire/errors.ts';
import { isFault, result, text, user } from '../../testing/requests.ts';
import { openai } from '../openai.ts';
import type { JsonObject } from '../reading.ts';

test("a client's body becomes a neutral request", () => {
  const read = openai.readRequest({
    model: 'coder',
    messages: [
      { role: 'developer', content: 'd' },
      { role: 'user', content: [{ type: 'text', text: 'a' }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: '1', type: 'function', function: { name: 'f', arguments: 'no' } }],
      },
      { role: 'tool', tool_call_id: '1', content: 'r1' },
      { role: 'tool', tool_call_id: '2', content: [{ type: 'text', text: 'r2' }] },
      { role: 'user', content: 'b' },
    ],
    tools: [{ type: 'function', function: { name: 'f' } }],
    tool_choice: { type: 'function', function: { name: 'f' } },
    parallel_tool_calls: false,
    max_tokens: 9,
    stop: 'X',
    stream: true,
    stream_options: { include_usage: true },
    response_format: {
      type: 'json_schema',
      json_schema: { name: 'n', schema: { type: 'object' } },
    },
    seed: 1,
    user: 'u',
  } satisfies ChatCompletionCreateParams as unknown as JsonObject);
  const [system, first, assistant, results, last] = read.messages;
  assert.deepEqual(system, { role: 'system', parts: [text('d')] });
  assert.deepEqual(first, user(text('a')));
  const broken = assistant?.parts[0];
  assert.ok(broken?.type === 'tool_call' && broken.arguments_error !== undefined);
  assert.deepEqual(results, user(result('1', 'r1'), result('2', 'r2')));
  assert.deepEqual(last, user(text('b')));
  assert.deepEqual(
    [read.toolChoice, read.parallelToolCalls, read.maxOutputTokens, read.stop, read.streamUsage],
    [{ name: 'f' }, false, 9, ['X'], true],
  );
  assert.deepEqual(read.outputSchema, { type: 'object' });
});

const base = { model: 'm', messages: [{ role: 'user', content: 'a' }] };
const refused: [string, JsonObject, RegExp][] = [
  ['n', { ...base, n: 2 }, /n other than 1/],
  ['logprobs', { ...base, logprobs: true }, /logprobs/],
  ['audio', { ...base, audio: { format: 'wav', voice: 'x' } }, /audio/],
  ['functions', { ...base, functions: [] }, /functions/],
  [
    'a file stored at the vendor',
    {
      ...base,
      messages: [{ role: 'user', content: [{ type: 'file', file: { file_id: 'f' } }] }],
    },
    /messages\[0\]\.content\[0\] that is stored at the vendor/,
  ],
  ['a custom tool', { ...base, tools: [{ type: 'custom' }] }, /tools\[0\]/],
  ['json_object', { ...base, response_format: { type: 'json_object' } }, /response_format/],
  ['no model', { ...base, model: 5 }, /model must/],
  ['no messages', { ...base, messages: [] }, /messages must/],
  ['a wrong role', { ...base, messages: [{ role: 'x', content: 'a' }] }, /messages\[0\]\.role/],
  [
    'content of a wrong kind',
    { ...base, messages: [{ role: 'user', content: 5 }] },
    /messages\[0\]\.content/,
  ],
  [
    'a result without its call',
    { ...base, messages: [{ role: 'tool', content: 'x' }] },
    /tool_call_id/,
  ],
];
for (const [name, body, words] of refused) {
  test(`a client's body with ${name} is refused by name`, () => {
    assert.throws(() => openai.readRequest(body), isFault('bad_request', words));
  });
}

test('limits are read and set in the fields the client uses', () => {
  assert.deepEqual(openai.readOutputLimit({ n: 3, max_tokens: 5 }), { tokens: 5, choices: 3 });
  assert.deepEqual(openai.readOutputLimit({}), { tokens: undefined, choices: 1 });
  assert.deepEqual(openai.outputLimit({ max_tokens: 5 }, 2, {}), { max_tokens: 2 });
  assert.deepEqual(openai.outputLimit({}, 2, {}), { max_completion_tokens: 2 });
  assert.deepEqual(openai.outputLimit({}, 2, { maxTokensField: 'max_tokens' }), { max_tokens: 2 });
});

const errors: [Fault, number, string, string][] = [
  [fault('budget', 'm'), 429, 'insufficient_quota', 'insufficient_quota'],
  [fault('rate_limited', 'm'), 429, 'rate_limit_error', 'rate_limit_exceeded'],
  [fault('context_too_long', 'm'), 400, 'invalid_request_error', 'context_length_exceeded'],
  [fault('not_found', 'm'), 404, 'invalid_request_error', 'model_not_found'],
  [fault('denied', 'm'), 403, 'invalid_request_error', 'denied'],
  [fault('provider_down', 'm'), 502, 'server_error', 'provider_down'],
  [fault('overloaded', 'm'), 503, 'server_error', 'overloaded'],
  [
    fault('provider_refused', 'm', { details: { upstream_status: 422 } }),
    422,
    'invalid_request_error',
    'provider_refused',
  ],
];
for (const [reason, status, type, code] of errors) {
  test(`the fault ${reason.code} is written as status ${status}`, () => {
    const written = openai.writeError(reason);
    const { error } = JSON.parse(written.body) as { error: JsonObject };
    assert.deepEqual([written.status, error.type, error.code], [status, type, code]);
    assert.equal(written.headers['x-should-retry'], reason.retry ? undefined : 'false');
    assert.equal((error.agentd as JsonObject).hint, reason.hint);
  });
}
