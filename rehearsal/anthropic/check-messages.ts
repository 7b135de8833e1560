// Checks the messages of a request as Anthropic does: roles and their order, contents, and that
// every tool use has its result in the very next message.
import type { Model } from '../models.ts';
import { isJson, type Json, type Refusal, refusalIn } from '../refusal.ts';
import { checkBlock, checkExtra } from './check-blocks.ts';
import { type ApiVersion, refuse, refuseKind, refuseMissing } from './refusals.ts';

const messagesMax = 100_000;

function checkRole(role: unknown, index: number, model: Model): Refusal | undefined {
  if (role === undefined) return refuseMissing(`messages.${index}.role`);
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
  message: Json,
  index: number,
  isFinal: boolean,
  version: ApiVersion,
): Refusal | undefined {
  const { content, role } = message;
  const path = `messages.${index}.content`;
  if (content === undefined) return refuseMissing(path);
  if (typeof content !== 'string' && !Array.isArray(content)) return refuseKind(path, 'list');
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
  return refusalIn(content, (block, at) =>
    checkBlock(block, String(role), { message: index, block: at }, version),
  );
}

type Used = { readonly type: string; readonly id?: unknown; readonly tool_use_id?: unknown };

function blocksOf(message: Json | undefined): readonly Used[] {
  return Array.isArray(message?.content) ? (message.content as Used[]) : [];
}

/** The results that open a message. Those after other blocks do not answer a tool use. */
function leadingResultIds(message: Json | undefined): string[] {
  const blocks = message?.role === 'user' ? blocksOf(message) : [];
  const end = blocks.findIndex((block) => block.type !== 'tool_result');
  const leading = end < 0 ? blocks : blocks.slice(0, end);
  return leading.map((block) => String(block.tool_use_id));
}

function checkResults(message: Json, index: number, used: ReadonlySet<string>) {
  const answered = new Set<string>();
  return refusalIn(blocksOf(message), (block, at) => {
    if (block.type !== 'tool_result') return undefined;
    const id = String(block.tool_use_id);
    const path = `messages.${index}.content.${at}`;
    if (!used.has(id)) {
      return refuse(
        `${path}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each ` +
          '`tool_result` block must have a corresponding `tool_use` block in the previous message.',
      );
    }
    if (answered.has(id)) {
      return refuse(
        `${path}: each tool_use must have a single result. Found multiple \`tool_result\` blocks ` +
          `with id: ${id}`,
      );
    }
    answered.add(id);
    return undefined;
  });
}

function checkPairing(messages: readonly Json[]): Refusal | undefined {
  const allIds = new Set<string>();
  let used = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const results = checkResults(message, index, used);
    if (results) return results;
    used = new Set();
    for (const [at, block] of blocksOf(message).entries()) {
      if (block.type !== 'tool_use') continue;
      const id = String(block.id);
      if (allIds.has(id)) {
        return refuse(`messages.${index}.content.${at}: \`tool_use\` ids must be unique`);
      }
      allIds.add(id);
      used.add(id);
    }
    const given = new Set(leadingResultIds(messages[index + 1]));
    const missing = [...used].filter((id) => !given.has(id));
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

function checkOrder(messages: readonly Json[], model: Model): Refusal | undefined {
  if (messages[0]?.role !== 'user')
    return refuse('messages: first message must use the "user" role');
  const systemRefusal = refusalIn(messages, (message, index) => {
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
  const blocks = blocksOf(last) as readonly { text?: unknown }[];
  const text = typeof last.content === 'string' ? last.content : blocks.at(-1)?.text;
  return typeof text === 'string' && text !== text.trimEnd()
    ? refuse('messages: final assistant content cannot end with trailing whitespace')
    : undefined;
}

export function checkMessages(
  messages: unknown,
  model: Model,
  version: ApiVersion,
): Refusal | undefined {
  if (messages === undefined) return refuseMissing('messages');
  if (!Array.isArray(messages)) return refuseKind('messages', 'list');
  if (messages.length === 0) return refuse('messages: at least one message is required');
  if (messages.length > messagesMax) {
    return refuse(`messages: List should have at most ${messagesMax} items`);
  }
  const shapes = refusalIn(messages, (message, index) => {
    if (!isJson(message)) return refuseKind(`messages.${index}`, 'dictionary');
    return (
      checkRole(message.role, index, model) ??
      checkExtra(message, ['role', 'content'], `messages.${index}`) ??
      checkContent(message, index, index === messages.length - 1, version)
    );
  });
  return shapes ?? checkPairing(messages) ?? checkOrder(messages, model);
}
