// Checks a chat request as OpenAI does, in the same order: model, known fields, messages, tools,
// numbers. The prompt length is checked later, once it has been counted.
import { findModel, type Model } from '../models.ts';
import {
  findFirstRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { estimateTokens, type PromptSize } from '../tokens.ts';
import { checkMessages } from './check-messages.ts';
import { checkToolChoice, checkTools } from './check-tools.ts';
import {
  BODY_NOT_JSON,
  refuse,
  refuseLongArray,
  refuseOutOfRange,
  refuseUnknownModel,
  refuseWrongType,
} from './refusals.ts';
import { CHAT_FIELDS } from './types.ts';

const KNOWN_FIELDS: ReadonlySet<string> = new Set(CHAT_FIELDS);
const STOP_SEQUENCES_MAX = 4;

export function checkModel(body: JsonRecord): RehearsalRefusal | undefined {
  if (body.model === undefined) return refuse('you must provide a model parameter');
  if (typeof body.model !== 'string') return refuseWrongType('model', 'a string', body.model);
  return findModel(body.model) ? undefined : refuseUnknownModel(body.model);
}

function checkChatModel(body: JsonRecord): RehearsalRefusal | undefined {
  const model = findModel(String(body.model));
  if (model?.kind === 'chat') return undefined;
  const message =
    'This is not a chat model and thus not supported in the v1/chat/completions endpoint.';
  return { ...refuse(message, 'model'), status: 404 };
}

function checkFields(body: JsonRecord): RehearsalRefusal | undefined {
  const unknown = Object.keys(body).find((key) => !KNOWN_FIELDS.has(key));
  if (unknown === undefined) return undefined;
  return refuse(`Unrecognized request argument supplied: ${unknown}`);
}

export function checkNumber(
  body: JsonRecord,
  param: string,
  kind: 'integer' | 'decimal',
  limits: { min: number; max: number },
): RehearsalRefusal | undefined {
  const value = body[param];
  if (value === undefined || value === null) return undefined;
  const isRightType = kind === 'integer' ? Number.isInteger(value) : typeof value === 'number';
  if (!isRightType)
    return refuseWrongType(param, kind === 'integer' ? 'an integer' : 'a decimal', value);
  const number = Number(value);
  const isInRange = number >= limits.min && number <= limits.max;
  return isInRange ? undefined : refuseOutOfRange(param, kind, number, limits);
}

function checkOutputLimit(body: JsonRecord, model: Model): RehearsalRefusal | undefined {
  const [legacyLimit, currentLimit] = [
    body.max_tokens ?? undefined,
    body.max_completion_tokens ?? undefined,
  ];
  if (legacyLimit !== undefined && currentLimit !== undefined) {
    return refuse(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
      'invalid_parameter_combination',
    );
  }
  const param = currentLimit === undefined ? 'max_tokens' : 'max_completion_tokens';
  const value = currentLimit ?? legacyLimit;
  const rangeRefusal = checkNumber(body, param, 'integer', {
    min: 1,
    max: Number.MAX_SAFE_INTEGER,
  });
  if (rangeRefusal || value === undefined || Number(value) <= model.outputTokensMax)
    return rangeRefusal;
  return refuse(
    `${param} is too large: ${value}. This model supports at most ${model.outputTokensMax} ` +
      `completion tokens, whereas you provided ${value}.`,
    param,
    'invalid_value',
  );
}

function checkStop(body: JsonRecord): RehearsalRefusal | undefined {
  const { stop } = body;
  if (stop === undefined || stop === null || typeof stop === 'string') return undefined;
  if (!Array.isArray(stop))
    return refuseWrongType('stop', 'one of a string or array of strings', stop);
  if (stop.length > STOP_SEQUENCES_MAX)
    return refuseLongArray('stop', STOP_SEQUENCES_MAX, stop.length);
  const wrongIndex = stop.findIndex((sequence) => typeof sequence !== 'string');
  return wrongIndex < 0
    ? undefined
    : refuseWrongType(`stop[${wrongIndex}]`, 'a string', stop[wrongIndex]);
}

function checkStream(body: JsonRecord): RehearsalRefusal | undefined {
  const { stream, stream_options: options } = body;
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') {
    return refuseWrongType('stream', 'a boolean', stream);
  }
  if (options === undefined || options === null) return undefined;
  if (!isJsonRecord(options)) return refuseWrongType('stream_options', 'an object', options);
  if (stream === true) return undefined;
  return refuse(
    "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    'stream_options',
  );
}

function checkJsonMode(body: JsonRecord): RehearsalRefusal | undefined {
  const format = body.response_format;
  if (!isJsonRecord(format) || format.type !== 'json_object') return undefined;
  if (/json/i.test(JSON.stringify(body.messages))) return undefined;
  return refuse(
    "'messages' must contain the word 'json' in some form, to use 'response_format' of type " +
      "'json_object'.",
    'messages',
  );
}

export function checkChat(body: unknown): RehearsalRefusal | undefined {
  if (!isJsonRecord(body)) return BODY_NOT_JSON;
  return findFirstRefusal(
    () => checkModel(body),
    () => checkChatModel(body),
    () => checkFields(body),
    () => checkMessages(body.messages),
    () => checkTools(body.tools),
    () => checkToolChoice(body),
    () => checkOutputLimit(body, findModel(String(body.model))!),
    () => checkNumber(body, 'temperature', 'decimal', { min: 0, max: 2 }),
    () => checkNumber(body, 'top_p', 'decimal', { min: 0, max: 1 }),
    () => checkNumber(body, 'presence_penalty', 'decimal', { min: -2, max: 2 }),
    () => checkNumber(body, 'frequency_penalty', 'decimal', { min: -2, max: 2 }),
    () => checkNumber(body, 'n', 'integer', { min: 1, max: 128 }),
    () => checkStop(body),
    () => checkStream(body),
    () => checkJsonMode(body),
  );
}

export function checkPromptLength(
  size: PromptSize,
  model: Model,
  requestedTokens: number | undefined,
): RehearsalRefusal | undefined {
  const promptTokens = estimateTokens(size.chars);
  const limit = model.contextTokensMax;
  const opening = `This model's maximum context length is ${limit} tokens. However, `;
  if (promptTokens > limit) {
    const message =
      `${opening}your messages resulted in ${promptTokens} tokens. Please reduce the length of the ` +
      'messages.';
    return refuse(message, 'messages', 'context_length_exceeded');
  }
  if (requestedTokens === undefined || promptTokens + requestedTokens <= limit) return undefined;
  const message =
    `${opening}you requested ${promptTokens + requestedTokens} tokens (${promptTokens} in the messages, ` +
    `${requestedTokens} in the completion). Please reduce the length of the messages or ` +
    'completion.';
  return refuse(message, 'messages', 'context_length_exceeded');
}
