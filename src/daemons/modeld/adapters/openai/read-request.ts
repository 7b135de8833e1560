// Reads an SDK client's Chat Completions body as a neutral request, for providers of another
// dialect. Options that only tune sampling or caching are dropped; those that change the response's
// shape are rejected by name.
import type { Part } from '../../../../wire/modeld.ts';
import { makeCustomArguments, makeCustomTool } from '../custom-tools.ts';
import { readChatMedia } from '../media.ts';
import type { ModelRequest, RequestMessage, RequestPart, RequestTool } from '../model-request.ts';
import { asList, asNumber, asObject, asText, type JsonObject, readArguments } from '../reading.ts';
import { listUnknown, readTexts, rejectMalformed, rejectUntranslatable } from '../refusals.ts';

function refuse(what: string): never {
  return rejectUntranslatable(what, 'OpenAI');
}

const REFUSED = ['audio', 'functions', 'function_call', 'web_search_options', 'moderation'];

const KNOWN: ReadonlySet<string> = new Set([
  'model',
  'messages',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'temperature',
  'top_p',
  'stop',
  'max_completion_tokens',
  'max_tokens',
  'stream',
  'stream_options',
  'reasoning_effort',
  'response_format',
  'verbosity',
  'n',
  'logprobs',
  'modalities',
]);

export function readRequest(body: JsonObject): ModelRequest & { model: string } {
  for (const name of REFUSED) if (body[name] !== undefined && body[name] !== null) refuse(name);
  if (body.logprobs === true) refuse('logprobs');
  if ((asNumber(body.n) ?? 1) !== 1) refuse('n other than 1');
  if (asList(body.modalities).some((value) => value !== 'text')) refuse('modalities');
  const model = asText(body.model);
  if (model === undefined || model === '') rejectMalformed('model must be a name');
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    rejectMalformed('messages must be a list with at least one message');
  const stop = body.stop;
  return {
    model,
    messages: readMessages(body.messages),
    tools: asList(body.tools).map(readTool),
    toolChoice: readChoice(body.tool_choice),
    temperature: asNumber(body.temperature),
    topP: asNumber(body.top_p),
    stop: typeof stop === 'string' ? [stop] : readTexts(asList(stop), 'stop'),
    maxOutputTokens: asNumber(body.max_completion_tokens) ?? asNumber(body.max_tokens),
    stream: body.stream === true,
    streamUsage: asObject(body.stream_options)?.include_usage === true,
    parallelToolCalls:
      typeof body.parallel_tool_calls === 'boolean' ? body.parallel_tool_calls : undefined,
    effort: asText(body.reasoning_effort),
    outputSchema: readFormat(body.response_format),
    verbosity: asText(body.verbosity),
    dropped: listUnknown(body, KNOWN),
  };
}

function readMessages(values: unknown[]): RequestMessage[] {
  const messages: RequestMessage[] = [];
  let isResults = false;
  values.forEach((value, index) => {
    const where = `messages[${index}]`;
    const message = asObject(value);
    if (message === undefined) rejectMalformed(`${where} must be an object`);
    const role = message.role;
    if (role === 'tool') {
      // The results of one turn are one neutral message.
      const part = readResult(message, where);
      if (isResults) messages.at(-1)!.parts.push(part);
      else messages.push({ role: 'user', parts: [part] });
    } else if (role === 'system' || role === 'developer') {
      messages.push({ role: 'system', parts: readText(message.content, where) });
    } else if (role === 'user') {
      messages.push({ role: 'user', parts: readContent(message.content, where) });
    } else if (role === 'assistant') {
      messages.push({ role: 'assistant', parts: readAssistant(message, where) });
    } else rejectMalformed(`${where}.role must be system, developer, user, assistant or tool`);
    isResults = role === 'tool';
  });
  return messages;
}

