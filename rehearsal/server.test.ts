// Tests the whole server: the same request gets the same bytes, and no request crashes it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import {
  ANTHROPIC_HEADERS,
  ANTHROPIC_TOOLS,
  OPENAI_HEADERS,
  OPENAI_TOOLS,
  post,
  postChat,
  postMessages,
  postResponses,
  readPath,
  startServer,
} from './testing.ts';

const user = (content: string) => ({ role: 'user', content });

test('the same request gets the same bytes, also from another server', async () => {
  await using server = await startServer();
  await using otherServer = await startServer();
  const system = 'You are agent:planner';
  for (const goal of ['Paint', 'ask a person', 'malformed', 'count the effect 2 times']) {
    for (const stream of [true, false]) {
      const model = 'rehearsal-large';
      const messages = [user(`Goal: ${goal}`)];
      const chat = {
        model,
        stream,
        messages: [{ role: 'system', content: system }, ...messages],
        tools: OPENAI_TOOLS,
      };
      const first = await postChat(server, chat);
      assert.equal(first.status, 200);
      assert.equal((await postChat(server, chat)).text, first.text);
      assert.equal((await postChat(otherServer, chat)).text, first.text);
      const message = { model, stream, system, max_tokens: 999, messages, tools: ANTHROPIC_TOOLS };
      const second = await postMessages(server, message);
      assert.equal(second.status, 200);
      assert.equal((await postMessages(otherServer, message)).text, second.text);
      const input = [{ role: 'system', content: system }, ...messages];
      const tools = OPENAI_TOOLS.map(({ function: own }) => ({ type: 'function', ...own }));
      const item = { model, stream, input, tools };
      const third = await postResponses(server, item);
      assert.equal(third.status, 200);
      assert.equal((await postResponses(otherServer, item)).text, third.text);
    }
  }
});

test('call ids never repeat within a conversation', async () => {
  await using server = await startServer();
  const messages: unknown[] = [user('Goal: loop for ever')];
  const ids = new Set<string>();
  for (let step = 1; step <= 10; step++) {
    const body = { model: 'rehearsal-large', max_tokens: 999, messages, tools: ANTHROPIC_TOOLS };
    const response = await postMessages(server, body);
    assert.equal(response.status, 200, response.text);
    const content = readPath<{ type: string; id: string }[]>(response.json, 'content');
    const use = content.find((block) => block.type === 'tool_use')!;
    ids.add(use.id);
    const result = { type: 'tool_result', tool_use_id: use.id, content: 'ok' };
    messages.push({ role: 'assistant', content }, { role: 'user', content: [result] });
  }
  assert.equal(ids.size, 10);
});

/** The same values where the Responses API has them. */
function asResponses(body: unknown): unknown {
  const { messages, max_tokens, max_completion_tokens, stream_options, ...rest } = Object(body);
  const items = Array.isArray(messages) ? messages : [messages];
  const input = items.flatMap((item) => [item, ...[item?.content ?? []].flat()]);
  return { ...rest, input, max_output_tokens: max_tokens ?? max_completion_tokens };
}

