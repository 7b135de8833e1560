// Reads Anthropic's responses and stream events as neutral ones. Blocks without a neutral form
// (server tools, citations) are skipped; passthrough clients get them unchanged.
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
  readArgumentsValue,
  readCallId,
  TOOL_NAME_LENGTH_MAX,
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

/** Counts grow during a stream: each report replaces the fields it contains. */
function readUsage(draft: Draft, value: unknown): void {
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

function readStop(draft: Draft, value: JsonObject): void {
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
        id: readCallId(block.id),
        name: names.tools.toName(clip(asText(block.name) ?? '', TOOL_NAME_LENGTH_MAX)),
        ...readArgumentsValue(block.input),
      };
    default:
      return undefined;
  }
}

const isEmpty = (part: Part): boolean =>
  (part.type === 'text' && part.text === '') ||
  (part.type === 'thinking' && part.text === '' && part.signature === undefined) ||
  (part.type === 'tool_call' && part.name === '');

export function readResponse(value: unknown, names: WireNames): ModelResponse {
  const json = asObject(value);
  if (json === undefined || !Array.isArray(json.content))
    throw fault('provider_malformed', 'the provider sent a message without content');
  const draft = newDraft();
  draft.id = asText(json.id) ?? '';
  draft.model = asText(json.model) ?? '';
  readUsage(draft, json.usage);
  readStop(draft, json);
  const parts: Part[] = [];
  for (const block of asList(json.content)) {
    const part = readBlock(asObject(block) ?? {}, names);
    if (part !== undefined && !isEmpty(part)) parts.push(part);
  }
  return finishDraft(draft, parts, names);
}

/** A block while it streams. Arguments stay text until the end. */
type OpenBlock = { part: Part; text: string; signature: string };

export function readStream(names: WireNames): StreamReader {
  const draft = newDraft();
  const open = new Map<number, OpenBlock>();
  let isDone = false;

  const startBlock = (json: JsonObject): ResponseEvent[] => {
    const block = asObject(json.content_block) ?? {};
    const part = readBlock(block, names);
    if (part === undefined) return [];
    const signature = asText(block.signature) ?? '';
    const entry: OpenBlock = { part, text: '', signature };
    open.set(asCount(json.index), entry);
    if (part.type === 'text' || part.type === 'thinking') {
      entry.text = part.text;
      return part.text === '' ? [] : [{ type: part.type, text: part.text }];
    }
    if (part.type !== 'tool_call' || part.name === '') return [];
    return [{ type: 'tool_call', id: part.id, name: part.name }];
  };

  const extendBlock = (json: JsonObject): ResponseEvent[] => {
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

  const endBlock = (json: JsonObject): ResponseEvent[] => {
    const entry = open.get(asCount(json.index));
    const { part } = entry ?? {};
    if (part?.type === 'tool_call' && part.name !== '')
      return [{ type: 'tool_call_end', id: part.id }];
    if (part?.type !== 'thinking') return [];
    const ended = closeBlock(entry!, names);
    return ended.type === 'thinking' && !isEmpty(ended)
      ? [{ type: 'thinking_end', part: ended }]
      : [];
  };

  const readEvent = (type: string, json: JsonObject): ResponseEvent[] => {
    switch (type) {
      case 'message_start': {
        const message = asObject(json.message) ?? {};
        draft.id = asText(message.id) ?? '';
        draft.model = asText(message.model) ?? '';
        readUsage(draft, message.usage);
        return [];
      }
      case 'content_block_start':
        return startBlock(json);
      case 'content_block_delta':
        return extendBlock(json);
      case 'content_block_stop':
        return endBlock(json);
      case 'message_delta':
        readStop(draft, asObject(json.delta) ?? {});
        readUsage(draft, json.usage);
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

  const push = (block: SseBlock): ResponseEvent[] => {
    if (block.data === null || isDone) return [];
    const json = parseObject(block.data);
    if (json === undefined)
      throw fault('provider_malformed', 'the provider sent a stream event that is not JSON');
    return readEvent(asText(json.type) ?? block.event, json);
  };

  return {
    push,
    isDone: () => isDone,
    wasUsageOnly: () => false,
    response() {
      const parts = [...open]
        .sort(([a], [b]) => a - b)
        .map(([, entry]) => closeBlock(entry, names))
        .filter((part) => !isEmpty(part));
      return finishDraft(draft, parts, names);
    },
  };
}

function closeBlock({ part, text, signature }: OpenBlock, names: WireNames): Part {
  if (part.type === 'text') return { type: 'text', text };
  if (part.type === 'tool_call') {
    if (text === '') return part;
    return { type: 'tool_call', id: part.id, name: part.name, ...readArguments(text) };
  }
  const isPlain = part.type === 'thinking' && (signature !== '' || part.signature === undefined);
  return isPlain ? sealThinking(text, signature, names.model) : part;
}
