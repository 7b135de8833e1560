// Short builders of request parts for tests of the dialects.
import { Fault } from '../../../wire/errors.ts';
import type { Message, Part } from '../../../wire/modeld.ts';
import type { ModelRequest } from '../adapters/model-request.ts';
import type { JsonObject } from '../adapters/reading.ts';

export const text = (value: string): Part => ({ type: 'text', text: value });
export const user = (...parts: Part[]): Message => ({ role: 'user', parts });
export const assistant = (...parts: Part[]): Message => ({ role: 'assistant', parts });
export const request = (more: Partial<ModelRequest>): ModelRequest => ({
  messages: [user(text('hi'))],
  tools: [],
  stop: [],
  stream: false,
  ...more,
});
export const call = (id: string, name: string, args: JsonObject = {}): Part => ({
  type: 'tool_call',
  id,
  name,
  arguments: args,
});
export const result = (id: string, content: string, isError?: true): Part => ({
  type: 'tool_result',
  tool_call_id: id,
  content,
  ...(isError === undefined ? {} : { is_error: isError }),
});
export const isFault = (code: string, message?: RegExp) => (error: unknown) =>
  error instanceof Fault && error.code === code && (message?.test(error.message) ?? true);
