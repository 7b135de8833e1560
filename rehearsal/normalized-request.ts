// Defines a request independent of its wire: agent, goal, step, tool results, limits. Screenplays
// can match and quote only what is in it.
import { truncateText } from './split-text.ts';

export const WIRE_NAMES = ['openai', 'responses', 'anthropic'] as const;
export type WireName = (typeof WIRE_NAMES)[number];

export type ToolOffer = { readonly name: string; readonly schema: unknown };

export type ToolResult = { readonly tool: string; readonly text: string };

export type ToolChoice =
  | { readonly kind: 'auto' | 'none' | 'required' }
  | { readonly kind: 'named'; readonly name: string };

export type NormalizedRequest = {
  readonly wire: WireName;
  readonly model: string;
  /** Empty when the system prompt has no line `You are agent:<name>`. */
  readonly agent: string;
  /** Text of all system messages. */
  readonly system: string;
  /** Empty when the first user message has no line that starts with `Goal: `. */
  readonly goal: string;
  /** Number of assistant messages plus one, so the same request is always the same step. */
  readonly step: number;
  /** Text of the newest user message that contains text. */
  readonly lastUser: string;
  /** Text of all user messages. */
  readonly userText: string;
  /** The tool results since the newest assistant message, in the order of their calls. */
  readonly results: readonly ToolResult[];
  /** Every tool result of the conversation, oldest first. */
  readonly allResults: readonly ToolResult[];
  readonly tools: ReadonlyMap<string, ToolOffer>;
  readonly toolChoice: ToolChoice;
  readonly allowsParallelCalls: boolean;
  readonly maxOutputTokens: number;
  readonly stopSequences: readonly string[];
  /** False when the request disables thinking. */
  readonly isThinkingAllowed: boolean;
};

/** Longer goals are truncated before matching, so that no pattern runs for seconds. */
const GOAL_CHARS_MAX = 8_000;

const AGENT_LINE = /^You are agent:([a-z][a-z0-9-]*)/m;
const GOAL_LINE = /^Goal: (.*)/m;

export function readAgent(systemText: string): string {
  return AGENT_LINE.exec(systemText)?.[1] ?? '';
}

export function readGoal(firstUserText: string): string {
  return truncateText(GOAL_LINE.exec(firstUserText)?.[1] ?? '', GOAL_CHARS_MAX).trim();
}

const LABEL = '[rehearsal]';
const TEXT_KEYS = ['result', 'answer', 'text', 'output', 'summary', 'message', 'content'];

/**
 * Returns the text inside a tool result, which is usually JSON, without its label: a reply that
 * quotes several results carries the label only once.
 */
export function extractText(resultText: string): string {
  const text = resultText.trim();
  if (!text.startsWith('{')) return stripLabel(text);
  try {
    return stripLabel(findText(JSON.parse(text), 3) ?? text);
  } catch {
    return text;
  }
}

function findText(value: unknown, depth: number): string | undefined {
  if (typeof value === 'string') return value;
  if (depth === 0 || value === null || typeof value !== 'object') return undefined;
  for (const key of TEXT_KEYS) {
    const text = findText((value as Record<string, unknown>)[key], depth - 1);
    if (text !== undefined) return text;
  }
  return undefined;
}

function stripLabel(text: string): string {
  return text.startsWith(LABEL) ? text.slice(LABEL.length).trimStart() : text;
}

export function addLabel(text: string): string {
  return text.includes(LABEL) ? text : `${LABEL} ${text}`;
}
