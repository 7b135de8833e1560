// Reads an SDK client's Messages body as a neutral request, for providers of another dialect.
// Options that only tune sampling or caching are dropped; those that change the response's shape
// are rejected by name.
import type { Part } from '../../../../wire/modeld.ts';
import { readAnthropicMedia } from '../media.ts';
import type {
  MediaPart,
  ModelRequest,
  RequestMessage,
  RequestPart,
  RequestTool,
  ResultPart,
} from '../model-request.ts';
import {
  asList,
  asNumber,
  asObject,
  asText,
  type JsonObject,
  readArgumentsValue,
} from '../reading.ts';
import { listUnknown, readTexts, rejectMalformed, rejectUntranslatable } from '../refusals.ts';
import { sealRedacted } from './thinking.ts';

function refuse(what: string): never {
  return rejectUntranslatable(what, 'Anthropic');
}

const REFUSED = ['container', 'mcp_servers', 'fallbacks'];

const KNOWN: ReadonlySet<string> = new Set([
  'model',
  'max_tokens',
  'messages',
  'system',
  'tools',
  'tool_choice',
  'temperature',
  'top_p',
  'stop_sequences',
  'stream',
  'output_config',
]);

export function readRequest(body: JsonObject): ModelRequest & { model: string } {
  for (const name of REFUSED) if (body[name] !== undefined && body[name] !== null) refuse(name);
  const model = asText(body.model);
  if (model === undefined || model === '') rejectMalformed('model must be a name');
  const maxOutputTokens = asNumber(body.max_tokens);
  if (maxOutputTokens === undefined || maxOutputTokens < 1)
    rejectMalformed('max_tokens must be a number above 0');
  if (!Array.isArray(body.messages) || body.messages.length === 0)
    rejectMalformed('messages must be a list with at least one message');
  const messages = body.messages.map(readMessage);
  if (body.system !== undefined && body.system !== null && body.system !== '')
    messages.unshift({ role: 'system', parts: readText(body.system, 'system') });
  const choice = asObject(body.tool_choice);
  const config = asObject(body.output_config);
  return {
    model,
    messages,
    tools: asList(body.tools).map(readTool),
    toolChoice: readChoice(choice),
    temperature: asNumber(body.temperature),
    topP: asNumber(body.top_p),
    stop: readTexts(asList(body.stop_sequences), 'stop_sequences'),
    maxOutputTokens,
    stream: body.stream === true,
    streamUsage: true,
    parallelToolCalls: choice?.disable_parallel_tool_use === true ? false : undefined,
    effort: asText(config?.effort),
    outputSchema: readFormat(config?.format),
    dropped: listUnknown(body, KNOWN),
  };
}

function readMessage(value: unknown, index: number): RequestMessage {
  const where = `messages[${index}]`;
  const message = asObject(value);
  const role = message?.role;
  if (role !== 'user' && role !== 'assistant' && role !== 'system')
    rejectMalformed(`${where}.role must be user, assistant or system`);
  const content = message?.content;
  if (role === 'system') return { role, parts: readText(content, where) };
  if (typeof content === 'string') return { role, parts: [{ type: 'text', text: content }] };
  if (!Array.isArray(content)) rejectMalformed(`${where}.content must be text or a list of blocks`);
  const parts = content.map((block, at) => readPart(block, `${where}.content[${at}]`));
  return { role, parts: parts.length > 0 ? parts : [{ type: 'text', text: '' }] };
}

type TextPart = Extract<Part, { type: 'text' }>;

function readText(content: unknown, where: string): TextPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content) || content.length === 0)
    rejectMalformed(`${where} must be text or a list of text blocks`);
  return content.map((value, index) => {
    const block = asObject(value);
    if (block?.type !== 'text')
      refuse(`${where}[${index}] of type ${asText(block?.type) ?? 'unknown'}`);
    return { type: 'text', text: asText(block.text) ?? '' };
  });
}

