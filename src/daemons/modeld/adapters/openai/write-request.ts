// Writes a neutral request as an OpenAI Chat Completions body, without thinking, which it cannot
// carry.
import { fault } from '../../../../wire/errors.ts';
import { assertParts, type WriteOptions, type WrittenRequest } from '../dialect.ts';
import { writeChatMedia } from '../media.ts';
import type {
  MediaPart,
  ModelRequest,
  RequestMessage,
  RequestPart,
  ResultPart,
} from '../model-request.ts';
import type { JsonObject } from '../reading.ts';
import { makeWireNames, type WireNames } from '../tool-names.ts';

const TOOL_NAME_LENGTH_MAX = 64;
const CALL_ID_LENGTH_MAX = 40;
const STOP_MAX = 4;

export function writeRequest(request: ModelRequest, options: WriteOptions): WrittenRequest {
  assertParts(request.messages);
  if (request.stop.length > STOP_MAX) {
    throw fault(
      'bad_request',
      `stop has ${request.stop.length} entries; ${options.model} takes at most ${STOP_MAX}`,
    );
  }
  const names = makeWireNames(request, {
    model: options.model,
    provider: options.provider,
    toolLengthMax: TOOL_NAME_LENGTH_MAX,
    callIdLengthMax: CALL_ID_LENGTH_MAX,
  });
  const body: JsonObject = {
    model: options.model,
    messages: writeMessages(request.messages, names),
    [options.maxTokensField ?? 'max_completion_tokens']: options.maxOutputTokens,
  };
  if (request.tools.length > 0) writeTools(body, request, names);
  if (request.temperature !== undefined) body.temperature = request.temperature;
  if (request.topP !== undefined) body.top_p = request.topP;
  if (request.stop.length > 0) body.stop = request.stop;
  if (request.effort !== undefined) body.reasoning_effort = request.effort;
  if (request.verbosity !== undefined) body.verbosity = request.verbosity;
  if (request.outputSchema !== undefined) {
    body.response_format = {
      type: 'json_schema',
      json_schema: { name: 'answer', schema: request.outputSchema, strict: true },
    };
  }
  if (options.stream) {
    body.stream = true;
    body.stream_options = { include_usage: true };
  }
  return { body, names, headers: {} };
}

function writeTools(body: JsonObject, request: ModelRequest, names: WireNames): void {
  body.tools = request.tools.map((tool) => ({
    type: 'function',
    function: {
      name: names.tools.toWire(tool.name),
      description: tool.description,
      parameters: tool.input_schema,
      ...(tool.strict === true ? { strict: true } : {}),
    },
  }));
  const choice = request.toolChoice;
  if (typeof choice === 'string') body.tool_choice = choice;
  else if (choice !== undefined) {
    const name = names.tools.toWire(choice.name);
    body.tool_choice = { type: 'function', function: { name } };
  }
  if (request.parallelToolCalls !== undefined) body.parallel_tool_calls = request.parallelToolCalls;
}

function writeMessages(messages: RequestMessage[], names: WireNames): JsonObject[] {
  const out: JsonObject[] = [];
  // Results must directly follow their calls, so a turn's text is added after all its results, and
  // so are the results' pictures, which only a user's message can have.
  let waiting: JsonObject[] = [];
  for (const message of messages) {
    if (message.role !== 'user') {
      out.push(...waiting);
      waiting = [];
    }
    if (message.role === 'assistant') out.push(writeAssistant(message.parts, names));
    else if (message.role === 'system')
      out.push({ role: 'system', content: writeContent(message.parts) });
    else {
      for (const part of message.parts) {
        if (part.type !== 'tool_result') continue;
        out.push(writeResult(part, names));
        if (part.media !== undefined) waiting.push(writeResultMedia(part.media));
      }
      const content = writeContent(message.parts);
      if (content !== '' || message.parts.every((part) => part.type === 'text'))
        waiting.push({ role: 'user', content });
    }
  }
  out.push(...waiting);
  return out;
}

/** A single text is a string, which every server accepts; several stay separate parts. */
function writeContent(parts: RequestPart[]): string | JsonObject[] {
  const own = parts.filter((part) => part.type === 'text' || part.type === 'media');
  const [first] = own;
  if (first === undefined) return '';
  if (own.length === 1 && first.type === 'text') return first.text;
  return own.map((part) =>
    part.type === 'text' ? { type: 'text', text: part.text } : writeChatMedia(part),
  );
}

function writeResultMedia(media: readonly MediaPart[]): JsonObject {
  const text = media.length === 1 ? 'The tool returned this:' : 'The tool returned these:';
  return { role: 'user', content: [{ type: 'text', text }, ...media.map(writeChatMedia)] };
}

function writeAssistant(parts: RequestPart[], names: WireNames): JsonObject {
  const calls: JsonObject[] = [];
  for (const part of parts) {
    if (part.type !== 'tool_call') continue;
    calls.push({
      id: names.callIds.toWire(part.id),
      type: 'function',
      function: {
        name: names.tools.toWire(part.name),
        arguments: JSON.stringify(part.arguments),
      },
    });
  }
  const content = writeContent(parts);
  if (calls.length === 0) return { role: 'assistant', content };
  return { role: 'assistant', content: content === '' ? null : content, tool_calls: calls };
}

/** This API cannot mark a result as failed, so the text starts with `Error`. */
function writeResult(part: ResultPart, names: WireNames): JsonObject {
  const isStated = part.is_error !== true || /^\W*error\b/i.test(part.content);
  return {
    role: 'tool',
    tool_call_id: names.callIds.toWire(part.tool_call_id),
    content: isStated ? part.content : `Error: ${part.content}`,
  };
}
