// The table of Anthropic's dialect: each row is one thing that must be so, typed with the vendor's
// own types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  MessageCreateParams,
  RawMessageStreamEvent,
} from '@anthropic-ai/sdk/resources/messages';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Message, Part } from '../../../wire/modeld.ts';
import { anthropic } from './anthropic.ts';
import type { AnswerEvent, ModelRequest, WriteOptions } from './dialect.ts';
import type { JsonObject } from './reading.ts';

const MODEL = 'claude-opus-5-5';
const OPTIONS: WriteOptions = {
  provider: 'anthropic',
  model: MODEL,
  maxOutputTokens: 100,
  stream: false,
};
const text = (value: string): Part => ({ type: 'text', text: value });
const user = (...parts: Part[]): Message => ({ role: 'user', parts });
const assistant = (...parts: Part[]): Message => ({ role: 'assistant', parts });
const request = (more: Partial<ModelRequest>): ModelRequest => ({
  messages: [user(text('hi'))],
  tools: [],
  stop: [],
  stream: false,
  ...more,
});
const call = (id: string, name: string, args: JsonObject = {}): Part => ({
  type: 'tool_call',
  id,
  name,
  arguments: args,
});
const result = (id: string, content: string, isError?: true): Part => ({
  type: 'tool_result',
  tool_call_id: id,
  content,
  ...(isError === undefined ? {} : { is_error: isError }),
});
const isFault = (code: string, words?: RegExp) => (error: unknown) =>
  error instanceof Fault && error.code === code && (words?.test(error.message) ?? true);

test('a request is written as Messages takes it', () => {
  const { body, headers } = anthropic.writeRequest(
    request({
      messages: [
        { role: 'system', parts: [text('be brief')] },
        user(text('one')),
        user(text('two'), text('  ')),
        assistant(
          { type: 'thinking', text: 'hm', signature: `signed:${MODEL}:sig:1` },
          { type: 'thinking', text: '', signature: `redacted:${MODEL}:data` },
          { type: 'thinking', text: 'theirs', signature: 'signed:claude-old:sig' },
          { type: 'thinking', text: 'unsigned' },
          text('I ask'),
          call('c.1', 'task.delegate', { to: 'coder' }),
        ),
        user(text('go on')),
        user(result('c.1', 'failed', true)),
      ],
      tools: [{ name: 'task.delegate', description: 'd', input_schema: { properties: {} } }],
      toolChoice: 'required',
      parallelToolCalls: false,
      stop: ['END'],
    }),
    { ...OPTIONS, stream: true },
  );
  assert.deepEqual(body, {
    model: MODEL,
    max_tokens: 100,
    system: 'be brief',
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 'sig:1' },
          { type: 'redacted_thinking', data: 'data' },
          { type: 'text', text: 'I ask' },
          { type: 'tool_use', id: 'c_1', name: 'task_delegate', input: { to: 'coder' } },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'c_1', content: 'failed', is_error: true },
          { type: 'text', text: 'go on' },
        ],
      },
    ],
    tools: [
      {
        name: 'task_delegate',
        description: 'd',
        input_schema: { type: 'object', properties: {} },
      },
    ],
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
    stop_sequences: ['END'],
    stream: true,
  } satisfies MessageCreateParams);
  assert.equal(headers['anthropic-version'], '2026-10-21');
});

test('a request with sampling is sent as the version that still takes it', () => {
  const { body, headers } = anthropic.writeRequest(request({ temperature: 1.5 }), OPTIONS);
  assert.equal(body.temperature, 1);
  assert.equal(headers['anthropic-version'], '2023-06-01');
});

