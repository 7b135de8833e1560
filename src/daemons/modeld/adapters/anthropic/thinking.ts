// Seals and restores signed thinking. A signature is valid for one model only, so the sealed one
// names the model; thinking of another model is omitted. Redacted thinking has no text.
import type { Part } from '../../../../wire/modeld.ts';
import type { JsonObject } from '../reading.ts';

type ThinkingPart = Part & { type: 'thinking' };

const SIGNED = 'signed';
const REDACTED = 'redacted';

export function sealThinking(text: string, signature: string, model: string): ThinkingPart {
  if (signature === '') return { type: 'thinking', text };
  return {
    type: 'thinking',
    text,
    signature: `${SIGNED}:${encodeURIComponent(model)}:${signature}`,
  };
}

export function sealRedacted(data: string, model: string): ThinkingPart {
  return {
    type: 'thinking',
    text: '',
    signature: `${REDACTED}:${encodeURIComponent(model)}:${data}`,
  };
}

type UnsealedThinking = { isRedacted: boolean; model: string | undefined; signature: string };

/** An unsealed signature came from the client and is assumed to be valid. */
function parseSignature(signature: string): UnsealedThinking {
  const [kind, model, ...rest] = signature.split(':');
  if ((kind === SIGNED || kind === REDACTED) && model !== undefined && rest.length > 0)
    return { isRedacted: kind === REDACTED, model, signature: rest.join(':') };
  return { isRedacted: false, model: undefined, signature };
}

/** Returns the provider's block, or undefined when another model signed it. */
export function writeThinking(part: ThinkingPart, model: string): JsonObject | undefined {
  if (part.signature === undefined || part.signature === '') return undefined;
  // Anthropic's own signatures have no colon: this one is sealed for another vendor.
  if (part.signature.startsWith('encrypted:')) return undefined;
  const opened = parseSignature(part.signature);
  if (opened.model !== undefined && opened.model !== encodeURIComponent(model)) return undefined;
  if (opened.isRedacted) return { type: 'redacted_thinking', data: opened.signature };
  return { type: 'thinking', thinking: part.text, signature: opened.signature };
}

/** Returns the client's block, as the provider sent it. */
export function restoreThinking(part: ThinkingPart): JsonObject {
  const opened = parseSignature(part.signature ?? '');
  if (opened.isRedacted) return { type: 'redacted_thinking', data: opened.signature };
  return { type: 'thinking', thinking: part.text, signature: opened.signature };
}
