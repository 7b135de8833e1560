// Tests the refusals of a chat, except its messages: fields, model, tools, limits, keys, paths.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { TestServer } from '../testing.ts';
import { OPENAI_HEADERS, OPENAI_TOOLS, post, postChat, readPath, startServer } from '../testing.ts';
import {
  assistant,
  base,
  chat,
  functionTool,
  type OpenaiRefusalRow,
  testRefusals,
  toolCall,
  toolMessage,
  user,
} from './refusal-rows.ts';

const ROWS: OpenaiRefusalRow[] = [
  ['a body that is not JSON', '{"model":', /could not parse the JSON body/, null, null],
  ['a body that is a list', [], /could not parse the JSON body/, null, null],
  ['no model', { messages: [user] }, /^you must provide a model parameter$/, null, null],
  [
    'a model that is a number',
    { ...base, model: 4 },
    /expected a string, but got an integer/,
    'model',
    'invalid_type',
  ],
  [
    'an unknown model',
    { ...base, model: 'gpt-4o' },
    /The model `gpt-4o` does not exist/,
    null,
    'model_not_found',
    404,
  ],
  [
    'an embedding model',
    { ...base, model: 'rehearsal-embed' },
    /not a chat model/,
    'model',
    null,
    404,
  ],
  [
    'an unknown field',
    { ...base, max_output: 3 },
    /Unrecognized request argument supplied: max_output/,
    null,
    null,
  ],
  [
    'tools that are an object',
    { ...base, tools: {} },
    /expected an array of objects/,
    'tools',
    'invalid_type',
  ],
  [
    'a tool without a type',
    { ...base, tools: [{ function: {} }] },
    /tools\[0\]\.type/,
    'tools[0].type',
    'missing_required_parameter',
  ],
  [
    'a tool in the other vendor’s form',
    { ...base, tools: [{ type: 'custom_tool', name: 'x' }] },
    /Invalid value: 'custom_tool'/,
    'tools[0].type',
    'invalid_value',
  ],
  [
    'a tool name with a dot',
    { ...base, tools: [functionTool('task.delegate')] },
    /matches the pattern '\^\[a-zA-Z0-9_-\]\+\$'/,
    'tools[0].function.name',
    'invalid_value',
  ],
  [
    'an empty tool name',
    { ...base, tools: [functionTool('')] },
    /does not match pattern/,
    'tools[0].function.name',
    'invalid_value',
  ],
  [
    'a tool name of 65 characters',
    { ...base, tools: [functionTool('x'.repeat(65))] },
    /maximum length 64/,
    'tools[0].function.name',
    'string_above_max_length',
  ],
  [
    'a schema that is not an object',
    { ...base, tools: [functionTool('x', { type: 'string' })] },
    /schema must be a JSON Schema of 'type: "object"'/,
    'tools[0].function.parameters',
    'invalid_function_parameters',
  ],
  [
    '129 tools',
    { ...base, tools: Array.from({ length: 129 }, (_, i) => functionTool(`t${i}`)) },
    /maximum length 128/,
    'tools',
    'array_above_max_length',
  ],
  [
    'tool_choice without tools',
    { ...base, tool_choice: 'auto' },
    /only allowed when 'tools' are specified/,
    'tool_choice',
    null,
  ],
  [
    'an unknown tool_choice',
    { ...base, tools: OPENAI_TOOLS, tool_choice: 'any' },
    /Supported values are: 'none', 'auto', and 'required'/,
    'tool_choice',
    'invalid_value',
  ],
  [
    'tool_choice of a tool not offered',
    {
      ...base,
      tools: OPENAI_TOOLS,
      tool_choice: { type: 'function', function: { name: 'x' } },
    },
    /no function named x/,
    'tool_choice',
    null,
  ],
  [
    'max_tokens of 0',
    { ...base, max_tokens: 0 },
    /integer below minimum value. Expected a value >= 1/,
    'max_tokens',
    'integer_below_min_value',
  ],
  [
    'max_tokens over the model',
    { ...base, max_tokens: 64_001 },
    /max_tokens is too large: 64001. This model supports at most 64000/,
    'max_tokens',
    'invalid_value',
  ],
  [
    'max_completion_tokens over the model',
    { ...base, model: 'rehearsal-small', max_completion_tokens: 8_193 },
    /supports at most 8192/,
    'max_completion_tokens',
    'invalid_value',
  ],
  [
    'both limits',
    { ...base, max_tokens: 5, max_completion_tokens: 5 },
    /at the same time/,
    'max_tokens',
    'invalid_parameter_combination',
  ],
  [
    'temperature of 3',
    { ...base, temperature: 3 },
    /decimal above maximum value. Expected a value <= 2, but got 3/,
    'temperature',
    'decimal_above_max_value',
  ],
  [
    'temperature as text',
    { ...base, temperature: 'hot' },
    /expected a decimal, but got a string/,
    'temperature',
    'invalid_type',
  ],
  [
    'five stop sequences',
    { ...base, stop: ['a', 'b', 'c', 'd', 'e'] },
    /maximum length 4/,
    'stop',
    'array_above_max_length',
  ],
  ['stream as text', { ...base, stream: 'yes' }, /expected a boolean/, 'stream', 'invalid_type'],
  [
    'stream_options without stream',
    { ...base, stream_options: { include_usage: true } },
    /only allowed when 'stream' is enabled/,
    'stream_options',
    null,
  ],
  [
    'JSON mode without the word',
    { ...base, response_format: { type: 'json_object' } },
    /must contain the word 'json'/,
    'messages',
    null,
  ],
  [
    'a prompt over the window',
    {
      ...base,
      model: 'rehearsal-small',
      messages: [{ role: 'user', content: 'x'.repeat(128_004) }],
    },
    /maximum context length is 32000 tokens. However, your messages resulted in 32001/,
    'messages',
    'context_length_exceeded',
  ],
  [
    'prompt and output over the window',
    {
      ...base,
      model: 'rehearsal-small',
      max_tokens: 8_000,
      messages: [{ role: 'user', content: 'x'.repeat(100_000) }],
    },
    /you requested 33000 tokens \(25000 in the messages, 8000 in the completion\)/,
    'messages',
    'context_length_exceeded',
  ],
];

