// What every vendor's dialect can do, and the forms between them: a request, an answer, a stream of
// events. The dialects themselves are openai.ts and anthropic.ts; nothing here knows a vendor.
import { type Fault, fault } from '../../../wire/errors.ts';
import type {
  GenerateRequest,
  Message,
  StopReason,
  ToolSpec,
  Usage,
} from '../../../wire/modeld.ts';
import type { JsonObject } from './reading.ts';
import type { SseBlock } from './sse.ts';
import type { WireNames } from './tool-names.ts';

export type DialectName = 'openai' | 'anthropic';

/**
 * A model call in neutral form. The last five fields only come from clients with a vendor's SDK.
 */
export type ModelRequest = {
  messages: Message[];
  tools: ToolSpec[];
  toolChoice?: 'auto' | 'none' | 'required' | { name: string } | undefined;
  temperature?: number | undefined;
  stop: string[];
  maxOutputTokens?: number | undefined;
  stream: boolean;
  /** Whether the client wants the usage in its stream; only OpenAI's clients can say no. */
  streamUsage?: boolean | undefined;
  parallelToolCalls?: boolean | undefined;
  topP?: number | undefined;
  effort?: string | undefined;
  outputSchema?: JsonObject | undefined;
};

export function toModelRequest(request: GenerateRequest, messages: Message[]): ModelRequest {
  return {
    messages,
    tools: request.tools ?? [],
    toolChoice: request.tool_choice,
    temperature: request.temperature,
    stop: request.stop ?? [],
    maxOutputTokens: request.limits?.max_output_tokens,
    stream: request.stream === true,
  };
}

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
};

export type ModelResponse = {
  /** The provider's own id of the answer. */
  id: string;
  model: string;
  message: Message;
  stopReason: StopReason;
  stopSequence?: string | undefined;
  usage: Usage;
  /** False when the provider did not say what was used: charge the bound, not zero. */
  usageReported: boolean;
  /** The part of `cache_write_tokens` kept for an hour, which costs more. */
  cacheWriteLongTokens: number;
};

/** One thing that happened in a streamed answer; `done` comes last and holds the whole. */
export type ResponseEvent =
  | { type: 'text'; text: string }
  | { type: 'thinking'; text: string }
  | { type: 'signature'; signature: string }
  | { type: 'tool_call'; id: string; name: string }
  | { type: 'tool_arguments'; id: string; text: string }
  | { type: 'done'; response: ModelResponse };

export type StreamReader = {
  /** Takes a block's data; throws the fault that an error event tells of. */
  push(block: SseBlock): ResponseEvent[];
  /** True once the vendor's own end mark was seen. */
  isDone(): boolean;
  /** True when the block just pushed carried usage and nothing else. */
  wasUsageOnly(): boolean;
  /** The answer as far as it has come. */
  response(): ModelResponse;
};

export type StreamWriter = {
  /** The event as text for the client's stream; '' when its dialect has no word for it. */
  write(event: ResponseEvent): string;
};

export type ResponseMeta = { id: string; model: string; createdMs: number; streamUsage?: boolean };

export type DialectError = { status: number; headers: Record<string, string>; body: string };

export type Dialect = {
  name: DialectName;
  /** Path after the provider's base URL. */
  chatPath: string;
  authHeaders(key: string): Record<string, string>;
  /** Returns the headers for a body that a client wrote. */
  passHeaders(body: JsonObject): Record<string, string>;
  writeRequest(request: ModelRequest, options: WriteOptions): WrittenRequest;
  readResponse(json: unknown, names: WireNames): ModelResponse;
  readStream(names: WireNames): StreamReader;
  readRequest(body: JsonObject): ModelRequest & { model: string };
  writeResponse(response: ModelResponse, meta: ResponseMeta): JsonObject;
  writeStream(meta: ResponseMeta): StreamWriter;
  writeError(fault: Fault): DialectError;
  /** An error inside a stream that has already begun. */
  writeStreamError(fault: Fault): string;
  /**
   * The most tokens the client's body lets the model write, over all choices; undefined: no limit.
   */
  readOutputLimit(body: JsonObject): { tokens: number | undefined; choices: number };
  /** The members of a client's body that set its output limit to `tokens`. */
  outputLimit(
    body: JsonObject,
    tokens: number,
    options: { maxTokensField?: 'max_completion_tokens' | 'max_tokens' | undefined },
  ): JsonObject;
};

const PARTS_BY_ROLE: Record<Message['role'], readonly string[]> = {
  system: ['text'],
  user: ['text', 'tool_result'],
  assistant: ['text', 'thinking', 'tool_call'],
};

/** No vendor takes a part in the wrong role, and moving it would change what was said. */
export function assertParts(messages: Message[]): void {
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

/** A message without parts is not allowed, and an empty answer is still an answer. */
export function assistantMessage(parts: Message['parts']): Message {
  return { role: 'assistant', parts: parts.length > 0 ? parts : [{ type: 'text', text: '' }] };
}
