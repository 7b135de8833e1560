// Properties of all dialects: everything a dialect can express survives a round trip, whole or as
// a stream split anywhere, alone or through the other dialect.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Message, Part, StopReason, ToolSpec, Usage } from '../../../wire/modeld.ts';
import { sealThinking } from './anthropic/thinking.ts';
import { anthropic } from './anthropic.ts';
import type { Dialect, ModelResponse, ResponseEvent, ResponseMeta } from './dialect.ts';
import type { ModelRequest, RequestMessage } from './model-request.ts';
import { openai } from './openai.ts';
import type { JsonObject } from './reading.ts';
import { responses } from './responses.ts';
import { SseParser } from './sse.ts';
import { unchangedNames, type WireNames } from './tool-names.ts';

const MODEL = 'up/model:1';
const META: ResponseMeta = { id: 'resp_1', model: MODEL, createdMs: 1_000, streamUsage: true };

const words = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }).map((s) => `.${s}`);
const textPart: fc.Arbitrary<Part> = words.map((text) => ({ type: 'text', text }));
const toolName = fc.constantFrom('task.delegate', 'task_delegate', 'git.diff', 'a/b', 'plain');
const args = fc
  .dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 2 }), {
    maxKeys: 3,
    noNullPrototype: true,
  })
  .map((value) => JSON.parse(JSON.stringify(value)) as JsonObject);
const toolSpec: fc.Arbitrary<ToolSpec> = fc.tuple(toolName, words).map(([name, description]) => ({
  name,
  description,
  input_schema: { type: 'object', properties: {} },
}));

type Call = Part & { type: 'tool_call' };
const calls = fc
  .array(fc.tuple(toolName, args), { minLength: 1, maxLength: 3 })
  .map((list) =>
    list.map(
      ([name, value], i): Call => ({ type: 'tool_call', id: `c.${i}`, name, arguments: value }),
    ),
  );

/**
 * A turn with calls and their results, as every vendor requires it. The caller makes the ids
 * unique.
 */
const toolTurn = fc.tuple(fc.option(words), calls, words);

function conversation(options: { marksErrors: boolean }): fc.Arbitrary<Message[]> {
  return fc
    .tuple(
      fc.option(words),
      fc.array(fc.tuple(fc.array(textPart, { minLength: 1, maxLength: 2 }), toolTurn), {
        minLength: 1,
        maxLength: 3,
      }),
    )
    .map(([system, turns]) => {
      const messages: Message[] = [];
      if (system !== null)
        messages.push({ role: 'system', parts: [{ type: 'text', text: system }] });
      turns.forEach(([question, [reply, made, outcome]], turn) => {
        const own = made.map((call) => ({ ...call, id: `${call.id}.${turn}` }));
        messages.push({ role: 'user', parts: question });
        const spoken: Part[] = reply === null ? [] : [{ type: 'text', text: reply }];
        messages.push({ role: 'assistant', parts: [...spoken, ...own] });
        messages.push({
          role: 'user',
          parts: own.map((call, i) => ({
            type: 'tool_result',
            tool_call_id: call.id,
            content: outcome,
            ...(options.marksErrors && i === 0 ? { is_error: true } : {}),
          })),
        });
        messages.push({ role: 'assistant', parts: [{ type: 'text', text: 'fine' }] });
      });
      return messages;
    });
}

const restored = (messages: RequestMessage[], names: WireNames): RequestMessage[] =>
  messages.map((message) => ({
    ...message,
    parts: message.parts.map((part) =>
      part.type === 'tool_call'
        ? { ...part, id: names.callIds.toName(part.id), name: names.tools.toName(part.name) }
        : part.type === 'tool_result'
          ? { ...part, tool_call_id: names.callIds.toName(part.tool_call_id) }
          : part,
    ),
  }));

const DIALECTS = [openai, responses, anthropic];