const written: [string, Partial<ModelRequest>, JsonObject][] = [
  [
    'system messages anywhere go to the front in order',
    {
      messages: [
        { role: 'system', parts: [text('a')] },
        user(text('x')),
        { role: 'system', parts: [text('b')] },
      ],
    },
    {
      system: [
        { type: 'text', text: 'a' },
        { type: 'text', text: 'b' },
      ],
      messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }],
    },
  ],
  [
    'tool_choice none',
    { tools: [{ name: 't', description: '', input_schema: {} }], toolChoice: 'none' },
    { tool_choice: { type: 'none' } },
  ],
  [
    'a named tool',
    { tools: [{ name: 'a.b', description: '', input_schema: {} }], toolChoice: { name: 'a.b' } },
    { tool_choice: { type: 'tool', name: 'a_b' } },
  ],
  [
    'no tools: no tool_choice',
    { toolChoice: 'required' },
    { tool_choice: undefined, tools: undefined },
  ],
  [
    'a history with calls names its tools',
    { messages: [user(text('x')), assistant(call('1', 'a.b')), user(result('1', 'y'))] },
    {
      tools: [
        {
          name: 'a_b',
          description: 'A tool of an earlier turn. It cannot be called now.',
          input_schema: { type: 'object' },
        },
      ],
      tool_choice: { type: 'none' },
    },
  ],
  [
    'an empty answer in the history leaves no empty message',
    { messages: [user(text('a')), assistant(text('')), user(text('b'))] },
    {
      messages: [
        {
          role: 'user',
          content: [
            { type: 'text', text: 'a' },
            { type: 'text', text: 'b' },
          ],
        },
      ],
    },
  ],
  [
    'effort and schema',
    { effort: 'minimal', outputSchema: { type: 'object' } },
    {
      output_config: { effort: 'low', format: { type: 'json_schema', schema: { type: 'object' } } },
    },
  ],
];
for (const [name, more, expected] of written) {
  test(`request: ${name}`, () => {
    const { body } = anthropic.writeRequest(request(more), OPTIONS);
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(body[key], value);
  });
}

test('a request without anything to say is refused', () => {
  assert.throws(
    () => anthropic.writeRequest(request({ messages: [user(text(' '))] }), OPTIONS),
    isFault('bad_request', /some text/),
  );
});

const names = anthropic.writeRequest(
  request({ tools: [{ name: 'git.diff', description: '', input_schema: {} }] }),
  OPTIONS,
).names;

test('an answer is read with thinking, calls, usage and reason', () => {
  const answer = anthropic.readAnswer(
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
  assert.deepEqual(answer.message.parts.slice(0, 5), [
    { type: 'thinking', text: 'hm', signature: `signed:${MODEL}:s1` },
    { type: 'thinking', text: '', signature: `redacted:${MODEL}:d1` },
    { type: 'thinking', text: '', signature: `signed:${MODEL}:s2` },
    text('look'),
    call('t1', 'git.diff', { a: 1 }),
  ]);
  const broken = answer.message.parts[5];
  assert.match((broken?.type === 'tool_call' && broken.arguments_error) || '', /"broken"/);
  assert.equal(answer.stopReason, 'tool_calls');
  assert.equal(answer.cacheWriteLongTokens, 4);
  assert.deepEqual(answer.usage, {
    input_tokens: 10,
    output_tokens: 20,
    cache_read_tokens: 5,
    cache_write_tokens: 7,
    reasoning_tokens: 6,
  });
});

test('every stop reason has its word', () => {
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
      anthropic.readAnswer({ content: [], stop_reason: said }, names).stopReason,
      expected,
    );
});

test('answers that are no messages are malformed', () => {
  for (const body of [null, [], {}, { content: 'x' }, 'x'])
    assert.throws(() => anthropic.readAnswer(body, names), isFault('provider_malformed'));
});

function readEvents(values: (RawMessageStreamEvent | JsonObject)[]) {
  const reader = anthropic.readStream(names);
  const events: AnswerEvent[] = [];
  for (const value of values) {
    const event = String(value.type);
    events.push(...reader.push({ event, data: JSON.stringify(value), raw: Buffer.alloc(0) }));
  }
  return { reader, events };
}

test('a stream is put together again', () => {
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
  assert.deepEqual(reader.answer().message.parts, [
    { type: 'thinking', text: 'hm', signature: `signed:${MODEL}:sig` },
    { type: 'thinking', text: '', signature: `redacted:${MODEL}:d` },
    text('Hello'),
    call('t1', 'git.diff', { a: 1 }),
    call('t2', 'whole', { b: 2 }),
  ]);
  assert.deepEqual(reader.answer().usage, {
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
      'text',
      'tool_call',
      'tool_arguments',
      'tool_arguments',
      'tool_call',
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
    'an image',
    { ...base, messages: [{ role: 'user', content: [{ type: 'image' }] }] },
    /messages\[0\]\.content\[0\] of type image/,
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

test("the client's own version and beta headers go with its body", () => {
  const given = { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'b1', cookie: 'x' };
  assert.deepEqual(anthropic.passHeaders({}, given), {
    'anthropic-version': '2023-06-01',
    'anthropic-beta': 'b1',
  });
  assert.deepEqual(anthropic.passHeaders({ top_k: 5 }, {}), { 'anthropic-version': '2023-06-01' });
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
