// Checks the messages of a request as Anthropic does: roles and their order, content, and that the
// next message contains the result of every tool use.
import type { Model } from '../models.ts';
import {
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { checkBlock, checkExtraFields, type MessageCheckOptions } from './check-blocks.ts';
import { refuse, refuseMissingField, refuseWrongType } from './refusals.ts';

const MESSAGES_MAX = 100_000;

function checkRole(role: unknown, index: number, model: Model): RehearsalRefusal | undefined {
  if (role === undefined) return refuseMissingField(`messages.${index}.role`);
  if (role === 'user' || role === 'assistant') return undefined;
  if (role !== 'system') {
    const allowed = 'Allowed roles are "user" or "assistant"';
    return refuse(`messages: Unexpected role "${String(role)}". ${allowed}`);
  }
  if (index === 0) {
    return refuse(
      'messages: Unexpected role "system". The Messages API accepts a top-level `system` ' +
        'parameter, not "system" as an input message role.',
    );
  }
  return model.isModern ? undefined : refuse("role 'system' is not supported on this model");
}

function checkContent(
  message: JsonRecord,
  index: number,
  isFinal: boolean,
  options: MessageCheckOptions,
): RehearsalRefusal | undefined {
  const { content, role } = message;
  const path = `messages.${index}.content`;
  if (content === undefined) return refuseMissingField(path);
  if (typeof content !== 'string' && !Array.isArray(content)) return refuseWrongType(path, 'list');
  if (content.length === 0) {
    if (isFinal && role === 'assistant') return undefined;
    return refuse(
      `messages.${index}: all messages must have non-empty content except for the optional final ` +
        'assistant message',
    );
  }
  if (typeof content === 'string') {
    return content.trim() === ''
      ? refuse('messages: text content blocks must contain non-whitespace text')
      : undefined;
  }
  return findItemRefusal(content, (block, blockIndex) =>
    checkBlock(block, String(role), { message: index, block: blockIndex }, options),
  );
}

type PairedBlock = { readonly type: string; readonly id?: unknown; readonly tool_use_id?: unknown };

function listBlocks(message: JsonRecord | undefined): readonly PairedBlock[] {
  return Array.isArray(message?.content) ? (message.content as PairedBlock[]) : [];
}

/** Lists the results at the start of a message. Results after other blocks do not count. */
function listLeadingResultIds(message: JsonRecord | undefined): string[] {
  const blocks = message?.role === 'user' ? listBlocks(message) : [];
  const end = blocks.findIndex((block) => block.type !== 'tool_result');
  const leading = end < 0 ? blocks : blocks.slice(0, end);
  return leading.map((block) => String(block.tool_use_id));
}

function checkResults(message: JsonRecord, index: number, toolUseIds: ReadonlySet<string>) {
  const seenIds = new Set<string>();
  return findItemRefusal(listBlocks(message), (block, blockIndex) => {
    if (block.type !== 'tool_result') return undefined;
    const id = String(block.tool_use_id);
    const path = `messages.${index}.content.${blockIndex}`;
    if (!toolUseIds.has(id)) {
      return refuse(
        `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each ` +
          '`tool_result` block must have a corresponding `tool_use` block in the previous message.',
      );
    }
    if (seenIds.has(id)) {
      return refuse(
        `${path}: each tool_use must have a single result. Found multiple \`tool_result\` blocks ` +
          `with id: ${id}`,
      );
    }
    seenIds.add(id);
    return undefined;
  });
}

function checkToolPairing(messages: readonly JsonRecord[]): RehearsalRefusal | undefined {
  const allIds = new Set<string>();
  let toolUseIds = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const resultRefusal = checkResults(message, index, toolUseIds);
    if (resultRefusal) return resultRefusal;
    toolUseIds = new Set();
    for (const [blockIndex, block] of listBlocks(message).entries()) {
      if (block.type !== 'tool_use') continue;
      const id = String(block.id);
      if (allIds.has(id)) {
        return refuse(`messages.${index}.content.${blockIndex}: \`tool_use\` ids must be unique`);
      }
      allIds.add(id);
      toolUseIds.add(id);
    }
    const resultIds = new Set(listLeadingResultIds(messages[index + 1]));
    const missing = [...toolUseIds].filter((id) => !resultIds.has(id));
    if (missing.length > 0) {
      return refuse(
        `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks ` +
          `immediately after: ${missing.join(', ')}. Each \`tool_use\` block must have a ` +
          'corresponding `tool_result` block in the next message.',
      );
    }
  }
  return undefined;
}

function checkRoleOrder(
  messages: readonly JsonRecord[],
  model: Model,
): RehearsalRefusal | undefined {
  if (messages[0]?.role !== 'user')
    return refuse('messages: first message must use the "user" role');
  const systemRefusal = findItemRefusal(messages, (message, index) => {
    if (message.role !== 'system') return undefined;
    if (messages[index - 1]?.role !== 'user') {
      return refuse(`messages.${index}: role 'system' must follow a 'user' message`);
    }
    const next = messages[index + 1];
    return next === undefined || next.role === 'assistant'
      ? undefined
      : refuse(
          `messages.${index}: role 'system' must precede an 'assistant' message or end the array`,
        );
  });
  if (systemRefusal) return systemRefusal;
  const last = messages.at(-1)!;
  if (last.role !== 'assistant') return undefined;
  if (model.isModern) {
    return refuse(
      'This model does not support assistant message prefill. The conversation must end with a ' +
        'user message.',
    );
  }
  const blocks = listBlocks(last) as readonly { text?: unknown }[];
  const text = typeof last.content === 'string' ? last.content : blocks.at(-1)?.text;
  return typeof text === 'string' && text !== text.trimEnd()
    ? refuse('messages: final assistant content cannot end with trailing whitespace')
    : undefined;
}

export function checkMessages(
  messages: unknown,
  model: Model,
  options: MessageCheckOptions,
): RehearsalRefusal | undefined {
  if (messages === undefined) return refuseMissingField('messages');
  if (!Array.isArray(messages)) return refuseWrongType('messages', 'list');
  if (messages.length === 0) return refuse('messages: at least one message is required');
  if (messages.length > MESSAGES_MAX) {
    return refuse(`messages: List should have at most ${MESSAGES_MAX} items`);
  }
  const messageRefusal = findItemRefusal(messages, (message, index) => {
    if (!isJsonRecord(message)) return refuseWrongType(`messages.${index}`, 'dictionary');
    return (
      checkRole(message.role, index, model) ??
      (options.hasBeta
        ? undefined
        : checkExtraFields(message, ['role', 'content'], `messages.${index}`)) ??
      checkContent(message, index, index === messages.length - 1, options)
    );
  });
  return messageRefusal ?? checkToolPairing(messages) ?? checkRoleOrder(messages, model);
}
