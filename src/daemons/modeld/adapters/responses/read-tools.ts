// Reads the tools of OpenAI's Responses API: functions, tools that take free text, and namespaces
// of both. A tool that runs at the vendor is dropped if the model need not call it.
import { makeCustomTool } from '../custom-tools.ts';
import type { ModelRequest, RequestTool } from '../model-request.ts';
import { asList, asObject, asText, type JsonObject } from '../reading.ts';
import { rejectMalformed, rejectUntranslatable } from '../refusals.ts';
import { joinNamespace } from './namespaces.ts';

function refuse(what: string): never {
  return rejectUntranslatable(what, 'OpenAI Responses');
}

type ToolChoice = ModelRequest['toolChoice'];
type ReadTools = { tools: RequestTool[]; choice: ToolChoice };

export function readTools(
  values: readonly unknown[],
  options: { choice: unknown; dropped: string[] },
): ReadTools {
  const tools: RequestTool[] = [];
  const vendor: string[] = [];
  values.forEach((value, index) => {
    const tool = asObject(value);
    const type = asText(tool?.type);
    if (tool === undefined || type === undefined)
      rejectMalformed(`tools[${index}].type must be the type of a tool`);
    if (type === 'namespace') tools.push(...readNamespace(tool, index));
    else if (type === 'function' || type === 'custom')
      tools.push(readTool(tool, `tools[${index}]`, undefined));
    else vendor.push(type);
  });
  // Alone it is what the client wants; among others it is an offer that the model may ignore.
  if (vendor.length > 0 && tools.length === 0) refuse(`the tool ${vendor[0]}`);
  options.dropped.push(...vendor.map((type) => `tools.${type}`));
  return chooseTools(tools, options.choice);
}

function readNamespace(space: JsonObject, index: number): RequestTool[] {
  const name = asText(space.name);
  if (name === undefined || name === '')
    rejectMalformed(`tools[${index}].name must be the name of a namespace`);
  const about = asText(space.description) ?? '';
  return asList(space.tools).map((value, at) => {
    const where = `tools[${index}].tools[${at}]`;
    const tool = readTool(asObject(value) ?? {}, where, name);
    // Once, because descriptions of namespaces are long.
    if (at > 0 || about === '') return tool;
    return { ...tool, description: `${about}\n\n${tool.description}` };
  });
}

function readTool(tool: JsonObject, where: string, namespace: string | undefined): RequestTool {
  const own = asText(tool.name);
  if (own === undefined || own === '') rejectMalformed(`${where}.name must be a name`);
  const name = joinNamespace(namespace, own);
  const description = asText(tool.description) ?? '';
  const placed = namespace === undefined ? {} : { namespace: { name: namespace, tool: own } };
  if (tool.type === 'custom')
    return { ...makeCustomTool(name, description, asObject(tool.format)), ...placed };
  return {
    name,
    description,
    input_schema: asObject(tool.parameters) ?? { type: 'object', properties: {} },
    ...(tool.strict === true ? { strict: true } : {}),
    ...placed,
  };
}

function chooseTools(tools: RequestTool[], value: unknown): ReadTools {
  if (value === undefined || value === null) return { tools, choice: undefined };
  if (value === 'auto' || value === 'none' || value === 'required') return { tools, choice: value };
  const choice = asObject(value);
  if (choice?.type === 'allowed_tools') {
    const names = new Set(asList(choice.tools).map((tool) => asText(asObject(tool)?.name)));
    const allowed = tools.filter((tool) => names.has(tool.name));
    return { tools: allowed, choice: choice.mode === 'required' ? 'required' : 'auto' };
  }
  const own = asText(choice?.name);
  if ((choice?.type !== 'function' && choice?.type !== 'custom') || own === undefined)
    return refuse('this form of tool_choice');
  return { tools, choice: { name: joinNamespace(asText(choice.namespace), own) } };
}
