// Embeddings as clients of OpenAI ask for them: reads the request, writes the response.
import { fault } from '../../../wire/errors.ts';
import type { Usage } from '../../../wire/modeld.ts';

/** A text, or its tokens for the model that is asked. */
export type EmbedInput = string | number[];

export type ClientEmbedRequest = {
  model: string;
  input: EmbedInput[];
  dimensions: number | undefined;
  isBase64: boolean;
};

const INPUTS_MAX = 2_048;
const FIELDS = new Set(['model', 'input', 'dimensions', 'encoding_format', 'user']);

/** Reads a client's request; unknown fields are refused, because the cache would ignore them. */
export function readEmbedRequest(body: Record<string, unknown>): ClientEmbedRequest {
  const { model, input, dimensions, encoding_format: format = 'float' } = body;
  const unknown = Object.keys(body).find((name) => !FIELDS.has(name));
  if (unknown !== undefined)
    throw fault('bad_request', `${unknown.slice(0, 100)} is not supported`);
  if (typeof model !== 'string' || model === '' || model.length > 128)
    throw fault('bad_request', 'model must be a name of 1 to 128 characters');
  if (format !== 'float' && format !== 'base64')
    throw fault('bad_request', 'encoding_format must be float or base64');
  if (dimensions !== undefined && !isCount(dimensions))
    throw fault('bad_request', 'dimensions must be a whole number above 0');
  return { model, input: readInput(input), dimensions, isBase64: format === 'base64' };
}

const isCount = (value: unknown): value is number => Number.isInteger(value) && Number(value) > 0;
const isToken = (value: unknown): value is number => Number.isInteger(value) && Number(value) >= 0;

function readInput(value: unknown): EmbedInput[] {
  const list = Array.isArray(value) && !value.every(isToken) ? value : [value];
  const isItem = (item: unknown): item is EmbedInput =>
    (typeof item === 'string' && item !== '') ||
    (Array.isArray(item) && item.length > 0 && item.every(isToken));
  if (list.length <= INPUTS_MAX && list.every(isItem)) return list;
  throw fault(
    'bad_request',
    `input must be a text, a list of tokens, or a list of 1 to ${INPUTS_MAX} of these, none empty`,
  );
}

export function writeEmbedResponse(
  { isBase64, model }: ClientEmbedRequest,
  { embeddings, usage }: { embeddings: number[][]; usage: Usage },
): Record<string, unknown> {
  const tokens = usage.input_tokens;
  return {
    object: 'list',
    data: embeddings.map((vector, index) => ({
      object: 'embedding',
      index,
      embedding: isBase64 ? toBase64(vector) : vector,
    })),
    model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

/** As the vendor: little-endian numbers of 32 bits. */
function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((n, i) => void bytes.writeFloatLE(n, i * 4));
  return bytes.toString('base64');
}
