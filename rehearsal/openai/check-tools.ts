// Checks the tools and the tool choice of a chat request as OpenAI does.
import { isJson, type Json, type Refusal, refusalIn } from '../refusal.ts';
import { checkFunctionName } from './check-messages.ts';
import { refuse, refuseLongArray, refuseMissing, refuseType, refuseValue } from './refusals.ts';

const toolsMax = 128;

function checkParameters(fn: Json, param: string): Refusal | undefined {
  const { parameters } = fn;
  if (parameters === undefined) return undefined;
  if (!isJson(parameters)) return refuseType(param, 'an object', parameters);
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

function checkTool(tool: unknown, index: number): Refusal | undefined {
  const param = `tools[${index}]`;
  if (!isJson(tool)) return refuseType(param, 'an object', tool);
  if (tool.type === undefined) return refuseMissing(`${param}.type`);
  if (tool.type === 'custom') return undefined;
  if (tool.type !== 'function') {
    return refuseValue(`${param}.type`, tool.type, ['function', 'custom']);
  }
  const fn = tool.function;
  if (fn === undefined) return refuseMissing(`${param}.function`);
  if (!isJson(fn)) return refuseType(`${param}.function`, 'an object', fn);
  return (
    checkFunctionName(fn.name, `${param}.function.name`) ??
    checkParameters(fn, `${param}.function.parameters`)
  );
}

export function checkTools(tools: unknown): Refusal | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) return refuseType('tools', 'an array of objects', tools);
  if (tools.length > toolsMax) return refuseLongArray('tools', toolsMax, tools.length);
  return refusalIn(tools, checkTool);
}

export function checkToolChoice(body: Json): Refusal | undefined {
  const choice = body.tool_choice;
  if (choice === undefined || choice === null) return undefined;
  const param = 'tool_choice';
  const tools = Array.isArray(body.tools) ? (body.tools as Json[]) : [];
  if (tools.length === 0 && choice !== 'none' && choice !== 'auto') return refuseWithoutTools();
  if (!Array.isArray(body.tools)) return refuseWithoutTools();
  if (typeof choice === 'string') {
    const words = ['none', 'auto', 'required'];
    return words.includes(choice) ? undefined : refuseValue(param, choice, words);
  }
  if (!isJson(choice)) return refuseType(param, 'one of a string or an object', choice);
  if (choice.type !== 'function') return undefined;
  const name = isJson(choice.function) ? choice.function.name : undefined;
  if (name === undefined) return refuseMissing('tool_choice.function.name');
  const isOffered = tools.some((tool) => isJson(tool.function) && tool.function.name === name);
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
