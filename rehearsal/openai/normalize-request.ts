// Normalizes a checked chat request, and counts its characters.
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
import type { ChatMessage, ChatRequest, ChatTool, Content } from './types.ts';

function readText(content: Content | undefined): string {
  if (typeof content === 'string') return content;
  if (!content) return '';
  if (content.length === 1) return content[0]!.text ?? '';
  return content.map((part) => part.text ?? '').join('\n');
}

function countChars(message: ChatMessage): number {
  let chars = 0;
  const { content } = message;
  if (typeof content === 'string') chars += content.length;
  else for (const part of content ?? []) chars += part.text?.length ?? IMAGE_CHARS;
  for (const call of message.tool_calls ?? []) {
    if (call.type === 'function') {
      chars += call.function.name.length + call.function.arguments.length;
    }
  }
  return chars;
}

function countToolChars(tools: readonly ChatTool[]): number {
  return tools.length === 0 ? 0 : JSON.stringify(tools).length;
}

function readToolChoice(request: ChatRequest): ToolChoice {
  const choice = request.tool_choice;
  if (!choice) return { kind: 'auto' };
  if (typeof choice === 'string') return { kind: choice };
  return choice.type === 'function'
    ? { kind: 'named', name: choice.function.name }
    : { kind: 'auto' };
}

export function measurePrompt(request: ChatRequest): PromptSize {
  let chars = countToolChars(request.tools ?? []);
  let previousChars = 0;
  for (const message of request.messages) {
    if (message.role === 'assistant') previousChars = chars;
    chars += countChars(message);
  }
  return { chars, previousChars, breakpointChars: 0 };
}

export function readRequestedTokens(request: ChatRequest): number | undefined {
  return request.max_completion_tokens ?? request.max_tokens ?? undefined;
}

export function normalizeRequest(request: ChatRequest, model: Model): NormalizedRequest {
  let systemText = '';
  let firstUser: string | undefined;
  let lastUser = '';
  const userTexts: string[] = [];
  let step = 1;
  const names = new Map<string, string>();
  const allResults: ToolResult[] = [];
  let results: ToolResult[] = [];
  for (const message of request.messages) {
    const text = readText(message.content);
    switch (message.role) {
      case 'system':
      case 'developer':
        systemText += `${text}\n`;
        break;
      case 'user':
        firstUser ??= text;
        lastUser = text || lastUser;
        userTexts.push(text);
        break;
      case 'assistant':
        step += 1;
        results = [];
        for (const call of message.tool_calls ?? []) names.set(call.id, call.function?.name ?? '');
        break;
      case 'tool': {
        const result = { tool: names.get(message.tool_call_id ?? '') ?? '', text };
        results.push(result);
        allResults.push(result);
        break;
      }
    }
  }
  const tools = new Map<string, ToolOffer>();
  for (const tool of request.tools ?? []) {
    if (tool.type !== 'function') continue;
    const { name, parameters } = tool.function;
    tools.set(name, { name, schema: parameters });
  }
  return {
    wire: 'openai',
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
    allowsParallelCalls: request.parallel_tool_calls !== false,
    maxOutputTokens: readRequestedTokens(request) ?? model.outputTokensMax,
    stopSequences: typeof request.stop === 'string' ? [request.stop] : (request.stop ?? []),
    isThinkingAllowed: true,
  };
}
