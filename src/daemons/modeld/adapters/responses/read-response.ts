// Reads responses and stream events of OpenAI's Responses API as neutral ones. Items without a
// neutral form (tools that ran at the vendor) are skipped; passthrough clients get them unchanged.
import { fault } from '../../../../wire/errors.ts';
import type { Part, StopReason, Usage } from '../../../../wire/modeld.ts';
import { NO_USAGE } from '../../rules/budget.ts';
import { makeCustomArguments } from '../custom-tools.ts';
import {
  assistantMessage,
  type ModelResponse,
  type ResponseEvent,
  type StreamReader,
} from '../dialect.ts';
import {
  asCount,
  asList,
  asObject,
  asText,
  clip,
  type JsonObject,
  parseObject,
  readArguments,
  readCallId,
  TOOL_NAME_LENGTH_MAX,
} from '../reading.ts';
import type { SseBlock } from '../sse.ts';
import type { WireNames } from '../tool-names.ts';
import { readVendorError, vendorFault } from '../vendor-faults.ts';
import { joinNamespace } from './namespaces.ts';
import { sealReasoning } from './reasoning.ts';

/** OpenAI counts cached tokens inside the input; a neutral usage counts them separately. */
export function readUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const input = asObject(usage.input_tokens_details) ?? {};
  const output = asObject(usage.output_tokens_details) ?? {};
  const cacheRead = asCount(input.cached_tokens);
  const cacheWrite = asCount(input.cache_write_tokens);
  return {
    input_tokens: Math.max(0, asCount(usage.input_tokens) - cacheRead - cacheWrite),
    output_tokens: asCount(usage.output_tokens),
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    reasoning_tokens: asCount(output.reasoning_tokens),
  };
}

/** An item while it streams; `item` replaces it once it is complete. */
type Entry = { item: JsonObject; text: string; callId: string; isText: boolean };

type Draft = {
  id: string;
  model: string;
  status: string;
  reason: string;
  usage: Usage | undefined;
  entries: Map<number, Entry>;
};

const newDraft = (): Draft => ({
  id: '',
  model: '',
  status: '',
  reason: '',
  usage: undefined,
  entries: new Map(),
});

function readHead(draft: Draft, json: JsonObject): void {
  draft.id = asText(json.id) ?? draft.id;
  draft.model = asText(json.model) ?? draft.model;
  draft.status = asText(json.status) ?? draft.status;
  draft.reason = asText(asObject(json.incomplete_details)?.reason) ?? draft.reason;
  draft.usage = readUsage(json.usage) ?? draft.usage;
}

function readCall(item: JsonObject, callId: string, names: WireNames): Part | undefined {
  const own = asText(item.name) ?? '';
  if (own === '') return undefined;
  const wire = joinNamespace(asText(item.namespace), own);
  const called =
    item.type === 'custom_tool_call'
      ? { arguments: makeCustomArguments(asText(item.input) ?? '') }
      : readArguments(asText(item.arguments) ?? '');
  const name = names.tools.toName(clip(wire, TOOL_NAME_LENGTH_MAX));
  return { type: 'tool_call', id: callId, name, ...called };
}

const joinTexts = (values: unknown, separator: string): string =>
  asList(values)
    .map((value) => asText(asObject(value)?.text) ?? asText(asObject(value)?.refusal) ?? '')
    .join(separator);

function readReasoning(item: JsonObject): { id: string; text: string; encrypted: string } {
  const summary = joinTexts(item.summary, '\n\n');
  return {
    id: asText(item.id) ?? '',
    text: summary === '' ? joinTexts(item.content, '') : summary,
    encrypted: asText(item.encrypted_content) ?? '',
  };
}

function readItem({ item, callId }: Entry, names: WireNames): Part | undefined {
  switch (item.type) {
    case 'message': {
      const text = joinTexts(item.content, '');
      return text === '' ? undefined : { type: 'text', text };
    }
    case 'function_call':
    case 'custom_tool_call':
      return readCall(item, callId, names);
    case 'reasoning': {
      const part = sealReasoning(readReasoning(item), names.model);
      return part.text === '' && part.signature === undefined ? undefined : part;
    }
    default:
      return undefined;
  }
}

