// Writes a performance on OpenAI's wire: one completion, or a stream of chunks that ends with
// [DONE]. Thinking is counted and not shown, as on the vendor's chat API.

import { splitText } from '../cut-text.ts';
import type { Script } from '../delivery.ts';
import type { CallPart, Performance, PlayedError } from '../perform.ts';
import type { StopReason } from '../screenplay/types.ts';
import { type PromptSize, splitInput } from '../tokens.ts';
import { shapeRefusal, typeOfStatus } from './refusals.ts';
import type {
  ChatChunk,
  ChatCompletion,
  ChatRequest,
  ChatUsage,
  ChunkDelta,
  FinishReason,
  ToolCall,
} from './types.ts';

/** A fixed time, so that the same request gives the same bytes. */
export const CREATED = 1_767_225_600;
const FINGERPRINT = 'fp_rehearsal';

const FINISH: Readonly<Record<StopReason, FinishReason>> = {
  end: 'stop',
  stop_sequence: 'stop',
  tool_calls: 'tool_calls',
  max_tokens: 'length',
  refusal: 'content_filter',
};

export function makeUsage(performance: Performance, size: PromptSize): ChatUsage {
  const input = { ...splitInput(size, 'automatic'), ...performance.usage };
  const completion = performance.usage.output_tokens ?? performance.outputTokens;
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
      reasoning_tokens: performance.usage.reasoning_tokens ?? performance.reasoningTokens,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function textOf(performance: Performance): string {
  return performance.parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
}

function callsOf(performance: Performance): CallPart[] {
  return performance.parts.filter((part) => part.kind === 'call');
}

export function makeCompletion(
  request: ChatRequest,
  performance: Performance,
  size: PromptSize,
  seed: string,
): ChatCompletion {
  const text = textOf(performance);
  const toolCalls = callsOf(performance).map(
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
    created: CREATED,
    model: request.model,
    choices: Array.from({ length: request.n ?? 1 }, (_, index) => ({
      index,
      message,
      logprobs: null,
      finish_reason: FINISH[performance.stopReason],
    })),
    usage: makeUsage(performance, size),
    service_tier: 'default',
    system_fingerprint: FINGERPRINT,
  };
}

function listDeltas(performance: Performance): ChunkDelta[] {
  const deltas: ChunkDelta[] = splitText(textOf(performance)).map((content) => ({ content }));
  for (const [index, call] of callsOf(performance).entries()) {
    const opening = { name: call.name, arguments: '' };
    deltas.push({ tool_calls: [{ index, id: call.id, type: 'function', function: opening }] });
    for (const piece of splitText(call.inputText)) {
      deltas.push({ tool_calls: [{ index, function: { arguments: piece } }] });
    }
  }
  return deltas;
}

function makeStreamPieces(
  request: ChatRequest,
  performance: Performance,
  size: PromptSize,
  seed: string,
): string[] {
  const base = {
    id: `chatcmpl-${seed.slice(0, 29)}`,
    object: 'chat.completion.chunk' as const,
    created: CREATED,
    model: request.model,
    service_tier: 'default' as const,
    system_fingerprint: FINGERPRINT,
  };
  const withUsage = request.stream_options?.include_usage === true;
  const pieces: string[] = [];
  const push = (index: number, delta: ChunkDelta, finish: FinishReason | null = null) => {
    const choices = [{ index, delta, logprobs: null, finish_reason: finish }];
    const chunk: ChatChunk = { ...base, choices, ...(withUsage ? { usage: null } : {}) };
    pieces.push(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const deltas = listDeltas(performance);
  for (let index = 0; index < (request.n ?? 1); index++) {
    const isOnlyCalls = textOf(performance) === '' && callsOf(performance).length > 0;
    push(index, { role: 'assistant', content: isOnlyCalls ? null : '', refusal: null });
    for (const delta of deltas) push(index, delta);
    push(index, {}, FINISH[performance.stopReason]);
  }
  if (withUsage) {
    const last: ChatChunk = { ...base, choices: [], usage: makeUsage(performance, size) };
    pieces.push(`data: ${JSON.stringify(last)}\n\n`);
  }
  pieces.push('data: [DONE]\n\n');
  return pieces;
}

export function shapePlayedError(error: PlayedError): string {
  return shapeRefusal({
    status: error.status,
    type: error.type ?? typeOfStatus(error.status),
    message: error.message,
    param: null,
    code: error.code ?? null,
  });
}

/** Fast enough to reach any limit of a caller soon: some megabytes a second. */
const MORE = '[rehearsal] and on and on ';
const bodyRepeats = 256;
const eventRepeats = 32;

export function makeScript(
  request: ChatRequest,
  performance: Performance,
  size: PromptSize,
  seed: string,
): Script {
  const headers = { 'x-request-id': `req_${seed.slice(0, 32)}`, 'openai-version': '2020-10-01' };
  if (request.stream !== true) {
    const body = JSON.stringify(makeCompletion(request, performance, size, seed));
    return {
      contentType: 'application/json',
      headers,
      pieces: [body],
      openingCount: 0,
      garbled: body.slice(0, -9),
      endless: {
        opening: body.slice(0, body.indexOf('"content":') + 10).concat('"'),
        more: MORE.repeat(bodyRepeats),
      },
    };
  }
  const pieces = makeStreamPieces(request, performance, size, seed);
  const failure = performance.error?.isInStream ? performance.error : undefined;
  const played = failure ? [pieces[0]!, `data: ${shapePlayedError(failure)}\n\n`] : pieces;
  const more = pieces[0]!.replace(/"delta":\{.*?\}/, `"delta":{"content":"${MORE}"}`);
  return {
    contentType: 'text/event-stream; charset=utf-8',
    headers,
    pieces: played,
    openingCount: 1,
    garbled: 'data: {"id":"chatcmpl-garbled","choices":[{"delta":{"con\n\n',
    endless: { opening: pieces[0]!, more: more.repeat(eventRepeats) },
  };
}
