// Computes embeddings without a model: each word and each sequence of three letters adds to one
// dimension, chosen by hash, so texts that share words are near each other. The result is a unit
// vector, the same for the same text on every machine.
import { findModel } from '../models.ts';
import {
  findFirstRefusal,
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { estimateTokens } from '../tokens.ts';
import { checkModel } from './check-chat.ts';
import {
  BODY_NOT_JSON,
  refuse,
  refuseEmptyArray,
  refuseLongArray,
  refuseMissingParam,
  refuseOutOfRange,
  refuseUnsupportedValue,
  refuseWrongType,
} from './refusals.ts';

const INPUTS_MAX = 2048;
const EMBEDDING_FIELDS: ReadonlySet<string> = new Set([
  'input',
  'model',
  'dimensions',
  'encoding_format',
  'user',
]);

function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++) {
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return (hash ^ (hash >>> 13)) >>> 0;
}

export function embedText(text: string, dimensions: number): Float32Array {
  const vector = new Float32Array(dimensions);
  const add = (feature: string, weight: number) => {
    const hash = hashText(feature);
    const dimension = (hash >>> 1) % dimensions;
    vector[dimension] = vector[dimension]! + (hash & 1 ? weight : -weight);
  };
  const words = text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  for (const word of words) {
    add(`word ${word}`, 1);
    for (let index = 0; index + 3 <= word.length; index++) add(word.slice(index, index + 3), 0.3);
  }
  let squaredLength = 0;
  for (const value of vector) squaredLength += value * value;
  // Features may cancel out, and a text may have no words; it still needs a unit vector.
  if (squaredLength === 0) vector[hashText(text) % dimensions] = 1;
  const length = Math.sqrt(squaredLength || 1);
  return vector.map((value) => value / length);
}

type EmbeddingInput = string | readonly number[];

function listInputs(input: unknown): readonly EmbeddingInput[] {
  if (typeof input === 'string') return [input];
  const list = input as readonly (EmbeddingInput | number)[];
  return typeof list[0] === 'number'
    ? [list as readonly number[]]
    : (list as readonly EmbeddingInput[]);
}

function checkInput(input: unknown): RehearsalRefusal | undefined {
  if (input === undefined) return refuseMissingParam('input');
  if (typeof input === 'string') {
    return input === '' ? refuse("'input' cannot be an empty string.", 'input') : undefined;
  }
  if (!Array.isArray(input)) return refuseWrongType('input', 'one of a string or array', input);
  if (input.length === 0) return refuseEmptyArray('input');
  if (input.length > INPUTS_MAX) return refuseLongArray('input', INPUTS_MAX, input.length);
  if (input.every((item) => Number.isInteger(item))) return undefined;
  return findItemRefusal(input, (item, index) => {
    if (item === '') return refuse("'input' cannot be an empty string.", 'input');
    const isTokenList = Array.isArray(item) && item.length > 0 && item.every(Number.isInteger);
    return typeof item === 'string' || isTokenList
      ? undefined
      : refuseWrongType(`input[${index}]`, 'a string', item);
  });
}

const countTokens = (input: EmbeddingInput) =>
  typeof input === 'string' ? Math.max(1, estimateTokens(input.length)) : input.length;

function checkEmbeddings(body: JsonRecord): RehearsalRefusal | undefined {
  return findFirstRefusal(
    () => checkModel(body),
    () => {
      if (findModel(String(body.model))?.kind === 'embedding') return undefined;
      const message = 'You are not allowed to generate embeddings from this model';
      return { ...refuse(message), status: 403 };
    },
    () => {
      const unknown = Object.keys(body).find((key) => !EMBEDDING_FIELDS.has(key));
      if (unknown === undefined) return undefined;
      return refuse(`Unrecognized request argument supplied: ${unknown}`);
    },
    () => checkInput(body.input),
    () => {
      const format = body.encoding_format;
      const known = ['float', 'base64'];
      if (format === undefined || known.includes(String(format))) return undefined;
      return refuseUnsupportedValue('encoding_format', format, known);
    },
    () => {
      const { dimensions } = body;
      if (dimensions === undefined) return undefined;
      if (!Number.isInteger(dimensions))
        return refuseWrongType('dimensions', 'an integer', dimensions);
      const limits = { min: 1, max: findModel(String(body.model))!.dimensions };
      const isInRange = Number(dimensions) >= limits.min && Number(dimensions) <= limits.max;
      return isInRange
        ? undefined
        : refuseOutOfRange('dimensions', 'integer', Number(dimensions), limits);
    },
    () => {
      const limit = findModel(String(body.model))!.contextTokensMax;
      const tokens = Math.max(...listInputs(body.input).map(countTokens));
      if (tokens <= limit) return undefined;
      return refuse(
        `This model's maximum context length is ${limit} tokens, however you requested ${tokens} ` +
          `tokens (${tokens} in your prompt; 0 for the completion). Please reduce your prompt; ` +
          'or completion length.',
      );
    },
  );
}

export function respondToEmbeddings(body: unknown): RehearsalRefusal | string {
  if (!isJsonRecord(body)) return BODY_NOT_JSON;
  const refusal = checkEmbeddings(body);
  if (refusal) return refusal;
  const inputs = listInputs(body.input);
  const dimensions = Number(body.dimensions ?? findModel(String(body.model))!.dimensions);
  const data = inputs.map((input, index) => {
    const vector = embedText(typeof input === 'string' ? input : input.join(' '), dimensions);
    const embedding =
      body.encoding_format === 'base64'
        ? Buffer.from(vector.buffer).toString('base64')
        : Array.from(vector);
    return { object: 'embedding', index, embedding };
  });
  const tokens = inputs.reduce((sum, input) => sum + countTokens(input), 0);
  const usage = { prompt_tokens: tokens, total_tokens: tokens };
  return JSON.stringify({ object: 'list', data, model: body.model, usage });
}