for (const dialect of DIALECTS) {
  test(`${dialect.name}: a written request is read back the same`, () => {
    fc.assert(
      fc.property(
        conversation({ marksErrors: dialect.name === 'anthropic' }),
        fc.uniqueArray(toolSpec, { selector: (tool) => tool.name, minLength: 1, maxLength: 4 }),
        fc.constantFrom('auto', 'none', 'required', undefined),
        fc.array(words, { maxLength: dialect.name === 'responses' ? 0 : 4 }),
        fc.integer({ min: 1, max: 1e6 }),
        (messages, tools, toolChoice, stop, maxOutputTokens) => {
          const request: ModelRequest = { messages, tools, toolChoice, stop, stream: true };
          const { body, names } = dialect.writeRequest(request, {
            provider: 'p',
            model: MODEL,
            maxOutputTokens,
            stream: true,
          });
          const back = dialect.readRequest(JSON.parse(JSON.stringify(body)) as JsonObject);
          assert.deepEqual(restored(back.messages, names), messages);
          assert.deepEqual(
            back.tools.map((tool) => ({ ...tool, name: names.tools.toName(tool.name) })),
            tools,
          );
          assert.deepEqual(
            [back.toolChoice, back.stop, back.maxOutputTokens, back.stream, back.model],
            [toolChoice, stop, maxOutputTokens, true, MODEL],
          );
        },
      ),
    );
  });
}

const count = fc.nat({ max: 1e9 });
const usage: fc.Arbitrary<Usage> = fc.record({
  input_tokens: count,
  output_tokens: count,
  cache_read_tokens: count,
  cache_write_tokens: count,
  reasoning_tokens: count,
});

function answerOf(dialect: Dialect): fc.Arbitrary<ModelResponse> {
  const thinking: fc.Arbitrary<Part> =
    dialect.name !== 'anthropic'
      ? words.map((text) => ({ type: 'thinking', text }))
      : fc.tuple(words, words).map(([text, seal]) => sealThinking(text, seal, MODEL));
  const stops: StopReason[] = {
    openai: ['end' as const, 'max_tokens' as const],
    responses: ['end' as const, 'max_tokens' as const, 'refusal' as const],
    anthropic: [
      'end' as const,
      'max_tokens' as const,
      'stop_sequence' as const,
      'refusal' as const,
    ],
  }[dialect.name];
  return fc
    .record({
      thinking: fc.option(thinking),
      text: fc.option(textPart),
      calls: fc.oneof(fc.constant([]), calls),
      stopReason: fc.constantFrom(...stops),
      usage,
    })
    .map((drawn) => {
      const parts = [drawn.thinking, drawn.text, ...drawn.calls].filter((part) => part !== null);
      return {
        id: META.id,
        model: MODEL,
        message: {
          role: 'assistant',
          parts: parts.length > 0 ? parts : [{ type: 'text', text: '' }],
        },
        stopReason: drawn.calls.length > 0 ? 'tool_calls' : drawn.stopReason,
        stopSequence: undefined,
        usage: drawn.usage,
        usageReported: true,
        cacheWriteLongTokens: 0,
      } satisfies ModelResponse;
    });
}

const names = unchangedNames(MODEL, 'p');
const plain = (response: ModelResponse): JsonObject =>
  JSON.parse(JSON.stringify(response)) as JsonObject;

function cutText(text: string, at: number): string[] {
  const middle = at % (text.length + 1);
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '');
}

/** The events a provider of any dialect would have caused with this response. */
function toEvents(response: ModelResponse, at: number): ResponseEvent[] {
  const events: ResponseEvent[] = [];
  for (const part of response.message.parts) {
    if (part.type === 'text' || part.type === 'thinking')
      for (const text of cutText(part.text, at)) events.push({ type: part.type, text });
    if (part.type === 'thinking' && part.signature !== undefined)
      events.push({ type: 'signature', signature: part.signature.split(':').slice(2).join(':') });
    if (part.type !== 'tool_call') continue;
    events.push({ type: 'tool_call', id: part.id, name: part.name });
    for (const text of cutText(JSON.stringify(part.arguments), at))
      events.push({ type: 'tool_arguments', id: part.id, text });
  }
  return [...events, { type: 'done', response: response }];
}

