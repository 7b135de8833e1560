// Support for the tests of this wire: requests to bend, and a check of one refusal against a real
// server.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { dig, postMessages, startServer, type TestServer } from '../testing.ts';

export const user = { role: 'user', content: 'Hello' };
export const base = { model: 'rehearsal-large', max_tokens: 1024, messages: [user] };
export const small = { ...base, model: 'rehearsal-small' };
export const use = (id: string, extra: object = {}) => ({
  type: 'tool_use',
  id,
  name: 'task_finish',
  input: {},
  ...extra,
});
export const result = (id: string, extra: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content: 'ok',
  ...extra,
});
export const assistant = (...content: object[]) => ({ role: 'assistant', content });
export const answers = (...content: object[]) => ({ role: 'user', content });
export const say = (...messages: unknown[]) => ({ ...base, messages });
export const custom = (extra: object) => ({
  name: 'x',
  input_schema: { type: 'object' },
  ...extra,
});
export const text = (words: string) => ({ type: 'text', text: words });

export type Row = [name: string, body: unknown, message: RegExp, status?: number, type?: string];

export function testRefusals(title: string, rows: readonly Row[]): void {
  describe(title, () => {
    let server: TestServer;
    before(async () => {
      server = await startServer();
    });
    after(() => server[Symbol.asyncDispose]());
    for (const [name, body, message, status = 400, type = 'invalid_request_error'] of rows) {
      test(name, async () => {
        const answer = await postMessages(server, body);
        assert.match(String(dig(answer.json, 'error.message')), message);
        assert.equal(answer.status, status);
        assert.equal(dig(answer.json, 'type'), 'error');
        assert.equal(dig(answer.json, 'error.type'), type);
        assert.equal(dig(answer.json, 'request_id'), answer.headers.get('request-id'));
      });
    }
  });
}
