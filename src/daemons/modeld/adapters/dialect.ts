// The interface of a vendor's dialect, and the neutral request, response and stream events between
// dialects. openai.ts, responses.ts and anthropic.ts implement it.
import { type Fault, fault } from '../../../wire/errors.ts';
import type { DialectName, Message, Part, StopReason, Usage } from '../../../wire/modeld.ts';
import type { ModelRequest, RequestMessage } from './model-request.ts';
import type { JsonObject } from './reading.ts';
import type { SseBlock } from './sse.ts';
import type { WireNames } from './tool-names.ts';

export type WriteOptions = {
  provider: string;
  /** The model's name at the provider. */
  model: string;
  maxOutputTokens: number;
  stream: boolean;
  /** Older servers that speak OpenAI's dialect know only `max_tokens`. */
  maxTokensField?: 'max_completion_tokens' | 'max_tokens' | undefined;
};

export type WrittenRequest = {
  body: JsonObject;
  names: WireNames;
  /** Headers that belong to this body. */
  headers: Record<string, string>;
  /** Members of the request that this dialect cannot say. */
  dropped?: string[];
};

export type ModelResponse = {
  /** The provider's id of the response. */
  id: string;
  model: string;
  message: Message;
  stopReason: StopReason;
  stopSequence?: string | undefined;
  usage: Usage;
  /** False when the provider did not report usage: charge the bound, not zero. */
  usageReported: boolean;
  /** The part of `cache_write_tokens` kept for an hour, which costs more. */
  cacheWriteLongTokens: number;
};

/** One event of a streamed response; `done` comes last and contains the whole response. */
export type ResponseEvent =
  | { type: 'text'; text: string }
  | { type: 'thinking'; text: string }
  | { type: 'signature'; signature: string }
  /** The thinking since the last one is complete; redacted thinking has no text. */
  | { type: 'thinking_end'; part: Extract<Part, { type: 'thinking' }> }
  | { type: 'tool_call'; id: string; name: string }
  | { type: 'tool_arguments'; id: string; text: string }
  /** The arguments are complete. Not every dialect says it before `done`. */
  | { type: 'tool_call_end'; id: string }
  | { type: 'done'; response: ModelResponse };

/** Somebody who may watch responses as they arrive. */
export type ResponseObserver = {
  isWatched(): boolean;
  show(events: readonly ResponseEvent[]): void;
};

export type StreamReader = {
  /** Reads a block. Throws the fault of an error event. */
  push(block: SseBlock): ResponseEvent[];
  /** True once the vendor's end marker was read. */
  isDone(): boolean;
  /** True when the last block contained only usage. */
  wasUsageOnly(): boolean;
  /** Returns the response as far as it has arrived. */
  response(): ModelResponse;
};

export type StreamWriter = {
  /** Returns text for the client's stream; '' when its dialect has no such event. */
  write(event: ResponseEvent): string;
};

export type ResponseMeta = {
  id: string;
  model: string;
  createdMs: number;
  streamUsage?: boolean;
  /** The client's request. */
  request?: ModelRequest;
};

export type DialectError = { status: number; headers: Record<string, string>; body: string };

export type Dialect = {
  name: DialectName;
  /** Path after the provider's base URL. */
  chatPath: string;
  authHeaders(key: string): Record<string, string>;
  /** Returns the headers for a body that a client wrote and sent with these headers. */
  passHeaders(body: JsonObject, given: Readonly<Record<string, string>>): Record<string, string>;
  writeRequest(request: ModelRequest, options: WriteOptions): WrittenRequest;
  readResponse(json: unknown, names: WireNames): ModelResponse;
  readStream(names: WireNames): StreamReader;
  readRequest(body: JsonObject): ModelRequest & { model: string };
  /** Throws for a client's body that refers to what only the provider has. */
  assertSelfContained?(body: JsonObject): void;
  writeResponse(response: ModelResponse, meta: ResponseMeta): JsonObject;
  writeStream(meta: ResponseMeta): StreamWriter;
  writeError(fault: Fault): DialectError;
  /** Writes an error inside a started stream. */
  writeStreamError(fault: Fault): string;
  /**
   * Returns the output limit of a client's body, per choice; undefined: no limit. With less than
   * `tokensMin` the vendor would refuse the body.
   */
  readOutputLimit(body: JsonObject): {
    tokens: number | undefined;
    tokensMin?: number | undefined;
    choices: number;
  };
  /** Returns the members that set the output limit of a client's body. */
  outputLimit(
    body: JsonObject,
    tokens: number,
    options: { maxTokensField?: 'max_completion_tokens' | 'max_tokens' | undefined },
  ): JsonObject;
};

const PARTS_BY_ROLE: Record<Message['role'], readonly string[]> = {
  system: ['text'],
  user: ['text', 'tool_result', 'media'],
  assistant: ['text', 'thinking', 'tool_call'],
};

/** No vendor accepts a part in the wrong role, and moving it would change the meaning. */
export function assertParts(messages: RequestMessage[]): void {
  messages.forEach((message, index) => {
    for (const part of message.parts) {
      if (PARTS_BY_ROLE[message.role].includes(part.type)) continue;
      throw fault(
        'bad_request',
        `messages[${index}] has a ${part.type} part, which a ${message.role} message cannot have`,
      );
    }
  });
}

/** A message needs at least one part, also for an empty response. */
export function assistantMessage(parts: Message['parts']): Message {
  return { role: 'assistant', parts: parts.length > 0 ? parts : [{ type: 'text', text: '' }] };
}
