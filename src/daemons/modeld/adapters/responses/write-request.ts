// Writes a neutral request as a body of OpenAI's Responses API. Nothing is stored at the provider.
import { fault } from '../../../../wire/errors.ts';
import { assertParts, type WriteOptions, type WrittenRequest } from '../dialect.ts';
import { writeResponsesMedia } from '../media.ts';
import type { ModelRequest, RequestMessage, RequestPart, ResultPart } from '../model-request.ts';
import type { JsonObject } from '../reading.ts';
import { makeWireNames, type WireNames } from '../tool-names.ts';
import { writeReasoning } from './reasoning.ts';

const NAME_LENGTH_MAX = 64;

export function writeRequest(request: ModelRequest, options: WriteOptions): WrittenRequest {
  assertParts(request.messages);
  if (request.stop.length > 0)
    throw fault('bad_request', `stop cannot be carried to the provider of ${options.model}`, {
      hint: 'Leave it out, or use a model whose provider speaks another dialect.',
    });
  const names = makeWireNames(request, {
    model: options.model,
    provider: options.provider,
    toolLengthMax: NAME_LENGTH_MAX,
    callIdLengthMax: NAME_LENGTH_MAX,
  });
  const [first, ...others] = request.messages;
  const instructions = readInstructions(first);
  const messages = instructions === undefined ? request.messages : others;
  const body: JsonObject = {
    model: options.model,
    ...(instructions === undefined ? {} : { instructions }),
    input: messages.flatMap((message) => writeMessage(message, names)),
    max_output_tokens: options.maxOutputTokens,
    store: false,
  };
  if (request.tools.length > 0) writeTools(body, request, names);
  if (request.temperature !== undefined) body.temperature = request.temperature;
  if (request.topP !== undefined) body.top_p = request.topP;
  if (request.effort !== undefined) {
    body.reasoning = { effort: request.effort };
    // Models without reasoning reject it.
    body.include = ['reasoning.encrypted_content'];
  }
  const text = writeText(request);
  if (text !== undefined) body.text = text;
  if (options.stream) body.stream = true;
  return { body, names, headers: {} };
}

/** A conversation needs input beside its instructions. */
function readInstructions(first: RequestMessage | undefined): string | undefined {
  if (first?.role !== 'system' || first.parts.length !== 1) return undefined;
  const [part] = first.parts;
  return part?.type === 'text' && part.text !== '' ? part.text : undefined;
}

function writeText(request: ModelRequest): JsonObject | undefined {
  const text: JsonObject = {};
  if (request.verbosity !== undefined) text.verbosity = request.verbosity;
  if (request.outputSchema !== undefined)
    text.format = {
      type: 'json_schema',
      name: 'answer',
      schema: request.outputSchema,
      strict: true,
    };
  return Object.keys(text).length === 0 ? undefined : text;
}

function writeTools(body: JsonObject, request: ModelRequest, names: WireNames): void {
  body.tools = request.tools.map((tool) => ({
    type: 'function',
    name: names.tools.toWire(tool.name),
    description: tool.description,
    parameters: tool.input_schema,
    // This API is strict by default, and then rejects most schemas.
    strict: tool.strict === true,
  }));
  const choice = request.toolChoice;
  if (typeof choice === 'string') body.tool_choice = choice;
  else if (choice !== undefined)
    body.tool_choice = { type: 'function', name: names.tools.toWire(choice.name) };
  if (request.parallelToolCalls !== undefined) body.parallel_tool_calls = request.parallelToolCalls;
}

/** The text between two items of other kinds is one message item. */
function writeMessage({ role, parts }: RequestMessage, names: WireNames): JsonObject[] {
  const items: JsonObject[] = [];
  let content: JsonObject[] = [];
  const close = (): void => {
    if (content.length > 0) items.push({ type: 'message', role, content });
    content = [];
  };
  for (const part of sortResultsFirst(parts)) {
    const item = writeItem(part, names);
    if (item === undefined) content.push(...writeContent(part, role));
    else {
      close();
      if (item !== 'nothing') items.push(item);
    }
  }
  close();
  return items;
}

function sortResultsFirst(parts: RequestPart[]): RequestPart[] {
  const isResult = (part: RequestPart): boolean => part.type === 'tool_result';
  return [...parts.filter(isResult), ...parts.filter((part) => !isResult(part))];
}

function writeContent(part: RequestPart, role: string): JsonObject[] {
  if (part.type === 'media') return [writeResponsesMedia(part)];
  if (part.type !== 'text') return [];
  const { text } = part;
  return role === 'assistant'
    ? [{ type: 'output_text', text, annotations: [] }]
    : [{ type: 'input_text', text }];
}

/** Returns undefined for a part of a message. */
function writeItem(part: RequestPart, names: WireNames): JsonObject | 'nothing' | undefined {
  switch (part.type) {
    case 'text':
    case 'media':
      return undefined;
    case 'thinking':
      return writeReasoning(part, names.model) ?? 'nothing';
    case 'tool_call':
      return {
        type: 'function_call',
        call_id: names.callIds.toWire(part.id),
        name: names.tools.toWire(part.name),
        arguments: JSON.stringify(part.arguments),
      };
    case 'tool_result':
      return {
        type: 'function_call_output',
        call_id: names.callIds.toWire(part.tool_call_id),
        output: writeOutput(part),
      };
  }
}

/** This API cannot mark a result as failed, so the text starts with `Error`. */
function writeOutput(part: ResultPart): string | JsonObject[] {
  const isStated = part.is_error !== true || /^\W*error\b/i.test(part.content);
  const text = isStated ? part.content : `Error: ${part.content}`;
  if (part.media === undefined) return text;
  return [{ type: 'input_text', text }, ...part.media.map(writeResponsesMedia)];
}
