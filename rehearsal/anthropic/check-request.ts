// Checks a message request as Anthropic does: known fields, model, limits, system, messages, tools,
// thinking. The prompt length is checked later, once it has been counted.
import { findModel, type Model } from '../models.ts';
import {
  findFirstRefusal,
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { estimateTokens, type PromptSize } from '../tokens.ts';
import { checkExtraFields, checkTextBlock, type MessageCheckOptions } from './check-blocks.ts';
import { checkMessages } from './check-messages.ts';
import { checkToolChoice, checkTools } from './check-tools.ts';
import {
  BODY_NOT_JSON,
  refuse,
  refuseExtraField,
  refuseMissingField,
  refuseUnknownModel,
  refuseUnknownTag,
  refuseWrongType,
} from './refusals.ts';
import { COUNT_FIELDS, MESSAGE_FIELDS, SAMPLING_FIELDS } from './types.ts';

export type RequestCheckOptions = MessageCheckOptions & { readonly isCounting: boolean };

const CACHE_BREAKPOINTS_MAX = 4;
const THINKING_TOKENS_MIN = 1024;

function checkFields(body: JsonRecord, options: RequestCheckOptions): RehearsalRefusal | undefined {
  const known: readonly string[] = options.isCounting ? COUNT_FIELDS : MESSAGE_FIELDS;
  const sampling: readonly string[] = options.version === '2026-10-21' ? [] : SAMPLING_FIELDS;
  const removedField =
    options.version === '2026-10-21' && SAMPLING_FIELDS.find((key) => key in body);
  if (removedField) return refuseExtraField(removedField);
  return options.hasBeta ? undefined : checkExtraFields(body, [...known, ...sampling], '');
}

function checkModel(body: JsonRecord): RehearsalRefusal | undefined {
  if (body.model === undefined) return refuseMissingField('model');
  if (typeof body.model !== 'string') return refuseWrongType('model', 'string');
  return findModel(body.model)?.kind === 'chat' ? undefined : refuseUnknownModel(body.model);
}

function checkMaxTokens(body: JsonRecord, model: Model): RehearsalRefusal | undefined {
  const value = body.max_tokens;
  if (value === undefined) return refuseMissingField('max_tokens');
  if (!Number.isInteger(value)) return refuseWrongType('max_tokens', 'integer');
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

function checkSystem(system: unknown): RehearsalRefusal | undefined {
  if (system === undefined || typeof system === 'string') return undefined;
  if (!Array.isArray(system)) return refuseWrongType('system', 'list');
  return findItemRefusal(system, (block, index) => {
    if (!isJsonRecord(block)) return refuseWrongType(`system.${index}`, 'dictionary');
    if (block.type !== 'text') return refuseUnknownTag(`system.${index}`, block.type, ['text']);
    return checkTextBlock(block, `system.${index}`, 'system');
  });
}

const SAMPLING_DEFAULTS: Readonly<Record<string, number | undefined>> = {
  temperature: 1,
  top_p: 1,
};

function checkSampling(body: JsonRecord, model: Model): RehearsalRefusal | undefined {
  return findItemRefusal(SAMPLING_FIELDS, (key) => {
    const value = body[key];
    if (value === undefined || value === null) return undefined;
    if (typeof value !== 'number') return refuseWrongType(key, 'number');
    if (key !== 'top_k' && (value < 0 || value > 1)) {
      const [comparison, limit] = value < 0 ? ['greater', 0] : ['less', 1];
      return refuse(`${key}: Input should be ${comparison} than or equal to ${limit}`);
    }
    return model.isModern && value !== SAMPLING_DEFAULTS[key]
      ? refuse(`\`${key}\` is deprecated for this model.`)
      : undefined;
  });
}

function checkThinking(body: JsonRecord): RehearsalRefusal | undefined {
  const { thinking } = body;
  if (thinking === undefined || thinking === null) return undefined;
  if (!isJsonRecord(thinking)) return refuseWrongType('thinking', 'dictionary');
  const types = ['adaptive', 'between_tools', 'disabled', 'enabled'];
  if (!types.includes(String(thinking.type)))
    return refuseUnknownTag('thinking', thinking.type, types);
  if (thinking.type !== 'enabled') return undefined;
  const budget = thinking.budget_tokens;
  const path = 'thinking.enabled.budget_tokens';
  if (budget === undefined) return refuseMissingField(path);
  if (!Number.isInteger(budget)) return refuseWrongType(path, 'integer');
  if (Number(budget) < THINKING_TOKENS_MIN) {
    return refuse(`${path}: Input should be greater than or equal to ${THINKING_TOKENS_MIN}`);
  }
  if (body.max_tokens !== undefined && Number(budget) >= Number(body.max_tokens)) {
    return refuse('`max_tokens` must be greater than `thinking.budget_tokens`.');
  }
  return checkThinkingPreserved(body);
}

/** With thinking enabled, the turn that called the tools must still start with its thinking. */
function checkThinkingPreserved(body: JsonRecord): RehearsalRefusal | undefined {
  const messages = body.messages as readonly JsonRecord[];
  const index = messages.findLastIndex((message) => message.role === 'assistant');
  const content = messages[index]?.content;
  if (!Array.isArray(content) || !content.some((block: JsonRecord) => block.type === 'tool_use')) {
    return undefined;
  }
  const first = (content[0] as JsonRecord).type;
  if (first === 'thinking' || first === 'redacted_thinking') return undefined;
  return refuse(
    `messages.${index}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found ` +
      `\`${String(first)}\`. When \`thinking\` is enabled, a final \`assistant\` message must ` +
      'start with a thinking block (preceeding the lastmost set of `tool_use` and ' +
      '`tool_result` blocks).',
  );
}

function checkStopSequences(body: JsonRecord): RehearsalRefusal | undefined {
  const stops = body.stop_sequences;
  if (stops === undefined || stops === null) return undefined;
  if (!Array.isArray(stops)) return refuseWrongType('stop_sequences', 'list');
  return findItemRefusal(stops, (stop, index) => {
    if (typeof stop !== 'string') return refuseWrongType(`stop_sequences.${index}`, 'string');
    return stop.trim() === ''
      ? refuse('stop_sequences: each stop sequence must contain non-whitespace')
      : undefined;
  });
}

function checkStreamAndMetadata(body: JsonRecord): RehearsalRefusal | undefined {
  if (body.stream !== undefined && typeof body.stream !== 'boolean') {
    return refuseWrongType('stream', 'boolean');
  }
  if (body.metadata === undefined || body.metadata === null) return undefined;
  if (!isJsonRecord(body.metadata)) return refuseWrongType('metadata', 'dictionary');
  return checkExtraFields(body.metadata, ['user_id'], 'metadata');
}

export function checkRequest(
  body: unknown,
  options: RequestCheckOptions,
): RehearsalRefusal | undefined {
  if (!isJsonRecord(body)) return BODY_NOT_JSON;
  const model = () => findModel(String(body.model))!;
  return findFirstRefusal(
    () => checkModel(body),
    () => checkFields(body, options),
    () => (options.isCounting ? undefined : checkMaxTokens(body, model())),
    () => checkSystem(body.system),
    () => checkMessages(body.messages, model(), options),
    () => checkTools(body.tools),
    () => checkToolChoice(body),
    () => checkSampling(body, model()),
    () => checkThinking(body),
    () => checkStopSequences(body),
    () => checkStreamAndMetadata(body),
  );
}

export function checkPromptLength(
  size: PromptSize,
  model: Model,
  maxTokens: number,
): RehearsalRefusal | undefined {
  const promptTokens = estimateTokens(size.chars);
  const limit = model.contextTokensMax;
  if (promptTokens > limit)
    return refuse(`prompt is too long: ${promptTokens} tokens > ${limit} maximum`);
  return promptTokens + maxTokens > limit
    ? refuse(
        `input length and \`max_tokens\` exceed context limit: ${promptTokens} + ${maxTokens} > ` +
          `${limit}, decrease input length or \`max_tokens\` and try again`,
      )
    : undefined;
}

export function checkCacheBreakpoints(count: number): RehearsalRefusal | undefined {
  return count > CACHE_BREAKPOINTS_MAX
    ? refuse(
        `A maximum of ${CACHE_BREAKPOINTS_MAX} blocks with cache_control may be provided. Found ${count}.`,
      )
    : undefined;
}
