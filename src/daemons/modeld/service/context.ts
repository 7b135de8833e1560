// A call's context as parts: every message once, by the hash of its content, and the rest of the
// request as one more. The request's hash says whether a call that is asked again is the same call.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { fault } from '../../../wire/errors.ts';
import type { GenerateRequest, Message } from '../../../wire/modeld.ts';
import { toMask } from '../rules/labels.ts';
import type { ContextPart } from '../store/parts.ts';

export type CallContext = {
  messages: ContextPart[];
  params: ContextPart;
  /** Of all messages together. */
  labels: number;
  requestHash: string;
};

const PARAMS_SOURCE = 'request';

type Hashed = { hash: string; body: string };

/**
 * Every step of a run says again what was said before: what was hashed lately is not hashed again.
 */
const KNOWN_CHARS_MAX = 2_000_000;
/** Shorter texts are hashed faster than they are looked up. */
const KNOWN_CHARS_LEAST = 512;
const known = new Map<string, Hashed>();
let knownChars = 0;

function hashed(text: string, makeBody: () => string = () => text): Hashed {
  const isWorth = text.length >= KNOWN_CHARS_LEAST;
  const found = isWorth ? known.get(text) : undefined;
  if (found !== undefined) return found;
  const body = makeBody();
  const made = { hash: sha256Hex(body), body };
  if (!isWorth) return made;
  knownChars += text.length;
  if (knownChars > KNOWN_CHARS_MAX) {
    known.clear();
    knownChars = text.length;
  }
  known.set(text, made);
  return made;
}

export function messagePart({ role, parts, labels }: Message, source: string): ContextPart {
  const spoken = { role, parts };
  const { hash, body } = hashed(JSON.stringify(spoken), () => canonicalJson(spoken));
  return { hash, body, labels: toMask(labels ?? []), source };
}

const PARAMS_MAX = 256;
const PARAMS_CHARS_MAX = 4_096;
const knownParams = new Map<string, ContextPart>();

/** A client says the same of every call: its few forms are kept apart from what is said once. */
function paramsPart(text: string): ContextPart {
  const known = knownParams.get(text);
  if (known !== undefined) return known;
  const { hash, body } = hashed(text);
  const part = { hash, body, labels: 0, source: PARAMS_SOURCE };
  if (text.length > PARAMS_CHARS_MAX) return part;
  if (knownParams.size >= PARAMS_MAX) knownParams.clear();
  knownParams.set(text, part);
  return part;
}

/** The parts are hashed already, so the whole need not be hashed again. */
function hashRequest(model: string, params: ContextPart, messages: readonly ContextPart[]): string {
  return sha256Hex([model, params.hash, ...messages.map((part) => part.hash)].join('\n'));
}

function labelsOf(parts: readonly ContextPart[]): number {
  let labels = 0;
  for (const part of parts) labels |= part.labels;
  return labels;
}

/** An artifact is named, not read: it never changes, so its name is as good as its text. */
export function neutralContext(request: GenerateRequest, source: string): CallContext {
  const messages = (request.messages ?? []).map((message) => messagePart(message, source));
  const { tools, tool_choice, temperature, stop, limits, input_ref } = request;
  const params = paramsPart(
    canonicalJson({ tools, tool_choice, temperature, stop, limits, input_ref }),
  );
  const requestHash = hashRequest(request.model, params, messages);
  return { messages, params, labels: labelsOf(messages), requestHash };
}

/** A vendor's body: only what is needed to keep it is looked at, the rest is the adapter's. */
export function clientContext(options: {
  body: Record<string, unknown>;
  source: string;
  labels: number;
}): CallContext & { model: string } {
  const { messages: given, ...rest } = options.body;
  const model = rest.model;
  if (typeof model !== 'string' || model === '' || model.length > 128)
    throw fault('bad_request', 'model must be a name of 1 to 128 characters');
  if (!Array.isArray(given) || given.length === 0)
    throw fault('bad_request', 'messages must be a list with at least one message');
  const { source, labels } = options;
  const messages = given.map((message: unknown): ContextPart => {
    const { hash, body } = hashed(JSON.stringify(message));
    return { hash, body, labels, source };
  });
  const params = paramsPart(JSON.stringify(rest));
  const requestHash = hashRequest(model, params, messages);
  return { model, messages, params, labels, requestHash };
}

export function embedContext(
  input: readonly string[],
  options: { model: string; source: string; labels: number },
): CallContext {
  const { source, labels, model } = options;
  const messages = input.map((text): ContextPart => {
    const body = JSON.stringify(text);
    return { hash: sha256Hex(body), body, labels, source };
  });
  const params = paramsPart('"embed"');
  return { messages, params, labels, requestHash: hashRequest(model, params, messages) };
}
