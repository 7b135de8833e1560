// Checks the content blocks of a message as Anthropic does: known types and fields, texts that are
// not empty, thinking that came back unchanged.
import { firstRefusal, isJson, type Json, type Refusal, refusalIn } from '../refusal.ts';
import {
  type ApiVersion,
  refuse,
  refuseExtra,
  refuseKind,
  refuseMissing,
  refusePattern,
  refuseTag,
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

export function checkToolName(name: unknown, path: string): Refusal | undefined {
  if (name === undefined) return refuseMissing(path);
  if (typeof name !== 'string') return refuseKind(path, 'string');
  if (name.length > 128) return refuse(`${path}: String should have at most 128 characters`);
  return NAME_PATTERN.test(name) ? undefined : refusePattern(path, NAME_PATTERN_TEXT);
}

export function checkExtra(
  value: Json,
  known: readonly string[],
  path: string,
): Refusal | undefined {
  const extra = Object.keys(value).find((key) => !known.includes(key));
  return extra === undefined ? undefined : refuseExtra(path === '' ? extra : `${path}.${extra}`);
}

function checkString(block: Json, key: string, path: string): Refusal | undefined {
  if (block[key] === undefined) return refuseMissing(`${path}.${key}`);
  return typeof block[key] === 'string' ? undefined : refuseKind(`${path}.${key}`, 'string');
}

/** `scope` is the word before the colon in the vendor's sentence: messages or system. */
export function checkTextBlock(block: Json, path: string, scope: string): Refusal | undefined {
  const basic =
    checkExtra(block, BLOCK_FIELDS.text, `${path}.text`) ??
    checkString(block, 'text', `${path}.text`);
  if (basic) return basic;
  const text = String(block.text);
  if (text === '') return refuse(`${scope}: text content blocks must be non-empty`);
  return text.trim() === ''
    ? refuse(`${scope}: text content blocks must contain non-whitespace text`)
    : undefined;
}

function checkToolUse(block: Json, path: string): Refusal | undefined {
  const at = `${path}.tool_use`;
  return firstRefusal(
    () => checkExtra(block, BLOCK_FIELDS.tool_use, at),
    () => checkString(block, 'id', at),
    () =>
      ID_PATTERN.test(String(block.id)) ? undefined : refusePattern(`${at}.id`, ID_PATTERN.source),
    () => checkToolName(block.name, `${at}.name`),
    () => {
      if (block.input === undefined) return refuseMissing(`${at}.input`);
      return isJson(block.input) ? undefined : refuseKind(`${at}.input`, 'dictionary');
    },
  );
}

function checkToolResult(block: Json, path: string): Refusal | undefined {
  const at = `${path}.tool_result`;
  const { content } = block;
  return firstRefusal(
    () => checkExtra(block, BLOCK_FIELDS.tool_result, at),
    () => checkString(block, 'tool_use_id', at),
    () => {
      if (block.is_error === undefined || typeof block.is_error === 'boolean') return undefined;
      return refuseKind(`${at}.is_error`, 'boolean');
    },
    () => {
      if (content === undefined || typeof content === 'string') return undefined;
      if (!Array.isArray(content)) return refuseKind(`${at}.content`, 'list');
      return refusalIn(content, (item, index) => {
        const itemPath = `${at}.content.${index}`;
        if (!isJson(item)) return refuseKind(itemPath, 'dictionary');
        if (!RESULT_BLOCK_TYPES.includes(String(item.type))) {
          return refuseTag(itemPath, item.type, RESULT_BLOCK_TYPES);
        }
        return item.type === 'text' ? checkTextBlock(item, itemPath, 'messages') : undefined;
      });
    },
  );
}

function checkThinking(block: Json, path: string): Refusal | undefined {
  const at = `${path}.thinking`;
  return firstRefusal(
    () => checkExtra(block, BLOCK_FIELDS.thinking, at),
    () => checkString(block, 'thinking', at),
    () => checkString(block, 'signature', at),
    () =>
      block.signature === signThinking(String(block.thinking))
        ? undefined
        : refuse(`${path}: Invalid \`signature\` in \`thinking\` block`),
  );
}

const MISPLACED = {
  tool_use: ['assistant', '`tool_use` blocks can only be in `assistant` messages'],
  tool_result: ['user', '`tool_result` blocks can only be in `user` messages'],
  thinking: ['assistant', '`thinking` blocks can only be in `assistant` messages'],
} as const;

function checkPlace(block: Json, role: string, message: string, version: ApiVersion) {
  const rule = MISPLACED[block.type as keyof typeof MISPLACED];
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

export function checkBlock(
  block: unknown,
  role: string,
  where: { readonly message: number; readonly block: number },
  version: ApiVersion,
): Refusal | undefined {
  const path = `messages.${where.message}.content.${where.block}`;
  if (!isJson(block)) return refuseKind(path, 'dictionary');
  if (!BLOCK_TYPES.includes(String(block.type))) return refuseTag(path, block.type, BLOCK_TYPES);
  return checkPlace(block, role, `messages.${where.message}`, version) ?? checkByType(block, path);
}

function checkByType(block: Json, path: string): Refusal | undefined {
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
      return block.source === undefined ? refuseMissing(`${path}.${block.type}.source`) : undefined;
    default:
      return undefined;
  }
}
