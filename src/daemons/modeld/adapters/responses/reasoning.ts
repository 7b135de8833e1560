// Reasoning that only its provider can read, sealed for a client of another dialect to return. A
// client of this API gets other providers' signed thinking as `encrypted_content`.
import type { Part } from '../../../../wire/modeld.ts';
import type { JsonObject } from '../reading.ts';

type ThinkingPart = Extract<Part, { type: 'thinking' }>;

const ENCRYPTED = 'encrypted';
const OWN_PREFIX = 'agentd:';

/** A neutral part for a reasoning item; the seal names its model, as others cannot read it. */
export function sealReasoning(
  { id, text, encrypted }: { id: string; text: string; encrypted: string },
  model: string,
): ThinkingPart {
  if (encrypted === '') return { type: 'thinking', text };
  const signature = [ENCRYPTED, encodeURIComponent(model), id, encrypted].join(':');
  return { type: 'thinking', text, signature };
}

/** Returns the provider's own item, or undefined for thinking of another model. */
export function writeReasoning(part: ThinkingPart, model: string): JsonObject | undefined {
  const [kind, sealedModel, id, ...rest] = part.signature?.split(':') ?? [];
  if (kind !== ENCRYPTED || sealedModel !== encodeURIComponent(model)) return undefined;
  return {
    type: 'reasoning',
    ...(id === '' ? {} : { id }),
    summary: part.text === '' ? [] : [{ type: 'summary_text', text: part.text }],
    encrypted_content: rest.join(':'),
  };
}

export const writeReasoningSeal = (signature: string): string => `${OWN_PREFIX}${signature}`;

/** Returns the signature that a client returns, or undefined for what another gateway encrypted. */
export function readReasoningSeal(encrypted: string | undefined): string | undefined {
  return encrypted?.startsWith(OWN_PREFIX) ? encrypted.slice(OWN_PREFIX.length) : undefined;
}
