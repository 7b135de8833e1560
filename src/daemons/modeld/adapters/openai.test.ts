// The table of OpenAI's dialect: each row is one thing that must be so, typed with the vendor's own
// types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type {
  ChatCompletion,
  ChatCompletionChunk,
  ChatCompletionCreateParams,
} from 'openai/resources/chat/completions';
import { Fault, fault } from '../../../wire/errors.ts';
import type { Message, Part } from '../../../wire/modeld.ts';
import type { AnswerEvent, ModelRequest, WriteOptions } from './dialect.ts';
import { readEmbedAnswer, readEmbedRequest, writeEmbedAnswer } from './openai/embed.ts';
import { openai } from './openai.ts';
import type { JsonObject } from './reading.ts';
import { keptNames } from './tool-names.ts';

const OPTIONS: WriteOptions = {
  provider: 'openai',
  model: 'gpt-5',
  maxOutputTokens: 100,
  stream: false,
};
const text = (value: string): Part => ({ type: 'text', text: value });
const user = (...parts: Part[]): Message => ({ role: 'user', parts });
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

test('a request is written as Chat Completions takes it', () => {
  const { body, names } = openai.writeRequest(
    request({
      messages: [
        { role: 'system', parts: [text('be brief')] },
        user(text('one'), text('two')),
        {
          role: 'assistant',
          parts: [
            { type: 'thinking', text: 'hm', signature: 'x' },
            text('I ask'),
            call('c1', 'task.delegate', { to: 'coder' }),
          ],
        },
        user(text('go on'), result('c1', 'done')),
      ],
      tools: [{ name: 'task.delegate', description: 'd', input_schema: { type: 'object' } }],
      toolChoice: 'required',
      temperature: 0.5,
      stop: ['END'],
    }),
    { ...OPTIONS, stream: true },
  );
  assert.deepEqual(body, {
    model: 'gpt-5',
    messages: [
      { role: 'system', content: 'be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'one' },
          { type: 'text', text: 'two' },
        ],
      },
      {
        role: 'assistant',
        content: 'I ask',
        tool_calls: [
          {
            id: 'c1',
            type: 'function',
            function: { name: 'task_delegate', arguments: '{"to":"coder"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: 'done' },
      { role: 'user', content: 'go on' },
    ],
    max_completion_tokens: 100,
    tools: [
      {
        type: 'function',
        function: { name: 'task_delegate', description: 'd', parameters: { type: 'object' } },
      },
    ],
    tool_choice: 'required',
    temperature: 0.5,
    stop: ['END'],
    stream: true,
    stream_options: { include_usage: true },
  } satisfies ChatCompletionCreateParams);
  assert.equal(names.tools.toName('task_delegate'), 'task.delegate');
});

const written: [string, Partial<ModelRequest>, Partial<WriteOptions>, JsonObject][] = [
  [
    'no tools: no tool_choice either',
    { toolChoice: 'auto' },
    {},
    { tools: undefined, tool_choice: undefined },
  ],
  [
    'older servers: max_tokens',
    {},
    { maxTokensField: 'max_tokens' },
    { max_tokens: 100, max_completion_tokens: undefined },
  ],
  [
    'a failed result says so',
    { messages: [user(result('c', 'no such file', true))] },
    {},
    { messages: [{ role: 'tool', tool_call_id: 'c', content: 'Error: no such file' }] },
  ],
  [
    'results go before all text of their turn',
    { messages: [user(text('wait')), user(result('a', '1'), result('b', '2'))] },
    {},
    {
      messages: [
        { role: 'tool', tool_call_id: 'a', content: '1' },
        { role: 'tool', tool_call_id: 'b', content: '2' },
        { role: 'user', content: 'wait' },
      ],
    },
  ],
  [
    'ids that are too long are shortened, the same in call and result',
    {
      messages: [
        { role: 'assistant', parts: [call('i'.repeat(60), 't')] },
        user(result('i'.repeat(60), 'ok')),
      ],
    },
    {},
    {
      messages: [
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'i'.repeat(40), type: 'function', function: { name: 't', arguments: '{}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'i'.repeat(40), content: 'ok' },
      ],
    },
  ],
];
for (const [name, more, options, expected] of written) {
  test(`request: ${name}`, () => {
    const { body } = openai.writeRequest(request(more), { ...OPTIONS, ...options });
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(body[key], value);
  });
}

test('what OpenAI cannot take is refused with its place', () => {
  const write = (more: Partial<ModelRequest>) => () => openai.writeRequest(request(more), OPTIONS);
  assert.throws(write({ stop: ['1', '2', '3', '4', '5'] }), isFault('bad_request', /at most 4/));
  assert.throws(
    write({ messages: [{ role: 'assistant', parts: [result('c', 'x')] }] }),
    isFault('bad_request', /messages\[0\].*tool_result/),
  );
});

const names = openai.writeRequest(
  request({ tools: [{ name: 'git.diff', description: '', input_schema: {} }] }),
  OPTIONS,
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

test('an answer is read with its calls, usage and reason', () => {
  const answer = openai.readAnswer(
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
  const [said, one, two, three, four] = answer.message.parts;
  assert.deepEqual(said, text('look'));
  assert.deepEqual(one, call('c1', 'git.diff', { a: 1 }));
  assert.equal(two?.type === 'tool_call' && two.name, 'git.diff');
  assert.match((two?.type === 'tool_call' && two.arguments_error) || '', /wrote: \{"a":$/);
  assert.deepEqual(three, call('c3', 'invented'));
  assert.deepEqual(four, call('c4', 'shell', { input: 'ls' }));
  assert.equal(answer.stopReason, 'tool_calls');
  assert.deepEqual(answer.usage, {
    input_tokens: 30,
    output_tokens: 20,
    cache_read_tokens: 60,
    cache_write_tokens: 10,
    reasoning_tokens: 5,
  });
  assert.equal(answer.usageReported, true);
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
  test(`answer: ${name}`, () => {
    const answer = openai.readAnswer(body, names) as unknown as JsonObject;
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(answer[key], value);
  });
}

test('a call without an id gets one, and a too long id a shorter one', () => {
  const read = (id: unknown) => {
    const calls = [{ id, type: 'function', function: { name: 'f', arguments: '{}' } }];
    const part = openai.readAnswer(completion({ tool_calls: calls }), names).message.parts[0];
    return part?.type === 'tool_call' ? part.id : '';
  };
  assert.match(read(undefined), /^call_[0-9a-f]{32}$/);
  assert.notEqual(read(undefined), read(undefined));
  assert.match(read('x'.repeat(500)), /^call_[0-9a-f]{32}$/);
});

test('answers that are no completions are malformed', () => {
  for (const body of [null, [], {}, { choices: [] }, { choices: [{}] }, 'x'])
    assert.throws(() => openai.readAnswer(body, names), isFault('provider_malformed'));
});

function readChunks(chunks: unknown[]) {
  const reader = openai.readStream(names);
  const events: AnswerEvent[] = [];
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

test('a stream is put together again', () => {
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
  assert.deepEqual(reader.answer().message.parts, [
    text('Hello'),
    call('c1', 'git.diff', { a: 1 }),
    call('c2', 'f'),
  ]);
  assert.equal(reader.answer().usage.input_tokens, 7);
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

test('the chunk with the usage alone is known, also as some servers write it', () => {
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
    'an image',
    { ...base, messages: [{ role: 'user', content: [{ type: 'image_url' }] }] },
    /messages\[0\]\.content\[0\].*image_url/,
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

test('embeddings are put in order, and too few are malformed', () => {
  const floats = Buffer.from(Float32Array.from([0.5, -2]).buffer).toString('base64');
  const data = [
    { index: 1, embedding: floats },
    { index: 0, embedding: [1, 2] },
  ];
  const usage = { prompt_tokens: 4, total_tokens: 4 };
  const answer = readEmbedAnswer({ data, usage, model: 'e' }, { count: 2, model: 'x' });
  assert.deepEqual(answer.embeddings, [
    [1, 2],
    [0.5, -2],
  ]);
  assert.equal(answer.usage.input_tokens, 4);
  assert.throws(
    () => readEmbedAnswer({ data, usage }, { count: 3, model: 'x' }),
    isFault('provider_malformed', /2 embeddings for 3 texts/),
  );
  const back = writeEmbedAnswer(answer, { model: 'e', encoding: 'base64' });
  assert.deepEqual(readEmbedAnswer(back, { count: 2, model: 'e' }).embeddings, answer.embeddings);
  assert.throws(() => readEmbedRequest({ model: 'e', input: [''] }), isFault('bad_request'));
  assert.deepEqual(readEmbedRequest({ model: 'e', input: 'a' }).input, ['a']);
});

test('names are kept where a client wrote the body', () => {
  const calls = [{ id: 'a', type: 'function', function: { name: 'git_diff', arguments: '{}' } }];
  const answer = openai.readAnswer(completion({ tool_calls: calls }), keptNames('m', 'p'));
  assert.deepEqual(answer.message.parts, [call('a', 'git_diff')]);
});
