// Checks a request of the Responses API as OpenAI does: model, known fields, input, tools, numbers.
import { checkModel, checkNumber } from '../openai/check-chat.ts';
import { checkFunctionName } from '../openai/check-messages.ts';
import {
  BODY_NOT_JSON,
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
import { checkInput } from './check-input.ts';
import { PROGRAM_FIELDS, RESPONSES_FIELDS } from './types.ts';

const KNOWN_FIELDS: ReadonlySet<string> = new Set([...RESPONSES_FIELDS, ...PROGRAM_FIELDS]);
const OUTPUT_TOKENS_MIN = 16;

function checkFields(body: JsonRecord): RehearsalRefusal | undefined {
  const unknown = Object.keys(body).find((key) => !KNOWN_FIELDS.has(key));
  if (unknown === undefined) return undefined;
  return refuse(`Unknown parameter: '${unknown}'.`, unknown, 'unknown_parameter');
}

/** It stores nothing, so it finds none. */
function checkStored(body: JsonRecord): RehearsalRefusal | undefined {
  const id = body.previous_response_id;
  if (id === undefined || id === null) return undefined;
  const message = `Previous response with id '${String(id)}' not found.`;
  return refuse(message, 'previous_response_id', 'previous_response_not_found');
}

function checkFunction(tool: JsonRecord, param: string): RehearsalRefusal | undefined {
  const { parameters } = tool;
  if (parameters === undefined || parameters === null) return undefined;
  if (!isJsonRecord(parameters))
    return refuseWrongType(`${param}.parameters`, 'an object', parameters);
  if (parameters.type === 'object' || Object.keys(parameters).length === 0) return undefined;
  const found = parameters.type === undefined ? 'None' : JSON.stringify(parameters.type);
  return refuse(
    `Invalid schema for function '${String(tool.name)}': schema must be a JSON Schema of ` +
      `'type: "object"', got 'type: ${found}'.`,
    `${param}.parameters`,
    'invalid_function_parameters',
  );
}

function checkTool(tool: unknown, param: string): RehearsalRefusal | undefined {
  if (!isJsonRecord(tool)) return refuseWrongType(param, 'an object', tool);
  if (tool.type === undefined) return refuseMissingParam(`${param}.type`);
  if (typeof tool.type !== 'string') return refuseWrongType(`${param}.type`, 'a string', tool.type);
  const isNamed = ['function', 'custom', 'namespace'].includes(tool.type);
  return findFirstRefusal(
    () => (isNamed ? checkFunctionName(tool.name, `${param}.name`) : undefined),
    () => (tool.type === 'function' ? checkFunction(tool, param) : undefined),
    () => (tool.type === 'namespace' ? checkTools(tool.tools, `${param}.tools`) : undefined),
  );
}

export function checkTools(tools: unknown, param: string): RehearsalRefusal | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) return refuseWrongType(param, 'an array of objects', tools);
  return findItemRefusal(tools, (tool, index) => checkTool(tool, `${param}[${index}]`));
}

const CHOICES = ['none', 'auto', 'required'];

function checkToolChoice({ tool_choice: choice }: JsonRecord): RehearsalRefusal | undefined {
  if (choice === undefined || choice === null || isJsonRecord(choice)) return undefined;
  if (typeof choice === 'string' && CHOICES.includes(choice)) return undefined;
  return refuseUnsupportedValue('tool_choice', choice, CHOICES);
}

function checkBoolean(body: JsonRecord, param: string): RehearsalRefusal | undefined {
  const value = body[param];
  if (value === undefined || value === null || typeof value === 'boolean') return undefined;
  return refuseWrongType(param, 'a boolean', value);
}

export function checkRequest(body: unknown): RehearsalRefusal | undefined {
  if (!isJsonRecord(body)) return BODY_NOT_JSON;
  return findFirstRefusal(
    () => checkModel(body),
    () => checkFields(body),
    () => checkStored(body),
    () => checkInput(body.input),
    () => checkTools(body.tools, 'tools'),
    () => checkToolChoice(body),
    () =>
      checkNumber(body, 'max_output_tokens', 'integer', {
        min: OUTPUT_TOKENS_MIN,
        max: Number.MAX_SAFE_INTEGER,
      }),
    () => checkNumber(body, 'temperature', 'decimal', { min: 0, max: 2 }),
    () => checkNumber(body, 'top_p', 'decimal', { min: 0, max: 1 }),
    () => checkBoolean(body, 'stream'),
    () => checkBoolean(body, 'store'),
    () => checkBoolean(body, 'parallel_tool_calls'),
    () =>
      body.include === undefined || body.include === null || Array.isArray(body.include)
        ? undefined
        : refuseWrongType('include', 'an array of strings', body.include),
    () =>
      Array.isArray(body.tools) && body.tools.length === 0 && isJsonRecord(body.tool_choice)
        ? refuseEmptyArray('tools')
        : undefined,
  );
}
