// Tests reading OpenAI's responses, whole and streamed, with the vendor's own types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatCompletion, ChatCompletionChunk } from 'openai/resources/chat/completions';
import { call, isFault, request, text } from '../../testing/requests.ts';
import type { ResponseEvent } from '../dialect.ts';
import { openai } from '../openai.ts';
import type { JsonObject } from '../reading.ts';
import { unchangedNames } from '../tool-names.ts';

const names = openai.writeRequest(
  request({ tools: [{ name: 'git.diff', description: '', input_schema: {} }] }),
  { provider: 'openai', model: 'gpt-5', maxOutputTokens: 100, stream: false },
).names;
const completion = (message: object, more: object = {}, finish = 'stop'): ChatCompletion =>
  ({
    id: 'cc',
    object: 'chat.completion',
    created: 1,
    model: 'gpt-5-x',
    choices: [
      {
        index: 0,
        finish_reason: finish,
        logprobs: null,
        message: { role: 'assistant', ...message },
      },
    ],
    ...more,
  }) as ChatCompletion;

test('a response is read with its calls, usage and stop reason', () => {
  const response = openai.readResponse(
    completion(
      {
        content: 'look',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'git_diff', arguments: '{"a":1}' } },
          { id: 'c2', type: 'function', function: { name: 'git_diff', arguments: '{"a":' } },
          { id: 'c3', type: 'function', function: { name: 'invented', arguments: '' } },
          { id: 'c4', type: 'custom', custom: { name: 'shell', input: 'ls' } },
        ],
      },
      {
        usage: {
          prompt_tokens: 100,
          completion_tokens: 20,
          total_tokens: 120,
          prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
          completion_tokens_details: { reasoning_tokens: 5 },
        },
      },
      'tool_calls',
    ),
    names,
  );
  const [said, one, two, three, four] = response.message.parts;
  assert.deepEqual(said, text('look'));
  assert.deepEqual(one, call('c1', 'git.diff', { a: 1 }));
  assert.equal(two?.type === 'tool_call' && two.name, 'git.diff');
  assert.match((two?.type === 'tool_call' && two.arguments_error) || '', /wrote: \{"a":$/);
  assert.deepEqual(three, call('c3', 'invented'));
  assert.deepEqual(four, call('c4', 'shell', { input: 'ls' }));
  assert.equal(response.stopReason, 'tool_calls');
  assert.deepEqual(response.usage, {
    input_tokens: 30,
    output_tokens: 20,
    cache_read_tokens: 60,
    cache_write_tokens: 10,
    reasoning_tokens: 5,
  });
  assert.equal(response.usageReported, true);
});

const answers: [string, ChatCompletion, object][] = [
  ['length', completion({ content: 'x' }, {}, 'length'), { stopReason: 'max_tokens' }],
  [
    'a filter',
    completion({ content: null }, {}, 'content_filter'),
    { stopReason: 'refusal', message: { role: 'assistant', parts: [text('')] } },
  ],
  [
    'a refusal',
    completion({ content: null, refusal: 'no' }),
    { stopReason: 'refusal', message: { role: 'assistant', parts: [text('no')] } },
  ],
  [
    'calls under stop',
    completion({
      content: null,
      tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }],
    }),
    { stopReason: 'tool_calls' },
  ],
  ['no usage', completion({ content: 'x' }), { usageReported: false }],
  [
    'nonsense usage',
    completion({ content: 'x' }, { usage: { prompt_tokens: -5, completion_tokens: 1e99 } }),
    {
      usageReported: true,
      usage: {
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
      },
    },
  ],
  [
    'reasoning text of other servers',
    completion({ content: 'x', reasoning_content: 'hm' }),
    { message: { role: 'assistant', parts: [{ type: 'thinking', text: 'hm' }, text('x')] } },
  ],
  ['an unknown reason', completion({ content: 'x' }, {}, 'new_reason'), { stopReason: 'other' }],
];
for (const [name, body, expected] of answers) {
  test(`response: ${name}`, () => {
    const response = openai.readResponse(body, names) as unknown as JsonObject;
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(response[key], value);
  });
}

