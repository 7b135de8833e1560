// Writes a performance on Anthropic's wire: one message, or a stream of named events.

import { splitText } from '../cut-text.ts';
import type { Script } from '../delivery.ts';
import type { Part, Performance, PlayedError } from '../perform.ts';
import type { StopReason as PlayedStop } from '../screenplay/types.ts';
import { type PromptSize, splitInput } from '../tokens.ts';
import { shapeRefusal, typeOfStatus } from './refusals.ts';
import { signThinking } from './signature.ts';
import type {
  Message,
  MessagesRequest,
  MessageUsage,
  OutputBlock,
  StopReason,
  StreamEvent,
} from './types.ts';

const STOP: Readonly<Record<PlayedStop, StopReason>> = {
  end: 'end_turn',
  stop_sequence: 'stop_sequence',
  tool_calls: 'tool_use',
  max_tokens: 'max_tokens',
  refusal: 'refusal',
};

export function makeUsage(performance: Performance, size: PromptSize): MessageUsage {
  const input = { ...splitInput(size, 'marked'), ...performance.usage };
  const thinking = performance.usage.reasoning_tokens ?? performance.reasoningTokens;
  return {
    input_tokens: input.input_tokens,
    cache_creation_input_tokens: input.cache_write_tokens,
    cache_read_input_tokens: input.cache_read_tokens,
    cache_creation: {
      ephemeral_5m_input_tokens: input.cache_write_tokens,
      ephemeral_1h_input_tokens: 0,
    },
    output_tokens: performance.usage.output_tokens ?? performance.outputTokens,
    output_tokens_details: thinking > 0 ? { thinking_tokens: thinking } : null,
    server_tool_use: null,
    service_tier: 'standard',
    inference_geo: null,
    speed: null,
  };
}

function makeBlock(part: Part): OutputBlock {
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
  performance: Performance,
  size: PromptSize,
  seed: string,
): Message {
  return {
    id: `msg_${seed.slice(0, 24)}`,
    type: 'message',
    role: 'assistant',
    model: request.model,
    content: performance.parts.map(makeBlock),
    stop_reason: STOP[performance.stopReason],
    stop_sequence: performance.stopSequence,
    stop_details: null,
    container: null,
    diagnostics: null,
    usage: makeUsage(performance, size),
  };
}

const writeEvent = (event: StreamEvent) =>
  `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

function listBlockEvents(part: Part, index: number): StreamEvent[] {
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

function openMessage(message: Message): StreamEvent {
  return {
    type: 'message_start',
    message: {
      ...message,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      // Before it has spoken the model has one token of output, as the vendor counts.
      usage: { ...message.usage, output_tokens: 1, output_tokens_details: null },
    },
  };
}

function listEvents(performance: Performance, message: Message): StreamEvent[] {
  const {
    cache_creation: _,
    service_tier: __,
    inference_geo: ___,
    speed,
    ...usage
  } = message.usage;
  return [
    openMessage(message),
    { type: 'ping' },
    ...performance.parts.flatMap(listBlockEvents),
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

export function shapePlayedError(error: PlayedError, requestId: string): string {
  const type = error.type ?? typeOfStatus(error.status);
  return shapeRefusal({ status: error.status, type, message: error.message }, requestId);
}

/** Fast enough to reach any limit of a caller soon: some megabytes a second. */
const MORE = '[rehearsal] and on and on ';
const bodyRepeats = 256;
const eventRepeats = 32;

export function makeScript(
  request: MessagesRequest,
  performance: Performance,
  size: PromptSize,
  seed: string,
): Script {
  const requestId = `req_${seed.slice(0, 24)}`;
  const headers = { 'request-id': requestId };
  const message = makeMessage(request, performance, size, seed);
  if (request.stream !== true) {
    const body = JSON.stringify(message);
    const opening = `${body.slice(0, body.indexOf('"content":') + 10)}[{"type":"text","text":"`;
    return {
      contentType: 'application/json',
      headers,
      pieces: [body],
      openingCount: 0,
      garbled: body.slice(0, -9),
      endless: { opening, more: MORE.repeat(bodyRepeats) },
    };
  }
  const events = listEvents(performance, message);
  const failure = performance.error?.isInStream ? performance.error : undefined;
  const opening = events.slice(0, 2).map(writeEvent);
  const first = writeEvent({
    type: 'content_block_start',
    index: 0,
    content_block: { type: 'text', text: '', citations: null },
  });
  const more = writeEvent({
    type: 'content_block_delta',
    index: 0,
    delta: { type: 'text_delta', text: MORE },
  });
  return {
    contentType: 'text/event-stream; charset=utf-8',
    headers,
    pieces: failure
      ? [...opening, `event: error\ndata: ${shapePlayedError(failure, requestId)}\n\n`]
      : events.map(writeEvent),
    openingCount: 2,
    garbled: 'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"del\n\n',
    endless: { opening: opening.join('') + first, more: more.repeat(eventRepeats) },
  };
}
