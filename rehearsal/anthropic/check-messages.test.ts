// Tests the refusals of messages and their blocks: one row each, with the vendor's message.
import {
  type AnthropicRefusalRow,
  assistant,
  base,
  chat,
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
  ['no messages', { model: base.model, max_tokens: 1 }, /^messages: Field required$/],
  ['messages as an object', { ...base, messages: {} }, /^messages: Input should be a valid list$/],
  ['empty messages', chat(), /^messages: at least one message is required$/],
  ['no role', chat({ content: 'x' }), /^messages\.0\.role: Field required$/],
  [
    'role tool',
    chat(user, { role: 'tool', content: 'x' }),
    /Unexpected role "tool". Allowed roles are "user" or "assistant"/,
  ],
  [
    'system as a first message',
    chat({ role: 'system', content: 'x' }, user),
    /Unexpected role "system". The Messages API accepts a top-level `system` parameter/,
  ],
  [
    'an assistant as first message',
    chat({ role: 'assistant', content: 'x' }, user),
    /^messages: first message must use the "user" role$/,
  ],
  [
    'system after an assistant',
    chat(user, { role: 'assistant', content: 'x' }, { role: 'system', content: 'x' }, user),
    /^messages\.2: role 'system' must follow a 'user' message$/,
  ],
  [
    'system before a user',
    chat(user, { role: 'system', content: 'x' }, user),
    /^messages\.1: role 'system' must precede an 'assistant' message or end the array$/,
  ],
  [
    'system messages on the small model',
    { ...small, messages: [user, { role: 'system', content: 'x' }] },
    /^role 'system' is not supported on this model$/,
  ],
  [
    'prefill on the large model',
    chat(user, { role: 'assistant', content: 'So' }),
    /does not support assistant message prefill/,
  ],
  [
    'prefill that ends in a space',
    { ...small, messages: [user, { role: 'assistant', content: 'So ' }] },
    /cannot end with trailing whitespace/,
  ],
  [
    'an extra field in a message',
    chat({ ...user, name: 'bob' }),
    /^messages\.0\.name: Extra inputs are not permitted$/,
  ],
  ['no content', chat({ role: 'user' }), /^messages\.0\.content: Field required$/],
  [
    'content null',
    chat({ role: 'user', content: null }),
    /^messages\.0\.content: Input should be a valid list$/,
  ],
  [
    'an empty text',
    chat({ role: 'user', content: '' }),
    /^messages\.0: all messages must have non-empty content/,
  ],
  [
    'an empty list',
    chat(user, { role: 'assistant', content: [] }, user),
    /^messages\.1: all messages must have non-empty content/,
  ],
  ['a text of spaces', chat({ role: 'user', content: ' ' }), /must contain non-whitespace text/],
  [
    'an empty text block',
    chat(userWith(textBlock(''))),
    /^messages: text content blocks must be non-empty$/,
  ],
  ['a text block of spaces', chat(userWith(textBlock(' \n'))), /must contain non-whitespace text/],
  [
    'an unknown block',
    chat(userWith({ type: 'input_text', text: 'x' })),
    /^messages\.0\.content\.0: Input tag 'input_text' found using 'type'/,
  ],
  [
    'an extra field in a block',
    chat(userWith({ ...textBlock('x'), id: 1 })),
    /^messages\.0\.content\.0\.text\.id: Extra inputs/,
  ],
  [
    'tool_use from a user',
    chat(userWith(toolUse('a'))),
    /`tool_use` blocks can only be in `assistant` messages/,
  ],
  [
    'tool_result from an assistant',
    chat(user, assistant(toolResult('a'))),
    /`tool_result` blocks can only be in `user` messages/,
  ],
  [
    'a tool_use id with a colon',
    chat(user, assistant(toolUse('a:1')), userWith(toolResult('a:1'))),
    /^messages\.1\.content\.0\.tool_use\.id: String should match pattern '\^\[a-zA-Z0-9_-\]\+\$'$/,
  ],
  [
    'a tool_use name with a dot',
    chat(user, assistant(toolUse('a', { name: 'task.finish' })), userWith(toolResult('a'))),
    /tool_use\.name: String should match pattern/,
  ],
  [
    'tool_use input as text',
    chat(user, assistant(toolUse('a', { input: '{}' })), userWith(toolResult('a'))),
    /^messages\.1\.content\.0\.tool_use\.input: Input should be a valid dictionary$/,
  ],
  [
    'a tool use without a result',
    chat(user, assistant(toolUse('a')), user),
    /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: a\./,
  ],
  [
    'two tool uses, one result',
    chat(user, assistant(toolUse('a'), toolUse('b')), userWith(toolResult('a'))),
    /immediately after: b\./,
  ],
  [
    'results in two messages',
    chat(
      user,
      assistant(toolUse('a'), toolUse('b')),
      userWith(toolResult('a')),
      userWith(toolResult('b')),
    ),
    /immediately after: b\./,
  ],
  [
    'a result after a text',
    chat(user, assistant(toolUse('a')), userWith(textBlock('here'), toolResult('a'))),
    /immediately after: a\./,
  ],
  [
    'a result without a use',
    chat(userWith(toolResult('a'))),
    /^messages\.0\.content\.0: unexpected `tool_use_id` found in `tool_result` blocks: a\. Each/,
  ],
  [
    'a result one message late',
    chat(
      user,
      assistant(toolUse('a')),
      userWith(toolResult('a')),
      assistant(textBlock('x')),
      userWith(toolResult('a')),
    ),
    /^messages\.4\.content\.0: unexpected `tool_use_id`/,
  ],
  [
    'two results for one use',
    chat(user, assistant(toolUse('a')), userWith(toolResult('a'), toolResult('a'))),
    /^messages\.2\.content\.1: each tool_use must have a single result/,
  ],
  [
    'a duplicate id',
    chat(user, assistant(toolUse('a'), toolUse('a')), userWith(toolResult('a'))),
    /^messages\.1\.content\.1: `tool_use` ids must be unique$/,
  ],
  [
    'an empty text in a result',
    chat(user, assistant(toolUse('a')), userWith(toolResult('a', { content: [textBlock('')] }))),
    /text content blocks must be non-empty/,
  ],
  [
    'is_error as text',
    chat(user, assistant(toolUse('a')), userWith(toolResult('a', { is_error: 'no' }))),
    /is_error: Input should be a valid boolean/,
  ],
  [
    'thinking without a signature',
    chat(user, assistant({ type: 'thinking', thinking: 'x' }), user),
    /thinking\.signature: Field required/,
  ],
  [
    'modified thinking',
    chat(user, assistant({ type: 'thinking', thinking: 'y', signature: signThinking('x') }), user),
    /^messages\.1\.content\.0: Invalid `signature` in `thinking` block$/,
  ],
  [
    'a document from an assistant',
    chat(user, assistant({ type: 'document', source: {} }), user),
    /`document` blocks are not permitted in `assistant`/,
  ],
  [
    'citations from a user',
    chat(userWith({ ...textBlock('x'), citations: [{}] })),
    /`citations` are not permitted in `user`/,
  ],
];

testRefusals('refused messages', ROWS);
