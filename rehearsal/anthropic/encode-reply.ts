// Encodes a rendered reply for Anthropic's wire: one message, or a stream of named events.
import type { EncodedReply } from '../deliver-reply.ts';
import type { RenderedPart, RenderedReply, ScriptedError } from '../render-reply.ts';
import type { ScriptedStopReason } from '../screenplay/types.ts';
import { splitText } from '../split-text.ts';
import { type PromptSize, splitInputTokens } from '../tokens.ts';
import { formatRefusal, mapStatusToErrorType } from './refusals.ts';
import { signThinking } from './signature.ts';
import type {
  AnthropicMessage,
  AnthropicStopReason,
  MessagesRequest,
  MessageUsage,
  OutputBlock,
  StreamEvent,
} from './types.ts';

const STOP_REASONS: Readonly<Record<ScriptedStopReason, AnthropicStopReason>> = {
  end: 'end_turn',
  stop_sequence: 'stop_sequence',
  tool_calls: 'tool_use',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
};

export function makeUsage(reply: RenderedReply, size: PromptSize): MessageUsage {
  const input = { ...splitInputTokens(size, 'explicit'), ...reply.usageOverride };
  const thinking = reply.usageOverride.reasoning_tokens ?? reply.reasoningTokens;
  return {
    input_tokens: input.input_tokens,
    cache_creation_input_tokens: input.cache_write_tokens,
    cache_read_input_tokens: input.cache_read_tokens,
    cache_creation: {
      ephemeral_5m_input_tokens: input.cache_write_tokens,
      ephemeral_1h_input_tokens: 0,
    },
    output_tokens: reply.usageOverride.output_tokens ?? reply.outputTokens,
    output_tokens_details: thinking > 0 ? { thinking_tokens: thinking } : null,
    server_tool_use: null,
    service_tier: 'standard',
    inference_geo: null,
    speed: null,
  };
}

function makeBlock(part: RenderedPart): OutputBlock {
  switch (part.kind) {
    case 'text':
      return { type: 'text', text: part.text, citations: null };
    case 'thinking':
      return { type: 'thinking', thinking: part.text, signature: signThinking(part.text) };
    case 'call':
      return {
        type: 'tool_use',
        id: part.id,
        name: part.name,
        input: part.input,
        caller: { type: 'direct' },
      };
  }
}

export function makeMessage(
  request: MessagesRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): AnthropicMessage {
  return {
    id: `msg_${seed.slice(0, 24)}`,
    type: 'message',
    role: 'assistant',
    model: request.model,
    content: reply.parts.map(makeBlock),
    stop_reason: STOP_REASONS[reply.stopReason],
    stop_sequence: reply.stopSequence,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: makeUsage(reply, size),
  };
}

const formatEvent = (event: StreamEvent) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

function listBlockEvents(part: RenderedPart, index: number): StreamEvent[] {
  const delta = (
    content: (StreamEvent & { type: 'content_block_delta' })['delta'],
  ): StreamEvent => ({
    type: 'content_block_delta',
    index,
    delta: content,
  });
  const start = (block: OutputBlock): StreamEvent => ({
    type: 'content_block_start',
    index,
    content_block: block,
  });
  const stop: StreamEvent = { type: 'content_block_stop', index };
  switch (part.kind) {
    case 'text':
      return [
        start({ type: 'text', text: '', citations: null }),
        ...splitText(part.text).map((text) => delta({ type: 'text_delta', text })),
        stop,
      ];
    case 'thinking':
      return [
        start({ type: 'thinking', thinking: '', signature: '' }),
        ...splitText(part.text).map((thinking) => delta({ type: 'thinking_delta', thinking })),
        delta({ type: 'signature_delta', signature: signThinking(part.text) }),
        stop,
      ];
    case 'call':
      return [
        start({
          type: 'tool_use',
          id: part.id,
          name: part.name,
          input: {},
          caller: { type: 'direct' },
        }),
        delta({ type: 'input_json_delta', partial_json: '' }),
        ...splitText(part.inputText).map((text) =>
          delta({ type: 'input_json_delta', partial_json: text }),
        ),
        stop,
      ];
  }
}

function makeStartEvent(message: AnthropicMessage): StreamEvent {
  return {
    type: 'message_start',
    message: {
      ...message,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      // The vendor reports one output token at the start of a stream.
      usage: { ...message.usage, output_tokens: 1, output_tokens_details: null },
    },
  };
}

function listEvents(reply: RenderedReply, message: AnthropicMessage): StreamEvent[] {
  const {
    cache_creation: _,
    service_tier: __,
    inference_geo: ___,
    speed,
    ...usage
  } = message.usage;
  return [
    makeStartEvent(message),
    { type: 'ping' },
    ...reply.parts.flatMap(listBlockEvents),
    {
      type: 'message_delta',
      delta: {
        stop_reason: message.stop_reason,
        stop_sequence: message.stop_sequence,
        stop_details: null,
        container: null,
      },
      usage,
    },
    { type: 'message_stop' },
  ];
}

export function formatScriptedError(error: ScriptedError, requestId: string): string {
  const type = error.type ?? mapStatusToErrorType(error.status);
  return formatRefusal({ status: error.status, type, message: error.message }, requestId);
}

/** Repeats in an endless reply, at megabytes per second, to reach a caller's limits soon. */
const ENDLESS_TEXT = '[rehearsal] and on and on ';
const BODY_REPEATS = 256;
const EVENT_REPEATS = 32;

export function encodeReply(
  request: MessagesRequest,
  reply: RenderedReply,
  size: PromptSize,
  seed: string,
): EncodedReply {
  const requestId = `req_${seed.slice(0, 24)}`;
  const headers = { 'request-id': requestId };
  const message = makeMessage(request, reply, size, seed);
  if (request.stream !== true) {
    const body = JSON.stringify(message);
    const opening = `${body.slice(0, body.indexOf('"content":') + 10)}[{"type":"text","text":"`;
    return {
      contentType: 'application/json',
      headers,
      chunks: [body],
      openingChunkCount: 0,
      malformedChunk: body.slice(0, -9),
      endless: { opening, repeated: ENDLESS_TEXT.repeat(BODY_REPEATS) },
    };
  }
  const events = listEvents(reply, message);
  const failure = reply.error?.isInStream ? reply.error : undefined;
  const opening = events.slice(0, 2).map(formatEvent);
  const blockStart = formatEvent({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'text', text: '', citations: null },
  });
  const blockDelta = formatEvent({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: ENDLESS_TEXT },
  });
  return {
    contentType: 'text/event-stream; charset=utf-8',
    headers,
    chunks: failure
      ? [...opening, `event: error\ndata: ${formatScriptedError(failure, requestId)}\n\n`]
      : events.map(formatEvent),
    openingChunkCount: 2,
    malformedChunk:
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n',
    endless: { opening: opening.join('') + blockStart, repeated: blockDelta.repeat(EVENT_REPEATS) },
  };
}
