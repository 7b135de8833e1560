// Supports the tests of this folder: starts a server on a free port and sends requests to it.
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { loadScreenplays, readScreenplay } from './screenplay/load.ts';
import { createRehearsalServer } from './server.ts';

export type TestServer = AsyncDisposable & { readonly url: string };

export async function startServer(screenplay?: string): Promise<TestServer> {
  const shipped = loadScreenplays([join(import.meta.dirname, 'screenplays')]);
  const custom = screenplay === undefined ? undefined : readScreenplay('test.yaml', screenplay);
  const problems = [...shipped.problems, ...(custom?.problems ?? [])];
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  const server = createRehearsalServer([...(custom?.scenarios ?? []), ...shipped.scenarios]);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

export type ReceivedReply = {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: unknown;
};

/** Returns the value at a path such as `choices.0.message`, unchecked, as the type T. */
export function readPath<T>(value: unknown, path: string): T {
  let current = value;
  for (const key of path.split('.'))
    current = (current as Record<string, unknown> | undefined)?.[key];
  return current as T;
}

export const OPENAI_HEADERS = { authorization: 'Bearer test-key' };
export const ANTHROPIC_HEADERS = { 'x-api-key': 'test-key', 'anthropic-version': '2026-10-21' };

export async function post(
  url: string,
  headers: Record<string, string>,
  body: unknown,
): Promise<ReceivedReply> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
  });
  const text = await response.text();
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    json = undefined;
  }
  return { status: response.status, headers: response.headers, text, json };
}

export const postChat = (server: TestServer, body: unknown, headers = OPENAI_HEADERS) =>
  post(`${server.url}/v1/chat/completions`, headers, body);

export const postResponses = (server: TestServer, body: unknown, headers = OPENAI_HEADERS) =>
  post(`${server.url}/v1/responses`, headers, body);

export const postMessages = (server: TestServer, body: unknown, headers = ANTHROPIC_HEADERS) =>
  post(`${server.url}/v1/messages`, headers, body);

export const TOOL_NAMES = [
  'task_delegate',
  'task_finish',
  'artifact_put',
  'artifact_get',
  'person_ask',
  'test_count_effect',
];

export const OPENAI_TOOLS = TOOL_NAMES.map((name) => ({
  type: 'function' as const,
  function: { name, description: name, parameters: { type: 'object', properties: {} } },
}));

export const ANTHROPIC_TOOLS = TOOL_NAMES.map((name) => ({
  name,
  description: name,
  input_schema: { type: 'object' as const, properties: {} },
}));