testRefusals('refused chats', '/v1/chat/completions', ROWS);

describe('refused before the chat is read', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  test('a missing key', async () => {
    const response = await post(`${server.url}/v1/chat/completions`, {}, base);
    assert.equal(response.status, 401);
    assert.match(readPath(response.json, 'error.message'), /You didn't provide an API key/);
  });

  test('a bad key', async () => {
    const response = await postChat(server, base, { authorization: 'Bearer bad-key' });
    assert.equal(response.status, 401);
    assert.equal(readPath(response.json, 'error.code'), 'invalid_api_key');
  });

  test('an unknown path, and a wrong method', async () => {
    const unknown = await post(`${server.url}/v1/assistants`, OPENAI_HEADERS, base);
    assert.equal(unknown.status, 404);
    assert.match(readPath(unknown.json, 'error.message'), /Invalid URL \(POST \/v1\/assistants\)/);
    const wrong = await fetch(`${server.url}/v1/chat/completions`, { headers: OPENAI_HEADERS });
    assert.equal(wrong.status, 405);
  });

  test('invalid UTF-8, and excessive nesting', async () => {
    const broken = await postChat(server, new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]));
    assert.equal(broken.status, 400);
    const nest = '['.repeat(200_000) + ']'.repeat(200_000);
    const deep = `{"model":"rehearsal-large","messages":${nest}}`;
    const response = await postChat(server, deep);
    assert.equal(response.status, 400);
  });

  test('valid requests are accepted', async () => {
    const validRequests = [
      base,
      { ...base, tools: [] },
      { ...base, stop: 'x', n: 2, temperature: 2, user: 'me', metadata: {}, seed: 1 },
      chat(
        { role: 'developer', content: 'x' },
        { role: 'user', content: [{ type: 'text', text: 'x' }] },
      ),
      chat(user, assistant(toolCall('a'), toolCall('b')), toolMessage('b'), toolMessage('a'), user),
      chat(
        user,
        user,
        { role: 'assistant', content: 'x' },
        { role: 'assistant', content: '' },
        user,
      ),
      { ...base, tools: [{ type: 'function', function: { name: 'x'.repeat(64) } }] },
    ];
    for (const body of validRequests) {
      const response = await postChat(server, body);
      assert.equal(response.status, 200, response.text);
    }
  });
});