const isRefusal = ({ item }: Entry): boolean =>
  asList(item.content).some((part) => asObject(part)?.type === 'refusal');

function readStopReason(draft: Draft, parts: readonly Part[]): StopReason {
  if (draft.status === 'incomplete')
    return draft.reason === 'content_filter' ? 'refusal' : 'max_tokens';
  if ([...draft.entries.values()].some(isRefusal)) return 'refusal';
  if (draft.status !== 'completed') return 'other';
  return parts.some((part) => part.type === 'tool_call') ? 'tool_calls' : 'end';
}

function finishDraft(draft: Draft, names: WireNames): ModelResponse {
  const parts = [...draft.entries]
    .sort(([a], [b]) => a - b)
    .map(([, entry]) => readItem(entry, names))
    .filter((part) => part !== undefined);
  return {
    id: draft.id,
    model: draft.model === '' ? names.model : draft.model,
    message: assistantMessage(parts),
    stopReason: readStopReason(draft, parts),
    usage: draft.usage ?? NO_USAGE,
    usageReported: draft.usage !== undefined,
    cacheWriteLongTokens: 0,
  };
}

function newEntry(item: JsonObject): Entry {
  const isCall = item.type === 'function_call' || item.type === 'custom_tool_call';
  const callId = isCall ? readCallId(item.call_id) : '';
  return { item, text: '', callId, isText: false };
}

/** Throws the fault of a response that failed, which this API sends with status 200. */
function assertNotFailed(json: JsonObject, names: WireNames): void {
  if (json.status !== 'failed' && json.status !== 'cancelled') return;
  const error = asObject(json.error) ?? { message: 'the response failed' };
  throw vendorFault(readVendorError({ error }), { provider: names.provider });
}

export function readResponse(value: unknown, names: WireNames): ModelResponse {
  const json = asObject(value);
  if (json === undefined || !Array.isArray(json.output))
    throw fault('provider_malformed', 'the provider sent a response without output');
  assertNotFailed(json, names);
  const draft = newDraft();
  readHead(draft, json);
  json.output.forEach((item: unknown, index) => {
    draft.entries.set(index, newEntry(asObject(item) ?? {}));
  });
  return finishDraft(draft, names);
}

export function readStream(names: WireNames): StreamReader {
  return new ResponsesStreamReader(names);
}

class ResponsesStreamReader implements StreamReader {
  readonly #names: WireNames;
  readonly #draft = newDraft();
  #isDone = false;

  constructor(names: WireNames) {
    this.#names = names;
  }