function readBack(dialect: Dialect, text: string, cuts: number[]): ModelResponse {
  const bytes = Buffer.from(text);
  const reader = dialect.readStream(names);
  const parser = new SseParser();
  const ends = [...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b);
  let from = 0;
  for (const end of ends) {
    for (const block of parser.push(bytes.subarray(from, end))) reader.push(block);
    from = end;
  }
  assert.equal(reader.isDone(), true);
  return reader.response();
}

for (const dialect of DIALECTS) {
  test(`${dialect.name}: a response written to a client reads the same`, () => {
    fc.assert(
      fc.property(answerOf(dialect), (response) => {
        const body: unknown = JSON.parse(JSON.stringify(dialect.writeResponse(response, META)));
        assert.deepEqual(plain(dialect.readResponse(body, names)), plain(response));
      }),
    );
  });

  test(`${dialect.name}: a streamed response, split anywhere, reads the same`, () => {
    fc.assert(
      fc.property(
        answerOf(dialect),
        fc.nat(),
        fc.array(fc.nat(), { maxLength: 12 }),
        (response, at, cuts) => {
          const writer = dialect.writeStream(META);
          const text = toEvents(response, at)
            .map((event) => writer.write(event))
            .join('');
          assert.deepEqual(plain(readBack(dialect, text, cuts)), plain(response));
        },
      ),
      { numRuns: 200 },
    );
  });
}

test('from one dialect to the other and back: text, calls, counts and reasons stay', () => {
  const pairs = DIALECTS.flatMap((first) =>
    DIALECTS.filter((second) => second !== first).map((second) => [first, second] as const),
  );
  for (const [first, second] of pairs) {
    fc.assert(
      fc.property(answerOf(openai), fc.nat(), (response, at) => {
        const relay = (dialect: Dialect, source: ResponseEvent[]) => {
          const writer = dialect.writeStream(META);
          const reader = dialect.readStream(names);
          const parser = new SseParser();
          const events: ResponseEvent[] = [];
          const text = source.map((event) => writer.write(event)).join('');
          for (const block of parser.push(Buffer.from(text))) events.push(...reader.push(block));
          events.push({ type: 'done', response: reader.response() });
          return { events, response: reader.response() };
        };
        const there = relay(first, toEvents(response, at));
        const back = relay(second, there.events);
        assert.deepEqual(plain(back.response), plain(response));
      }),
    );
  }
});

test('thinking that Anthropic signed survives an OpenAI client that sends the message back', () => {
  fc.assert(
    fc.property(answerOf(anthropic), fc.nat(), (response, at) => {
      const thought = response.message.parts.filter((part) => part.type === 'thinking');
      const whole = openai.writeResponse(response, META) as { choices: [{ message: JsonObject }] };
      const writer = openai.writeStream(META);
      // As the SDK does: later members of a delta replace earlier ones.
      const streamed: JsonObject = { role: 'assistant' };
      for (const event of toEvents(response, at)) {
        for (const block of new SseParser().push(Buffer.from(writer.write(event)))) {
          if (block.data === null || block.data === '[DONE]') continue;
          const { choices } = JSON.parse(block.data) as { choices: { delta: JsonObject }[] };
          Object.assign(streamed, choices[0]?.delta, { tool_calls: undefined, content: '' });
        }
      }
      for (const message of [whole.choices[0].message, streamed]) {
        const { messages } = openai.readRequest({ model: 'm', messages: [message] });
        assert.deepEqual(
          messages[0]?.parts.filter((part) => part.type === 'thinking'),
          thought,
        );
      }
    }),
  );
});