/** Almost valid requests find more bugs than noise: any field may be valid, invalid or missing. */
function makeAlmostValidRequest(): fc.Arbitrary<unknown> {
  const json = fc.jsonValue({ maxDepth: 3 });
  const role = fc.constantFrom('user', 'assistant', 'system', 'tool', 'developer', 'robot', 7);
  const id = fc.constantFrom('a', 'b', 'c:1', '', 1);
  const name = fc.constantFrom('task_finish', 'task.finish', '', 'x'.repeat(200));
  const part = fc.oneof(
    fc.record({ type: fc.constant('text'), text: fc.oneof(fc.string(), json) }),
    fc.record({ type: fc.constant('tool_use'), id, name, input: json }),
    fc.record({ type: fc.constant('tool_result'), tool_use_id: id, content: json }),
    fc.record({ type: fc.constant('thinking'), thinking: fc.string(), signature: fc.string() }),
    json,
  );
  const call = fc.record({
    id,
    type: fc.constant('function'),
    function: fc.oneof(fc.record({ name, arguments: fc.oneof(fc.constant('{}'), json) }), json),
  });
  const message = fc.record(
    {
      role,
      content: fc.oneof(fc.string(), fc.array(part, { maxLength: 3 }), json),
      tool_calls: fc.array(call, { maxLength: 2 }),
      tool_call_id: id,
    },
    { requiredKeys: ['role'] },
  );
  const tool = fc.oneof(
    fc.constantFrom(OPENAI_TOOLS[0], ANTHROPIC_TOOLS[0]),
    fc.record({ name, input_schema: json }),
    json,
  );
  return fc.record(
    {
      model: fc.oneof({ weight: 9, arbitrary: fc.constant('rehearsal-large') }, json),
      messages: fc.oneof({ weight: 9, arbitrary: fc.array(message, { maxLength: 5 }) }, json),
      max_tokens: fc.oneof(fc.integer({ min: -1, max: 70_000 }), json),
      tools: fc.oneof(fc.array(tool, { maxLength: 3 }), json),
      tool_choice: fc.oneof(fc.constantFrom('auto', 'required', { type: 'any' }), json),
      system: fc.oneof(fc.string(), json),
      thinking: json,
      stop: json,
      stream: fc.oneof(fc.boolean(), json),
      input: json,
    },
    { requiredKeys: [] },
  );
}

test('almost valid requests succeed, or are refused in the vendor’s format', async () => {
  await using server = await startServer();
  const check = async (path: string, headers: Record<string, string>, body: unknown) => {
    const response = await post(`${server.url}${path}`, headers, body);
    if (response.status === 200) return;
    assert.ok([400, 403, 404].includes(response.status), `${response.status} ${response.text}`);
    assert.equal(typeof readPath(response.json, 'error.message'), 'string');
    assert.equal(typeof readPath(response.json, 'error.type'), 'string');
  };
  await fc.assert(
    fc.asyncProperty(makeAlmostValidRequest(), async (body) => {
      await check('/v1/chat/completions', OPENAI_HEADERS, body);
      await check('/v1/messages', ANTHROPIC_HEADERS, body);
      await check('/v1/responses', OPENAI_HEADERS, body);
      await check('/v1/responses', OPENAI_HEADERS, asResponses(body));
      await check('/v1/embeddings', OPENAI_HEADERS, body);
    }),
    { numRuns: 500 },
  );
});

test('a body over the limit is refused, and the server keeps running', async () => {
  await using server = await startServer();
  const body = JSON.stringify({ model: 'rehearsal-large', x: 'y'.repeat(33 * 1024 * 1024) });
  const response = await postMessages(server, body).catch(() => undefined);
  if (response) {
    assert.equal(response.status, 413);
    assert.equal(readPath(response.json, 'error.type'), 'request_too_large');
  }
  const next = await postChat(server, { model: 'rehearsal-large', messages: [user('hi')] });
  assert.equal(next.status, 200);
});

test('a custom screenplay works on both wires', async () => {
  await using server = await startServer(`plays:
  - play: own
    match: { agent: smith, goal: '/forge (?<n>\\d+) (?<thing>\\w+)/' }
    answers:
      - text: 'I forge {{goal.n}}.'
        calls:
          - tool: anvil.hit
            arguments: { thing: '{{goal.thing}}', times: '{{goal.n|number}}' }
`);
  const system = 'You are agent:smith. Be strong.';
  const messages = [user('Please.\nGoal: forge 3 swords\nThanks.')];
  const schema = { type: 'object' };
  const chat = await postChat(server, {
    model: 'rehearsal-small',
    messages: [{ role: 'developer', content: system }, ...messages],
    tools: [{ type: 'function', function: { name: 'anvil_hit', parameters: schema } }],
  });
  assert.equal(readPath(chat.json, 'choices.0.message.content'), '[rehearsal] I forge 3.');
  assert.equal(
    readPath(chat.json, 'choices.0.message.tool_calls.0.function.arguments'),
    '{"thing":"swords","times":3}',
  );
  const message = await postMessages(server, {
    model: 'rehearsal-small',
    max_tokens: 500,
    system: [{ type: 'text', text: system }],
    messages,
    tools: [{ name: 'anvil_hit', input_schema: schema }],
  });
  assert.deepEqual(readPath(message.json, 'content.1.input'), { thing: 'swords', times: 3 });
});
