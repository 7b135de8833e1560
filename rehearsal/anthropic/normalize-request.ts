// Normalizes a checked message request, and counts its characters and cache breakpoints.
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
import type { InputBlock, InputMessage, MessagesRequest, ToolResultBlock } from './types.ts';

type CacheControlled = { readonly cache_control?: unknown };

function readResultText(block: ToolResultBlock): string {
  if (block.content === undefined) return '';
  if (typeof block.content === 'string') return block.content;
  return block.content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function countChars(block: InputBlock): number {
  switch (block.type) {
    case 'text':
      return block.text.length;
    case 'thinking':
      return block.thinking.length;
    case 'tool_use':
      return block.name.length + JSON.stringify(block.input).length;
    case 'tool_result':
      return readResultText(block).length;
    default:
      return IMAGE_CHARS;
  }
}

export type MeasuredPrompt = PromptSize & { readonly breakpointCount: number };

/** Counts in caching order: tools, system, messages. */
export function measurePrompt(request: MessagesRequest): MeasuredPrompt {
  let chars = 0;
  let previousChars = 0;
  let breakpointChars = 0;
  let breakpointCount = 0;
  const add = (count: number, item: CacheControlled | undefined) => {
    chars += count;
    if (item?.cache_control == null) return;
    breakpointChars = chars;
    breakpointCount += 1;
  };
  for (const tool of request.tools ?? []) add(JSON.stringify(tool).length, tool as CacheControlled);
  const { system } = request;
  if (typeof system === 'string') add(system.length, undefined);
  else for (const block of system ?? []) add(block.text.length, block as CacheControlled);
  for (const message of request.messages) {
    if (message.role === 'assistant') previousChars = chars;
    if (typeof message.content === 'string') add(message.content.length, undefined);
    else for (const block of message.content) add(countChars(block), block as CacheControlled);
  }
  const isWholePromptCached = (request as CacheControlled).cache_control != null;
  return {
    chars,
    previousChars,
    breakpointChars: isWholePromptCached ? chars : breakpointChars,
    breakpointCount,
  };
}

function readText(message: InputMessage): string {
  if (typeof message.content === 'string') return message.content;
  return message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n');
}

function readToolChoice(request: MessagesRequest): ToolChoice {
  const choice = request.tool_choice;
  switch (choice?.type) {
    case 'any':
      return { kind: 'required' };
    case 'none':
      return { kind: 'none' };
    case 'tool':
      return { kind: 'named', name: choice.name ?? '' };
    default:
      return { kind: 'auto' };
  }
}

function readSystem(request: MessagesRequest): string {
  const { system } = request;
  return typeof system === 'string' ? system : (system ?? []).map((block) => block.text).join('\n');
}

export function normalizeRequest(request: MessagesRequest, model: Model): NormalizedRequest {
  let systemText = readSystem(request);
  let firstUser: string | undefined;
  let lastUser = '';
  const userTexts: string[] = [];
  let step = 1;
  const names = new Map<string, string>();
  const allResults: ToolResult[] = [];
  let results: ToolResult[] = [];
  for (const message of request.messages) {
    const text = readText(message);
    if (message.role === 'system') systemText += `\n${text}`;
    if (message.role === 'user') {
      firstUser ??= text;
      lastUser = text || lastUser;
      userTexts.push(text);
    }
    if (message.role === 'assistant') {
      step += 1;
      results = [];
    }
    if (typeof message.content === 'string') continue;
    for (const block of message.content) {
      if (block.type === 'tool_use') names.set(block.id, block.name);
      if (block.type !== 'tool_result') continue;
      const result = { tool: names.get(block.tool_use_id) ?? '', text: readResultText(block) };
      results.push(result);
      allResults.push(result);
    }
  }
  const tools = new Map<string, ToolOffer>();
  for (const tool of request.tools ?? []) {
    if (tool.input_schema === undefined) continue;
    tools.set(tool.name, { name: tool.name, schema: tool.input_schema });
  }
  return {
    wire: 'anthropic',
    model: model.id,
    agent: readAgent(systemText),
    system: systemText,
    goal: readGoal(firstUser ?? ''),
    step,
    lastUser,
    userText: userTexts.join('\n'),
    results,
    allResults,
    tools,
    toolChoice: readToolChoice(request),
    allowsParallelCalls: request.tool_choice?.disable_parallel_tool_use !== true,
    maxOutputTokens: request.max_tokens,
    stopSequences: request.stop_sequences ?? [],
    isThinkingAllowed: request.thinking?.type !== 'disabled',
  };
}
