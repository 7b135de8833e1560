// Checks the messages of a chat request as OpenAI does: roles, contents, and that every tool call
// is answered by tool messages right after it.
import { firstRefusal, isJson, type Json, type Refusal, refusalIn } from '../refusal.ts';
import {
  refuse,
  refuseEmptyArray,
  refuseLongString,
  refuseMissing,
  refusePattern,
  refuseType,
  refuseValue,
} from './refusals.ts';

const ROLES = ['system', 'assistant', 'user', 'function', 'tool', 'developer'];
const PART_TYPES: Readonly<Record<string, readonly string[]>> = {
  user: ['text', 'image_url', 'input_audio', 'file'],
  assistant: ['text', 'refusal'],
};
const NAME_PATTERN = /^[a-zA-Z0-9_-]+$/;
const nameCharsMax = 64;
const callIdCharsMax = 40;

export function checkFunctionName(name: unknown, param: string): Refusal | undefined {
  if (name === undefined) return refuseMissing(param);
  if (typeof name !== 'string') return refuseType(param, 'a string', name);
  if (name.length > nameCharsMax) return refuseLongString(param, nameCharsMax, name.length);
  return NAME_PATTERN.test(name) ? undefined : refusePattern(param, '^[a-zA-Z0-9_-]+$');
}

function checkPart(part: unknown, role: string, param: string): Refusal | undefined {
  if (!isJson(part)) return refuseType(param, 'an object', part);
  const supported = PART_TYPES[role] ?? ['text'];
  if (part.type === undefined) return refuseMissing(`${param}.type`);
  if (!supported.includes(String(part.type))) {
    return refuseValue(`${param}.type`, part.type, supported);
  }
  if (part.type !== 'text' || typeof part.text === 'string') return undefined;
  return part.text === undefined
    ? refuseMissing(`${param}.text`)
    : refuseType(`${param}.text`, 'a string', part.text);
}

function checkContent(message: Json, role: string, index: number): Refusal | undefined {
  const { content } = message;
  const param = `messages[${index}].content`;
  if (typeof content === 'string') return undefined;
  if (Array.isArray(content)) {
    if (content.length === 0) return refuseEmptyArray(param);
    return refusalIn(content, (part, at) => checkPart(part, role, `${param}[${at}]`));
  }
  const mayBeAbsent =
    role === 'assistant' &&
    (message.tool_calls ?? message.function_call ?? message.refusal) != null;
  if (content === null || content === undefined) {
    if (mayBeAbsent) return undefined;
    const message400 = "Invalid value for 'content': expected a string, got null.";
    return refuse(message400, `messages.[${index}].content`);
  }
  return refuseType(param, 'one of a string or array of objects', content);
}

function checkToolCall(call: unknown, param: string): Refusal | undefined {
  if (!isJson(call)) return refuseType(param, 'an object', call);
  const { id, type, function: fn } = call;
  if (id === undefined) return refuseMissing(`${param}.id`);
  if (typeof id !== 'string') return refuseType(`${param}.id`, 'a string', id);
  if (id.length > callIdCharsMax) return refuseLongString(`${param}.id`, callIdCharsMax, id.length);
  if (type === undefined) return refuseMissing(`${param}.type`);
  if (type === 'custom') return undefined;
  if (type !== 'function') return refuseValue(`${param}.type`, type, ['function', 'custom']);
  if (fn === undefined) return refuseMissing(`${param}.function`);
  if (!isJson(fn)) return refuseType(`${param}.function`, 'an object', fn);
  const nameRefusal = checkFunctionName(fn.name, `${param}.function.name`);
  if (nameRefusal) return nameRefusal;
  if (typeof fn.arguments === 'string') return undefined;
  return fn.arguments === undefined
    ? refuseMissing(`${param}.function.arguments`)
    : refuseType(`${param}.function.arguments`, 'a string', fn.arguments);
}

function checkToolCalls(message: Json, role: string, index: number): Refusal | undefined {
  const calls = message.tool_calls;
  if (role !== 'assistant' || calls === undefined || calls === null) return undefined;
  const param = `messages[${index}].tool_calls`;
  if (!Array.isArray(calls)) return refuseType(param, 'an array of objects', calls);
  if (calls.length === 0) return refuseEmptyArray(param);
  return refusalIn(calls, (call, at) => checkToolCall(call, `${param}[${at}]`));
}

function checkMessage(message: unknown, index: number): Refusal | undefined {
  const param = `messages[${index}]`;
  if (!isJson(message)) return refuseType(param, 'an object', message);
  const { role } = message;
  if (role === undefined) return refuseMissing(`${param}.role`);
  if (typeof role !== 'string' || !ROLES.includes(role)) {
    return refuseValue(`${param}.role`, role, ROLES);
  }
  return firstRefusal(
    () => checkToolCalls(message, role, index),
    () => checkContent(message, role, index),
    () => {
      if (role !== 'tool' || typeof message.tool_call_id === 'string') return undefined;
      return message.tool_call_id === undefined
        ? refuseMissing(`${param}.tool_call_id`)
        : refuseType(`${param}.tool_call_id`, 'a string', message.tool_call_id);
    },
  );
}

/**
 * Every call of an assistant message is answered by the tool messages right after it, and by no
 * others.
 */
function checkPairing(messages: readonly Json[]): Refusal | undefined {
  let open: Set<string> | undefined;
  let callIndex = 0;
  const unanswered = () =>
    open && open.size > 0
      ? refuse(
          "An assistant message with 'tool_calls' must be followed by tool messages responding " +
            `to each 'tool_call_id'. The following tool_call_ids did not have response messages: ` +
            [...open].join(', '),
          `messages.[${callIndex}].role`,
        )
      : undefined;
  for (const [index, message] of messages.entries()) {
    if (message.role === 'tool') {
      if (!open) {
        return refuse(
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding " +
            "message with 'tool_calls'.",
          `messages.[${index}].role`,
        );
      }
      const id = String(message.tool_call_id);
      if (!open.delete(id)) {
        return refuse(
          `Invalid parameter: 'tool_call_id' of '${id}' not found in 'tool_calls' of previous ` +
            'message.',
          `messages.[${index}].tool_call_id`,
        );
      }
      continue;
    }
    const refusal = unanswered();
    if (refusal) return refusal;
    const calls = message.role === 'assistant' ? message.tool_calls : undefined;
    open = Array.isArray(calls) ? new Set(calls.map((call: Json) => String(call.id))) : undefined;
    callIndex = index + 1;
  }
  return unanswered();
}

export function checkMessages(messages: unknown): Refusal | undefined {
  if (messages === undefined) return refuseMissing('messages');
  if (!Array.isArray(messages)) return refuseType('messages', 'an array of objects', messages);
  if (messages.length === 0) return refuseEmptyArray('messages');
  return refusalIn(messages, checkMessage) ?? checkPairing(messages);
}