test('a call without an id gets one, and a too long id a shorter one', () => {
  const read = (id: unknown) => {
    const calls = [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }];
    const part = openai.readResponse(completion({ tool_calls: calls }), names).message.parts[0];
    return part?.type === 'tool_call' ? part.id : '';
  };
  assert.match(read(undefined), /^call_[0-9a-f]{32}$/);
  assert.notEqual(read(undefined), read(undefined));
  assert.match(read('x'.repeat(500)), /^call_[0-9a-f]{32}$/);
});

test('responses that are not completions are malformed', () => {
  for (const body of [null, [], {}, { choices: [] }, { choices: [{}] }, 'x'])
    assert.throws(() => openai.readResponse(body, names), isFault('provider_malformed'));
});

function readChunks(chunks: unknown[]) {
  const reader = openai.readStream(names);
  const events: ResponseEvent[] = [];
  for (const chunk of chunks) {
    const data = typeof chunk === 'string' ? chunk : JSON.stringify(chunk);
    events.push(...reader.push({ event: '', data, raw: Buffer.alloc(0) }));
  }
  return { reader, events };
}
const chunk = (delta: object, finish: string | null = null): ChatCompletionChunk =>
  ({
    id: 'cc',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'gpt-5-x',
    choices: [{ index: 0, delta, finish_reason: finish }],
  }) as ChatCompletionChunk;

test('a stream is reassembled', () => {
  const { reader, events } = readChunks([
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Hel' }),
    chunk({ content: 'lo' }),
    chunk({
      tool_calls: [
        { index: 0, id: 'c1', type: 'function', function: { name: 'git_diff', arguments: '' } },
      ],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{"a"' } }] }),
    chunk({
      tool_calls: [
        { index: 1, id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
      ],
    }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: ':1}' } }] }),
    chunk({}, 'tool_calls'),
    { id: 'cc', choices: [], usage: { prompt_tokens: 7, completion_tokens: 3 } },
    '[DONE]',
  ]);
  assert.equal(reader.isDone(), true);
  assert.deepEqual(reader.response().message.parts, [
    text('Hello'),
    call('c1', 'git.diff', { a: 1 }),
    call('c2', 'f'),
  ]);
  assert.equal(reader.response().usage.input_tokens, 7);
  assert.deepEqual(
    events.map((event) => event.type),
    [
      'text',
      'text',
      'tool_call',
      'tool_arguments',
      'tool_call',
      'tool_arguments',
      'tool_arguments',
    ],
  );
});

test('a chunk with only usage is recognized, in all its variants', () => {
  const reader = openai.readStream(names);
  const push = (value: unknown) => {
    reader.push({ event: '', data: JSON.stringify(value), raw: Buffer.alloc(0) });
    return reader.wasUsageOnly();
  };
  assert.equal(push({ ...chunk({ content: 'x' }), usage: null }), false);
  assert.equal(push({ choices: [], usage: { prompt_tokens: 1 } }), true);
  assert.equal(push({ choices: null, usage: { prompt_tokens: 1 } }), true);
  assert.equal(push({ ...chunk({}, 'stop'), usage: { prompt_tokens: 1 } }), false);
  assert.equal(push({ choices: [] }), false);
});

test('errors inside a stream become faults', () => {
  const rows: [object, string][] = [
    [{ error: { message: 'busy', type: 'server_error' } }, 'provider_down'],
    [{ error: { message: 'slow', type: 'x', code: 'rate_limit_exceeded' } }, 'rate_limited'],
    [{ error: { message: 'bad', type: 'invalid_request_error' } }, 'provider_refused'],
    [{ error: { message: 'long', code: 'context_length_exceeded' } }, 'context_too_long'],
  ];
  for (const [body, code] of rows) assert.throws(() => readChunks([body]), isFault(code));
  assert.throws(() => readChunks(['{"choices":[']), isFault('provider_malformed'));
});

test('names are kept where a client wrote the body', () => {
  const calls = [{ id: 'a', type: 'function', function: { name: 'git_diff', arguments: '{}' } }];
  const response = openai.readResponse(completion({ tool_calls: calls }), unchangedNames('m', 'p'));
  assert.deepEqual(response.message.parts, [call('a', 'git_diff')]);
});