  isDone = (): boolean => this.#isDone;
  wasUsageOnly = (): boolean => false;
  response = (): ModelResponse => finishDraft(this.#draft, this.#names);

  push(block: SseBlock): ResponseEvent[] {
    if (block.data === null || this.#isDone) return [];
    const json = parseObject(block.data);
    if (json === undefined)
      throw fault('provider_malformed', 'the provider sent a stream event that is not JSON');
    return this.#readEvent(asText(json.type) ?? block.event, json);
  }

  #readEvent(type: string, json: JsonObject): ResponseEvent[] {
    switch (type) {
      case 'response.created':
      case 'response.in_progress':
        readHead(this.#draft, asObject(json.response) ?? {});
        return [];
      case 'response.output_item.added':
        return this.#addItem(json);
      case 'response.output_text.delta':
      case 'response.refusal.delta':
        return this.#extend(json, 'text');
      case 'response.reasoning_summary_text.delta':
      case 'response.reasoning_text.delta':
        return this.#extend(json, 'thinking');
      case 'response.reasoning_summary_part.added':
        // Parts of a summary are paragraphs.
        return asCount(json.summary_index) === 0
          ? []
          : this.#extend({ ...json, delta: '\n\n' }, 'thinking');
      case 'response.function_call_arguments.delta':
        return this.#extendCall(json);
      case 'response.output_item.done':
        return this.#endItem(json);
      case 'response.completed':
      case 'response.incomplete':
        return this.#finish(json);
      case 'response.failed':
      case 'error': {
        const error = asObject(asObject(json.response)?.error) ?? asObject(json.error) ?? json;
        throw vendorFault(readVendorError({ error }), { provider: this.#names.provider });
      }
      default:
        return [];
    }
  }

  #addItem(json: JsonObject): ResponseEvent[] {
    const entry = newEntry(asObject(json.item) ?? {});
    this.#draft.entries.set(asCount(json.output_index), entry);
    return this.#startCall(entry);
  }

  #startCall(entry: Entry): ResponseEvent[] {
    const part = entry.callId === '' ? undefined : readCall(entry.item, entry.callId, this.#names);
    return part?.type === 'tool_call' ? [{ type: 'tool_call', id: part.id, name: part.name }] : [];
  }

  #extend(json: JsonObject, type: 'text' | 'thinking'): ResponseEvent[] {
    const entry = this.#draft.entries.get(asCount(json.output_index));
    const text = asText(json.delta) ?? '';
    if (entry === undefined || text === '') return [];
    entry.text += text;
    const piece = { type: type === 'text' ? 'output_text' : 'summary_text', text: entry.text };
    // Arrived text counts also when the stream breaks off.
    entry.item = { ...entry.item, [type === 'text' ? 'content' : 'summary']: [piece] };
    return [{ type, text }];
  }

  #extendCall(json: JsonObject): ResponseEvent[] {
    const entry = this.#draft.entries.get(asCount(json.output_index));
    const text = asText(json.delta) ?? '';
    if (entry === undefined || entry.callId === '' || text === '') return [];
    entry.text += text;
    entry.item = { ...entry.item, arguments: entry.text };
    return [{ type: 'tool_arguments', id: entry.callId, text }];
  }

  #endItem(json: JsonObject): ResponseEvent[] {
    const index = asCount(json.output_index);
    const item = asObject(json.item) ?? {};
    const before = this.#draft.entries.get(index);
    const events: ResponseEvent[] = [];
    const entry = before ?? newEntry(item);
    if (before === undefined) events.push(...this.#startCall(entry));
    entry.item = item;
    this.#draft.entries.set(index, entry);
    const part = readItem(entry, this.#names);
    if (part === undefined) return events;
    // Some servers send an item without its deltas.
    const isSent = entry.text !== '';
    if (part.type === 'text' && !isSent) events.push(part);
    if (part.type === 'thinking') events.push(...endThinking(part, isSent));
    if (part.type === 'tool_call') {
      if (!isSent)
        events.push({ type: 'tool_arguments', id: part.id, text: JSON.stringify(part.arguments) });
      events.push({ type: 'tool_call_end', id: part.id });
    }
    return events;
  }

  #finish(json: JsonObject): ResponseEvent[] {
    const response = asObject(json.response) ?? {};
    assertNotFailed(response, this.#names);
    readHead(this.#draft, response);
    if (this.#draft.status === '' || this.#draft.status === 'in_progress')
      this.#draft.status = 'completed';
    this.#isDone = true;
    // Some servers send items only here.
    return asList(response.output).flatMap((item, output_index) =>
      this.#draft.entries.has(output_index) ? [] : this.#endItem({ output_index, item }),
    );
  }
}

function endThinking(part: Extract<Part, { type: 'thinking' }>, isSent: boolean): ResponseEvent[] {
  const events: ResponseEvent[] = [];
  if (!isSent && part.text !== '') events.push({ type: 'thinking', text: part.text });
  if (part.signature !== undefined) events.push({ type: 'signature', signature: part.signature });
  events.push({ type: 'thinking_end', part });
  return events;
}
