// Renders a selected reply into the model's output: labeled text, calls to tools that the request
// offers, truncated at the request's limits. Encoding it for a wire is up to that wire.
import { addLabel, type NormalizedRequest } from './normalized-request.ts';
import { sampleArguments } from './sample-arguments.ts';
import type { SelectedReply } from './screenplay/select-reply.ts';
import {
  type MatchContext,
  renderNumber,
  renderTemplate,
  renderValue,
} from './screenplay/template.ts';
import type {
  DefectKind,
  ErrorTemplate,
  ScriptedStopReason,
  UsageOverride,
} from './screenplay/types.ts';
import { truncateText } from './split-text.ts';
import { estimateTokens } from './tokens.ts';

export type RenderedCall = {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  readonly input: Record<string, unknown>;
  readonly inputText: string;
};
export type RenderedPart =
  | { readonly kind: 'thinking'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | RenderedCall;

export type ScriptedError = {
  readonly status: number;
  readonly type: string | undefined;
  readonly code: string | undefined;
  readonly message: string;
  readonly retryAfterSeconds: number | undefined;
  readonly times: number | undefined;
  readonly isInStream: boolean;
};

export type RenderedReply = {
  readonly parts: readonly RenderedPart[];
  readonly stopReason: ScriptedStopReason;
  readonly stopSequence: string | null;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly usageOverride: UsageOverride;
  readonly delayMs: number;
  readonly defect: DefectKind | undefined;
  readonly error: ScriptedError | undefined;
};

type PlannedCall = { readonly name: string; readonly input: Record<string, unknown> };

/** The argument of each tool that people read, and which therefore carries the label. */
const LABELED_ARGUMENTS: Readonly<Record<string, string>> = {
  task_finish: 'result',
  artifact_put: 'text',
  person_ask: 'question',
  message_send: 'text',
};

function labelInput(name: string, input: Record<string, unknown>): Record<string, unknown> {
  const key = LABELED_ARGUMENTS[name];
  const text = key === undefined ? undefined : input[key];
  if (key === undefined || typeof text !== 'string') return input;
  const mimeType = input.mime_type;
  if (typeof mimeType === 'string' && !mimeType.startsWith('text/')) return input;
  return { ...input, [key]: addLabel(text) };
}

function planCalls(selected: SelectedReply): PlannedCall[] {
  return selected.reply.calls.map((call) => ({
    name: call.tool,
    input: labelInput(
      call.tool,
      renderValue(call.arguments, selected.context) as PlannedCall['input'],
    ),
  }));
}

/** Returns the text that replaces the calls when the request offers none of their tools. */
function describeCalls(calls: readonly PlannedCall[]): string {
  const finish = calls.find((call) => call.name === 'task_finish')?.input.result;
  if (typeof finish === 'string') return finish;
  const callTexts = calls.map((call) => `${call.name} ${JSON.stringify(call.input)}`).join(', ');
  return `I would call ${callTexts}, but this request offers no such tool.`;
}

function applyToolChoice(
  request: NormalizedRequest,
  calls: readonly PlannedCall[],
  fallbackText: string,
): PlannedCall[] {
  if (request.toolChoice.kind !== 'named' && request.toolChoice.kind !== 'required')
    return [...calls];
  const requiredName = request.toolChoice.kind === 'named' ? request.toolChoice.name : undefined;
  const allowed = calls.filter((call) => requiredName === undefined || call.name === requiredName);
  if (allowed.length > 0) return allowed;
  const offers = [...request.tools.values()];
  const offer =
    offers.find((tool) => tool.name === (requiredName ?? 'task_finish')) ??
    (requiredName ? undefined : offers[0]);
  if (!offer) return [];
  const input = sampleArguments(offer.schema, addLabel(fallbackText));
  return [{ name: offer.name, input: labelInput(offer.name, input) }];
}

function applyUnknownToolDefect(
  calls: readonly PlannedCall[],
  defect: DefectKind | undefined,
): PlannedCall[] {
  if (defect !== 'unknown_tool') return [...calls];
  const [first = { name: '', input: {} }, ...others] = calls;
  return [{ name: 'no_such_tool', input: first.input }, ...others];
}

function renderCall(call: PlannedCall, id: string, defect: DefectKind | undefined): RenderedCall {
  const inputText = JSON.stringify(call.input);
  if (defect !== 'bad_arguments') return { kind: 'call', id, ...call, inputText };
  const truncated = truncateText(inputText, Math.max(1, Math.floor(inputText.length * 0.6)));
  return {
    kind: 'call',
    id,
    name: call.name,
    input: { unexpected: truncated },
    inputText: truncated,
  };
}

function renderParts(
  selected: SelectedReply,
  makeCallId: (index: number) => string,
): RenderedPart[] {
  const { reply, context } = selected;
  const { request } = context;
  const planned = planCalls(selected);
  const offered = planned.filter(
    (call) => request.toolChoice.kind !== 'none' && request.tools.has(call.name),
  );
  let text = reply.text && renderTemplate(reply.text, context);
  if (text === undefined && planned.length > 0 && offered.length === 0)
    text = describeCalls(planned);
  const forced = applyToolChoice(request, offered, text ?? request.goal);
  const calls = applyUnknownToolDefect(
    request.allowsParallelCalls ? forced : forced.slice(0, 1),
    reply.defect,
  );
  const parts: RenderedPart[] = [];
  if (reply.thinking && request.isThinkingAllowed) {
    parts.push({ kind: 'thinking', text: renderTemplate(reply.thinking, context) });
  }
  if (text === undefined && calls.length === 0) text = 'There is nothing to say here.';
  if (text !== undefined && text !== '') parts.push({ kind: 'text', text: addLabel(text) });
  for (const [index, call] of calls.entries()) {
    parts.push(renderCall(call, makeCallId(index), reply.defect));
  }
  return parts;
}

function countChars(part: RenderedPart): number {
  return part.kind === 'call' ? part.name.length + part.inputText.length : part.text.length;
}

type TruncatedParts = {
  parts: RenderedPart[];
  stopReason: ScriptedStopReason | undefined;
  stopSequence: string | null;
};

function truncateAtStopSequence(
  parts: readonly RenderedPart[],
  sequences: readonly string[],
): TruncatedParts {
  for (const [index, part] of parts.entries()) {
    if (part.kind !== 'text') continue;
    let found: { offset: number; sequence: string } | undefined;
    for (const sequence of sequences) {
      const offset = part.text.indexOf(sequence);
      if (offset >= 0 && (!found || offset < found.offset)) found = { offset, sequence };
    }
    if (!found) continue;
    const kept = parts.slice(0, index);
    const text = part.text.slice(0, found.offset);
    return {
      parts: text === '' ? kept : [...kept, { kind: 'text', text }],
      stopReason: 'stop_sequence',
      stopSequence: found.sequence,
    };
  }
  return { parts: [...parts], stopReason: undefined, stopSequence: null };
}

function truncateAtLimit(parts: readonly RenderedPart[], charsMax: number): TruncatedParts {
  const kept: RenderedPart[] = [];
  let charsLeft = charsMax;
  for (const part of parts) {
    const size = countChars(part);
    if (size <= charsLeft) {
      kept.push(part);
      charsLeft -= size;
      continue;
    }
    if (part.kind !== 'call' && charsLeft > 0)
      kept.push({ ...part, text: truncateText(part.text, charsLeft) });
    if (part.kind === 'call' && charsLeft > part.name.length) {
      const inputText = truncateText(part.inputText, charsLeft - part.name.length);
      kept.push({ ...part, input: {}, inputText });
    }
    return { parts: kept, stopReason: 'max_tokens', stopSequence: null };
  }
  return { parts: kept, stopReason: undefined, stopSequence: null };
}

function renderError(error: ErrorTemplate, context: MatchContext): ScriptedError {
  // The pattern's group may be optional; then the template renders to '' and the limit is unset.
  const renderLimit = (value: ErrorTemplate['times'], max: number) => {
    if (value === undefined) return undefined;
    const isEmpty = typeof value !== 'number' && renderTemplate(value, context) === '';
    return isEmpty ? undefined : renderNumber(value, context, { min: 0, max });
  };
  return {
    status: renderNumber(error.status, context, { min: 400, max: 599 }),
    type: error.type,
    code: error.code,
    message: addLabel(renderTemplate(error.message, context)),
    retryAfterSeconds: renderLimit(error.retryAfterSeconds, 86_400),
    times: renderLimit(error.times, 1_000),
    isInStream: error.isInStream,
  };
}

export function renderReply(
  selected: SelectedReply,
  makeCallId: (index: number) => string,
): RenderedReply {
  const { reply, context } = selected;
  const { request } = context;
  const stopped = truncateAtStopSequence(renderParts(selected, makeCallId), request.stopSequences);
  const limited = truncateAtLimit(stopped.parts, request.maxOutputTokens * 4);
  const hasCall = limited.parts.some((part) => part.kind === 'call');
  const thinkingChars = limited.parts.reduce(
    (sum, part) => sum + (part.kind === 'thinking' ? part.text.length : 0),
    0,
  );
  const chars = limited.parts.reduce((sum, part) => sum + countChars(part), 0);
  return {
    parts: limited.parts,
    stopReason:
      limited.stopReason ??
      reply.stopReason ??
      stopped.stopReason ??
      (hasCall ? 'tool_calls' : 'end'),
    stopSequence: limited.stopReason ? null : stopped.stopSequence,
    outputTokens: Math.min(request.maxOutputTokens, Math.max(1, estimateTokens(chars))),
    reasoningTokens: estimateTokens(thinkingChars),
    usageOverride: reply.usage ?? {},
    delayMs: renderNumber(reply.delayMs, context, { min: 0, max: 600_000 }),
    defect: reply.defect,
    error: reply.error && renderError(reply.error, context),
  };
}
