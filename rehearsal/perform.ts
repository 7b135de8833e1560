// Turns a chosen answer into what the model says: texts filled in and labelled, calls that the
// request really offers, cut where the request's limits cut. How that looks on a wire is decided
// there.
import { cutText } from './cut-text.ts';
import { sampleArguments } from './sample.ts';
import { type Scene, withLabel } from './scene.ts';
import type { Chosen } from './screenplay/choose.ts';
import { type Cast, fillAmount, fillTemplate, fillValue } from './screenplay/template.ts';
import type { Broken, ErrorAnswer, StopReason, UsageOverride } from './screenplay/types.ts';
import { estimateTokens } from './tokens.ts';

export type CallPart = {
  readonly kind: 'call';
  readonly id: string;
  readonly name: string;
  readonly input: Record<string, unknown>;
  readonly inputText: string;
};
export type Part =
  | { readonly kind: 'thinking'; readonly text: string }
  | { readonly kind: 'text'; readonly text: string }
  | CallPart;

export type PlayedError = {
  readonly status: number;
  readonly type: string | undefined;
  readonly code: string | undefined;
  readonly message: string;
  readonly retryAfterSeconds: number | undefined;
  readonly times: number | undefined;
  readonly isInStream: boolean;
};

export type Performance = {
  readonly parts: readonly Part[];
  readonly stopReason: StopReason;
  readonly stopSequence: string | null;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly usage: UsageOverride;
  readonly delayMs: number;
  readonly broken: Broken | undefined;
  readonly error: PlayedError | undefined;
};

type Planned = { readonly name: string; readonly input: Record<string, unknown> };

/** Arguments that people get to read, and so carry the label. */
const PERSON_READS: Readonly<Record<string, string>> = {
  task_finish: 'result',
  artifact_put: 'text',
  person_ask: 'question',
  message_send: 'text',
};

function labelInput(name: string, input: Record<string, unknown>): Record<string, unknown> {
  const key = PERSON_READS[name];
  const text = key === undefined ? undefined : input[key];
  if (key === undefined || typeof text !== 'string') return input;
  const mimeType = input.mime_type;
  if (typeof mimeType === 'string' && !mimeType.startsWith('text/')) return input;
  return { ...input, [key]: withLabel(text) };
}

function planCalls(chosen: Chosen): Planned[] {
  return chosen.answer.calls.map((call) => ({
    name: call.tool,
    input: labelInput(call.tool, fillValue(call.arguments, chosen.cast) as Planned['input']),
  }));
}

/** What is said in words when the request offers none of the tools the play wants. */
function sayInstead(calls: readonly Planned[]): string {
  const finish = calls.find((call) => call.name === 'task_finish')?.input.result;
  if (typeof finish === 'string') return finish;
  const wishes = calls.map((call) => `${call.name} ${JSON.stringify(call.input)}`).join(', ');
  return `I would call ${wishes}, but this request offers no such tool.`;
}

function forceCall(scene: Scene, planned: readonly Planned[], words: string): Planned[] {
  if (scene.toolChoice.kind !== 'named' && scene.toolChoice.kind !== 'required')
    return [...planned];
  const wanted = scene.toolChoice.kind === 'named' ? scene.toolChoice.name : undefined;
  const fitting = planned.filter((call) => wanted === undefined || call.name === wanted);
  if (fitting.length > 0) return fitting;
  const offers = [...scene.tools.values()];
  const offer =
    offers.find((tool) => tool.name === (wanted ?? 'task_finish')) ??
    (wanted ? undefined : offers[0]);
  if (!offer) return [];
  const input = sampleArguments(offer.schema, withLabel(words));
  return [{ name: offer.name, input: labelInput(offer.name, input) }];
}

function breakCalls(calls: readonly Planned[], broken: Broken | undefined): Planned[] {
  if (broken !== 'unknown_tool') return [...calls];
  const [first = { name: '', input: {} }, ...others] = calls;
  return [{ name: 'no_such_tool', input: first.input }, ...others];
}

function makeCallPart(call: Planned, id: string, broken: Broken | undefined): CallPart {
  const inputText = JSON.stringify(call.input);
  if (broken !== 'bad_arguments') return { kind: 'call', id, ...call, inputText };
  const part = cutText(inputText, Math.max(1, Math.floor(inputText.length * 0.6)));
  return { kind: 'call', id, name: call.name, input: { unexpected: part }, inputText: part };
}

