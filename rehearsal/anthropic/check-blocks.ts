// Checks the content blocks of a message as Anthropic does: known types and fields, non-empty text,
// unchanged thinking.
import {
  findFirstRefusal,
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import {
  type ApiVersion,
  refuse,
  refuseExtraField,
  refuseMissingField,
  refusePattern,
  refuseUnknownTag,
  refuseWrongType,
} from './refusals.ts';
import { signThinking } from './signature.ts';
import { BLOCK_FIELDS } from './types.ts';

const BLOCK_TYPES = [
  'document',
  'image',
  'redacted_thinking',
  'search_result',
  'text',
  'thinking',
  'tool_result',
  'tool_use',
  'server_tool_use',
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
  'tool_search_tool_result',
  'container_upload',
];
const RESULT_BLOCK_TYPES = [
  'browser_state',
  'document',
  'image',
  'search_result',
  'text',
  'tool_reference',
];
const ID_PATTERN = /^[a-zA-Z0-9_-]+$/;
export const NAME_PATTERN = /^[a-zA-Z0-9_-]{1,128}$/;
const NAME_PATTERN_TEXT = '^[a-zA-Z0-9_-]{1,128}$';

export function checkToolName(name: unknown, path: string): RehearsalRefusal | undefined {
  if (name === undefined) return refuseMissingField(path);
  if (typeof name !== 'string') return refuseWrongType(path, 'string');
  if (name.length > 128) return refuse(`${path}: String should have at most 128 characters`);
  return NAME_PATTERN.test(name) ? undefined : refusePattern(path, NAME_PATTERN_TEXT);
}

export function checkExtraFields(
  value: JsonRecord,
  known: readonly string[],
  path: string,
): RehearsalRefusal | undefined {
  const extra = Object.keys(value).find((key) => !known.includes(key));
  return extra === undefined
    ? undefined
    : refuseExtraField(path === '' ? extra : `${path}.${extra}`);
}

function checkString(block: JsonRecord, key: string, path: string): RehearsalRefusal | undefined {
  if (block[key] === undefined) return refuseMissingField(`${path}.${key}`);
  return typeof block[key] === 'string' ? undefined : refuseWrongType(`${path}.${key}`, 'string');
}

/** `scope` is the prefix of the vendor's message: messages or system. */
export function checkTextBlock(
  block: JsonRecord,
  path: string,
  scope: string,
): RehearsalRefusal | undefined {
  const fieldRefusal =
    checkExtraFields(block, BLOCK_FIELDS.text, `${path}.text`) ??
    checkString(block, 'text', `${path}.text`);
  if (fieldRefusal) return fieldRefusal;
  const text = String(block.text);
  if (text === '') return refuse(`${scope}: text content blocks must be non-empty`);
  return text.trim() === ''
    ? refuse(`${scope}: text content blocks must contain non-whitespace text`)
    : undefined;
}

function checkToolUse(block: JsonRecord, path: string): RehearsalRefusal | undefined {
  const blockPath = `${path}.tool_use`;
  return findFirstRefusal(
    () => checkExtraFields(block, BLOCK_FIELDS.tool_use, blockPath),
    () => checkString(block, 'id', blockPath),
    () =>
      ID_PATTERN.test(String(block.id))
        ? undefined
        : refusePattern(`${blockPath}.id`, ID_PATTERN.source),
    () => checkToolName(block.name, `${blockPath}.name`),
    () => {
      if (block.input === undefined) return refuseMissingField(`${blockPath}.input`);
      return isJsonRecord(block.input)
        ? undefined
        : refuseWrongType(`${blockPath}.input`, 'dictionary');
    },
  );
}

function checkToolResult(block: JsonRecord, path: string): RehearsalRefusal | undefined {
  const blockPath = `${path}.tool_result`;
  const { content } = block;
  return findFirstRefusal(
    () => checkExtraFields(block, BLOCK_FIELDS.tool_result, blockPath),
    () => checkString(block, 'tool_use_id', blockPath),
    () => {
      if (block.is_error === undefined || typeof block.is_error === 'boolean') return undefined;
      return refuseWrongType(`${blockPath}.is_error`, 'boolean');
    },
    () => {
      if (content === undefined || typeof content === 'string') return undefined;
      if (!Array.isArray(content)) return refuseWrongType(`${blockPath}.content`, 'list');
      return findItemRefusal(content, (item, index) => {
        const itemPath = `${blockPath}.content.${index}`;
        if (!isJsonRecord(item)) return refuseWrongType(itemPath, 'dictionary');
        if (!RESULT_BLOCK_TYPES.includes(String(item.type))) {
          return refuseUnknownTag(itemPath, item.type, RESULT_BLOCK_TYPES);
        }
        return item.type === 'text' ? checkTextBlock(item, itemPath, 'messages') : undefined;
      });
    },
  );
}

function checkThinking(block: JsonRecord, path: string): RehearsalRefusal | undefined {
  const blockPath = `${path}.thinking`;
  return findFirstRefusal(
    () => checkExtraFields(block, BLOCK_FIELDS.thinking, blockPath),
    () => checkString(block, 'thinking', blockPath),
    () => checkString(block, 'signature', blockPath),
    () =>
      block.signature === signThinking(String(block.thinking))
        ? undefined
        : refuse(`${path}: Invalid \`signature\` in \`thinking\` block`),
  );
}

const ROLE_RULES = {
  tool_use: ['assistant', '`tool_use` blocks can only be in `assistant` messages'],
  tool_result: ['user', '`tool_result` blocks can only be in `user` messages'],
  thinking: ['assistant', '`thinking` blocks can only be in `assistant` messages'],
} as const;

function checkBlockRole(block: JsonRecord, role: string, message: string, version: ApiVersion) {
  const rule = ROLE_RULES[block.type as keyof typeof ROLE_RULES];
  if (rule && rule[0] !== role) return refuse(`${message}: ${rule[1]}`);
  if (version !== '2026-10-21') return undefined;
  if (block.type === 'document' && role === 'assistant') {
    return refuse(`${message}: \`document\` blocks are not permitted in \`assistant\` messages`);
  }
  const hasCitations = Array.isArray(block.citations) && block.citations.length > 0;
  return block.type === 'text' && role === 'user' && hasCitations
    ? refuse(`${message}: \`citations\` are not permitted in \`user\` messages`)
    : undefined;
}

export type MessageCheckOptions = {
  readonly version: ApiVersion;
  /** With a beta header the API accepts blocks and fields that are not in the published types. */
  readonly hasBeta: boolean;
};

export function checkBlock(
  block: unknown,
  role: string,
  position: { readonly message: number; readonly block: number },
  { version, hasBeta }: MessageCheckOptions,
): RehearsalRefusal | undefined {
  const path = `messages.${position.message}.content.${position.block}`;
  if (!isJsonRecord(block)) return refuseWrongType(path, 'dictionary');
  if (!BLOCK_TYPES.includes(String(block.type)))
    return hasBeta ? undefined : refuseUnknownTag(path, block.type, BLOCK_TYPES);
  return (
    checkBlockRole(block, role, `messages.${position.message}`, version) ??
    checkBlockByType(block, path)
  );
}

function checkBlockByType(block: JsonRecord, path: string): RehearsalRefusal | undefined {
  switch (block.type) {
    case 'text':
      return checkTextBlock(block, path, 'messages');
    case 'tool_use':
      return checkToolUse(block, path);
    case 'tool_result':
      return checkToolResult(block, path);
    case 'thinking':
      return checkThinking(block, path);
    case 'image':
    case 'document':
      return block.source === undefined
        ? refuseMissingField(`${path}.${block.type}.source`)
        : undefined;
    default:
      return undefined;
  }
}
