// Supports the refusal tests of this wire: builds requests, and checks a table of refusals against
// a running server.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { postMessages, readPath, startServer, type TestServer } from '../testing.ts';

export const user = { role: 'user', content: 'Hello' };
export const base = { model: 'rehearsal-large', max_tokens: 1024, messages: [user] };
export const small = { ...base, model: 'rehearsal-small' };
export const toolUse = (id: string, extra: object = {}) => ({
  type: 'tool_use',
  id,
  name: 'task_finish',
  input: {},
  ...extra,
});
export const toolResult = (id: string, extra: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content: 'ok',
  ...extra,
});
export const assistant = (...content: object[]) => ({ role: 'assistant', content });
export const userWith = (...content: object[]) => ({ role: 'user', content });
export const chat = (...messages: unknown[]) => ({ ...base, messages });
export const customTool = (extra: object) => ({
  name: 'x',
  input_schema: { type: 'object' },
  ...extra,
});
export const textBlock = (text: string) => ({ type: 'text', text });

export type AnthropicRefusalRow = [
  name: string,
  body: unknown,
  message: RegExp,
  status?: number,
  type?: string,
];

export function testRefusals(title: string, rows: readonly AnthropicRefusalRow[]): void {
  describe(title, () => {
    let server: TestServer;
    before(async () => {
      server = await startServer();
    });
    after(() => server[Symbol.asyncDispose]());
    for (const [name, body, message, status = 400, type = 'invalid_request_error'] of rows) {
      test(name, async () => {
        const response = await postMessages(server, body);
        assert.match(String(readPath(response.json, 'error.message')), message);
        assert.equal(response.status, status);
        assert.equal(readPath(response.json, 'type'), 'error');
        assert.equal(readPath(response.json, 'error.type'), type);
        assert.equal(readPath(response.json, 'request_id'), response.headers.get('request-id'));
      });
    }
  });
}
