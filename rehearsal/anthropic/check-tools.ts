// Checks the tools and the tool choice of a request as Anthropic does.
import {
  findItemRefusal,
  isJsonRecord,
  type JsonRecord,
  type RehearsalRefusal,
} from '../refusal.ts';
import { checkExtraFields, checkToolName } from './check-blocks.ts';
import { refuse, refuseMissingField, refuseUnknownTag, refuseWrongType } from './refusals.ts';
import { TOOL_FIELDS } from './types.ts';

/** The vendor's own tools end in a date. They are accepted, and a rehearsal never calls them. */
const VENDOR_TOOL = /_\d{8}$/;
const TOOL_TYPES = ['bash_20250124', 'custom', 'text_editor_20250728', 'web_search_20260318'];
const TOOL_CHOICES = ['auto', 'any', 'tool', 'none'];

function checkSchema(schema: unknown, path: string): RehearsalRefusal | undefined {
  if (schema === undefined) return refuseMissingField(path);
  if (!isJsonRecord(schema)) return refuseWrongType(path, 'dictionary');
  if (schema.type === undefined) return refuseMissingField(`${path}.type`);
  if (schema.type !== 'object') return refuse(`${path}.type: Input should be 'object'`);
  return ['oneOf', 'allOf', 'anyOf'].some((key) => key in schema)
    ? refuse(`${path}: input_schema does not support oneOf, allOf, or anyOf at the top level`)
    : undefined;
}

function checkTool(tool: unknown, index: number): RehearsalRefusal | undefined {
  const path = `tools.${index}`;
  if (!isJsonRecord(tool)) return refuseWrongType(path, 'dictionary');
  const { type } = tool;
  if (type !== undefined && type !== null && type !== 'custom') {
    return VENDOR_TOOL.test(String(type)) ? undefined : refuseUnknownTag(path, type, TOOL_TYPES);
  }
  return (
    checkToolName(tool.name, `${path}.custom.name`) ??
    checkSchema(tool.input_schema, `${path}.custom.input_schema`) ??
    checkExtraFields(tool, TOOL_FIELDS, `${path}.custom`)
  );
}

export function checkTools(tools: unknown): RehearsalRefusal | undefined {
  if (tools === undefined || tools === null) return undefined;
  if (!Array.isArray(tools)) return refuseWrongType('tools', 'list');
  const refusal = findItemRefusal(tools, checkTool);
  if (refusal) return refusal;
  const names = tools.map((tool: JsonRecord) => tool.name);
  return new Set(names).size < names.length
    ? refuse('tools: Tool names must be unique.')
    : undefined;
}

export function checkToolChoice(body: JsonRecord): RehearsalRefusal | undefined {
  const choice = body.tool_choice;
  if (choice === undefined || choice === null) return undefined;
  if (!isJsonRecord(choice)) return refuseWrongType('tool_choice', 'dictionary');
  if (!TOOL_CHOICES.includes(String(choice.type)))
    return refuseUnknownTag('tool_choice', choice.type, TOOL_CHOICES);
  const tools = Array.isArray(body.tools) ? (body.tools as JsonRecord[]) : [];
  if (tools.length === 0 && choice.type !== 'none') {
    return refuse('tool_choice may only be specified while providing tools.');
  }
  if (choice.type !== 'tool') return undefined;
  if (choice.name === undefined) return refuseMissingField('tool_choice.tool.name');
  return tools.some((tool) => tool.name === choice.name)
    ? undefined
    : refuse(`tool_choice: Tool '${String(choice.name)}' not found in provided tools`);
}