function readText(content: unknown, where: string): (Part & { type: 'text' })[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content) || content.length === 0)
    rejectMalformed(`${where}.content must be text or a list of parts`);
  return content.map((value, index) => {
    const part = asObject(value);
    const type = asText(part?.type);
    if (type !== 'text' && type !== 'refusal')
      refuse(`${where}.content[${index}] of type ${type ?? 'unknown'}`);
    const text = asText(part?.[type]);
    if (text === undefined) rejectMalformed(`${where}.content[${index}].${type} must be text`);
    return { type: 'text', text };
  });
}

function readContent(content: unknown, where: string): RequestPart[] {
  if (!Array.isArray(content)) return readText(content, where);
  return content.flatMap((value, index): RequestPart[] => {
    const part = asObject(value) ?? {};
    if (part.type !== 'image_url' && part.type !== 'file') return readText([value], where);
    const media = readChatMedia(part);
    return [media ?? refuse(`${where}.content[${index}] that is stored at the vendor`)];
  });
}

/** Reads thinking that an earlier response gave the client, with its signature. */
function readThinking(message: JsonObject): Part[] {
  return asList(message.reasoning_details).flatMap((value): Part[] => {
    const detail = asObject(value);
    const signature = asText(detail?.signature);
    if (signature === undefined) return [];
    return [{ type: 'thinking', text: asText(detail?.text) ?? '', signature }];
  });
}

function readAssistant(message: JsonObject, where: string): Part[] {
  const parts: Part[] = readThinking(message);
  const content = message.content ?? message.refusal;
  if (content !== undefined && content !== null && content !== '')
    parts.push(...readText(content, where));
  asList(message.tool_calls).forEach((value, index) => {
    const call = asObject(value);
    const custom = asObject(call?.custom);
    const called = asObject(call?.function) ?? custom;
    const id = asText(call?.id);
    const name = asText(called?.name);
    if (id === undefined || id === '' || name === undefined || name === '')
      rejectMalformed(`${where}.tool_calls[${index}] must have an id and a function with a name`);
    const read =
      custom === undefined
        ? readArguments(asText(called?.arguments) ?? '')
        : { arguments: makeCustomArguments(asText(custom.input) ?? '') };
    parts.push({ type: 'tool_call', id, name, ...read });
  });
  return parts.length > 0 ? parts : [{ type: 'text', text: '' }];
}

function readResult(message: JsonObject, where: string): Part {
  const id = asText(message.tool_call_id);
  if (id === undefined || id === '') rejectMalformed(`${where}.tool_call_id must name the call`);
  const content = readText(message.content, where)
    .map((part) => part.text)
    .join('\n');
  return { type: 'tool_result', tool_call_id: id, content };
}

function readTool(value: unknown, index: number): RequestTool {
  const tool = asObject(value);
  const custom = tool?.type === 'custom' ? asObject(tool.custom) : undefined;
  if (custom !== undefined) {
    const name = asText(custom.name);
    if (name === undefined || name === '')
      rejectMalformed(`tools[${index}].custom.name must be a name`);
    return makeCustomTool(name, asText(custom.description) ?? '', asObject(custom.format));
  }
  if (tool?.type !== 'function') refuse(`tools[${index}] that is not a function`);
  const spec = asObject(tool.function);
  const name = asText(spec?.name);
  if (name === undefined || name === '')
    rejectMalformed(`tools[${index}].function.name must be a name`);
  return {
    name,
    description: asText(spec?.description) ?? '',
    input_schema: asObject(spec?.parameters) ?? { type: 'object', properties: {} },
    ...(spec?.strict === true ? { strict: true } : {}),
  };
}

function readChoice(value: unknown): ModelRequest['toolChoice'] {
  if (value === undefined || value === null) return undefined;
  if (value === 'auto' || value === 'none' || value === 'required') return value;
  const choice = asObject(value);
  const name = asText((asObject(choice?.function) ?? asObject(choice?.custom))?.name);
  return name === undefined ? refuse('this form of tool_choice') : { name };
}

function readFormat(value: unknown): JsonObject | undefined {
  const format = asObject(value);
  if (format === undefined || format.type === 'text') return undefined;
  const schema = asObject(asObject(format.json_schema)?.schema);
  if (format.type !== 'json_schema' || schema === undefined)
    refuse('response_format other than text and json_schema');
  return schema;
}
