// Holds this server's idea of the wires against the types the vendors publish. The type checker
// does the work: a field that appears or goes in a new version of a package makes this file fail to
// compile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import type * as anthropic from './anthropic/types.ts';
import type * as openai from './openai/types.ts';

/** `true` when both unions have the same members, and otherwise the members that only one has. */
type SameMembers<A, B> = [Exclude<A, B> | Exclude<B, A>] extends [never]
  ? true
  : Exclude<A, B> | Exclude<B, A>;
type Members<T extends readonly unknown[]> = T[number];
/** These two travel in headers, not in the body. */
type HeaderFields = 'user_profile_id' | 'workspace_id';

const fields: {
  chat: SameMembers<
    Members<typeof openai.CHAT_FIELDS>,
    keyof OpenAI.Chat.Completions.ChatCompletionCreateParams
  >;
  message: SameMembers<
    Members<typeof anthropic.MESSAGE_FIELDS> | HeaderFields,
    keyof Anthropic.MessageCreateParams
  >;
  count: SameMembers<
    Members<typeof anthropic.COUNT_FIELDS> | HeaderFields,
    keyof Anthropic.MessageCountTokensParams
  >;
  tool: SameMembers<Members<typeof anthropic.TOOL_FIELDS>, keyof Anthropic.Tool>;
  text: SameMembers<Members<typeof anthropic.BLOCK_FIELDS.text>, keyof Anthropic.TextBlockParam>;
  toolUse: SameMembers<
    Members<typeof anthropic.BLOCK_FIELDS.tool_use>,
    keyof Anthropic.ToolUseBlockParam
  >;
  toolResult: SameMembers<
    Members<typeof anthropic.BLOCK_FIELDS.tool_result>,
    keyof Anthropic.ToolResultBlockParam
  >;
  thinking: SameMembers<
    Members<typeof anthropic.BLOCK_FIELDS.thinking>,
    keyof Anthropic.ThinkingBlockParam
  >;
} = {
  chat: true,
  message: true,
  count: true,
  tool: true,
  text: true,
  toolUse: true,
  toolResult: true,
  thinking: true,
};

/** What this server sends can be read as what the vendors promise to send. */
const responses = {
  completion: (sent: openai.ChatCompletion): OpenAI.Chat.Completions.ChatCompletion => sent,
  chunk: (sent: openai.ChatChunk): OpenAI.Chat.Completions.ChatCompletionChunk => sent,
  message: (sent: anthropic.AnthropicMessage): Anthropic.Message => sent,
  event: (
    sent: Exclude<anthropic.StreamEvent, { type: 'ping' }>,
  ): Anthropic.RawMessageStreamEvent => sent,
};

test('the wires are those of the vendors’ published types', () => {
  assert.ok(Object.values(fields).every((same) => same));
  assert.equal(Object.keys(responses).length, 4);
});
