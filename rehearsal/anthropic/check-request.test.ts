// Tests the refusals of a request, except its messages: fields, limits, tools, thinking, headers.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import {
  ANTHROPIC_HEADERS,
  ANTHROPIC_TOOLS,
  post,
  postMessages,
  readPath,
  startServer,
  type TestServer,
} from '../testing.ts';
import {
  type AnthropicRefusalRow,
  assistant,
  base,
  chat,
  customTool,
  small,
  testRefusals,
  textBlock,
  toolResult,
  toolUse,
  user,
  userWith,
} from './refusal-rows.ts';
import { signThinking } from './signature.ts';

const ROWS: AnthropicRefusalRow[] = [
  ['a body that is not JSON', '{', /not valid JSON/],
  ['no model', { max_tokens: 1, messages: [user] }, /^model: Field required$/],
  ['an unknown model', { ...base, model: 'claude-x' }, /^model: claude-x$/, 404, 'not_found_error'],
  [
    'an embedding model',
    { ...base, model: 'rehearsal-embed' },
    /^model: rehearsal-embed$/,
    404,
    'not_found_error',
  ],
  ['an unknown field', { ...base, n: 2 }, /^n: Extra inputs are not permitted$/],
  [
    'the other vendor’s limit',
    { ...base, max_completion_tokens: 2 },
    /^max_completion_tokens: Extra inputs/,
  ],
  ['temperature, which was removed', { ...base, temperature: 1 }, /^temperature: Extra inputs/],
  ['top_p, which was removed', { ...base, top_p: 0.5 }, /^top_p: Extra inputs/],
  ['no max_tokens', { model: base.model, messages: [user] }, /^max_tokens: Field required$/],
  [
    'max_tokens as text',
    { ...base, max_tokens: '5' },
    /^max_tokens: Input should be a valid integer$/,
  ],
  [
    'max_tokens below 0',
    { ...base, max_tokens: -1 },
    /^max_tokens: Input should be greater than or equal to 0$/,
  ],
  [
    'max_tokens over the model',
    { ...base, max_tokens: 64_001 },
    /^max_tokens: 64001 > 64000, which is the maximum allowed number of output tokens for reh/,
  ],
  ['system as an object', { ...base, system: {} }, /^system: Input should be a valid list$/],
  [
    'an empty system block',
    { ...base, system: [textBlock('')] },
    /^system: text content blocks must be non-empty$/,
  ],
  ['an image as system', { ...base, system: [{ type: 'image' }] }, /^system\.0: Input tag 'image'/],
  ['tools as an object', { ...base, tools: {} }, /^tools: Input should be a valid list$/],
  [
    'a tool without a name',
    { ...base, tools: [{ input_schema: { type: 'object' } }] },
    /^tools\.0\.custom\.name: Field required$/,
  ],
  [
    'a tool name with a dot',
    { ...base, tools: [customTool({ name: 'task.delegate' })] },
    /^tools\.0\.custom\.name: String should match pattern '\^\[a-zA-Z0-9_-\]\{1,128\}\$'$/,
  ],
  [
    'a tool name of 129 characters',
    { ...base, tools: [customTool({ name: 'x'.repeat(129) })] },
    /^tools\.0\.custom\.name: String should have at most 128 characters$/,
  ],
  [
    'a tool without a schema',
    { ...base, tools: [{ name: 'x' }] },
    /^tools\.0\.custom\.input_schema: Field required$/,
  ],
  [
    'a schema without a type',
    { ...base, tools: [customTool({ input_schema: {} })] },
    /input_schema\.type: Field required$/,
  ],
  [
    'a schema of another type',
    { ...base, tools: [customTool({ input_schema: { type: 'string' } })] },
    /Input should be 'object'$/,
  ],
  [
    'a schema with anyOf',
    { ...base, tools: [customTool({ input_schema: { type: 'object', anyOf: [] } })] },
    /does not support oneOf, allOf, or anyOf/,
  ],
  [
    'the other vendor’s parameters',
    { ...base, tools: [customTool({ parameters: {} })] },
    /^tools\.0\.custom\.parameters: Extra inputs/,
  ],
  [
    'the other vendor’s tool',
    { ...base, tools: [{ type: 'function', function: { name: 'x' } }] },
    /^tools\.0: Input tag 'function' found/,
  ],
  [
    'two tools with the same name',
    { ...base, tools: [customTool({}), customTool({})] },
    /^tools: Tool names must be unique\.$/,
  ],
  [
    'tool_choice without tools',
    { ...base, tool_choice: { type: 'auto' } },
    /only be specified while providing tools/,
  ],
  [
    'tool_choice as text',
    { ...base, tools: ANTHROPIC_TOOLS, tool_choice: 'auto' },
    /^tool_choice: Input should be a valid dictionary$/,
  ],
  [
    'tool_choice required',
    { ...base, tools: ANTHROPIC_TOOLS, tool_choice: { type: 'required' } },
    /^tool_choice: Input tag 'required'/,
  ],
  [
    'tool_choice of a tool not offered',
    { ...base, tools: ANTHROPIC_TOOLS, tool_choice: { type: 'tool', name: 'x' } },
    /Tool 'x' not found in provided tools/,
  ],
  [
    'a small thinking budget',
    { ...base, thinking: { type: 'enabled', budget_tokens: 1000 } },
    /budget_tokens: Input should be greater than or equal to 1024/,
  ],
  [
    'a thinking budget over max_tokens',
    { ...base, thinking: { type: 'enabled', budget_tokens: 1024 } },
    /`max_tokens` must be greater than `thinking\.budget_tokens`/,
  ],
  [
    'thinking removed from the turn',
    {
      ...base,
      max_tokens: 4096,
      thinking: { type: 'enabled', budget_tokens: 1024 },
      messages: [user, assistant(toolUse('a')), userWith(toolResult('a'))],
    },
    /^messages\.1\.content\.0\.type: Expected `thinking` or .*, but found `tool_use`/,
  ],
  ['a blank stop sequence', { ...base, stop_sequences: [' '] }, /must contain non-whitespace/],
  ['stream as text', { ...base, stream: 'yes' }, /^stream: Input should be a valid boolean$/],
  [
    'an extra field in metadata',
    { ...base, metadata: { trace: 1 } },
    /^metadata\.trace: Extra inputs/,
  ],
  [
    'five cache breakpoints',
    chat(
      userWith(
        ...Array.from({ length: 5 }, () => ({
          ...textBlock('x'),
          cache_control: { type: 'ephemeral' },
        })),
      ),
    ),
    /^A maximum of 4 blocks with cache_control may be provided\. Found 5\.$/,
  ],
  [
    'a prompt over the window',
    { ...small, messages: [{ role: 'user', content: 'x'.repeat(128_004) }] },
    /^prompt is too long: 32001 tokens > 32000 maximum$/,
  ],
  [
    'prompt and output over the window',
    {
      ...small,
      max_tokens: 8_000,
      messages: [{ role: 'user', content: 'x'.repeat(100_000) }],
    },
    /^input length and `max_tokens` exceed context limit: 25000 \+ 8000 > 32000/,
  ],
];

