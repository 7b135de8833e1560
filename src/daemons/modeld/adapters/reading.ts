// Reads untrusted JSON: values of the wrong type become undefined or empty. The dialect decides
// what is missing or invalid.
import { createHash, randomUUID } from 'node:crypto';
import { parseJson } from '../../../platform/json.ts';

export type JsonObject = Record<string, unknown>;

export function asObject(value: unknown): JsonObject | undefined {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as JsonObject)
    : undefined;
}

export function asList(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function asText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** Returns 0 for anything but a positive integer. */
export function asCount(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0;
}

export function asNumber(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** Returns undefined when the text is not a JSON object. */
export function parseObject(text: string): JsonObject | undefined {
  try {
    return asObject(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export type Arguments = { arguments: JsonObject; arguments_error?: string };

/** Parses arguments from text. Models leave them empty for a tool without parameters. */
export function readArguments(text: string): Arguments {
  if (text.trim() === '') return { arguments: {} };
  let problem = 'not a JSON object';
  try {
    const value = asObject(parseJson(text, 'the text'));
    if (value !== undefined) return { arguments: value };
  } catch (error) {
    problem = (error as Error).message;
  }
  return { arguments: {}, arguments_error: clip(`${problem}; the model wrote: ${text}`, 600) };
}

/** Reads arguments that Anthropic sends as a value. */
export function readArgumentsValue(value: unknown): Arguments {
  const object = asObject(value);
  if (object !== undefined) return { arguments: object };
  if (value === undefined || value === null) return { arguments: {} };
  return {
    arguments: {},
    arguments_error: clip(`not a JSON object; the model wrote: ${JSON.stringify(value)}`, 600),
  };
}

export function clip(text: string, lengthMax: number): string {
  return text.length <= lengthMax ? text : `${text.slice(0, lengthMax - 1)}…`;
}

const CALL_ID_LENGTH_MAX = 128;
/** The longest name in a neutral request; no vendor allows a longer one. */
export const TOOL_NAME_LENGTH_MAX = 128;

/** Some servers send no id, and two calls must never share one. */
export function readCallId(value: unknown): string {
  const id = asText(value);
  if (id === undefined || id === '') return `call_${randomUUID().replaceAll('-', '')}`;
  if (id.length <= CALL_ID_LENGTH_MAX) return id;
  return `call_${createHash('sha256').update(id).digest('hex').slice(0, 32)}`;
}
