// Writes a neutral request as an Anthropic Messages body.
import { fault } from '../../../../wire/errors.ts';
import { assertParts, type WriteOptions, type WrittenRequest } from '../dialect.ts';
import { writeAnthropicMedia } from '../media.ts';
import type { ModelRequest, RequestMessage, RequestPart, ResultPart } from '../model-request.ts';
import type { JsonObject } from '../reading.ts';
import { makeWireNames, type WireNames } from '../tool-names.ts';
import { writeThinking } from './thinking.ts';
import { chooseVersion } from './version.ts';

const NAME_LENGTH_MAX = 128;

export function writeRequest(request: ModelRequest, options: WriteOptions): WrittenRequest {
  assertParts(request.messages);
  const names = makeWireNames(request, {
    model: options.model,
    provider: options.provider,
    toolLengthMax: NAME_LENGTH_MAX,
    callIdLengthMax: NAME_LENGTH_MAX,
  });
  const body: JsonObject = { model: options.model, max_tokens: options.maxOutputTokens };
  const system = writeSystem(request.messages);
  if (system !== undefined) body.system = system;
  const messages = writeMessages(request.messages, names);
  if (messages.length === 0)
    throw fault('bad_request', 'messages must hold some text beside the system message');
  body.messages = messages;
  writeTools(body, request, names);
  // Anthropic's scale ends at 1, OpenAI's at 2.
  if (request.temperature !== undefined) body.temperature = Math.min(1, request.temperature);
  if (request.topP !== undefined) body.top_p = request.topP;
  if (request.stop.length > 0) body.stop_sequences = request.stop;
  const config = writeOutputConfig(request);
  if (config !== undefined) body.output_config = config;
  if (options.stream) body.stream = true;
  const dropped = request.verbosity === undefined ? [] : ['verbosity'];
  return { body, names, headers: { 'anthropic-version': chooseVersion(body) }, dropped };
}

const isBlank = (text: string): boolean => text.trim() === '';

/** Only newer models accept system messages between others, so all are moved to the front. */
function writeSystem(messages: RequestMessage[]): string | JsonObject[] | undefined {
  const texts: string[] = [];
  for (const { role, parts } of messages) {
    if (role !== 'system') continue;
    for (const part of parts)
      if (part.type === 'text' && !isBlank(part.text)) texts.push(part.text);
  }
  if (texts.length <= 1) return texts[0];
  return texts.map((text) => ({ type: 'text', text }));
}

/** The API requires alternating roles, and results before a turn's text. */
function writeMessages(messages: RequestMessage[], names: WireNames): JsonObject[] {
  const out: { role: string; content: JsonObject[] }[] = [];
  for (const message of messages) {
    if (message.role === 'system') continue;
    const content: JsonObject[] = [];
    for (const part of message.parts) {
      const block = writePart(part, names);
      if (block !== undefined) content.push(block);
    }
    if (content.length === 0) continue;
    const last = out.at(-1);
    if (last?.role === message.role) last.content.push(...content);
    else out.push({ role: message.role, content });
  }
  for (const message of out) {
    if (message.role === 'user' && message.content.length > 1) sortResultsFirst(message.content);
  }
  return out;
}

function sortResultsFirst(content: JsonObject[]): void {
  const rank = (block: JsonObject) => (block.type === 'tool_result' ? 0 : 1);
  content.sort((a, b) => rank(a) - rank(b));
}

function writePart(part: RequestPart, names: WireNames): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      // The API rejects a blank text block.
      return isBlank(part.text) ? undefined : { type: 'text', text: part.text };
    case 'media':
      return writeAnthropicMedia(part);
    case 'thinking':
      return writeThinking(part, names.model);
    case 'tool_call':
      return {
        type: 'tool_use',
        id: names.callIds.toWire(part.id),
        name: names.tools.toWire(part.name),
        input: part.arguments,
      };
    case 'tool_result':
      return {
        type: 'tool_result',
        tool_use_id: names.callIds.toWire(part.tool_call_id),
        content: writeResult(part),
        ...(part.is_error === true ? { is_error: true } : {}),
      };
  }
}

function writeResult({ content, media }: ResultPart): string | JsonObject[] {
  if (media === undefined) return content;
  const text = isBlank(content) ? [] : [{ type: 'text', text: content }];
  return [...text, ...media.map(writeAnthropicMedia)];
}

function writeTools(body: JsonObject, request: ModelRequest, names: WireNames): void {
  if (request.tools.length === 0) {
    // A history with calls needs its tools declared, also when none may be called.
    const used = listUsedTools(request.messages);
    if (used.length === 0) return;
    body.tools = used.map((name) => ({
      name: names.tools.toWire(name),
      description: 'A tool of an earlier turn. It cannot be called now.',
      input_schema: { type: 'object' },
    }));
    body.tool_choice = { type: 'none' };
    return;
  }
  body.tools = request.tools.map((tool) => ({
    name: names.tools.toWire(tool.name),
    description: tool.description,
    input_schema: { type: 'object', ...tool.input_schema },
  }));
  const choice = writeChoice(request, names);
  if (choice !== undefined) body.tool_choice = choice;
}

function listUsedTools(messages: RequestMessage[]): string[] {
  const used = new Set<string>();
  for (const { parts } of messages)
    for (const part of parts) if (part.type === 'tool_call') used.add(part.name);
  return [...used];
}

function writeChoice(request: ModelRequest, names: WireNames): JsonObject | undefined {
  const single = request.parallelToolCalls === false ? { disable_parallel_tool_use: true } : {};
  const choice = request.toolChoice;
  if (choice === undefined)
    return request.parallelToolCalls === false ? { type: 'auto', ...single } : undefined;
  if (choice === 'none') return { type: 'none' };
  if (choice === 'auto') return { type: 'auto', ...single };
  if (choice === 'required') return { type: 'any', ...single };
  return { type: 'tool', name: names.tools.toWire(choice.name), ...single };
}

const EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'];

function writeOutputConfig(request: ModelRequest): JsonObject | undefined {
  const config: JsonObject = {};
  if (request.effort !== undefined)
    config.effort = EFFORTS.includes(request.effort) ? request.effort : 'low';
  if (request.outputSchema !== undefined)
    config.format = { type: 'json_schema', schema: request.outputSchema };
  return Object.keys(config).length === 0 ? undefined : config;
}
