// Reads OpenAI's responses and stream chunks as neutral responses and events.
import { fault } from '../../../../wire/errors.ts';
import type { Part, StopReason, Usage } from '../../../../wire/modeld.ts';
import { NO_USAGE } from '../../rules/budget.ts';
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

/** OpenAI counts cached tokens inside the prompt; a neutral usage counts them separately. */
export function readUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const prompt = asObject(usage.prompt_tokens_details) ?? {};
  const completion = asObject(usage.completion_tokens_details) ?? {};
  const cacheRead = asCount(prompt.cached_tokens);
  const cacheWrite = asCount(prompt.cache_write_tokens);
  return {
    input_tokens: Math.max(0, asCount(usage.prompt_tokens) - cacheRead - cacheWrite),
    output_tokens: asCount(usage.completion_tokens),
    cache_read_tokens: cacheRead,
    cache_write_tokens: cacheWrite,
    reasoning_tokens: asCount(completion.reasoning_tokens),
  };
}

const STOP_REASONS: Record<string, StopReason> = {
  stop: 'end',
  length: 'max_tokens',
  tool_calls: 'tool_calls',
  function_call: 'tool_calls',
  content_filter: 'refusal',
};

type Call = { id: string; name: string; text: string; isSent: boolean };

/** A response while it is read. Only the first choice counts. */
type Draft = {
  id: string;
  model: string;
  text: string;
  thinking: string;
  refusal: string;
  calls: Map<number, Call>;
  finish: string;
  usage: Usage | undefined;
};

const newDraft = (): Draft => ({
  id: '',
  model: '',
  text: '',
  thinking: '',
  refusal: '',
  calls: new Map(),
  finish: '',
  usage: undefined,
});

function finishDraft(draft: Draft, names: WireNames): ModelResponse {
  const parts: Part[] = [];
  if (draft.thinking !== '') parts.push({ type: 'thinking', text: draft.thinking });
  const text = draft.text + draft.refusal;
  if (text !== '') parts.push({ type: 'text', text });
  for (const [, call] of [...draft.calls].sort(([a], [b]) => a - b)) {
    if (call.name === '') continue;
    parts.push({
      type: 'tool_call',
      id: call.id,
      name: names.tools.toName(call.name),
      ...readArguments(call.text),
    });
  }
  return {
    id: draft.id,
    model: draft.model === '' ? names.model : draft.model,
    message: assistantMessage(parts),
    stopReason: readStopReason(draft),
    usage: draft.usage ?? NO_USAGE,
    usageReported: draft.usage !== undefined,
    cacheWriteLongTokens: 0,
  };
}

function readStopReason(draft: Draft): StopReason {
  if (draft.refusal !== '') return 'refusal';
  const reason = STOP_REASONS[draft.finish] ?? 'other';
  // Some servers report `stop` although the model called a tool.
  return reason === 'end' && draft.calls.size > 0 ? 'tool_calls' : reason;
}

function readHead(draft: Draft, json: JsonObject): void {
  if (draft.id === '') draft.id = asText(json.id) ?? '';
  if (draft.model === '') draft.model = asText(json.model) ?? '';
  draft.usage = readUsage(json.usage) ?? draft.usage;
}

/** Some servers send a list of parts instead of text. */
function readContent(content: unknown): string {
  if (typeof content === 'string') return content;
  return asList(content)
    .map((part) => asText(asObject(part)?.text) ?? '')
    .join('');
}

/** Adds a message or a delta to the draft. Returns its events. */
function readMessage(draft: Draft, message: JsonObject, names: WireNames): ResponseEvent[] {
  const events: ResponseEvent[] = [];
  const thinking = asText(message.reasoning_content) ?? asText(message.reasoning) ?? '';
  if (thinking !== '') {
    draft.thinking += thinking;
    events.push({ type: 'thinking', text: thinking });
  }
  const text = readContent(message.content);
  const refusal = asText(message.refusal) ?? '';
  draft.text += text;
  draft.refusal += refusal;
  if (text + refusal !== '') events.push({ type: 'text', text: text + refusal });
  asList(message.tool_calls).forEach((value, position) => {
    const piece = asObject(value);
    if (piece !== undefined) readCall(draft, piece, position, names, events);
  });
  return events;
}

function readCall(
  draft: Draft,
  piece: JsonObject,
  position: number,
  names: WireNames,
  events: ResponseEvent[],
): void {
  const index = typeof piece.index === 'number' ? piece.index : position;
  let call = draft.calls.get(index);
  if (call === undefined) {
    call = { id: readCallId(piece.id), name: '', text: '', isSent: false };
    draft.calls.set(index, call);
  }
  const custom = asObject(piece.custom);
  const called = asObject(piece.function) ?? custom ?? {};
  // Names are not split; some servers repeat them in every delta.
  if (call.name === '') call.name = clip(asText(called.name) ?? '', TOOL_NAME_LENGTH_MAX);
  if (call.name !== '' && !call.isSent) {
    call.isSent = true;
    events.push({ type: 'tool_call', id: call.id, name: names.tools.toName(call.name) });
  }
  // A custom tool takes free text, which becomes one argument called `input`.
  const input = custom === undefined ? undefined : asText(custom.input);
  const text = asText(called.arguments) ?? (input === undefined ? '' : JSON.stringify({ input }));
  if (text === '') return;
  call.text += text;
  events.push({ type: 'tool_arguments', id: call.id, text });
}

export function readResponse(value: unknown, names: WireNames): ModelResponse {
  const json = asObject(value);
  const choice = asObject(asList(json?.choices)[0]);
  const message = asObject(choice?.message);
  if (json === undefined || choice === undefined || message === undefined)
    throw fault('provider_malformed', 'the provider sent a chat completion without a message');
  const draft = newDraft();
  readHead(draft, json);
  readMessage(draft, message, names);
  draft.finish = asText(choice.finish_reason) ?? '';
  return finishDraft(draft, names);
}

export function readStream(names: WireNames): StreamReader {
  const draft = newDraft();
  let isDone = false;
  let wasUsageOnly = false;
  const push = (block: SseBlock): ResponseEvent[] => {
    wasUsageOnly = false;
    if (block.data === null || isDone) return [];
    if (block.data === '[DONE]') {
      isDone = true;
      return [];
    }
    const json = parseObject(block.data);
    if (json === undefined)
      throw fault('provider_malformed', 'the provider sent a stream event that is not JSON');
    if (json.error !== undefined && json.error !== null)
      throw vendorFault(readVendorError(json), { provider: names.provider });
    readHead(draft, json);
    const choices = asList(json.choices);
    if (choices.length === 0) {
      wasUsageOnly = asObject(json.usage) !== undefined;
      return [];
    }
    const events: ResponseEvent[] = [];
    for (const value of choices) {
      const choice = asObject(value);
      if (choice === undefined || asCount(choice.index) !== 0) continue;
      const delta = asObject(choice.delta);
      if (delta !== undefined) events.push(...readMessage(draft, delta, names));
      draft.finish = asText(choice.finish_reason) ?? draft.finish;
    }
    return events;
  };
  return {
    push,
    isDone: () => isDone,
    wasUsageOnly: () => wasUsageOnly,
    response: () => finishDraft(draft, names),
  };
}
