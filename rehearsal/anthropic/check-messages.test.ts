// What is refused about messages and their blocks: one row per refusal, with the vendor's sentence.
import {
  answers,
  assistant,
  base,
  type Row,
  result,
  say,
  small,
  testRefusals,
  text,
  use,
  user,
} from './refusal-rows.ts';
import { signThinking } from './signature.ts';

const ROWS: Row[] = [
  ['no messages', { model: base.model, max_tokens: 1 }, /^messages: Field required$/],
  ['messages as an object', { ...base, messages: {} }, /^messages: Input should be a valid list$/],
  ['empty messages', say(), /^messages: at least one message is required$/],
  ['no role', say({ content: 'x' }), /^messages\.0\.role: Field required$/],
  [
    'role tool',
    say(user, { role: 'tool', content: 'x' }),
    /Unexpected role "tool". Allowed roles are "user" or "assistant"/,
  ],
  [
    'system as a first message',
    say({ role: 'system', content: 'x' }, user),
    /Unexpected role "system". The Messages API accepts a top-level `system` parameter/,
  ],
  [
    'an assistant as first message',
    say({ role: 'assistant', content: 'x' }, user),
    /^messages: first message must use the "user" role$/,
  ],
  [
    'system after an assistant',
    say(user, { role: 'assistant', content: 'x' }, { role: 'system', content: 'x' }, user),
    /^messages\.2: role 'system' must follow a 'user' message$/,
  ],
  [
    'system before a user',
    say(user, { role: 'system', content: 'x' }, user),
    /^messages\.1: role 'system' must precede an 'assistant' message or end the array$/,
  ],
  [
    'system messages on the small model',
    { ...small, messages: [user, { role: 'system', content: 'x' }] },
    /^role 'system' is not supported on this model$/,
  ],
  [
    'prefill on the large model',
    say(user, { role: 'assistant', content: 'So' }),
    /does not support assistant message prefill/,
  ],
  [
    'prefill that ends in a space',
    { ...small, messages: [user, { role: 'assistant', content: 'So ' }] },
    /cannot end with trailing whitespace/,
  ],
  [
    'a field too many in a message',
    say({ ...user, name: 'bob' }),
    /^messages\.0\.name: Extra inputs are not permitted$/,
  ],
  ['no content', say({ role: 'user' }), /^messages\.0\.content: Field required$/],
  [
    'content null',
    say({ role: 'user', content: null }),
    /^messages\.0\.content: Input should be a valid list$/,
  ],
  [
    'an empty text',
    say({ role: 'user', content: '' }),
    /^messages\.0: all messages must have non-empty content/,
  ],
  [
    'an empty list',
    say(user, { role: 'assistant', content: [] }, user),
    /^messages\.1: all messages must have non-empty content/,
  ],
  ['a text of spaces', say({ role: 'user', content: ' ' }), /must contain non-whitespace text/],
  [
    'an empty text block',
    say(answers(text(''))),
    /^messages: text content blocks must be non-empty$/,
  ],
  ['a text block of spaces', say(answers(text(' \n'))), /must contain non-whitespace text/],
  [
    'an unknown block',
    say(answers({ type: 'input_text', text: 'x' })),
    /^messages\.0\.content\.0: Input tag 'input_text' found using 'type'/,
  ],
  [
    'a field too many in a block',
    say(answers({ ...text('x'), id: 1 })),
    /^messages\.0\.content\.0\.text\.id: Extra inputs/,
  ],
  [
    'tool_use from a user',
    say(answers(use('a'))),
    /`tool_use` blocks can only be in `assistant` messages/,
  ],
  [
    'tool_result from an assistant',
    say(user, assistant(result('a'))),
    /`tool_result` blocks can only be in `user` messages/,
  ],
  [
    'a tool_use id with a colon',
    say(user, assistant(use('a:1')), answers(result('a:1'))),
    /^messages\.1\.content\.0\.tool_use\.id: String should match pattern '\^\[a-zA-Z0-9_-\]\+\$'$/,
  ],
  [
    'a tool_use name with a dot',
    say(user, assistant(use('a', { name: 'task.finish' })), answers(result('a'))),
    /tool_use\.name: String should match pattern/,
  ],
  [
    'tool_use input as text',
    say(user, assistant(use('a', { input: '{}' })), answers(result('a'))),
    /^messages\.1\.content\.0\.tool_use\.input: Input should be a valid dictionary$/,
  ],
  [
    'a tool use that nobody answers',
    say(user, assistant(use('a')), user),
    /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: a\./,
  ],
  [
    'one of two not answered',
    say(user, assistant(use('a'), use('b')), answers(result('a'))),
    /immediately after: b\./,
  ],
  [
    'results in two messages',
    say(user, assistant(use('a'), use('b')), answers(result('a')), answers(result('b'))),
    /immediately after: b\./,
  ],
  [
    'a result after a text',
    say(user, assistant(use('a')), answers(text('here'), result('a'))),
    /immediately after: a\./,
  ],
  [
    'a result without a use',
    say(answers(result('a'))),
    /^messages\.0\.content\.0: unexpected `tool_use_id` found in `tool_result` blocks: a\. Each/,
  ],
  [
    'a result one message late',
    say(
      user,
      assistant(use('a')),
      answers(result('a')),
      assistant(text('x')),
      answers(result('a')),
    ),
    /^messages\.4\.content\.0: unexpected `tool_use_id`/,
  ],
  [
    'two results for one use',
    say(user, assistant(use('a')), answers(result('a'), result('a'))),
    /^messages\.2\.content\.1: each tool_use must have a single result/,
  ],
  [
    'one id twice',
    say(user, assistant(use('a'), use('a')), answers(result('a'))),
    /^messages\.1\.content\.1: `tool_use` ids must be unique$/,
  ],
  [
    'an empty text in a result',
    say(user, assistant(use('a')), answers(result('a', { content: [text('')] }))),
    /text content blocks must be non-empty/,
  ],
  [
    'is_error as text',
    say(user, assistant(use('a')), answers(result('a', { is_error: 'no' }))),
    /is_error: Input should be a valid boolean/,
  ],
  [
    'thinking without a signature',
    say(user, assistant({ type: 'thinking', thinking: 'x' }), user),
    /thinking\.signature: Field required/,
  ],
  [
    'thinking that was changed',
    say(user, assistant({ type: 'thinking', thinking: 'y', signature: signThinking('x') }), user),
    /^messages\.1\.content\.0: Invalid `signature` in `thinking` block$/,
  ],
  [
    'a document from an assistant',
    say(user, assistant({ type: 'document', source: {} }), user),
    /`document` blocks are not permitted in `assistant`/,
  ],
  [
    'citations from a user',
    say(answers({ ...text('x'), citations: [{}] })),
    /`citations` are not permitted in `user`/,
  ],
];

testRefusals('what is refused about messages', ROWS);
