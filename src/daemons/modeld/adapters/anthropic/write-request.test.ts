// Tests writing Anthropic Messages requests, with the vendor's own types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MessageCreateParams } from '@anthropic-ai/sdk/resources/messages';
import { assistant, call, isFault, request, result, text, user } from '../../testing/requests.ts';
import { anthropic } from '../anthropic.ts';
import type { WriteOptions } from '../dialect.ts';
import type { ModelRequest } from '../model-request.ts';
import type { JsonObject } from '../reading.ts';

const MODEL = 'claude-opus-5-5';
const OPTIONS: WriteOptions = {
  provider: 'anthropic',
  model: MODEL,
  maxOutputTokens: 100,
  stream: false,
};

test('a request is written as a Messages body', () => {
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

test('a request with sampling settings is sent as the version that accepts them', () => {
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

test('a request without text is rejected', () => {
  assert.throws(
    () => anthropic.writeRequest(request({ messages: [user(text(' '))] }), OPTIONS),
    isFault('bad_request', /some text/),
  );
});
