// Supports the refusal tests of this wire: builds requests, and checks a table of refusals against
// a running server.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { OPENAI_HEADERS, post, readPath, startServer, type TestServer } from '../testing.ts';

export const user = { role: 'user', content: 'Hello' };
export const base = { model: 'rehearsal-large', messages: [user] };
export const toolCall = (id: string, extra: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'task_finish', arguments: '{}', ...extra },
});
export const assistant = (...calls: object[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: calls,
});
export const toolMessage = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'ok' });
export const functionTool = (name: unknown, parameters: unknown = { type: 'object' }) => ({
  type: 'function',
  function: { name, parameters },
});
export const chat = (...messages: unknown[]) => ({ ...base, messages });

export type OpenaiRefusalRow = [
  name: string,
  body: unknown,
  message: RegExp,
  param: string | null,
  code: string | null,
  status?: number,
];

export function testRefusals(title: string, path: string, rows: readonly OpenaiRefusalRow[]): void {
  describe(title, () => {
    let server: TestServer;
    before(async () => {
      server = await startServer();
    });
    after(() => server[Symbol.asyncDispose]());
    for (const [name, body, message, param, code, status = 400] of rows) {
      test(name, async () => {
        const response = await post(`${server.url}${path}`, OPENAI_HEADERS, body);
        const error = readPath<Record<string, unknown>>(response.json, 'error');
        assert.match(String(error?.message), message);
        assert.deepEqual(
          { status: response.status, type: error.type, param: error.param, code: error.code },
          { status, type: 'invalid_request_error', param, code },
        );
        assert.match(response.headers.get('x-request-id') ?? '', /^req_/);
      });
    }
  });
}
