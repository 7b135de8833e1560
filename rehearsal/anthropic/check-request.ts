// Checks a message request as Anthropic does: known fields, model, limits, system, messages, tools,
// thinking. The length of the prompt is checked later, when it has been counted.
import { findModel, type Model } from '../models.ts';
import { firstRefusal, isJson, type Json, type Refusal, refusalIn } from '../refusal.ts';
import { estimateTokens, type PromptSize } from '../tokens.ts';
import { checkExtra, checkTextBlock } from './check-blocks.ts';
import { checkMessages } from './check-messages.ts';
import { checkToolChoice, checkTools } from './check-tools.ts';
import {
  type ApiVersion,
  BODY_NOT_JSON,
  refuse,
  refuseExtra,
  refuseKind,
  refuseMissing,
  refuseModel,
  refuseTag,
} from './refusals.ts';
import { COUNT_FIELDS, MESSAGE_FIELDS, SAMPLING_FIELDS } from './types.ts';

export type Terms = {
  readonly version: ApiVersion;
  /** With a beta header the API knows fields that are not in the published types. */
  readonly hasBeta: boolean;
  readonly isCounting: boolean;
};

const cacheMarksMax = 4;
const thinkingTokensMin = 1024;

function checkFields(body: Json, terms: Terms): Refusal | undefined {
  const known: readonly string[] = terms.isCounting ? COUNT_FIELDS : MESSAGE_FIELDS;
  const sampling: readonly string[] = terms.version === '2026-10-21' ? [] : SAMPLING_FIELDS;
  const gone = terms.version === '2026-10-21' && SAMPLING_FIELDS.find((key) => key in body);
  if (gone) return refuseExtra(gone);
  return terms.hasBeta ? undefined : checkExtra(body, [...known, ...sampling], '');
}

function checkModel(body: Json): Refusal | undefined {
  if (body.model === undefined) return refuseMissing('model');
  if (typeof body.model !== 'string') return refuseKind('model', 'string');
  return findModel(body.model)?.kind === 'chat' ? undefined : refuseModel(body.model);
}

function checkMaxTokens(body: Json, model: Model): Refusal | undefined {
  const value = body.max_tokens;
  if (value === undefined) return refuseMissing('max_tokens');
  if (!Number.isInteger(value)) return refuseKind('max_tokens', 'integer');
  if (Number(value) < 0) {
    return refuse('max_tokens: Input should be greater than or equal to 0');
  }
  return Number(value) > model.outputTokensMax
    ? refuse(
        `max_tokens: ${value} > ${model.outputTokensMax}, which is the maximum allowed number of ` +
          `output tokens for ${model.id}`,
      )
    : undefined;
}

function checkSystem(system: unknown): Refusal | undefined {
  if (system === undefined || typeof system === 'string') return undefined;
  if (!Array.isArray(system)) return refuseKind('system', 'list');
  return refusalIn(system, (block, index) => {
    if (!isJson(block)) return refuseKind(`system.${index}`, 'dictionary');
    if (block.type !== 'text') return refuseTag(`system.${index}`, block.type, ['text']);
    return checkTextBlock(block, `system.${index}`, 'system');
  });
}

const SAMPLING_DEFAULTS: Readonly<Record<string, number | undefined>> = {
  temperature: 1,
  top_p: 1,
};

function checkSampling(body: Json, model: Model): Refusal | undefined {
  return refusalIn(SAMPLING_FIELDS, (key) => {
    const value = body[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== 'number') return refuseKind(key, 'number');
    if (key !== 'top_k' && (value < 0 || value > 1)) {
      const [word, limit] = value < 0 ? ['greater', 0] : ['less', 1];
      return refuse(`${key}: Input should be ${word} than or equal to ${limit}`);
    }
    return model.isModern && value !== SAMPLING_DEFAULTS[key]
      ? refuse(`\`${key}\` is deprecated for this model.`)
      : undefined;
  });
}