testRefusals('refused requests', ROWS);

describe('version and headers', () => {
  let server: TestServer;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  const old = { ...ANTHROPIC_HEADERS, 'anthropic-version': '2023-06-01' };

  test('sampling under the older version: fixed on large, free on small', async () => {
    const large = await postMessages(server, { ...base, temperature: 0.2 }, old);
    assert.match(
      readPath(large.json, 'error.message'),
      /^`temperature` is deprecated for this model\.$/,
    );
    assert.equal((await postMessages(server, { ...base, temperature: 1 }, old)).status, 200);
    assert.equal((await postMessages(server, { ...small, temperature: 0.2 }, old)).status, 200);
    const hot = await postMessages(server, { ...small, temperature: 1.5 }, old);
    assert.match(
      readPath(hot.json, 'error.message'),
      /^temperature: Input should be less than or equal to 1$/,
    );
  });

  test('headers: no key, a bad key, no version, an unknown version', async () => {
    const url = `${server.url}/v1/messages`;
    const version = { 'anthropic-version': '2026-10-21' };
    const rows: [Record<string, string>, number, string, RegExp][] = [
      [version, 401, 'authentication_error', /^x-api-key header is required$/],
      [{ ...version, 'x-api-key': 'bad-key' }, 401, 'authentication_error', /^invalid x-api-key$/],
      [
        { ...version, authorization: 'Bearer bad-key' },
        401,
        'authentication_error',
        /^Invalid bearer token$/,
      ],
      [
        { 'x-api-key': 'k' },
        400,
        'invalid_request_error',
        /^anthropic-version: header is required$/,
      ],
      [
        { 'x-api-key': 'k', 'anthropic-version': '2020-01-01' },
        400,
        'invalid_request_error',
        /not a valid version/,
      ],
    ];
    for (const [headers, status, type, message] of rows) {
      const response = await post(url, headers, base);
      assert.equal(response.status, status);
      assert.equal(readPath(response.json, 'error.type'), type);
      assert.match(readPath(response.json, 'error.message'), message);
    }
    const bearer = await post(url, { ...version, authorization: 'Bearer k' }, base);
    assert.equal(bearer.status, 200);
  });

  test('counting refuses unknown fields, and does not need max_tokens', async () => {
    const url = `${server.url}/v1/messages/count_tokens`;
    const { max_tokens: _, ...body } = base;
    const counted = await post(url, ANTHROPIC_HEADERS, body);
    assert.deepEqual(counted.json, { input_tokens: 2 });
    const refused = await post(url, ANTHROPIC_HEADERS, base);
    assert.match(readPath(refused.json, 'error.message'), /^max_tokens: Extra inputs/);
  });

  test('an unknown path is refused in the vendor’s format', async () => {
    const response = await post(`${server.url}/v1/complete`, ANTHROPIC_HEADERS, base);
    assert.equal(response.status, 404);
    assert.equal(readPath(response.json, 'error.type'), 'not_found_error');
  });

  test('valid requests are accepted', async () => {
    const thought = { type: 'thinking', thinking: 'x', signature: signThinking('x') };
    const validRequests = [
      base,
      { ...base, max_tokens: 0 },
      { ...base, system: '', metadata: { user_id: 'u' }, stop_sequences: ['END'] },
      { ...base, tools: [] },
      {
        ...base,
        tools: [customTool({ name: 'x'.repeat(128) }), { type: 'bash_20250124', name: 'bash' }],
      },
      chat(
        user,
        user,
        { role: 'assistant', content: 'x' },
        { role: 'assistant', content: 'y' },
        user,
      ),
      chat(
        user,
        assistant(textBlock('x'), toolUse('a'), toolUse('b')),
        userWith(toolResult('b'), toolResult('a'), textBlock('go')),
      ),
      chat(user, assistant(toolUse('a')), userWith({ type: 'tool_result', tool_use_id: 'a' })),
      chat(user, assistant(thought, toolUse('a')), userWith(toolResult('a'))),
      chat(user, { role: 'system', content: 'x' }),
      chat(user, { role: 'system', content: 'x' }, { role: 'assistant', content: 'x' }, user),
      { ...small, messages: [user, { role: 'assistant', content: 'So' }] },
    ];
    for (const body of validRequests) {
      const response = await postMessages(server, body);
      assert.equal(response.status, 200, response.text);
    }
  });
});
