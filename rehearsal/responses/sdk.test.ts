// Tests the Responses API of this server with the unmodified openai package: text, streams, tools
// of each kind, reasoning and errors.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import OpenAI from 'openai';
import { startServer, type TestServer } from '../testing.ts';

const model = 'rehearsal-large';
const PLAY = `plays:
  - play: tools
    match: { last_user: '/use tools/' }
    answers:
      - thinking: Three tools at once.
        text: I will use them.
        calls:
          - { tool: plain, arguments: { city: Oslo } }
          - { tool: patch, arguments: { input: "*** Begin\\n+ä 😀" } }
          - { tool: space__inner, arguments: {} }
      - text: '{{result.1}} {{result.2}} {{result.3}}'
`;
const tools = [
  { type: 'function', name: 'plain', parameters: { type: 'object' }, strict: false },
  { type: 'custom', name: 'patch', format: { type: 'text' } },
  {
    type: 'namespace',
    name: 'space',
    description: 'A space.',
    tools: [{ type: 'function', name: 'inner', parameters: { type: 'object' } }],
  },
  { type: 'web_search' },
] satisfies OpenAI.Responses.Tool[];

describe('the Responses API', () => {
  let server: TestServer;
  let client: OpenAI;
  before(async () => {
    server = await startServer(PLAY);
    client = new OpenAI({ apiKey: 'test-key', baseURL: `${server.url}/v1`, maxRetries: 0 });
  });
  after(() => server[Symbol.asyncDispose]());

  const body = {
    model,
    input: [{ role: 'user' as const, content: 'use tools' }],
    tools,
    include: ['reasoning.encrypted_content' as const],
    store: false,
  };

  test('text, labeled, with usage', async () => {
    const response = await client.responses.create({ model, input: 'Hello there' });
    assert.match(response.output_text, /^\[rehearsal\].*Hello there/);
    assert.equal(response.status, 'completed');
    assert.equal(response.usage?.input_tokens, 3);
  });

  test('a round of tools: a function, free text and one in a namespace', async () => {
    const first = await client.responses.create(body);
    assert.deepEqual(
      first.output.map((item) => item.type),
      ['reasoning', 'message', 'function_call', 'custom_tool_call', 'function_call'],
    );
    const outputs = first.output.flatMap((item): OpenAI.Responses.ResponseInputItem[] => {
      if (item.type === 'function_call') {
        const output = `${item.namespace ?? ''}:${item.name}:${item.arguments}`;
        return [{ type: 'function_call_output', call_id: item.call_id, output }];
      }
      return item.type === 'custom_tool_call'
        ? [{ type: 'custom_tool_call_output', call_id: item.call_id, output: item.input }]
        : [];
    });
    const input = [...body.input, ...first.output, ...outputs] as OpenAI.Responses.ResponseInput;
    const second = await client.responses.create({ ...body, input });
    assert.equal(
      second.output_text,
      '[rehearsal] :plain:{"city":"Oslo"} *** Begin\n+ä 😀 space:inner:{}',
    );
  });

  test('a stream has the events of each item, in order, and ends with the same response', async () => {
    const whole = await client.responses.create(body);
    const stream = await client.responses.create({ ...body, stream: true });
    const events = await Array.fromAsync(stream);
    assert.deepEqual(
      events.map((event) => event.sequence_number),
      events.map((_, index) => index),
    );
    assert.equal(events[0]!.type, 'response.created');
    assert.equal(events[1]!.type, 'response.in_progress');
    const last = events.at(-1)!;
    assert.ok(last.type === 'response.completed');
    const strip = (items: OpenAI.Responses.ResponseOutputItem[]) =>
      JSON.stringify(items).replaceAll(/"(id|call_id)":"[^"]*"/g, '');
    assert.equal(strip(last.response.output), strip(whole.output));
    const deltas = (type: string) =>
      events.flatMap((event) => (event.type === type && 'delta' in event ? [event.delta] : []));
    assert.equal(deltas('response.custom_tool_call_input.delta').join(''), '*** Begin\n+ä 😀');
    assert.equal(deltas('response.function_call_arguments.delta').join(''), '{"city":"Oslo"}{}');
    for (const [index, item] of last.response.output.entries()) {
      const own = events.filter((event) => 'output_index' in event && event.output_index === index);
      assert.equal(own[0]!.type, 'response.output_item.added');
      const done = own.at(-1)!;
      assert.ok(done.type === 'response.output_item.done');
      assert.deepEqual(done.item, item);
    }
  });

  test('a limit makes the response incomplete, and an error in a stream fails it', async () => {
    const cut = await client.responses.create({ model, input: 'Hello', max_output_tokens: 16 });
    assert.equal(cut.status, 'incomplete');
    assert.deepEqual(cut.incomplete_details, { reason: 'max_output_tokens' });
    const input = 'rehearse: error 529 in stream';
    const stream = await client.responses.create({ model, input, stream: true });
    const last = (await Array.fromAsync(stream)).at(-1)!;
    assert.equal(last.type, 'response.failed');
  });
});
