// Writes embedding requests and reads their responses in OpenAI's dialect. Anthropic has none.
import { fault } from '../../../../wire/errors.ts';
import type { Usage } from '../../../../wire/modeld.ts';
import { NO_USAGE } from '../../rules/budget.ts';
import type { EmbedInput } from '../../rules/client-embeddings.ts';
import { asCount, asList, asObject, asText, type JsonObject } from '../reading.ts';

export const EMBED_PATH = '/embeddings';

export type ProviderEmbedResponse = {
  model: string;
  embeddings: number[][];
  usage: Usage;
  usageReported: boolean;
};

export function writeEmbedRequest(
  { input, dimensions }: { input: EmbedInput[]; dimensions?: number | undefined },
  model: string,
): JsonObject {
  const own = dimensions === undefined ? {} : { dimensions };
  return { model, input, encoding_format: 'float', ...own };
}

function readVector(value: unknown): number[] | undefined {
  if (Array.isArray(value) && value.every((n) => typeof n === 'number' && Number.isFinite(n)))
    return value as number[];
  if (typeof value !== 'string') return undefined;
  const bytes = Buffer.from(value, 'base64');
  if (bytes.length === 0 || bytes.length % 4 !== 0) return undefined;
  return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
}

export function readEmbedResponse(
  value: unknown,
  expected: { count: number; model: string },
): ProviderEmbedResponse {
  const json = asObject(value);
  const embeddings: (number[] | undefined)[] = Array.from({ length: expected.count });
  const rows = asList(json?.data);
  rows.forEach((entry, position) => {
    const row = asObject(entry);
    const index = typeof row?.index === 'number' ? row.index : position;
    if (index in embeddings) embeddings[index] = readVector(row?.embedding);
  });
  const whole = embeddings.filter((vector) => vector !== undefined);
  if (json === undefined || rows.length !== expected.count || whole.length !== expected.count) {
    throw fault(
      'provider_malformed',
      `the provider sent ${whole.length} embeddings for ${expected.count} texts`,
    );
  }
  const usage = asObject(json.usage);
  return {
    model: asText(json.model) ?? expected.model,
    embeddings: whole,
    usage: { ...NO_USAGE, input_tokens: asCount(usage?.prompt_tokens) },
    usageReported: usage !== undefined,
  };
}
