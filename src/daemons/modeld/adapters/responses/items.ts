// The items and the response object of OpenAI's Responses API, built from neutral parts.
import type { Part, Usage } from '../../../../wire/modeld.ts';
import { readCustomInput } from '../custom-tools.ts';
import type { ModelResponse, ResponseMeta } from '../dialect.ts';
import type { RequestTool } from '../model-request.ts';
import type { JsonObject } from '../reading.ts';
import { writeReasoningSeal } from './reasoning.ts';

/** The API wants ids with the prefix of their kind. */
export const toResponseId = (id: string): string => `resp_${id.replace(/^(call|resp)_/, '')}`;

export function makeItemId(prefix: string, meta: ResponseMeta, index: number): string {
  return `${prefix}_${meta.id.replace(/^call_/, '')}_${index}`;
}

export function makeTextPart(text: string): JsonObject {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

export function makeMessageItem(id: string, text: string, status = 'completed'): JsonObject {
  const content = status === 'in_progress' ? [] : [makeTextPart(text)];
  return { id, type: 'message', status, role: 'assistant', content };
}

type ThinkingPart = Extract<Part, { type: 'thinking' }>;

export function makeReasoningItem(id: string, part: ThinkingPart, meta: ResponseMeta): JsonObject {
  const summary = part.text === '' ? [] : [{ type: 'summary_text', text: part.text }];
  const isWanted = meta.request?.returnsReasoning === true && part.signature !== undefined;
  return {
    id,
    type: 'reasoning',
    summary,
    ...(isWanted ? { encrypted_content: writeReasoningSeal(part.signature!) } : {}),
  };
}

/** Finds the client's own tool by the name it has in a neutral request. */
export function findTool(meta: ResponseMeta, name: string): RequestTool | undefined {
  return meta.request?.tools.find((tool) => tool.name === name);
}

type CallItem = { id: string; callId: string; name: string; argumentsText: string };

export function makeCallItem(
  { id, callId, name, argumentsText }: CallItem,
  tool: RequestTool | undefined,
  status = 'completed',
): JsonObject {
  const own = {
    id,
    status,
    call_id: callId,
    name: tool?.namespace?.tool ?? name,
    ...(tool?.namespace === undefined ? {} : { namespace: tool.namespace.name }),
  };
  return tool?.custom === undefined
    ? { type: 'function_call', ...own, arguments: argumentsText }
    : { type: 'custom_tool_call', ...own, input: argumentsText };
}

export function writeOutput(response: ModelResponse, meta: ResponseMeta): JsonObject[] {
  const items: JsonObject[] = [];
  for (const part of response.message.parts) {
    const index = items.length;
    if (part.type === 'thinking')
      items.push(makeReasoningItem(makeItemId('rs', meta, index), part, meta));
    if (part.type === 'text' && part.text !== '')
      items.push(makeMessageItem(makeItemId('msg', meta, index), part.text));
    if (part.type !== 'tool_call') continue;
    const tool = findTool(meta, part.name);
    const isCustom = tool?.custom !== undefined;
    items.push(
      makeCallItem(
        {
          id: makeItemId(isCustom ? 'ctc' : 'fc', meta, index),
          callId: part.id,
          name: part.name,
          argumentsText: isCustom
            ? readCustomInput(part.arguments)
            : JSON.stringify(part.arguments),
        },
        tool,
      ),
    );
  }
  return items;
}

export function writeUsage(usage: Usage): JsonObject {
  const input = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
  return {
    input_tokens: input,
    input_tokens_details: {
      cached_tokens: usage.cache_read_tokens,
      cache_write_tokens: usage.cache_write_tokens,
    },
    output_tokens: usage.output_tokens,
    output_tokens_details: { reasoning_tokens: usage.reasoning_tokens },
    total_tokens: input + usage.output_tokens,
  };
}

const NO_DETAILS = { status: 'completed', incomplete_details: null } as const;

function writeStatus({ stopReason }: ModelResponse): JsonObject {
  if (stopReason === 'max_tokens')
    return { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } };
  if (stopReason === 'refusal')
    return { status: 'incomplete', incomplete_details: { reason: 'content_filter' } };
  return NO_DETAILS;
}

/** Without the client's instructions and tools, which it has. */
export function makeResponseObject(meta: ResponseMeta, rest: JsonObject): JsonObject {
  return {
    id: toResponseId(meta.id),
    object: 'response',
    created_at: Math.floor(meta.createdMs / 1000),
    background: false,
    error: null,
    instructions: null,
    metadata: {},
    model: meta.model,
    parallel_tool_calls: true,
    previous_response_id: null,
    store: false,
    temperature: null,
    tool_choice: 'auto',
    tools: [],
    top_p: null,
    truncation: 'disabled',
    ...meta.request?.echo,
    ...rest,
  };
}

export function finishResponse(
  response: ModelResponse,
  meta: ResponseMeta,
  output: JsonObject[],
): JsonObject {
  return makeResponseObject(meta, {
    ...writeStatus(response),
    output,
    usage: writeUsage(response.usage),
  });
}
