// Writes a neutral response in OpenAI's format, whole or as stream chunks, for SDK clients.
import type { Message, Part, StopReason, Usage } from '../../../../wire/modeld.ts';
import { CustomInputDecoder, readCustomInput } from '../custom-tools.ts';
import type { ModelResponse, ResponseEvent, ResponseMeta, StreamWriter } from '../dialect.ts';
import type { JsonObject } from '../reading.ts';
import { writeSse } from '../sse.ts';

const FINISH: Record<StopReason, string> = {
  end: 'stop',
  tool_calls: 'tool_calls',
  max_tokens: 'length',
  stop_sequence: 'stop',
  refusal: 'content_filter',
  other: 'stop',
};

export function writeUsage(usage: Usage): JsonObject {
  const prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  return {
    prompt_tokens: prompt,
    completion_tokens: usage.output_tokens,
    total_tokens: prompt + usage.output_tokens,
    prompt_tokens_details: {
      cached_tokens: usage.cache_read_tokens,
      cache_write_tokens: usage.cache_write_tokens,
    },
    completion_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
  };
}

const joinText = (parts: Part[], type: 'text' | 'thinking'): string =>
  parts.map((part) => (part.type === type ? part.text : '')).join('');

/** For clients that return a message unchanged; others ignore it. */
function writeSignedThinking(parts: Part[]): JsonObject {
  const details: JsonObject[] = [];
  for (const part of parts) {
    if (part.type !== 'thinking' || part.signature === undefined) continue;
    details.push({ type: 'reasoning.text', text: part.text, signature: part.signature });
  }
  return details.length === 0 ? {} : { reasoning_details: details };
}

/** True for a tool that the client declared as one that takes free text. */
const isCustom = ({ request }: ResponseMeta, name: string): boolean =>
  request?.tools.find((tool) => tool.name === name)?.custom !== undefined;

type CallPart = Extract<Part, { type: 'tool_call' }>;

function writeCall({ id, name, arguments: args }: CallPart, asCustom: boolean): JsonObject {
  return asCustom
    ? { id, type: 'custom', custom: { name, input: readCustomInput(args) } }
    : { id, type: 'function', function: { name, arguments: JSON.stringify(args) } };
}

function writeMessage(message: Message, stopReason: StopReason, meta: ResponseMeta): JsonObject {
  const text = joinText(message.parts, 'text');
  const thinking = joinText(message.parts, 'thinking');
  const calls: JsonObject[] = [];
  for (const part of message.parts) {
    if (part.type !== 'tool_call') continue;
    calls.push(writeCall(part, isCustom(meta, part.name)));
  }
  const isRefusal = stopReason === 'refusal' && text !== '';
  return {
    role: 'assistant',
    content: isRefusal || (text === '' && calls.length > 0) ? null : text,
    refusal: isRefusal ? text : null,
    ...(thinking === '' ? {} : { reasoning_content: thinking }),
    ...writeSignedThinking(message.parts),
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
}

export function writeResponse(response: ModelResponse, meta: ResponseMeta): JsonObject {
  return {
    id: meta.id,
    object: 'chat.completion',
    created: Math.floor(meta.createdMs / 1000),
    model: meta.model,
    choices: [
      {
        index: 0,
        message: writeMessage(response.message, response.stopReason, meta),
        logprobs: null,
        finish_reason: FINISH[response.stopReason],
      },
    ],
    usage: writeUsage(response.usage),
  };
}

export function writeStream(meta: ResponseMeta): StreamWriter {
  const indexes = new Map<string, number>();
  const decoders = new Map<string, CustomInputDecoder>();
  let isOpen = false;
  const head = {
    id: meta.id,
    object: 'chat.completion.chunk',
    created: Math.floor(meta.createdMs / 1000),
    model: meta.model,
  };
  const write = (choices: unknown[], more: JsonObject = {}): string =>
    writeSse({ data: JSON.stringify({ ...head, choices, ...more }) });
  const writeDelta = (delta: JsonObject, finish: string | null = null): string => {
    const first = isOpen ? {} : { role: 'assistant', content: '' };
    isOpen = true;
    const choice = {
      index: 0,
      delta: { ...first, ...delta },
      logprobs: null,
      finish_reason: finish,
    };
    return write([choice]);
  };
  const extendCall = (id: string, more: JsonObject): string => {
    if (!indexes.has(id)) indexes.set(id, indexes.size);
    return writeDelta({ tool_calls: [{ index: indexes.get(id), ...more }] });
  };
  const startCall = (id: string, name: string): string => {
    if (!isCustom(meta, name))
      return extendCall(id, { id, type: 'function', function: { name, arguments: '' } });
    decoders.set(id, new CustomInputDecoder());
    return extendCall(id, { id, type: 'custom', custom: { name, input: '' } });
  };
  const extendArguments = (id: string, text: string): string => {
    const decoder = decoders.get(id);
    if (decoder === undefined) return extendCall(id, { function: { arguments: text } });
    const input = decoder.push(text);
    return input === '' ? '' : extendCall(id, { custom: { input } });
  };
  const finish = (response: ModelResponse): string => {
    const last = writeDelta(
      writeSignedThinking(response.message.parts),
      FINISH[response.stopReason],
    );
    const usage = meta.streamUsage === true ? write([], { usage: writeUsage(response.usage) }) : '';
    return `${last}${usage}${writeSse({ data: '[DONE]' })}`;
  };
  return {
    write(event: ResponseEvent): string {
      switch (event.type) {
        case 'text':
          return writeDelta({ content: event.text });
        case 'thinking':
          return writeDelta({ reasoning_content: event.text });
        case 'signature':
        case 'thinking_end':
        case 'tool_call_end':
          return '';
        case 'tool_call':
          return startCall(event.id, event.name);
        case 'tool_arguments':
          return extendArguments(event.id, event.text);
        case 'done':
          return finish(event.response);
      }
    },
  };
}
