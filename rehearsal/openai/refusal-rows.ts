// Support for the tests of this wire: requests to bend, and a check of one refusal against a real
// server.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { dig, OPENAI_HEADERS, post, startServer, type TestServer } from '../testing.ts';

export const user = { role: 'user', content: 'Hello' };
export const base = { model: 'rehearsal-large', messages: [user] };
export const call = (id: string, extra: object = {}) => ({
  id,
  type: 'function',
  function: { name: 'task_finish', arguments: '{}', ...extra },
});
export const assistant = (...calls: object[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: calls,
});
export const tool = (id: string) => ({ role: 'tool', tool_call_id: id, content: 'ok' });
export const named = (name: unknown, parameters: unknown = { type: 'object' }) => ({
  type: 'function',
  function: { name, parameters },
});
export const say = (...messages: unknown[]) => ({ ...base, messages });

export type Row = [
  name: string,
  body: unknown,
  message: RegExp,
  param: string | null,
  code: string | null,
  status?: number,
];

export function testRefusals(title: string, path: string, rows: readonly Row[]): void {
  describe(title, () => {
    let server: TestServer;
    before(async () => {
      server = await startServer();
    });
    after(() => server[Symbol.asyncDispose]());
    for (const [name, body, message, param, code, status = 400] of rows) {
      test(name, async () => {
        const answer = await post(`${server.url}${path}`, OPENAI_HEADERS, body);
        const error = dig<Record<string, unknown>>(answer.json, 'error');
        assert.match(String(error?.message), message);
        assert.deepEqual(
          { status: answer.status, type: error.type, param: error.param, code: error.code },
          { status, type: 'invalid_request_error', param, code },
        );
        assert.match(answer.headers.get('x-request-id') ?? '', /^req_/);
      });
    }
  });
}
