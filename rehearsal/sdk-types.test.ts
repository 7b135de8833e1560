// Compares this server's wire types with the vendors' published types. The type checker does the
// work: a field that a new version of an SDK adds or removes makes this file fail to compile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type Anthropic from '@anthropic-ai/sdk';
import type OpenAI from 'openai';
import type * as anthropic from './anthropic/types.ts';
import type * as openai from './openai/types.ts';
import type * as openaiResponses from './responses/types.ts';

/** `true` if both unions have the same members, otherwise the members that only one of them has. */
type SameMembers<A, B> = [Exclude<A, B> | Exclude<B, A>] extends [never]
  ? true
  : Exclude<A, B> | Exclude<B, A>;
type Members<T extends readonly unknown[]> = T[number];
/** These two are sent in headers, not in the body. */
type HeaderFields = 'user_profile_id' | 'workspace_id';

const fields: {
  chat: SameMembers<
    Members<typeof openai.CHAT_FIELDS>,
    keyof OpenAI.Chat.Completions.ChatCompletionCreateParams
  >;
  responses: SameMembers<
    Members<typeof openaiResponses.RESPONSES_FIELDS>,
    keyof OpenAI.Responses.ResponseCreateParams
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
  responses: true,
  message: true,
  count: true,
  tool: true,
  text: true,
  toolUse: true,
  toolResult: true,
  thinking: true,
};

/** This server's responses are assignable to the vendors' types. */
const responses = {
  completion: (sent: openai.ChatCompletion): OpenAI.Chat.Completions.ChatCompletion => sent,
  chunk: (sent: openai.ChatChunk): OpenAI.Chat.Completions.ChatCompletionChunk => sent,
  item: (sent: openaiResponses.OutputItem): OpenAI.Responses.ResponseOutputItem => sent,
  usage: (sent: openaiResponses.ResponsesUsage): OpenAI.Responses.ResponseUsage => sent,
  message: (sent: anthropic.AnthropicMessage): Anthropic.Message => sent,
  event: (
    sent: Exclude<anthropic.StreamEvent, { type: 'ping' }>,
  ): Anthropic.RawMessageStreamEvent => sent,
};

test('the wires match the vendors’ published types', () => {
  assert.ok(Object.values(fields).every((same) => same));
  assert.equal(Object.keys(responses).length, 6);
});
