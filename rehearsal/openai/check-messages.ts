// Checks the messages of a chat request as OpenAI does: roles, content, and that tool messages with
// the results directly follow the tool calls.
import {
  findFirstRefusal,
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import {
  refuse,
  refuseEmptyArray,
  refuseLongString,
  refuseMissingParam,
  refusePattern,
  refuseUnsupportedValue,
  refuseWrongType,
} from './refusals.ts';

const ROLES = ['system', 'assistant', 'user', 'function', 'tool', 'developer'];
const PART_TYPES: Readonly<Record<string, readonly string[]>> = {
  user: ['text', 'image_url', 'input_audio', 'file'],
  assistant: ['text', 'refusal'],
};
const NAME_PATTERN = /^[a-zA-Z0-9_-]+$/;
const NAME_CHARS_MAX = 64;
const CALL_ID_CHARS_MAX = 40;

export function checkFunctionName(name: unknown, param: string): RehearsalRefusal | undefined {
  if (name === undefined) return refuseMissingParam(param);
  if (typeof name !== 'string') return refuseWrongType(param, 'a string', name);
  if (name.length > NAME_CHARS_MAX) return refuseLongString(param, NAME_CHARS_MAX, name.length);
  return NAME_PATTERN.test(name) ? undefined : refusePattern(param, '^[a-zA-Z0-9_-]+$');
}

function checkPart(part: unknown, role: string, param: string): RehearsalRefusal | undefined {
  if (!isJsonRecord(part)) return refuseWrongType(param, 'an object', part);
  const supported = PART_TYPES[role] ?? ['text'];
  if (part.type === undefined) return refuseMissingParam(`${param}.type`);
  if (!supported.includes(String(part.type))) {
    return refuseUnsupportedValue(`${param}.type`, part.type, supported);
  }
  if (part.type !== 'text' || typeof part.text === 'string') return undefined;
  return part.text === undefined
    ? refuseMissingParam(`${param}.text`)
    : refuseWrongType(`${param}.text`, 'a string', part.text);
}

function checkContent(
  message: JsonRecord,
  role: string,
  index: number,
): RehearsalRefusal | undefined {
  const { content } = message;
  const param = `messages[${index}].content`;
  if (typeof content === 'string') return undefined;
  if (Array.isArray(content)) {
    if (content.length === 0) return refuseEmptyArray(param);
    return findItemRefusal(content, (part, partIndex) =>
      checkPart(part, role, `${param}[${partIndex}]`),
    );
  }
  const isOptional =
    role === 'assistant' &&
    (message.tool_calls ?? message.function_call ?? message.refusal) != null;
  if (content === null || content === undefined) {
    if (isOptional) return undefined;
    const text = "Invalid value for 'content': expected a string, got null.";
    return refuse(text, `messages.[${index}].content`);
  }
  return refuseWrongType(param, 'one of a string or array of objects', content);
}

function checkToolCall(call: unknown, param: string): RehearsalRefusal | undefined {
  if (!isJsonRecord(call)) return refuseWrongType(param, 'an object', call);
  const { id, type, function: fn } = call;
  if (id === undefined) return refuseMissingParam(`${param}.id`);
  if (typeof id !== 'string') return refuseWrongType(`${param}.id`, 'a string', id);
  if (id.length > CALL_ID_CHARS_MAX)
    return refuseLongString(`${param}.id`, CALL_ID_CHARS_MAX, id.length);
  if (type === undefined) return refuseMissingParam(`${param}.type`);
  if (type === 'custom') return undefined;
  if (type !== 'function')
    return refuseUnsupportedValue(`${param}.type`, type, ['function', 'custom']);
  if (fn === undefined) return refuseMissingParam(`${param}.function`);
  if (!isJsonRecord(fn)) return refuseWrongType(`${param}.function`, 'an object', fn);
  const nameRefusal = checkFunctionName(fn.name, `${param}.function.name`);
  if (nameRefusal) return nameRefusal;
  if (typeof fn.arguments === 'string') return undefined;
  return fn.arguments === undefined
    ? refuseMissingParam(`${param}.function.arguments`)
    : refuseWrongType(`${param}.function.arguments`, 'a string', fn.arguments);
}

function checkToolCalls(
  message: JsonRecord,
  role: string,
  index: number,
): RehearsalRefusal | undefined {
  const calls = message.tool_calls;
  if (role !== 'assistant' || calls === undefined || calls === null) return undefined;
  const param = `messages[${index}].tool_calls`;
  if (!Array.isArray(calls)) return refuseWrongType(param, 'an array of objects', calls);
  if (calls.length === 0) return refuseEmptyArray(param);
  return findItemRefusal(calls, (call, callIndex) => checkToolCall(call, `${param}[${callIndex}]`));
}

function checkMessage(message: unknown, index: number): RehearsalRefusal | undefined {
  const param = `messages[${index}]`;
  if (!isJsonRecord(message)) return refuseWrongType(param, 'an object', message);
  const { role } = message;
  if (role === undefined) return refuseMissingParam(`${param}.role`);
  if (typeof role !== 'string' || !ROLES.includes(role)) {
    return refuseUnsupportedValue(`${param}.role`, role, ROLES);
  }
  return findFirstRefusal(
    () => checkToolCalls(message, role, index),
    () => checkContent(message, role, index),
    () => {
      if (role !== 'tool' || typeof message.tool_call_id === 'string') return undefined;
      return message.tool_call_id === undefined
        ? refuseMissingParam(`${param}.tool_call_id`)
        : refuseWrongType(`${param}.tool_call_id`, 'a string', message.tool_call_id);
    },
  );
}

/**
 * Each call of an assistant message needs exactly one tool message, directly after the assistant
 * message.
 */
function checkToolPairing(messages: readonly JsonRecord[]): RehearsalRefusal | undefined {
  let openCallIds: Set<string> | undefined;
  let callIndex = 0;
  const checkOpenCalls = () =>
    openCallIds && openCallIds.size > 0
      ? refuse(
          "An assistant message with 'tool_calls' must be followed by tool messages responding " +
            `to each 'tool_call_id'. The following tool_call_ids did not have response messages: ` +
            [...openCallIds].join(', '),
          `messages.[${callIndex}].role`,
        )
      : undefined;
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!openCallIds) {
        return refuse(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding " +
            "message with 'tool_calls'.",
          `messages.[${index}].role`,
        );
      }
      const id = String(message.tool_call_id);
      if (!openCallIds.delete(id)) {
        return refuse(
          `Invalid parameter: 'tool_call_id' of '${id}' not found in 'tool_calls' of previous ` +
            'message.',
          `messages.[${index}].tool_call_id`,
        );
      }
      continue;
    }
    const refusal = checkOpenCalls();
    if (refusal) return refusal;
    const calls = message.role === 'assistant' ? message.tool_calls : undefined;
    openCallIds = Array.isArray(calls)
      ? new Set(calls.map((call: JsonRecord) => String(call.id)))
      : undefined;
    callIndex = index + 1;
  }
  return checkOpenCalls();
}

export function checkMessages(messages: unknown): RehearsalRefusal | undefined {
  if (messages === undefined) return refuseMissingParam('messages');
  if (!Array.isArray(messages)) return refuseWrongType('messages', 'an array of objects', messages);
  if (messages.length === 0) return refuseEmptyArray('messages');
  return findItemRefusal(messages, checkMessage) ?? checkToolPairing(messages);
}
