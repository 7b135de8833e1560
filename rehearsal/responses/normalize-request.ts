// Normalizes a checked request of the Responses API, and counts its characters. The items that a
// model made between two turns of the client are one step.
import type { Model } from '../models.ts';
import {
  type NormalizedRequest,
  readAgent,
  readGoal,
  type ToolChoice,
  type ToolOffer,
  type ToolResult,
} from '../normalized-request.ts';
import { IMAGE_CHARS, type PromptSize } from '../tokens.ts';
import type { InputItem, ItemContent, ResponsesRequest, ResponsesTool } from './types.ts';

const CUSTOM_SCHEMA = { type: 'object', properties: { input: { type: 'string' } } };

export type OfferedTool = {
  readonly tool: ResponsesTool;
  readonly namespace: string | undefined;
};

/** Codex sends null for the content of reasoning. */
type OptionalContent = ItemContent | null | undefined;

function readText(content: OptionalContent): string {
  if (content == null || typeof content === 'string') return content ?? '';
  return content.map((part) => part.text ?? part.refusal ?? '').join('\n');
}

export function listItems({ input }: ResponsesRequest): readonly InputItem[] {
  return typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: input }]
    : input.map((item) => ({ ...item, type: item.type ?? 'message' }));
}

function listTools(request: ResponsesRequest): readonly ResponsesTool[] {
  return [...(request.tools ?? []), ...listItems(request).flatMap((item) => item.tools ?? [])];
}

/** By the name that a screenplay calls; a namespace precedes it. */
export function listOffers(request: ResponsesRequest): Map<string, OfferedTool> {
  const offers = new Map<string, OfferedTool>();
  for (const tool of listTools(request)) {
    if (tool.type === 'namespace')
      for (const inner of tool.tools ?? [])
        offers.set(`${tool.name}__${inner.name}`, { tool: inner, namespace: tool.name });
    else if (tool.type === 'function' || tool.type === 'custom')
      offers.set(tool.name!, { tool, namespace: undefined });
  }
  return offers;
}

const isFromModel = (item: InputItem): boolean =>
  item.type === 'reasoning' ||
  item.type === 'function_call' ||
  item.type === 'custom_tool_call' ||
  (item.type === 'message' && item.role === 'assistant');

function countContent(content: OptionalContent): number {
  if (content == null || typeof content === 'string') return content?.length ?? 0;
  return content.reduce(
    (sum, part) => sum + (part.text?.length ?? part.refusal?.length ?? IMAGE_CHARS),
    0,
  );
}

const countChars = (item: InputItem): number =>
  countContent(item.content) +
  countContent(item.output) +
  (item.name?.length ?? 0) +
  (item.arguments?.length ?? 0) +
  (item.input?.length ?? 0);

export function measurePrompt(request: ResponsesRequest): PromptSize {
  const tools = listTools(request);
  let chars = (request.instructions?.length ?? 0) + (tools.length && JSON.stringify(tools).length);
  let previousChars = 0;
  let wasFromModel = false;
  for (const item of listItems(request)) {
    const fromModel = isFromModel(item);
    if (fromModel && !wasFromModel) previousChars = chars;
    wasFromModel = fromModel;
    chars += countChars(item);
  }
  return { chars, previousChars, breakpointChars: 0 };
}

function readToolChoice({ tool_choice: choice }: ResponsesRequest): ToolChoice {
  if (choice === 'none' || choice === 'required') return { kind: choice };
  if (typeof choice !== 'object' || choice === null || choice.name === undefined)
    return { kind: 'auto' };
  return { kind: 'named', name: choice.name };
}

function readConversation(request: ResponsesRequest) {
  let systemText = request.instructions ? `${request.instructions}\n` : '';
  let firstUser: string | undefined;
  let lastUser = '';
  const userTexts: string[] = [];
  let step = 1;
  let wasFromModel = false;
  const names = new Map<string, string>();
  const allResults: ToolResult[] = [];
  let results: ToolResult[] = [];
  for (const item of listItems(request)) {
    const fromModel = isFromModel(item);
    if (fromModel && !wasFromModel) {
      step += 1;
      results = [];
    }
    wasFromModel = fromModel;
    const text = readText(item.content);
    if (item.role === 'system' || item.role === 'developer') systemText += `${text}\n`;
    if (item.role === 'user') {
      firstUser ??= text;
      lastUser = text || lastUser;
      userTexts.push(text);
    }
    if (fromModel && item.call_id !== undefined) names.set(item.call_id, item.name ?? '');
    if (item.output === undefined) continue;
    const result = { tool: names.get(item.call_id ?? '') ?? '', text: readText(item.output) };
    results.push(result);
    allResults.push(result);
  }
  return { systemText, firstUser: firstUser ?? '', lastUser, userTexts, step, results, allResults };
}

export function normalizeRequest(request: ResponsesRequest, model: Model): NormalizedRequest {
  const { systemText, firstUser, lastUser, userTexts, step, results, allResults } =
    readConversation(request);
  const tools = new Map<string, ToolOffer>();
  for (const [name, { tool }] of listOffers(request))
    tools.set(name, { name, schema: tool.type === 'custom' ? CUSTOM_SCHEMA : tool.parameters });
  return {
    wire: 'responses',
    model: model.id,
    agent: readAgent(systemText),
    system: systemText,
    goal: readGoal(firstUser),
    step,
    lastUser,
    userText: userTexts.join('\n'),
    results,
    allResults,
    tools,
    toolChoice: readToolChoice(request),
    allowsParallelCalls: request.parallel_tool_calls !== false,
    maxOutputTokens: request.max_output_tokens ?? model.outputTokensMax,
    stopSequences: [],
    isThinkingAllowed: true,
  };
}
