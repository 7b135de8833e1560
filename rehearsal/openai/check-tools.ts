// Checks the tools and the tool choice of a chat request as OpenAI does.
import {
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { checkFunctionName } from './check-messages.ts';
import {
  refuse,
  refuseLongArray,
  refuseMissingParam,
  refuseUnsupportedValue,
  refuseWrongType,
} from './refusals.ts';

const TOOLS_MAX = 128;

function checkParameters(fn: JsonRecord, param: string): RehearsalRefusal | undefined {
  const { parameters } = fn;
  if (parameters === undefined) return undefined;
  if (!isJsonRecord(parameters)) return refuseWrongType(param, 'an object', parameters);
  const { type } = parameters;
  if (type === 'object' || (type === undefined && Object.keys(parameters).length === 0)) {
    return undefined;
  }
  const found = type === undefined ? 'None' : JSON.stringify(type);
  return refuse(
    `Invalid schema for function '${String(fn.name)}': schema must be a JSON Schema of ` +
      `'type: "object"', got 'type: ${found}'.`,
    param,
    'invalid_function_parameters',
  );
}

function checkTool(tool: unknown, index: number): RehearsalRefusal | undefined {
  const param = `tools[${index}]`;
  if (!isJsonRecord(tool)) return refuseWrongType(param, 'an object', tool);
  if (tool.type === undefined) return refuseMissingParam(`${param}.type`);
  if (tool.type === 'custom') return undefined;
  if (tool.type !== 'function') {
    return refuseUnsupportedValue(`${param}.type`, tool.type, ['function', 'custom']);
  }
  const fn = tool.function;
  if (fn === undefined) return refuseMissingParam(`${param}.function`);
  if (!isJsonRecord(fn)) return refuseWrongType(`${param}.function`, 'an object', fn);
  return (
    checkFunctionName(fn.name, `${param}.function.name`) ??
    checkParameters(fn, `${param}.function.parameters`)
  );
}

export function checkTools(tools: unknown): RehearsalRefusal | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) return refuseWrongType('tools', 'an array of objects', tools);
  if (tools.length > TOOLS_MAX) return refuseLongArray('tools', TOOLS_MAX, tools.length);
  return findItemRefusal(tools, checkTool);
}

export function checkToolChoice(body: JsonRecord): RehearsalRefusal | undefined {
  const choice = body.tool_choice;
  if (choice === undefined || choice === null) return undefined;
  const param = 'tool_choice';
  const tools = Array.isArray(body.tools) ? (body.tools as JsonRecord[]) : [];
  if (tools.length === 0 && choice !== 'none' && choice !== 'auto') return refuseWithoutTools();
  if (!Array.isArray(body.tools)) return refuseWithoutTools();
  if (typeof choice === 'string') {
    const choices = ['none', 'auto', 'required'];
    return choices.includes(choice) ? undefined : refuseUnsupportedValue(param, choice, choices);
  }
  if (!isJsonRecord(choice)) return refuseWrongType(param, 'one of a string or an object', choice);
  if (choice.type !== 'function') return undefined;
  const name = isJsonRecord(choice.function) ? choice.function.name : undefined;
  if (name === undefined) return refuseMissingParam('tool_choice.function.name');
  const isOffered = tools.some(
    (tool) => isJsonRecord(tool.function) && tool.function.name === name,
  );
  if (isOffered) return undefined;
  return refuse(
    `Invalid value for 'tool_choice': no function named ${String(name)} was specified in the ` +
      "'tools' parameter.",
    param,
  );
}

const refuseWithoutTools = () =>
  refuse(
    "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.",
    'tool_choice',
  );
