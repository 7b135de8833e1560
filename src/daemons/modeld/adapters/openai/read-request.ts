// Reads an SDK client's Chat Completions body as a neutral request, for providers of another
// dialect. Options that only tune sampling or caching are dropped; those that change the response's
// shape are rejected by name.
import { fault } from '../../../../wire/errors.ts';
import type { Message, Part, ToolSpec } from '../../../../wire/modeld.ts';
import type { ModelRequest } from '../dialect.ts';
import { asList, asNumber, asObject, asText, type JsonObject, readArguments } from '../reading.ts';

function refuse(what: string): never {
  throw fault('bad_request', `${what} cannot be carried to this model's provider`, {
    hint: 'Leave it out, or use a model whose provider speaks the OpenAI dialect.',
  });
}

function reject(what: string): never {
  throw fault('bad_request', what);
}

const REFUSED = ['audio', 'functions', 'function_call', 'web_search_options', 'moderation'];

export function readRequest(body: JsonObject): ModelRequest & { model: string } {
  for (const name of REFUSED) if (body[name] !== undefined && body[name] !== null) refuse(name);
  if (body.logprobs === true) refuse('logprobs');
  if ((asNumber(body.n) ?? 1) !== 1) refuse('n other than 1');
  if (asList(body.modalities).some((value) => value !== 'text')) refuse('modalities');
  const model = asText(body.model);
  if (model === undefined || model === '') reject('model must be a name');
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    reject('messages must be a list with at least one message');
  const stop = body.stop;
  return {
    model,
    messages: readMessages(body.messages),
    tools: asList(body.tools).map(readTool),
    toolChoice: readChoice(body.tool_choice),
    temperature: asNumber(body.temperature),
    topP: asNumber(body.top_p),
    stop: typeof stop === 'string' ? [stop] : asList(stop).map(String),
    maxOutputTokens: asNumber(body.max_completion_tokens) ?? asNumber(body.max_tokens),
    stream: body.stream === true,
    streamUsage: asObject(body.stream_options)?.include_usage === true,
    parallelToolCalls:
      typeof body.parallel_tool_calls === 'boolean' ? body.parallel_tool_calls : undefined,
    effort: asText(body.reasoning_effort),
    outputSchema: readFormat(body.response_format),
  };
}

function readMessages(values: unknown[]): Message[] {
  const messages: Message[] = [];
  let isResults = false;
  values.forEach((value, index) => {
    const where = `messages[${index}]`;
    const message = asObject(value);
    if (message === undefined) reject(`${where} must be an object`);
    const role = message.role;
    if (role === 'tool') {
      // The results of one turn are one neutral message.
      const part = readResult(message, where);
      if (isResults) messages.at(-1)!.parts.push(part);
      else messages.push({ role: 'user', parts: [part] });
    } else if (role === 'system' || role === 'developer') {
      messages.push({ role: 'system', parts: readText(message.content, where) });
    } else if (role === 'user') {
      messages.push({ role: 'user', parts: readText(message.content, where) });
    } else if (role === 'assistant') {
      messages.push({ role: 'assistant', parts: readAssistant(message, where) });
    } else reject(`${where}.role must be system, developer, user, assistant or tool`);
    isResults = role === 'tool';
  });
  return messages;
}

function readText(content: unknown, where: string): (Part & { type: 'text' })[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content) || content.length === 0)
    reject(`${where}.content must be text or a list of parts`);
  return content.map((value, index) => {
    const part = asObject(value);
    const type = asText(part?.type);
    if (type !== 'text' && type !== 'refusal')
      refuse(`${where}.content[${index}] of type ${type ?? 'unknown'}`);
    const text = asText(part?.[type]);
    if (text === undefined) reject(`${where}.content[${index}].${type} must be text`);
    return { type: 'text', text };
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
    if (asText(call?.type) === 'custom') refuse(`${where}.tool_calls[${index}] of type custom`);
    const called = asObject(call?.function);
    const id = asText(call?.id);
    const name = asText(called?.name);
    if (id === undefined || id === '' || name === undefined || name === '')
      reject(`${where}.tool_calls[${index}] must have an id and a function with a name`);
    const text = asText(called?.arguments) ?? '';
    parts.push({ type: 'tool_call', id, name, ...readArguments(text) });
  });
  return parts.length > 0 ? parts : [{ type: 'text', text: '' }];
}

function readResult(message: JsonObject, where: string): Part {
  const id = asText(message.tool_call_id);
  if (id === undefined || id === '') reject(`${where}.tool_call_id must name the call`);
  const content = readText(message.content, where)
    .map((part) => part.text)
    .join('\n');
  return { type: 'tool_result', tool_call_id: id, content };
}

function readTool(value: unknown, index: number): ToolSpec {
  const tool = asObject(value);
  if (tool?.type !== 'function') refuse(`tools[${index}] that is not a function`);
  const spec = asObject(tool.function);
  const name = asText(spec?.name);
  if (name === undefined || name === '') reject(`tools[${index}].function.name must be a name`);
  return {
    name,
    description: asText(spec?.description) ?? '',
    input_schema: asObject(spec?.parameters) ?? { type: 'object', properties: {} },
  };
}

function readChoice(value: unknown): ModelRequest['toolChoice'] {
  if (value === undefined || value === null) return undefined;
  if (value === 'auto' || value === 'none' || value === 'required') return value;
  const name = asText(asObject(asObject(value)?.function)?.name);
  if (name === undefined) refuse('this form of tool_choice');
  return { name };
}

function readFormat(value: unknown): JsonObject | undefined {
  const format = asObject(value);
  if (format === undefined || format.type === 'text') return undefined;
  const schema = asObject(asObject(format.json_schema)?.schema);
  if (format.type !== 'json_schema' || schema === undefined)
    refuse('response_format other than text and json_schema');
  return schema;
}
