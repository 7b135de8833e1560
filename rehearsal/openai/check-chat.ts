// Checks a chat request as OpenAI does, in its order: model, known fields, messages, tools,
// numbers. The length of the prompt is checked later, when it has been counted.
import { findModel, type Model } from '../models.ts';
import { firstRefusal, isJson, type Json, type Refusal } from '../refusal.ts';
import { estimateTokens, type PromptSize } from '../tokens.ts';
import { checkMessages } from './check-messages.ts';
import { checkToolChoice, checkTools } from './check-tools.ts';
import {
  BODY_NOT_JSON,
  refuse,
  refuseLongArray,
  refuseModel,
  refuseRange,
  refuseType,
} from './refusals.ts';
import { CHAT_FIELDS } from './types.ts';

const KNOWN: ReadonlySet<string> = new Set(CHAT_FIELDS);
const stopsMax = 4;

export function checkModel(body: Json): Refusal | undefined {
  if (body.model === undefined) return refuse('you must provide a model parameter');
  if (typeof body.model !== 'string') return refuseType('model', 'a string', body.model);
  return findModel(body.model) ? undefined : refuseModel(body.model);
}

function checkChatModel(body: Json): Refusal | undefined {
  const model = findModel(String(body.model));
  if (model?.kind === 'chat') return undefined;
  const message =
    'This is not a chat model and thus not supported in the v1/chat/completions endpoint.';
  return { ...refuse(message, 'model'), status: 404 };
}

function checkFields(body: Json): Refusal | undefined {
  const unknown = Object.keys(body).find((key) => !KNOWN.has(key));
  if (unknown === undefined) return undefined;
  return refuse(`Unrecognized request argument supplied: ${unknown}`);
}

function checkNumber(
  body: Json,
  param: string,
  kind: 'integer' | 'decimal',
  limits: { min: number; max: number },
): Refusal | undefined {
  const value = body[param];
  if (value === undefined || value === null) return undefined;
  const isRight = kind === 'integer' ? Number.isInteger(value) : typeof value === 'number';
  if (!isRight) return refuseType(param, kind === 'integer' ? 'an integer' : 'a decimal', value);
  const number = Number(value);
  const isInside = number >= limits.min && number <= limits.max;
  return isInside ? undefined : refuseRange(param, kind, number, limits);
}

function checkOutputLimit(body: Json, model: Model): Refusal | undefined {
  const [old, current] = [body.max_tokens ?? undefined, body.max_completion_tokens ?? undefined];
  if (old !== undefined && current !== undefined) {
    return refuse(
      "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
      'max_tokens',
      'invalid_parameter_combination',
    );
  }
  const param = current === undefined ? 'max_tokens' : 'max_completion_tokens';
  const value = current ?? old;
  const basic = checkNumber(body, param, 'integer', { min: 1, max: Number.MAX_SAFE_INTEGER });
  if (basic || value === undefined || Number(value) <= model.outputTokensMax) return basic;
  return refuse(
    `${param} is too large: ${value}. This model supports at most ${model.outputTokensMax} ` +
      `completion tokens, whereas you provided ${value}.`,
    param,
    'invalid_value',
  );
}

function checkStop(body: Json): Refusal | undefined {
  const { stop } = body;
  if (stop === undefined || stop === null || typeof stop === 'string') return undefined;
  if (!Array.isArray(stop)) return refuseType('stop', 'one of a string or array of strings', stop);
  if (stop.length > stopsMax) return refuseLongArray('stop', stopsMax, stop.length);
  const wrong = stop.findIndex((word) => typeof word !== 'string');
  return wrong < 0 ? undefined : refuseType(`stop[${wrong}]`, 'a string', stop[wrong]);
}

function checkStream(body: Json): Refusal | undefined {
  const { stream, stream_options: options } = body;
  if (stream !== undefined && stream !== null && typeof stream !== 'boolean') {
    return refuseType('stream', 'a boolean', stream);
  }
  if (options === undefined || options === null) return undefined;
  if (!isJson(options)) return refuseType('stream_options', 'an object', options);
  if (stream === true) return undefined;
  return refuse(
    "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
    'stream_options',
  );
}

function checkJsonMode(body: Json): Refusal | undefined {
  const format = body.response_format;
  if (!isJson(format) || format.type !== 'json_object') return undefined;
  if (/json/i.test(JSON.stringify(body.messages))) return undefined;
  return refuse(
    "'messages' must contain the word 'json' in some form, to use 'response_format' of type " +
      "'json_object'.",
    'messages',
  );
}

export function checkChat(body: unknown): Refusal | undefined {
  if (!isJson(body)) return BODY_NOT_JSON;
  return firstRefusal(
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

export function checkLength(
  size: PromptSize,
  model: Model,
  requestedTokens: number | undefined,
): Refusal | undefined {
  const prompt = estimateTokens(size.chars);
  const limit = model.contextTokensMax;
  const opening = `This model's maximum context length is ${limit} tokens. However, `;
  if (prompt > limit) {
    const message =
      `${opening}your messages resulted in ${prompt} tokens. Please reduce the length of the ` +
      'messages.';
    return refuse(message, 'messages', 'context_length_exceeded');
  }
  if (requestedTokens === undefined || prompt + requestedTokens <= limit) return undefined;
  const message =
    `${opening}you requested ${prompt + requestedTokens} tokens (${prompt} in the messages, ` +
    `${requestedTokens} in the completion). Please reduce the length of the messages or ` +
    'completion.';
  return refuse(message, 'messages', 'context_length_exceeded');
}
