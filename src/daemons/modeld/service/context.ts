// Turns a call's context into parts: each message by content hash, and the rest of the request as
// one more. Equal request hashes mean that a repeated call is the same call.
import { canonicalJson, sha256Hex } from '../../../platform/json.ts';
import { FORGOTTEN } from '../../../wire/copies.ts';
import { fault } from '../../../wire/errors.ts';
import type { DialectName, EmbedMemories, GenerateRequest, Message } from '../../../wire/modeld.ts';
import type { EmbedInput } from '../rules/client-embeddings.ts';
import { toMask } from '../rules/labels.ts';
import type { ContextPart } from '../store/parts.ts';

export type CallContext = {
  messages: ContextPart[];
  params: ContextPart;
  /** The union over all messages. */
  labels: number;
  requestHash: string;
};

/** The recorded request may have had a text that was forgotten since. */
export const hasForgotten = ({ messages }: Pick<CallContext, 'messages'>): boolean =>
  messages.some(({ body }) => body.includes(FORGOTTEN));

const PARAMS_SOURCE = 'request';

function makePart(body: string, labels: number, source: string): ContextPart {
  return { hash: sha256Hex(body), body, labels, source };
}

export function makeMessagePart(message: Message, source: string): ContextPart {
  const { role, parts, labels, memory_id } = message;
  const from = memory_id === undefined ? source : `memory:${memory_id}`;
  return makePart(canonicalJson({ role, parts }), toMask(labels ?? []), from);
}

const makeParamsPart = (text: string): ContextPart => makePart(text, 0, PARAMS_SOURCE);

function hashRequest(model: string, params: ContextPart, messages: readonly ContextPart[]): string {
  return sha256Hex([model, params.hash, ...messages.map((part) => part.hash)].join('\n'));
}

function combineLabels(parts: readonly ContextPart[]): number {
  let labels = 0;
  for (const part of parts) labels |= part.labels;
  return labels;
}

/** An artifact never changes, so its name stands for its text in the hash. */
export function makeNeutralContext(request: GenerateRequest, source: string): CallContext {
  const messages = (request.messages ?? []).map((message) => makeMessagePart(message, source));
  const { tools, tool_choice, temperature, stop, limits, input_ref } = request;
  const params = makeParamsPart(
    canonicalJson({ tools, tool_choice, temperature, stop, limits, input_ref }),
  );
  const requestHash = hashRequest(request.model, params, messages);
  return { messages, params, labels: combineLabels(messages), requestHash };
}

/** The member of a vendor's body that has the conversation. */
const MESSAGES: Record<DialectName, string> = {
  anthropic: 'messages',
  openai: 'messages',
  responses: 'input',
};

function listMessages(value: unknown, name: string): unknown[] {
  if (name === 'input' && typeof value === 'string' && value !== '') return [value];
  if (Array.isArray(value) && value.length > 0) return value;
  throw fault('bad_request', `${name} must be a list with at least one message`);
}

/** Reads only the model and the messages of a vendor's body; the adapter validates the rest. */
export function makeClientContext(options: {
  dialect: DialectName;
  body: Record<string, unknown>;
  source: string;
  labels: number;
}): CallContext & { model: string } {
  const member = MESSAGES[options.dialect];
  const { [member]: list, ...rest } = options.body;
  const model = rest.model;
  if (typeof model !== 'string' || model === '' || model.length > 128)
    throw fault('bad_request', 'model must be a name of 1 to 128 characters');
  const { source, labels } = options;
  const messages = listMessages(list, member).map((message) =>
    makePart(JSON.stringify(message), labels, source),
  );
  const params = makeParamsPart(JSON.stringify(rest));
  const requestHash = hashRequest(model, params, messages);
  return { model, messages, params, labels, requestHash };
}

export function makeEmbedContext(
  input: readonly EmbedInput[],
  options: { model: string; source: string; labels: number; dimensions?: number | undefined },
): CallContext {
  const { source, labels, model, dimensions } = options;
  const messages = input.map((item) => makePart(JSON.stringify(item), labels, source));
  const params = makeParamsPart(
    dimensions === undefined ? '"embed"' : canonicalJson({ dimensions }),
  );
  return { messages, params, labels, requestHash: hashRequest(model, params, messages) };
}

/** Memories are named, so that nothing has to be removed here when one is forgotten. */
export function makeMemoryContext(
  input: EmbedMemories['input'],
  options: { model: string; source: string; labels: number },
): CallContext {
  const { source, labels, model } = options;
  const messages = input.map(({ text, memory }) =>
    makePart(memory === undefined ? JSON.stringify(text) : canonicalJson(memory), labels, source),
  );
  const params = makeParamsPart('"embed"');
  return { messages, params, labels, requestHash: hashRequest(model, params, messages) };
}
