// Anthropic's answers and stream events as neutral answers and events. Block kinds we have no word
// for (server tools, citations) are passed over; a client of the same dialect gets them untouched
// elsewhere.
import { fault } from '../../../../wire/errors.ts';
import type { Part, StopReason, Usage } from '../../../../wire/modeld.ts';
import { NO_USAGE } from '../../rules/budget.ts';
import {
  type AnswerEvent,
  assistantMessage,
  type ModelResponse,
  type StreamReader,
} from '../dialect.ts';
import {
  asCount,
  asList,
  asObject,
  asText,
  clip,
  type JsonObject,
  readArguments,
  TOOL_NAME_LENGTH_MAX,
  takeArguments,
  takeCallId,
  tryObject,
} from '../reading.ts';
import type { SseBlock } from '../sse.ts';
import type { WireNames } from '../tool-names.ts';
import { readVendorError, vendorFault } from '../vendor-faults.ts';
import { sealRedacted, sealThinking } from './thinking.ts';

const STOP_REASONS: Record<string, StopReason> = {
  end_turn: 'end',
  tool_use: 'tool_calls',
  max_tokens: 'max_tokens',
  model_context_window_exceeded: 'max_tokens',
  stop_sequence: 'stop_sequence',
  refusal: 'refusal',
};

type Draft = {
  id: string;
  model: string;
  stop: string;
  stopSequence: string | undefined;
  usage: Usage | undefined;
  cacheWriteLongTokens: number;
};

const newDraft = (): Draft => ({
  id: '',
  model: '',
  stop: '',
  stopSequence: undefined,
  usage: undefined,
  cacheWriteLongTokens: 0,
});

/** Counts grow while a stream runs: each report replaces the fields it has. */
function takeUsage(draft: Draft, value: unknown): void {
  const usage = asObject(value);
  if (usage === undefined) return;
  const before = draft.usage ?? NO_USAGE;
  const pick = (name: string, old: number): number =>
    typeof usage[name] === 'number' ? asCount(usage[name]) : old;
  const details = asObject(usage.output_tokens_details);
  draft.usage = {
    input_tokens: pick('input_tokens', before.input_tokens),
    output_tokens: pick('output_tokens', before.output_tokens),
    cache_read_tokens: pick('cache_read_input_tokens', before.cache_read_tokens),
    cache_write_tokens: pick('cache_creation_input_tokens', before.cache_write_tokens),
    reasoning_tokens: asCount(details?.thinking_tokens) || before.reasoning_tokens,
  };
  const hour = asObject(usage.cache_creation)?.ephemeral_1h_input_tokens;
  if (typeof hour === 'number') draft.cacheWriteLongTokens = asCount(hour);
}

function takeStop(draft: Draft, value: JsonObject): void {
  draft.stop = asText(value.stop_reason) ?? draft.stop;
  draft.stopSequence = asText(value.stop_sequence) ?? draft.stopSequence;
}

function finishDraft(draft: Draft, parts: Part[], names: WireNames): ModelResponse {
  return {
    id: draft.id,
    model: draft.model === '' ? names.model : draft.model,
    message: assistantMessage(parts),
    stopReason: STOP_REASONS[draft.stop] ?? 'other',
    stopSequence: draft.stopSequence,
    usage: draft.usage ?? NO_USAGE,
    usageReported: draft.usage !== undefined,
    cacheWriteLongTokens: draft.cacheWriteLongTokens,
  };
}

function readBlock(block: JsonObject, names: WireNames): Part | undefined {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: asText(block.text) ?? '' };
    case 'thinking':
      return sealThinking(asText(block.thinking) ?? '', asText(block.signature) ?? '', names.model);
    case 'redacted_thinking':
      return sealRedacted(asText(block.data) ?? '', names.model);
    case 'tool_use':
      return {
        type: 'tool_call',
        id: takeCallId(block.id),
        name: names.tools.toName(clip(asText(block.name) ?? '', TOOL_NAME_LENGTH_MAX)),
        ...takeArguments(block.input),
      };
    default:
      return undefined;
  }
}

/** A part that neither says nor signs anything. */
const isVoid = (part: Part): boolean =>
  (part.type === 'text' && part.text === '') ||
  (part.type === 'thinking' && part.text === '' && part.signature === undefined) ||
  (part.type === 'tool_call' && part.name === '');

