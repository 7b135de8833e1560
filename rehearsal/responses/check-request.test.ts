// Tests what the Responses API refuses, with OpenAI's messages, parameters and codes.
import { type OpenaiRefusalRow, testRefusals } from '../openai/refusal-rows.ts';

const base = { model: 'rehearsal-large', input: 'Hello' };
const input = (...items: unknown[]) => ({ ...base, input: items });
const user = { role: 'user', content: 'Hello' };
const call = { type: 'function_call', call_id: 'c1', name: 'f', arguments: '{}' };
const output = { type: 'function_call_output', call_id: 'c1', output: 'ok' };
const custom = { type: 'custom_tool_call', call_id: 'c1', name: 'f', input: 'x' };

const rows: OpenaiRefusalRow[] = [
  ['no model', { input: 'Hello' }, /must provide a model/, null, null],
  ['an unknown model', { ...base, model: 'm' }, /does not exist/, null, 'model_not_found', 404],
  [
    'an unknown field',
    { ...base, stop: ['x'] },
    /Unknown parameter: 'stop'/,
    'stop',
    'unknown_parameter',
  ],
  [
    'a previous response',
    { ...base, previous_response_id: 'resp_1' },
    /'resp_1' not found/,
    'previous_response_id',
    'previous_response_not_found',
  ],
  ['no input', { model: base.model }, /Missing required/, 'input', 'missing_required_parameter'],
  ['empty input', input(), /empty array/, 'input', 'empty_array'],
  [
    'an unknown item',
    input({ type: 'thought' }),
    /Supported values/,
    'input[0].type',
    'invalid_value',
  ],
  [
    'an unknown role',
    input({ role: 'tool', content: 'x' }),
    /Supported/,
    'input[0].role',
    'invalid_value',
  ],
  [
    'content of the chat API',
    input({ role: 'user', content: [{ type: 'text', text: 'x' }] }),
    /'input_text', 'input_image', and 'input_file'/,
    'input[0].content[0]',
    'invalid_value',
  ],
  [
    'an id of another kind',
    input(user, { ...call, id: 'call_1' }, output),
    /begins with 'fc'/,
    'input[1].id',
    'invalid_value',
  ],
  [
    'a call without output',
    input(user, call),
    /No tool output found for function call c1/,
    'input',
    null,
  ],
  [
    'output without a call',
    input(user, output),
    /No tool call found for function call output/,
    'input',
    null,
  ],
  [
    'output of the other kind',
    input(user, custom, output),
    /No tool call found for function call output with call_id c1/,
    'input',
    null,
  ],
  [
    'reasoning of another server',
    input(user, { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'gAAA' }),
    /could not be verified/,
    null,
    'invalid_encrypted_content',
  ],
  [
    'a dotted tool name',
    { ...base, tools: [{ type: 'function', name: 'a.b', parameters: { type: 'object' } }] },
    /does not match pattern/,
    'tools[0].name',
    'invalid_value',
  ],
  [
    'a tool of the chat API',
    { ...base, tools: [{ type: 'function', function: { name: 'f' } }] },
    /Missing required parameter: 'tools\[0\]\.name'/,
    'tools[0].name',
    'missing_required_parameter',
  ],
  [
    'too low a limit',
    { ...base, max_output_tokens: 5 },
    />= 16, but got 5/,
    'max_output_tokens',
    'integer_below_min_value',
  ],
];

testRefusals('refusals of the Responses API', '/v1/responses', rows);