function makeParts(chosen: Chosen, makeCallId: (index: number) => string): Part[] {
  const { answer, cast } = chosen;
  const { scene } = cast;
  const wanted = planCalls(chosen);
  const offered = wanted.filter(
    (call) => scene.toolChoice.kind !== 'none' && scene.tools.has(call.name),
  );
  let text = answer.text && fillTemplate(answer.text, cast);
  if (text === undefined && wanted.length > 0 && offered.length === 0) text = sayInstead(wanted);
  const forced = forceCall(scene, offered, text ?? scene.goal);
  const calls = breakCalls(scene.allowsParallelCalls ? forced : forced.slice(0, 1), answer.broken);
  const parts: Part[] = [];
  if (answer.thinking && scene.mayThink) {
    parts.push({ kind: 'thinking', text: fillTemplate(answer.thinking, cast) });
  }
  if (text === undefined && calls.length === 0) text = 'There is nothing to say here.';
  if (text !== undefined && text !== '') parts.push({ kind: 'text', text: withLabel(text) });
  for (const [index, call] of calls.entries()) {
    parts.push(makeCallPart(call, makeCallId(index), answer.broken));
  }
  return parts;
}

function measure(part: Part): number {
  return part.kind === 'call' ? part.name.length + part.inputText.length : part.text.length;
}

type Cut = { parts: Part[]; stopReason: StopReason | undefined; stopSequence: string | null };

function cutAtStopSequence(parts: readonly Part[], sequences: readonly string[]): Cut {
  for (const [index, part] of parts.entries()) {
    if (part.kind !== 'text') continue;
    let found: { at: number; sequence: string } | undefined;
    for (const sequence of sequences) {
      const at = part.text.indexOf(sequence);
      if (at >= 0 && (!found || at < found.at)) found = { at, sequence };
    }
    if (!found) continue;
    const kept = parts.slice(0, index);
    const text = part.text.slice(0, found.at);
    return {
      parts: text === '' ? kept : [...kept, { kind: 'text', text }],
      stopReason: 'stop_sequence',
      stopSequence: found.sequence,
    };
  }
  return { parts: [...parts], stopReason: undefined, stopSequence: null };
}

function cutAtLimit(parts: readonly Part[], charsMax: number): Cut {
  const kept: Part[] = [];
  let left = charsMax;
  for (const part of parts) {
    const size = measure(part);
    if (size <= left) {
      kept.push(part);
      left -= size;
      continue;
    }
    if (part.kind !== 'call' && left > 0) kept.push({ ...part, text: cutText(part.text, left) });
    if (part.kind === 'call' && left > part.name.length) {
      const inputText = cutText(part.inputText, left - part.name.length);
      kept.push({ ...part, input: {}, inputText });
    }
    return { parts: kept, stopReason: 'max_tokens', stopSequence: null };
  }
  return { parts: kept, stopReason: undefined, stopSequence: null };
}

function playError(error: ErrorAnswer, cast: Cast): PlayedError {
  // A goal may leave the number out: then the template is empty, and the limit is not set.
  const amount = (value: ErrorAnswer['times'], max: number) => {
    if (value === undefined) return undefined;
    const isEmpty = typeof value !== 'number' && fillTemplate(value, cast) === '';
    return isEmpty ? undefined : fillAmount(value, cast, { min: 0, max });
  };
  return {
    status: fillAmount(error.status, cast, { min: 400, max: 599 }),
    type: error.type,
    code: error.code,
    message: withLabel(fillTemplate(error.message, cast)),
    retryAfterSeconds: amount(error.retryAfterSeconds, 86_400),
    times: amount(error.times, 1_000),
    isInStream: error.inStream,
  };
}

export function perform(chosen: Chosen, makeCallId: (index: number) => string): Performance {
  const { answer, cast } = chosen;
  const { scene } = cast;
  const stopped = cutAtStopSequence(makeParts(chosen, makeCallId), scene.stopSequences);
  const limited = cutAtLimit(stopped.parts, scene.maxOutputTokens * 4);
  const hasCall = limited.parts.some((part) => part.kind === 'call');
  const thinkingChars = limited.parts.reduce(
    (sum, part) => sum + (part.kind === 'thinking' ? part.text.length : 0),
    0,
  );
  const chars = limited.parts.reduce((sum, part) => sum + measure(part), 0);
  return {
    parts: limited.parts,
    stopReason:
      limited.stopReason ??
      answer.stopReason ??
      stopped.stopReason ??
      (hasCall ? 'tool_calls' : 'end'),
    stopSequence: limited.stopReason ? null : stopped.stopSequence,
    outputTokens: Math.min(scene.maxOutputTokens, Math.max(1, estimateTokens(chars))),
    reasoningTokens: estimateTokens(thinkingChars),
    usage: answer.usage ?? {},
    delayMs: fillAmount(answer.delayMs, cast, { min: 0, max: 600_000 }),
    broken: answer.broken,
    error: answer.error && playError(answer.error, cast),
  };
}
