// Tests reading Anthropic's responses, whole and streamed, with the vendor's own types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RawMessageStreamEvent } from '@anthropic-ai/sdk/resources/messages';
import { call, isFault, request, text } from '../../testing/requests.ts';
import { anthropic } from '../anthropic.ts';
import type { ResponseEvent } from '../dialect.ts';
import type { JsonObject } from '../reading.ts';

const MODEL = 'claude-opus-5-5';
const names = anthropic.writeRequest(
  request({ tools: [{ name: 'git.diff', description: '', input_schema: {} }] }),
  { provider: 'anthropic', model: MODEL, maxOutputTokens: 100, stream: false },
).names;

test('a response is read with thinking, calls, usage and stop reason', () => {
  const response = anthropic.readResponse(
    {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      model: 'claude-opus-5-5-x',
      content: [
        { type: 'thinking', thinking: 'hm', signature: 's1' },
        { type: 'redacted_thinking', data: 'd1' },
        { type: 'thinking', thinking: '', signature: 's2' },
        { type: 'text', text: 'look', citations: null },
        { type: 'text', text: '' },
        { type: 'server_tool_use', id: 'x', name: 'web_search', input: {} },
        { type: 'tool_use', id: 't1', name: 'git_diff', input: { a: 1 } },
        { type: 'tool_use', id: 't2', name: 'other', input: 'broken' },
      ],
      stop_reason: 'tool_use',
      stop_sequence: null,
      usage: {
        input_tokens: 10,
        output_tokens: 20,
        cache_read_input_tokens: 5,
        cache_creation_input_tokens: 7,
        cache_creation: { ephemeral_5m_input_tokens: 3, ephemeral_1h_input_tokens: 4 },
        output_tokens_details: { thinking_tokens: 6 },
      },
    },
    names,
  );
  assert.deepEqual(response.message.parts.slice(0, 5), [
    { type: 'thinking', text: 'hm', signature: `signed:${MODEL}:s1` },
    { type: 'thinking', text: '', signature: `redacted:${MODEL}:d1` },
    { type: 'thinking', text: '', signature: `signed:${MODEL}:s2` },
    text('look'),
    call('t1', 'git.diff', { a: 1 }),
  ]);
  const broken = response.message.parts[5];
  assert.match((broken?.type === 'tool_call' && broken.arguments_error) || '', /"broken"/);
  assert.equal(response.stopReason, 'tool_calls');
  assert.equal(response.cacheWriteLongTokens, 4);
  assert.deepEqual(response.usage, {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 5,
    cache_write_tokens: 7,
    reasoning_tokens: 6,
  });
});

test('every stop reason is mapped', () => {
  const rows: [string, string][] = [
    ['end_turn', 'end'],
    ['tool_use', 'tool_calls'],
    ['max_tokens', 'max_tokens'],
    ['model_context_window_exceeded', 'max_tokens'],
    ['stop_sequence', 'stop_sequence'],
    ['refusal', 'refusal'],
    ['pause_turn', 'other'],
  ];
  for (const [said, expected] of rows)
    assert.equal(
      anthropic.readResponse({ content: [], stop_reason: said }, names).stopReason,
      expected,
    );
});

test('responses that are not messages are malformed', () => {
  for (const body of [null, [], {}, { content: 'x' }, 'x'])
    assert.throws(() => anthropic.readResponse(body, names), isFault('provider_malformed'));
});

function readEvents(values: (RawMessageStreamEvent | JsonObject)[]) {
  const reader = anthropic.readStream(names);
  const events: ResponseEvent[] = [];
  for (const value of values) {
    const event = String(value.type);
    events.push(...reader.push({ event, data: JSON.stringify(value), raw: Buffer.alloc(0) }));
  }
  return { reader, events };
}

test('a stream is reassembled', () => {
  const { reader, events } = readEvents([
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        model: 'm',
        usage: { input_tokens: 9, output_tokens: 1, cache_read_input_tokens: 4 },
      },
    },
    {
      type: 'content_block_start',
      index: 0,
      content_block: { type: 'thinking', thinking: '', signature: '' },
    },
    { type: 'ping' },
    { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'h' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'thinking_delta', thinking: 'm' } },
    { type: 'content_block_delta', index: 0, delta: { type: 'signature_delta', signature: 'sig' } },
    { type: 'content_block_stop', index: 0 },
    {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'redacted_thinking', data: 'd' },
    },
    { type: 'content_block_stop', index: 1 },
    {
      type: 'content_block_start',
      index: 2,
      content_block: { type: 'text', text: '', citations: null },
    },
    { type: 'content_block_delta', index: 2, delta: { type: 'text_delta', text: 'Hello' } },
    { type: 'content_block_stop', index: 2 },
    {
      type: 'content_block_start',
      index: 3,
      content_block: { type: 'tool_use', id: 't1', name: 'git_diff', input: {} },
    },
    {
      type: 'content_block_delta',
      index: 3,
      delta: { type: 'input_json_delta', partial_json: '' },
    },
    {
      type: 'content_block_delta',
      index: 3,
      delta: { type: 'input_json_delta', partial_json: '{"a"' },
    },
    {
      type: 'content_block_delta',
      index: 3,
      delta: { type: 'input_json_delta', partial_json: ':1}' },
    },
    { type: 'content_block_stop', index: 3 },
    {
      type: 'content_block_start',
      index: 4,
      content_block: { type: 'tool_use', id: 't2', name: 'whole', input: { b: 2 } },
    },
    { type: 'content_block_stop', index: 4 },
    {
      type: 'message_delta',
      delta: { stop_reason: 'tool_use', stop_sequence: null },
      usage: { output_tokens: 30 },
    },
    { type: 'message_stop' },
  ]);
  assert.equal(reader.isDone(), true);
  assert.deepEqual(reader.response().message.parts, [
    { type: 'thinking', text: 'hm', signature: `signed:${MODEL}:sig` },
    { type: 'thinking', text: '', signature: `redacted:${MODEL}:d` },
    text('Hello'),
    call('t1', 'git.diff', { a: 1 }),
    call('t2', 'whole', { b: 2 }),
  ]);
  assert.deepEqual(reader.response().usage, {
    input_tokens: 9,
    output_tokens: 30,
    cache_read_tokens: 4,
    cache_write_tokens: 0,
    reasoning_tokens: 0,
  });
  assert.deepEqual(
    events.map((event) => event.type),
    [
      'thinking',
      'thinking',
      'signature',
      'thinking_end',
      'thinking_end',
      'text',
      'tool_call',
      'tool_arguments',
      'tool_arguments',
      'tool_call_end',
      'tool_call',
      'tool_call_end',
    ],
  );
});

test('errors inside a stream become faults', () => {
  const rows: [string, string][] = [
    ['overloaded_error', 'provider_down'],
    ['api_error', 'provider_down'],
    ['rate_limit_error', 'rate_limited'],
    ['authentication_error', 'provider_auth'],
    ['invalid_request_error', 'provider_refused'],
  ];
  for (const [type, code] of rows) {
    const event = { type: 'error', error: { type, message: 'm' } };
    assert.throws(() => readEvents([event]), isFault(code));
  }
});