export function readAnswer(value: unknown, names: WireNames): ModelResponse {
  const json = asObject(value);
  if (json === undefined || !Array.isArray(json.content))
    throw fault('provider_malformed', 'the provider sent a message without content');
  const draft = newDraft();
  draft.id = asText(json.id) ?? '';
  draft.model = asText(json.model) ?? '';
  takeUsage(draft, json.usage);
  takeStop(draft, json);
  const parts: Part[] = [];
  for (const block of asList(json.content)) {
    const part = readBlock(asObject(block) ?? {}, names);
    if (part !== undefined && !isVoid(part)) parts.push(part);
  }
  return finishDraft(draft, parts, names);
}

/** One block while it streams: text grows piece by piece, arguments stay text until the end. */
type Open = { part: Part; text: string; signature: string };

export function readStream(names: WireNames): StreamReader {
  const draft = newDraft();
  const open = new Map<number, Open>();
  let isDone = false;

  const startBlock = (json: JsonObject): AnswerEvent[] => {
    const block = asObject(json.content_block) ?? {};
    const part = readBlock(block, names);
    if (part === undefined) return [];
    const signature = asText(block.signature) ?? '';
    const entry: Open = { part, text: '', signature };
    open.set(asCount(json.index), entry);
    if (part.type === 'text' || part.type === 'thinking') {
      entry.text = part.text;
      return part.text === '' ? [] : [{ type: part.type, text: part.text }];
    }
    if (part.type !== 'tool_call' || part.name === '') return [];
    return [{ type: 'tool_call', id: part.id, name: part.name }];
  };

  const growBlock = (json: JsonObject): AnswerEvent[] => {
    const entry = open.get(asCount(json.index));
    const delta = asObject(json.delta) ?? {};
    if (entry === undefined) return [];
    const signature = asText(delta.signature);
    if (signature !== undefined) {
      entry.signature += signature;
      return [{ type: 'signature', signature }];
    }
    const text = asText(delta.text) ?? asText(delta.thinking) ?? asText(delta.partial_json) ?? '';
    if (text === '') return [];
    entry.text += text;
    const { part } = entry;
    if (part.type === 'tool_call') return [{ type: 'tool_arguments', id: part.id, text }];
    return part.type === 'tool_result' ? [] : [{ type: part.type, text }];
  };

  const take = (type: string, json: JsonObject): AnswerEvent[] => {
    switch (type) {
      case 'message_start': {
        const message = asObject(json.message) ?? {};
        draft.id = asText(message.id) ?? '';
        draft.model = asText(message.model) ?? '';
        takeUsage(draft, message.usage);
        return [];
      }
      case 'content_block_start':
        return startBlock(json);
      case 'content_block_delta':
        return growBlock(json);
      case 'message_delta':
        takeStop(draft, asObject(json.delta) ?? {});
        takeUsage(draft, json.usage);
        return [];
      case 'message_stop':
        isDone = true;
        return [];
      case 'error':
        throw vendorFault(readVendorError(json), { provider: names.provider });
      default:
        return [];
    }
  };

  const push = (block: SseBlock): AnswerEvent[] => {
    if (block.data === null || isDone) return [];
    const json = tryObject(block.data);
    if (json === undefined)
      throw fault('provider_malformed', 'the provider sent a stream event that is not JSON');
    return take(asText(json.type) ?? block.event, json);
  };

  return {
    push,
    isDone: () => isDone,
    wasUsageOnly: () => false,
    answer() {
      const parts = [...open]
        .sort(([a], [b]) => a - b)
        .map(([, entry]) => closeBlock(entry, names))
        .filter((part) => !isVoid(part));
      return finishDraft(draft, parts, names);
    },
  };
}

function closeBlock({ part, text, signature }: Open, names: WireNames): Part {
  if (part.type === 'text') return { type: 'text', text };
  if (part.type === 'tool_call') {
    if (text === '') return part;
    return { type: 'tool_call', id: part.id, name: part.name, ...readArguments(text) };
  }
  const isPlain = part.type === 'thinking' && (signature !== '' || part.signature === undefined);
  return isPlain ? sealThinking(text, signature, names.model) : part;
}