function readPart(value: unknown, where: string): RequestPart {
  const block = asObject(value) ?? {};
  switch (block.type) {
    case 'text':
      return { type: 'text', text: asText(block.text) ?? '' };
    case 'thinking': {
      const signature = asText(block.signature);
      const text = asText(block.thinking) ?? '';
      return { type: 'thinking', text, ...(signature === undefined ? {} : { signature }) };
    }
    case 'redacted_thinking':
      return sealRedacted(asText(block.data) ?? '', '');
    case 'tool_use': {
      const id = asText(block.id);
      const name = asText(block.name);
      if (id === undefined || id === '' || name === undefined || name === '')
        rejectMalformed(`${where} must have an id and a name`);
      return { type: 'tool_call', id, name, ...readArgumentsValue(block.input) };
    }
    case 'image':
    case 'document':
      return readMedia(block, where);
    case 'tool_result':
      return readResult(block, where);
    default:
      return refuse(`${where} of type ${asText(block.type) ?? 'unknown'}`);
  }
}

function readMedia(block: JsonObject, where: string): MediaPart | TextPart {
  const source = asObject(block.source);
  // A document of plain text is text; its title names it.
  if (block.type === 'document' && source?.type === 'text')
    return {
      type: 'text',
      text: [asText(block.title), asText(source.data)].filter(Boolean).join('\n'),
    };
  return readAnthropicMedia(block) ?? refuse(`${where} that is stored at the vendor`);
}

function readResultPart(value: unknown, where: string): MediaPart | TextPart {
  const block = asObject(value) ?? {};
  switch (block.type) {
    case 'text':
      return { type: 'text', text: asText(block.text) ?? '' };
    case 'image':
    case 'document':
      return readMedia(block, where);
    case 'tool_reference':
      // All tools are offered to the other provider from the start.
      return { type: 'text', text: `The tool ${asText(block.tool_name) ?? ''} can be called.` };
    default:
      return refuse(`${where} of type ${asText(block.type) ?? 'unknown'}`);
  }
}

function readResult(block: JsonObject, where: string): ResultPart {
  const id = asText(block.tool_use_id);
  if (id === undefined || id === '') rejectMalformed(`${where}.tool_use_id must name the call`);
  const given = block.content;
  const parts =
    typeof given === 'string'
      ? [{ type: 'text' as const, text: given }]
      : asList(given).map((part, at) => readResultPart(part, `${where}.content[${at}]`));
  const media = parts.filter((part) => part.type === 'media');
  return {
    type: 'tool_result',
    tool_call_id: id,
    content: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n'),
    ...(block.is_error === true ? { is_error: true } : {}),
    ...(media.length === 0 ? {} : { media }),
  };
}

function readTool(value: unknown, index: number): RequestTool {
  const tool = asObject(value);
  const type = tool?.type;
  if (type !== undefined && type !== null && type !== 'custom')
    refuse(`tools[${index}] of type ${asText(type) ?? 'unknown'}`);
  const name = asText(tool?.name);
  if (name === undefined || name === '') rejectMalformed(`tools[${index}].name must be a name`);
  return {
    name,
    description: asText(tool?.description) ?? '',
    input_schema: asObject(tool?.input_schema) ?? { type: 'object', properties: {} },
    ...(tool?.strict === true ? { strict: true } : {}),
  };
}

function readChoice(choice: JsonObject | undefined): ModelRequest['toolChoice'] {
  switch (choice?.type) {
    case undefined:
      return undefined;
    case 'auto':
    case 'none':
      return choice?.type;
    case 'any':
      return 'required';
    case 'tool': {
      const name = asText(choice?.name);
      if (name === undefined) rejectMalformed('tool_choice.name must be a name');
      return { name };
    }
    default:
      return rejectMalformed('tool_choice.type must be auto, any, tool or none');
  }
}

function readFormat(value: unknown): JsonObject | undefined {
  const format = asObject(value);
  if (format === undefined) return undefined;
  const schema = asObject(format.schema);
  if (format.type !== 'json_schema' || schema === undefined) refuse('output_config.format');
  return schema;
}
