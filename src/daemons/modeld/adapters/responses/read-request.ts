// Reads a client's Responses body as a neutral request, for providers of another dialect. Options
// that only tune sampling, caching or reporting are dropped by name; those that change the
// response's shape are rejected.
import { fault } from '../../../../wire/errors.ts';
import type { ModelRequest } from '../model-request.ts';
import { asList, asNumber, asObject, asText, type JsonObject } from '../reading.ts';
import { listUnknown, rejectMalformed, rejectUntranslatable } from '../refusals.ts';
import { readInput } from './read-input.ts';
import { readTools } from './read-tools.ts';

function refuse(what: string): never {
  return rejectUntranslatable(what, 'OpenAI Responses');
}

const KNOWN: ReadonlySet<string> = new Set([
  'model',
  'input',
  'instructions',
  'tools',
  'tool_choice',
  'parallel_tool_calls',
  'temperature',
  'top_p',
  'max_output_tokens',
  'stream',
  'text',
  'reasoning',
  'include',
  'metadata',
  'store',
  'background',
  'top_logprobs',
]);

function refuseStored(what: string): never {
  throw fault('bad_request', `${what} is not supported: responses are not stored for clients`, {
    hint: 'Send the whole conversation in input, and set store to false.',
  });
}

/** Each refers to text that only the provider has: modeld can neither bound nor record it. */
const STORED = ['previous_response_id', 'conversation', 'prompt'];

/** Also for clients of the provider's own dialect. */
export function assertSelfContained(body: JsonObject): void {
  for (const name of STORED)
    if (body[name] !== undefined && body[name] !== null) refuseStored(name);
  if (body.background === true)
    throw fault('bad_request', 'background is not supported: a call ends with its response', {
      hint: 'Leave background out, and read the response or its stream.',
    });
  asList(body.input).forEach((item, index) => {
    const reference = asObject(item);
    const isReference =
      reference?.type === 'item_reference' ||
      (reference?.type === undefined &&
        reference?.role === undefined &&
        reference?.id !== undefined);
    if (isReference) refuseStored(`input[${index}] of type item_reference`);
  });
}

export function readRequest(body: JsonObject): ModelRequest & { model: string } {
  assertSelfContained(body);
  if ((asNumber(body.top_logprobs) ?? 0) > 0) refuse('top_logprobs');
  const include = asList(body.include);
  if (include.includes('message.output_text.logprobs')) refuse('message.output_text.logprobs');
  const model = asText(body.model);
  if (model === undefined || model === '') rejectMalformed('model must be a name');
  const text = asObject(body.text);
  const dropped = listUnknown(body, KNOWN);
  if (body.store === true) dropped.push('store');
  const input = readInput(body.input, dropped);
  const instructions = asText(body.instructions) ?? '';
  if (instructions !== '')
    input.messages.unshift({ role: 'system', parts: [{ type: 'text', text: instructions }] });
  const { tools, choice } = readTools([...asList(body.tools), ...input.tools], {
    choice: body.tool_choice,
    dropped,
  });
  return {
    model,
    messages: input.messages,
    tools,
    toolChoice: choice,
    temperature: asNumber(body.temperature),
    topP: asNumber(body.top_p),
    stop: [],
    maxOutputTokens: asNumber(body.max_output_tokens),
    stream: body.stream === true,
    streamUsage: true,
    parallelToolCalls:
      typeof body.parallel_tool_calls === 'boolean' ? body.parallel_tool_calls : undefined,
    effort: asText(asObject(body.reasoning)?.effort),
    outputSchema: readFormat(text?.format),
    verbosity: asText(text?.verbosity),
    returnsReasoning: include.includes('reasoning.encrypted_content'),
    dropped,
    echo: readEcho(body),
  };
}

const ECHOED = [
  'parallel_tool_calls',
  'temperature',
  'top_p',
  'max_output_tokens',
  'tool_choice',
  'metadata',
  'reasoning',
  'text',
] as const;

function readEcho(body: JsonObject): JsonObject {
  const echo: JsonObject = {};
  for (const name of ECHOED)
    if (body[name] !== undefined && body[name] !== null) echo[name] = body[name];
  return echo;
}

function readFormat(value: unknown): JsonObject | undefined {
  const format = asObject(value);
  if (format === undefined || format.type === 'text') return undefined;
  const schema = asObject(format.schema);
  if (format.type !== 'json_schema' || schema === undefined)
    return refuse('text.format other than text and json_schema');
  return schema;
}