function checkThinking(body: Json): Refusal | undefined {
  const { thinking } = body;
  if (thinking === undefined || thinking === null) return undefined;
  if (!isJson(thinking)) return refuseKind('thinking', 'dictionary');
  const types = ['adaptive', 'between_tools', 'disabled', 'enabled'];
  if (!types.includes(String(thinking.type))) return refuseTag('thinking', thinking.type, types);
  if (thinking.type !== 'enabled') return undefined;
  const budget = thinking.budget_tokens;
  const path = 'thinking.enabled.budget_tokens';
  if (budget === undefined) return refuseMissing(path);
  if (!Number.isInteger(budget)) return refuseKind(path, 'integer');
  if (Number(budget) < thinkingTokensMin) {
    return refuse(`${path}: Input should be greater than or equal to ${thinkingTokensMin}`);
  }
  if (body.max_tokens !== undefined && Number(budget) >= Number(body.max_tokens)) {
    return refuse('`max_tokens` must be greater than `thinking.budget_tokens`.');
  }
  return checkThinkingKept(body);
}

/** With thinking on, the turn that called the tools must still begin with its thinking. */
function checkThinkingKept(body: Json): Refusal | undefined {
  const messages = body.messages as readonly Json[];
  const index = messages.findLastIndex((message) => message.role === 'assistant');
  const content = messages[index]?.content;
  if (!Array.isArray(content) || !content.some((block: Json) => block.type === 'tool_use')) {
    return undefined;
  }
  const first = (content[0] as Json).type;
  if (first === 'thinking' || first === 'redacted_thinking') return undefined;
  return refuse(
    `messages.${index}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found ` +
      `\`${String(first)}\`. When \`thinking\` is enabled, a final \`assistant\` message must ` +
      'start with a thinking block (preceeding the lastmost set of `tool_use` and ' +
      '`tool_result` blocks).',
  );
}

function checkStops(body: Json): Refusal | undefined {
  const stops = body.stop_sequences;
  if (stops === undefined || stops === null) return undefined;
  if (!Array.isArray(stops)) return refuseKind('stop_sequences', 'list');
  return refusalIn(stops, (stop, index) => {
    if (typeof stop !== 'string') return refuseKind(`stop_sequences.${index}`, 'string');
    return stop.trim() === ''
      ? refuse('stop_sequences: each stop sequence must contain non-whitespace')
      : undefined;
  });
}

function checkSmall(body: Json): Refusal | undefined {
  if (body.stream !== undefined && typeof body.stream !== 'boolean') {
    return refuseKind('stream', 'boolean');
  }
  if (body.metadata === undefined || body.metadata === null) return undefined;
  if (!isJson(body.metadata)) return refuseKind('metadata', 'dictionary');
  return checkExtra(body.metadata, ['user_id'], 'metadata');
}

export function checkRequest(body: unknown, terms: Terms): Refusal | undefined {
  if (!isJson(body)) return BODY_NOT_JSON;
  const model = () => findModel(String(body.model))!;
  return firstRefusal(
    () => checkModel(body),
    () => checkFields(body, terms),
    () => (terms.isCounting ? undefined : checkMaxTokens(body, model())),
    () => checkSystem(body.system),
    () => checkMessages(body.messages, model(), terms.version),
    () => checkTools(body.tools),
    () => checkToolChoice(body),
    () => checkSampling(body, model()),
    () => checkThinking(body),
    () => checkStops(body),
    () => checkSmall(body),
  );
}

export function checkLength(
  size: PromptSize,
  model: Model,
  maxTokens: number,
): Refusal | undefined {
  const prompt = estimateTokens(size.chars);
  const limit = model.contextTokensMax;
  if (prompt > limit) return refuse(`prompt is too long: ${prompt} tokens > ${limit} maximum`);
  return prompt + maxTokens > limit
    ? refuse(
        `input length and \`max_tokens\` exceed context limit: ${prompt} + ${maxTokens} > ` +
          `${limit}, decrease input length or \`max_tokens\` and try again`,
      )
    : undefined;
}

export function checkCacheMarks(count: number): Refusal | undefined {
  return count > cacheMarksMax
    ? refuse(
        `A maximum of ${cacheMarksMax} blocks with cache_control may be provided. Found ${count}.`,
      )
    : undefined;
}
