// Writes a neutral response in Anthropic's format, whole or as stream events, for SDK clients.
import type { Part, StopReason, Usage } from '../../../../wire/modeld.ts';
import type { ModelResponse, ResponseEvent, ResponseMeta, StreamWriter } from '../dialect.ts';
import type { JsonObject } from '../reading.ts';
import { writeSse } from '../sse.ts';
import { restoreThinking } from './thinking.ts';

const STOP_REASONS: Record<StopReason, string> = {
  end: 'end_turn',
  tool_calls: 'tool_use',
  max_tokens: 'max_tokens',
  stop_sequence: 'stop_sequence',
  refusal: 'refusal',
  other: 'end_turn',
};

function writeUsage(usage: Usage): JsonObject {
  return {
    input_tokens: usage.input_tokens,
    output_tokens: usage.output_tokens,
    cache_creation_input_tokens: usage.cache_write_tokens,
    cache_read_input_tokens: usage.cache_read_tokens,
    output_tokens_details: { thinking_tokens: usage.reasoning_tokens },
    server_tool_use: null,
  };
}

const NO_USAGE_YET = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: null,
  output_tokens_details: null,
  server_tool_use: null,
  service_tier: null,
};

function writeBlock(part: Part): JsonObject[] {
  switch (part.type) {
    case 'text':
      return part.text === '' ? [] : [{ type: 'text', text: part.text, citations: null }];
    case 'thinking':
      return [restoreThinking(part)];
    case 'tool_call':
      return [{ type: 'tool_use', id: part.id, name: part.name, input: part.arguments }];
    case 'tool_result':
      return [];
  }
}

function writeMessage(meta: ResponseMeta, content: JsonObject[], rest: JsonObject): JsonObject {
  return {
    id: meta.id,
    type: 'message',
    role: 'assistant',
    model: meta.model,
    content,
    container: null,
    stop_details: null,
    ...rest,
  };
}

export function writeResponse(response: ModelResponse, meta: ResponseMeta): JsonObject {
  return writeMessage(meta, response.message.parts.flatMap(writeBlock), {
    stop_reason: STOP_REASONS[response.stopReason],
    stop_sequence: response.stopSequence ?? null,
    usage: { ...NO_USAGE_YET, ...writeUsage(response.usage) },
  });
}

export function writeStream(meta: ResponseMeta): StreamWriter {
  let isStarted = false;
  let blocks = 0;
  /** The open text or thinking block, or -1. Tool blocks stay open: their deltas may alternate. */
  let open = -1;
  let openType = '';
  const tools = new Map<string, number>();

  const writeEvent = (type: string, rest: JsonObject): string =>
    writeSse({ event: type, data: JSON.stringify({ type, ...rest }) });
  const start = (): string => {
    if (isStarted) return '';
    isStarted = true;
    const rest = { stop_reason: null, stop_sequence: null, usage: NO_USAGE_YET };
    return writeEvent('message_start', { message: writeMessage(meta, [], rest) });
  };
  const close = (): string => {
    let text = open === -1 ? '' : writeEvent('content_block_stop', { index: open });
    for (const index of tools.values()) text += writeEvent('content_block_stop', { index });
    open = -1;
    tools.clear();
    return text;
  };
  const writeDelta = (index: number, delta: JsonObject): string =>
    writeEvent('content_block_delta', { index, delta });
  const writeInBlock = (
    type: 'text' | 'thinking',
    block: JsonObject,
    delta: JsonObject,
  ): string => {
    if (open !== -1 && openType === type) return writeDelta(open, delta);
    const before = `${start()}${close()}`;
    open = blocks++;
    openType = type;
    const begin = writeEvent('content_block_start', {
      index: open,
      content_block: { type, ...block },
    });
    return `${before}${begin}${writeDelta(open, delta)}`;
  };
  const startTool = (id: string, name: string): string => {
    const before = open === -1 ? start() : `${start()}${close()}`;
    const index = blocks++;
    tools.set(id, index);
    const block = { type: 'tool_use', id, name, input: {} };
    return `${before}${writeEvent('content_block_start', { index, content_block: block })}`;
  };
  const finish = (response: ModelResponse): string => {
    const delta = {
      stop_reason: STOP_REASONS[response.stopReason],
      stop_sequence: response.stopSequence ?? null,
      stop_details: null,
      container: null,
    };
    const usage = writeUsage(response.usage);
    return `${start()}${close()}${writeEvent('message_delta', { delta, usage })}${writeEvent('message_stop', {})}`;
  };

  return {
    write(event: ResponseEvent): string {
      switch (event.type) {
        case 'text':
          return writeInBlock(
            'text',
            { text: '', citations: null },
            { type: 'text_delta', text: event.text },
          );
        case 'thinking':
          return writeInBlock(
            'thinking',
            { thinking: '', signature: '' },
            { type: 'thinking_delta', thinking: event.text },
          );
        case 'signature':
          return writeInBlock(
            'thinking',
            { thinking: '', signature: '' },
            { type: 'signature_delta', signature: event.signature },
          );
        case 'thinking_end':
        case 'tool_call_end':
          return '';
        case 'tool_call':
          return startTool(event.id, event.name);
        case 'tool_arguments': {
          const index = tools.get(event.id);
          if (index === undefined) return '';
          return writeDelta(index, { type: 'input_json_delta', partial_json: event.text });
        }
        case 'done':
          return finish(event.response);
      }
    },
  };
}
