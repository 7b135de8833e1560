// Tests writing Chat Completions requests, with the vendor's own types.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatCompletionCreateParams } from 'openai/resources/chat/completions';
import { call, isFault, request, result, text, user } from '../../testing/requests.ts';
import type { WriteOptions } from '../dialect.ts';
import type { ModelRequest } from '../model-request.ts';
import { openai } from '../openai.ts';
import type { JsonObject } from '../reading.ts';

const OPTIONS: WriteOptions = {
  provider: 'openai',
  model: 'gpt-5',
  maxOutputTokens: 100,
  stream: false,
};

test('a request is written as a Chat Completions body', () => {
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
    'results precede all text of their turn',
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

test('an unsupported request is rejected with the position of the problem', () => {
  const write = (more: Partial<ModelRequest>) => () => openai.writeRequest(request(more), OPTIONS);
  assert.throws(write({ stop: ['1', '2', '3', '4', '5'] }), isFault('bad_request', /at most 4/));
  assert.throws(
    write({ messages: [{ role: 'assistant', parts: [result('c', 'x')] }] }),
    isFault('bad_request', /messages\[0\].*tool_result/),
  );
});
