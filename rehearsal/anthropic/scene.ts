// Reads a checked message request into a scene, and counts its characters and cache marks.
import type { Model } from '../models.ts';
import {
  readAgent,
  readGoal,
  type Scene,
  type ToolChoice,
  type ToolOffer,
  type ToolResult,
} from '../scene.ts';
import { IMAGE_CHARS, type PromptSize } from '../tokens.ts';
import type { Block, InputMessage, MessagesRequest, ToolResultBlock } from './types.ts';

type Marked = { readonly cache_control?: unknown };

function resultText(block: ToolResultBlock): string {
  if (block.content === undefined) return '';
  if (typeof block.content === 'string') return block.content;
  return block.content.map((part) => (part.type === 'text' ? part.text : '')).join('\n');
}

function countChars(block: Block): number {
  switch (block.type) {
    case 'text':
      return block.text.length;
    case 'thinking':
      return block.thinking.length;
    case 'tool_use':
      return block.name.length + JSON.stringify(block.input).length;
    case 'tool_result':
      return resultText(block).length;
    default:
      return IMAGE_CHARS;
  }
}

export type Measured = PromptSize & { readonly markCount: number };

/** Counts in the order in which a prompt is cached: tools, system, messages. */
export function measurePrompt(request: MessagesRequest): Measured {
  let chars = 0;
  let seenChars = 0;
  let markedChars = 0;
  let markCount = 0;
  const add = (count: number, item: Marked | undefined) => {
    chars += count;
    if (item?.cache_control == null) return;
    markedChars = chars;
    markCount += 1;
  };
  for (const tool of request.tools ?? []) add(JSON.stringify(tool).length, tool as Marked);
  const { system } = request;
  if (typeof system === 'string') add(system.length, undefined);
  else for (const block of system ?? []) add(block.text.length, block as Marked);
  for (const message of request.messages) {
    if (message.role === 'assistant') seenChars = chars;
    if (typeof message.content === 'string') add(message.content.length, undefined);
    else for (const block of message.content) add(countChars(block), block as Marked);
  }
  const marksAll = (request as Marked).cache_control != null;
  return { chars, seenChars, markedChars: marksAll ? chars : markedChars, markCount };
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

export function readScene(request: MessagesRequest, model: Model): Scene {
  let systemText = readSystem(request);
  let firstUser: string | undefined;
  let lastUser = '';
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
    }
    if (message.role === 'assistant') {
      step += 1;
      results = [];
    }
    if (typeof message.content === 'string') continue;
    for (const block of message.content) {
      if (block.type === 'tool_use') names.set(block.id, block.name);
      if (block.type !== 'tool_result') continue;
      const result = { tool: names.get(block.tool_use_id) ?? '', text: resultText(block) };
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
    goal: readGoal(firstUser ?? ''),
    step,
    lastUser,
    results,
    allResults,
    tools,
    toolChoice: readToolChoice(request),
    allowsParallelCalls: request.tool_choice?.disable_parallel_tool_use !== true,
    maxOutputTokens: request.max_tokens,
    stopSequences: request.stop_sequences ?? [],
    mayThink: request.thinking?.type !== 'disabled',
  };
}
