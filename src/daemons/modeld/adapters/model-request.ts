// The neutral request between dialects: what runs can ask for, and what only clients of a vendor's
// SDK can, such as pictures and tools that take free text.
import type { GenerateRequest, Message, Part, ToolSpec } from '../../../wire/modeld.ts';
import type { JsonObject } from './reading.ts';

/** A picture or a file, as an https: or data: URL. Only clients of a vendor's SDK send them. */
export type MediaPart = {
  type: 'media';
  kind: 'image' | 'file';
  url: string;
  name?: string;
  detail?: string;
};
export type ResultPart = Extract<Part, { type: 'tool_result' }> & { media?: MediaPart[] };
export type RequestPart = Exclude<Part, { type: 'tool_result' }> | ResultPart | MediaPart;
export type RequestMessage = { role: Message['role']; parts: RequestPart[] };

export type RequestTool = ToolSpec & {
  strict?: boolean;
  /** Takes free text, here as the one argument `input`, perhaps in the format of a grammar. */
  custom?: { format?: JsonObject };
  /** The tool's place in a client's namespace; `name` joins the two. */
  namespace?: { name: string; tool: string };
};

/** A neutral request. Only clients of a vendor's SDK set the fields after `stream`. */
export type ModelRequest = {
  messages: RequestMessage[];
  tools: RequestTool[];
  toolChoice?: 'auto' | 'none' | 'required' | { name: string } | undefined;
  temperature?: number | undefined;
  stop: string[];
  maxOutputTokens?: number | undefined;
  stream: boolean;
  /** The client wants usage in its stream; only OpenAI's clients can decline it. */
  streamUsage?: boolean | undefined;
  parallelToolCalls?: boolean | undefined;
  topP?: number | undefined;
  effort?: string | undefined;
  outputSchema?: JsonObject | undefined;
  /** How long the text should be; only OpenAI's dialects can say it. */
  verbosity?: string | undefined;
  /** The client returns encrypted reasoning with the next request. */
  returnsReasoning?: boolean | undefined;
  /** Members that no other dialect has, and whose absence the client cannot notice. */
  dropped?: string[];
  /** The client's options as its dialect repeats them in a response. */
  echo?: JsonObject;
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
