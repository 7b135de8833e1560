// Reads the input items of OpenAI's Responses API as neutral messages: the items of one turn of the
// model become one message, and so do the results of its calls.
import type { Part } from '../../../../wire/modeld.ts';
import { makeCustomArguments } from '../custom-tools.ts';
import { readResponsesMedia } from '../media.ts';
import type { MediaPart, RequestMessage, RequestPart, ResultPart } from '../model-request.ts';
import { asList, asObject, asText, type JsonObject, readArguments } from '../reading.ts';
import { rejectMalformed, rejectUntranslatable } from '../refusals.ts';
import { joinNamespace } from './namespaces.ts';
import { readReasoningSeal } from './reasoning.ts';

function refuse(what: string): never {
  return rejectUntranslatable(what, 'OpenAI Responses');
}

export type ReadInput = { messages: RequestMessage[]; tools: unknown[] };

/** Records of tools that ran at the vendor; without them, only the model knows less. */
const VENDOR_ITEMS: ReadonlySet<string> = new Set([
  'web_search_call',
  'file_search_call',
  'image_generation_call',
  'code_interpreter_call',
]);

/** Which items belong to the same message. */
type Group = 'assistant' | 'results' | undefined;

class InputReader {
  readonly messages: RequestMessage[] = [];
  readonly tools: unknown[] = [];
  readonly #dropped: Set<string>;
  #group: Group;

  constructor(dropped: Set<string>) {
    this.#dropped = dropped;
  }

  read(value: unknown, index: number): void {
    const where = `input[${index}]`;
    const item = asObject(value);
    if (item === undefined) rejectMalformed(`${where} must be an object`);
    const type = asText(item.type) ?? 'message';
    switch (type) {
      case 'message':
        this.#addMessage(item, where);
        break;
      case 'function_call':
      case 'custom_tool_call':
        this.#add('assistant', readCall(item, where));
        break;
      case 'function_call_output':
      case 'custom_tool_call_output':
        this.#add('results', readResult(item, where));
        break;
      case 'reasoning':
        this.#addReasoning(item);
        break;
      case 'additional_tools':
        this.tools.push(...asList(item.tools));
        break;
      default:
        if (!VENDOR_ITEMS.has(type)) refuse(`${where} of type ${type}`);
        this.#dropped.add(`input.${type}`);
    }
  }

  #addMessage(item: JsonObject, where: string): void {
    const { role } = item;
    const parts = readContent(item.content, `${where}.content`);
    if (role === 'assistant') for (const part of parts) this.#add('assistant', part);
    else if (role === 'user') this.#start({ role, parts }, undefined);
    else if (role === 'system' || role === 'developer')
      this.#start({ role: 'system', parts }, undefined);
    else rejectMalformed(`${where}.role must be system, developer, user or assistant`);
  }

  #addReasoning(item: JsonObject): void {
    const signature = readReasoningSeal(asText(item.encrypted_content));
    if (signature === undefined) {
      this.#dropped.add('input.reasoning');
      return;
    }
    const text = asList(item.summary)
      .map((part) => asText(asObject(part)?.text) ?? '')
      .join('\n\n');
    this.#add('assistant', { type: 'thinking', text, signature });
  }

  #start(message: RequestMessage, group: Group): void {
    this.messages.push(message);
    this.#group = group;
  }

  #add(group: 'assistant' | 'results', part: RequestPart): void {
    if (this.#group === group) this.messages.at(-1)!.parts.push(part);
    else this.#start({ role: group === 'results' ? 'user' : 'assistant', parts: [part] }, group);
  }
}

/** Adds the names of what it drops. */
export function readInput(input: unknown, dropped: string[]): ReadInput {
  if (typeof input === 'string')
    return { messages: [{ role: 'user', parts: [{ type: 'text', text: input }] }], tools: [] };
  if (!Array.isArray(input) || input.length === 0)
    rejectMalformed('input must be text or a list with at least one item');
  const names = new Set<string>();
  const reader = new InputReader(names);
  input.forEach((item: unknown, index) => {
    reader.read(item, index);
  });
  dropped.push(...names);
  return reader;
}

type ContentPart = MediaPart | Extract<Part, { type: 'text' }>;

function readContent(content: unknown, where: string): ContentPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }];
  if (!Array.isArray(content)) rejectMalformed(`${where} must be text or a list of parts`);
  const parts = content.map((value, index) => readPart(value, `${where}[${index}]`));
  return parts.length > 0 ? parts : [{ type: 'text', text: '' }];
}

function readPart(value: unknown, where: string): ContentPart {
  const part = asObject(value) ?? {};
  switch (part.type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      return { type: 'text', text: asText(part.text) ?? '' };
    case 'refusal':
      return { type: 'text', text: asText(part.refusal) ?? '' };
    case 'input_image':
    case 'input_file': {
      const media = readResponsesMedia(part);
      return media ?? refuse(`${where} that is stored at the vendor`);
    }
    default:
      return refuse(`${where} of type ${asText(part.type) ?? 'unknown'}`);
  }
}

function readCall(item: JsonObject, where: string): RequestPart {
  const id = asText(item.call_id);
  const own = asText(item.name);
  if (id === undefined || id === '' || own === undefined || own === '')
    rejectMalformed(`${where} must have a call_id and a name`);
  const name = joinNamespace(asText(item.namespace), own);
  const called =
    item.type === 'custom_tool_call'
      ? { arguments: makeCustomArguments(asText(item.input) ?? '') }
      : readArguments(asText(item.arguments) ?? '');
  return { type: 'tool_call', id, name, ...called };
}

function readResult(item: JsonObject, where: string): ResultPart {
  const id = asText(item.call_id);
  if (id === undefined || id === '') rejectMalformed(`${where}.call_id must name the call`);
  const parts = readContent(item.output, `${where}.output`);
  const media = parts.filter((part) => part.type === 'media');
  return {
    type: 'tool_result',
    tool_call_id: id,
    content: parts.flatMap((part) => (part.type === 'text' ? [part.text] : [])).join('\n'),
    ...(media.length === 0 ? {} : { media }),
  };
}
