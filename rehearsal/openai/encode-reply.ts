// Encodes a rendered reply for OpenAI's wire: one completion, or a stream of chunks that ends with
// [DONE]. Thinking is counted but not shown, as in the vendor's chat API.
import type { EncodedReply } from '../deliver-reply.ts';
import type { RenderedCall, RenderedReply, ScriptedError } from '../render-reply.ts';
import type { ScriptedStopReason } from '../screenplay/types.ts';
import { splitText } from '../split-text.ts';
import { type PromptSize, splitInputTokens } from '../tokens.ts';
import { formatRefusal, mapStatusToErrorType } from './refusals.ts';
import type {
  ChatChunk,
  ChatCompletion,
  ChatRequest,
  ChatUsage,
  ChunkDelta,
  FinishReason,
  ToolCall,
} from './types.ts';

/** A fixed time, so that the same request gets the same bytes. */
export const CREATED_AT_SECONDS = 1_767_225_600;
const FINGERPRINT = 'fp_rehearsal';

const FINISH_REASONS: Readonly<Record<ScriptedStopReason, FinishReason>> = {
  end: 'stop',
  stop_sequence: 'stop',
  tool_calls: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
};

export function makeUsage(reply: RenderedReply, size: PromptSize): ChatUsage {
  const input = { ...splitInputTokens(size, 'automatic'), ...reply.usageOverride };
  const completion = reply.usageOverride.output_tokens ?? reply.outputTokens;
  const prompt = input.input_tokens + input.cache_read_tokens + input.cache_write_tokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    prompt_tokens_details: {
      cached_tokens: input.cache_read_tokens,
      cache_write_tokens: input.cache_write_tokens,
      audio_tokens: 0,
    },
    completion_tokens_details: {
      reasoning_tokens: reply.usageOverride.reasoning_tokens ?? reply.reasoningTokens,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function joinText(reply: RenderedReply): string {
  return reply.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

function listCalls(reply: RenderedReply): RenderedCall[] {
  return reply.parts.filter((part) => part.kind === 'call');
}

export function makeCompletion(
  request: ChatRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): ChatCompletion {
  const text = joinText(reply);
  const toolCalls = listCalls(reply).map(
    (call): ToolCall => ({
      id: call.id,
      type: 'function',
      function: { name: call.name, arguments: call.inputText },
    }),
  );
  const message = {
    role: 'assistant' as const,
    content: text === '' && toolCalls.length > 0 ? null : text,
    refusal: null,
    ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}),
  };
  return {
    id: `chatcmpl-${seed.slice(0, 29)}`,
    object: 'chat.completion',
    created: CREATED_AT_SECONDS,
    model: request.model,
    choices: Array.from({ length: request.n ?? 1 }, (_, index) => ({
      index,
      message,
      logprobs: null,
      finish_reason: FINISH_REASONS[reply.stopReason],
    })),
    usage: makeUsage(reply, size),
    service_tier: 'default',
    system_fingerprint: FINGERPRINT,
  };
}

function listDeltas(reply: RenderedReply): ChunkDelta[] {
  const deltas: ChunkDelta[] = splitText(joinText(reply)).map((content) => ({ content }));
  for (const [index, call] of listCalls(reply).entries()) {
    const openingCall = { name: call.name, arguments: '' };
    deltas.push({ tool_calls: [{ index, id: call.id, type: 'function', function: openingCall }] });
    for (const chunk of splitText(call.inputText)) {
      deltas.push({ tool_calls: [{ index, function: { arguments: chunk } }] });
    }
  }
  return deltas;
}

function makeStreamChunks(
  request: ChatRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): string[] {
  const base = {
    id: `chatcmpl-${seed.slice(0, 29)}`,
    object: 'chat.completion.chunk' as const,
    created: CREATED_AT_SECONDS,
    model: request.model,
    service_tier: 'default' as const,
    system_fingerprint: FINGERPRINT,
  };
  const includesUsage = request.stream_options?.include_usage === true;
  const chunks: string[] = [];
  const push = (index: number, delta: ChunkDelta, finish: FinishReason | null = null) => {
    const choices = [{ index, delta, logprobs: null, finish_reason: finish }];
    const chunk: ChatChunk = { ...base, choices, ...(includesUsage ? { usage: null } : {}) };
    chunks.push(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const deltas = listDeltas(reply);
  for (let index = 0; index < (request.n ?? 1); index++) {
    const hasOnlyCalls = joinText(reply) === '' && listCalls(reply).length > 0;
    push(index, { role: 'assistant', content: hasOnlyCalls ? null : '', refusal: null });
    for (const delta of deltas) push(index, delta);
    push(index, {}, FINISH_REASONS[reply.stopReason]);
  }
  if (includesUsage) {
    const last: ChatChunk = { ...base, choices: [], usage: makeUsage(reply, size) };
    chunks.push(`data: ${JSON.stringify(last)}\n\n`);
  }
  chunks.push('data: [DONE]\n\n');
  return chunks;
}

export function formatScriptedError(error: ScriptedError): string {
  return formatRefusal({
    status: error.status,
    type: error.type ?? mapStatusToErrorType(error.status),
    message: error.message,
    param: null,
    code: error.code ?? null,
  });
}

/** Repeats in an endless reply, at megabytes per second, to reach a caller's limits soon. */
const ENDLESS_TEXT = '[rehearsal] and on and on ';
const BODY_REPEATS = 256;
const EVENT_REPEATS = 32;

export function encodeReply(
  request: ChatRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): EncodedReply {
  const headers = { 'x-request-id': `req_${seed.slice(0, 32)}`, 'openai-version': '2020-10-01' };
  if (request.stream !== true) {
    const body = JSON.stringify(makeCompletion(request, reply, size, seed));
    return {
      contentType: 'application/json',
      headers,
      chunks: [body],
      openingChunkCount: 0,
      malformedChunk: body.slice(0, -9),
      endless: {
        opening: body.slice(0, body.indexOf('"content":') + 10).concat('"'),
        repeated: ENDLESS_TEXT.repeat(BODY_REPEATS),
      },
    };
  }
  const chunks = makeStreamChunks(request, reply, size, seed);
  const failure = reply.error?.isInStream ? reply.error : undefined;
  const sentChunks = failure ? [chunks[0]!, `data: ${formatScriptedError(failure)}\n\n`] : chunks;
  const repeatedChunk = chunks[0]!.replace(
    /"delta":\{.*?\}/,
    `"delta":{"content":"${ENDLESS_TEXT}"}`,
  );
  return {
    contentType: 'text/event-stream; charset=utf-8',
    headers,
    chunks: sentChunks,
    openingChunkCount: 1,
    malformedChunk: 'data: {"id":"chatcmpl-garbled","choices":[{"delta":{"con\n\n',
    endless: { opening: chunks[0]!, repeated: repeatedChunk.repeat(EVENT_REPEATS) },
  };
}
