// Checks the input items of the Responses API as OpenAI does: types, roles, content, the prefixes
// of ids, and that each output belongs to a call and each call has an output.
import {
  refuse,
  refuseEmptyArray,
  refuseMissingParam,
  refuseUnsupportedValue,
  refuseWrongType,
} from '../openai/refusals.ts';
import {
  findFirstRefusal,
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { isOwnReasoning } from './reasoning.ts';

const ROLES = ['assistant', 'system', 'developer', 'user'];
const ASKED_PARTS = ['input_text', 'input_image', 'input_file'];
const ANSWERED_PARTS = ['output_text', 'refusal'];

type ItemRule = {
  /** The start of its id. */
  readonly prefix: string;
  readonly strings: readonly string[];
};

const ITEM_RULES: Readonly<Record<string, ItemRule>> = {
  message: { prefix: 'msg', strings: [] },
  reasoning: { prefix: 'rs', strings: [] },
  function_call: { prefix: 'fc', strings: ['call_id', 'name', 'arguments'] },
  custom_tool_call: { prefix: 'ctc', strings: ['call_id', 'name', 'input'] },
  function_call_output: { prefix: 'fc', strings: ['call_id'] },
  custom_tool_call_output: { prefix: 'ctc', strings: ['call_id'] },
  additional_tools: { prefix: '', strings: ['role'] },
};

function checkContent(
  content: unknown,
  param: string,
  supported: readonly string[],
): RehearsalRefusal | undefined {
  if (typeof content === 'string') return undefined;
  if (content === undefined || content === null) return refuseMissingParam(param);
  if (!Array.isArray(content)) return refuseWrongType(param, 'a string or an array', content);
  return findItemRefusal(content, (part, index) => {
    const at = `${param}[${index}]`;
    if (!isJsonRecord(part)) return refuseWrongType(at, 'an object', part);
    if (typeof part.type !== 'string' || !supported.includes(part.type))
      return refuseUnsupportedValue(at, part.type, supported);
    const isText = part.type === 'input_text' || part.type === 'output_text';
    return isText && typeof part.text !== 'string' ? refuseMissingParam(`${at}.text`) : undefined;
  });
}

function checkId(item: JsonRecord, prefix: string, param: string): RehearsalRefusal | undefined {
  const { id } = item;
  if (id === undefined || id === null || prefix === '') return undefined;
  if (typeof id !== 'string') return refuseWrongType(`${param}.id`, 'a string', id);
  if (id.startsWith(prefix)) return undefined;
  return refuse(
    `Invalid '${param}.id': '${id}'. Expected an ID that begins with '${prefix}'.`,
    `${param}.id`,
    'invalid_value',
  );
}

function checkMessage(item: JsonRecord, param: string): RehearsalRefusal | undefined {
  if (typeof item.role !== 'string' || !ROLES.includes(item.role))
    return refuseUnsupportedValue(`${param}.role`, item.role, ROLES);
  const supported = item.role === 'assistant' ? ANSWERED_PARTS : ASKED_PARTS;
  return checkContent(item.content, `${param}.content`, supported);
}

function checkReasoning(item: JsonRecord, param: string): RehearsalRefusal | undefined {
  if (!Array.isArray(item.summary)) return refuseMissingParam(`${param}.summary`);
  const encrypted = item.encrypted_content;
  if (encrypted === undefined || encrypted === null || isOwnReasoning(String(encrypted)))
    return undefined;
  return refuse(
    'The encrypted content could not be verified. Reason: Encrypted content could not be decrypted ' +
      'or parsed.',
    null,
    'invalid_encrypted_content',
  );
}

function checkItem(item: unknown, index: number): RehearsalRefusal | undefined {
  const param = `input[${index}]`;
  if (!isJsonRecord(item)) return refuseWrongType(param, 'an object', item);
  const type = String(item.type ?? 'message');
  const rule = ITEM_RULES[type];
  if (rule === undefined)
    return refuseUnsupportedValue(`${param}.type`, item.type, Object.keys(ITEM_RULES));
  const missing = rule.strings.find((name) => typeof item[name] !== 'string');
  return findFirstRefusal(
    () => (missing === undefined ? undefined : refuseMissingParam(`${param}.${missing}`)),
    () => checkId(item, rule.prefix, param),
    () => (type === 'message' ? checkMessage(item, param) : undefined),
    () => (type === 'reasoning' ? checkReasoning(item, param) : undefined),
    () =>
      type.endsWith('_output')
        ? checkContent(item.output, `${param}.output`, ASKED_PARTS)
        : undefined,
  );
}

/** Each call needs an output, and each output a call before it. */
function checkPairing(items: readonly JsonRecord[]): RehearsalRefusal | undefined {
  const open = new Map<string, string>();
  const done = new Set<string>();
  for (const item of items) {
    const type = String(item.type ?? 'message');
    const callId = String(item.call_id);
    if (type === 'function_call' || type === 'custom_tool_call') open.set(callId, type);
    if (!type.endsWith('_output')) continue;
    const called = type.slice(0, -'_output'.length);
    if (open.get(callId) !== called && !done.has(callId)) {
      const what = called.replaceAll('_', ' ');
      return refuse(`No tool call found for ${what} output with call_id ${callId}.`, 'input');
    }
    open.delete(callId);
    done.add(callId);
  }
  const [first] = open;
  if (first === undefined) return undefined;
  const [callId, type] = first;
  return refuse(`No tool output found for ${type.replaceAll('_', ' ')} ${callId}.`, 'input');
}

export function checkInput(input: unknown): RehearsalRefusal | undefined {
  if (input === undefined || input === null) return refuseMissingParam('input');
  if (typeof input === 'string') return undefined;
  if (!Array.isArray(input)) return refuseWrongType('input', 'one of a string or an array', input);
  if (input.length === 0) return refuseEmptyArray('input');
  return findItemRefusal(input, checkItem) ?? checkPairing(input as JsonRecord[]);
}
