// The vendors' packages, unchanged, through a runtime to a provider of another dialect: images, two
// tool calls at once, their results, stop reasons, token counts, and streams piece by piece.
import assert from 'node:assert/strict';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';
import { CALLS, startTwoDialects, TEXT, TOKENS, type TwoDialects } from './two-dialects.ts';

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const IMAGE_URL = `data:image/png;base64,${PNG}`;
const QUESTION = 'How is the weather there?';
const SCHEMA = {
  type: 'object' as const,
  properties: { city: { type: 'string' } },
  required: ['city'],
};
const RESULTS = ['Rain.', 'Snow.'];

type Seen = {
  text: string;
  calls: { id: string; name: string; input: unknown }[];
  stop: unknown;
  /** Fresh and cached tokens in, and those out. */
  tokens: { fresh: number; cached: number; out: number };
};
type Client = {
  ask(model: string, stream: boolean): Promise<Seen>;
  /** Sends the two calls back with their results. */
  answer(model: string): Promise<unknown>;
  /** Yields the texts of a stream. */
  pieces(model: string): AsyncIterable<string>;
  stops: { calls: unknown; cut: unknown };
};

function chatClient(openai: OpenAI): Client {
  const question: OpenAI.ChatCompletionMessageParam = {
    role: 'user',
    content: [
      { type: 'text', text: QUESTION },
      { type: 'image_url', image_url: { url: IMAGE_URL } },
    ],
  };
  const tools: OpenAI.ChatCompletionTool[] = [
    { type: 'function', function: { name: 'get_weather', parameters: SCHEMA } },
  ];
  const bodyOf = (model: string) => ({ model, messages: [question], tools });
  const chat = openai.chat.completions;
  return {
    async ask(model, stream) {
      const whole = stream
        ? await chat
            .stream({ ...bodyOf(model), stream_options: { include_usage: true } })
            .finalChatCompletion()
        : await chat.create(bodyOf(model));
      const { message, finish_reason: stop } = whole.choices[0]!;
      const cached = whole.usage!.prompt_tokens_details!.cached_tokens!;
      return {
        text: message.content!,
        calls: (message.tool_calls ?? []).map((call) => {
          assert.ok(call.type === 'function');
          const { name, arguments: text } = call.function;
          return { id: call.id, name, input: JSON.parse(text) as unknown };
        }),
        stop,
        tokens: {
          fresh: whole.usage!.prompt_tokens - cached,
          cached,
          out: whole.usage!.completion_tokens,
        },
      };
    },
    async answer(model) {
      const { message } = (await chat.create(bodyOf(model))).choices[0]!;
      const results = message.tool_calls!.map((call, i) => ({
        role: 'tool' as const,
        tool_call_id: call.id,
        content: RESULTS[i]!,
      }));
      await chat.create({ ...bodyOf(model), messages: [question, message, ...results] });
    },
    async *pieces(model) {
      for await (const chunk of await chat.create({ ...bodyOf(model), stream: true }))
        if (chunk.choices[0]?.delta.content) yield chunk.choices[0].delta.content;
    },
    stops: { calls: 'tool_calls', cut: 'length' },
  };
}

function responsesClient({ responses }: OpenAI): Client {
  const question: OpenAI.Responses.ResponseInputItem = {
    role: 'user',
    content: [
      { type: 'input_text', text: QUESTION },
      { type: 'input_image', image_url: IMAGE_URL, detail: 'auto' },
    ],
  };
  const tools: OpenAI.Responses.FunctionTool[] = [
    { type: 'function', name: 'get_weather', parameters: SCHEMA, strict: false },
  ];
  const bodyOf = (model: string) => ({ model, input: [question], tools });
  const readCalls = (output: readonly OpenAI.Responses.ResponseOutputItem[]) =>
    output.filter((item) => item.type === 'function_call');
  return {
    async ask(model, stream) {
      const whole = stream
        ? await responses.stream(bodyOf(model)).finalResponse()
        : await responses.create(bodyOf(model));
      const { input_tokens, input_tokens_details: details, output_tokens: out } = whole.usage!;
      const cached = details.cached_tokens;
      return {
        text: whole.output_text,
        calls: readCalls(whole.output).map(({ call_id: id, name, arguments: text }) => ({
          id,
          name,
          input: JSON.parse(text) as unknown,
        })),
        stop: [whole.status, whole.incomplete_details?.reason],
        tokens: { fresh: input_tokens - cached, cached, out },
      };
    },
    async answer(model) {
      const { output } = await responses.create(bodyOf(model));
      const results = readCalls(output).map(({ call_id }, i) => ({
        type: 'function_call_output' as const,
        call_id,
        output: RESULTS[i]!,
      }));
      const items = output as OpenAI.Responses.ResponseInputItem[];
      await responses.create({ ...bodyOf(model), input: [question, ...items, ...results] });
    },
    async *pieces(model) {
      for await (const event of await responses.create({ ...bodyOf(model), stream: true }))
        if (event.type === 'response.output_text.delta') yield event.delta;
    },
    stops: { calls: ['completed', undefined], cut: ['incomplete', 'max_output_tokens'] },
  };
}

function messagesClient({ messages }: Anthropic): Client {
  const question: Anthropic.MessageParam = {
    role: 'user',
    content: [
      { type: 'text', text: QUESTION },
      { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PNG } },
    ],
  };
  const tools: Anthropic.Tool[] = [{ name: 'get_weather', input_schema: SCHEMA }];
  const bodyOf = (model: string) => ({ model, max_tokens: 100, messages: [question], tools });
  return {
    async ask(model, stream) {
      const body = bodyOf(model);
      const whole = await (stream ? messages.stream(body).finalMessage() : messages.create(body));
      const { usage } = whole;
      return {
        text: whole.content.map((block) => (block.type === 'text' ? block.text : '')).join(''),
        calls: whole.content
          .filter((block) => block.type === 'tool_use')
          .map(({ id, name, input }) => ({ id, name, input })),
        stop: whole.stop_reason,
        tokens: {
          fresh: usage.input_tokens,
          cached: usage.cache_read_input_tokens ?? 0,
          out: usage.output_tokens,
        },
      };
    },
    async answer(model) {
      const { content } = await messages.create(bodyOf(model));
      const results = content
        .filter((block) => block.type === 'tool_use')
        .map(({ id }, i) => ({
          type: 'tool_result' as const,
          tool_use_id: id,
          content: RESULTS[i]!,
        }));
      const turns: Anthropic.MessageParam[] = [
        { role: 'assistant', content },
        { role: 'user', content: results },
      ];
      await messages.create({ ...bodyOf(model), messages: [question, ...turns] });
    },
    async *pieces(model) {
      for await (const event of await messages.create({ ...bodyOf(model), stream: true }))
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
          yield event.delta.text;
    },
    stops: { calls: 'tool_use', cut: 'max_tokens' },
  };
}

/** The image, as each provider has to get it. */
const IMAGES = {
  'claude-up': {
    type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: PNG },
  },
  'gpt-up': { type: 'image_url', image_url: { url: IMAGE_URL } },
} as const;

const textOf = (content: unknown): unknown =>
  Array.isArray(content)
    ? (content as { text: string }[]).map(({ text }) => text).join('')
    : content;

/** The results that a provider got, by the ids of their calls. */
function readResults(messages: readonly Record<string, unknown>[]): unknown[] {
  const ofTools = messages.filter(({ role }) => role === 'tool');
  if (ofTools.length > 0)
    return ofTools.map(({ tool_call_id, content }) => [tool_call_id, textOf(content)]);
  const blocks = messages.at(-1)!.content as Record<string, unknown>[];
  return blocks
    .filter(({ type }) => type === 'tool_result')
    .map(({ tool_use_id, content }) => [tool_use_id, textOf(content)]);
}

describe('a provider of another dialect', () => {
  let provider: TwoDialects;
  let runtime: TestRuntime;
  let clients: Record<'chat' | 'responses' | 'messages', Client>;
  before(async () => {
    provider = await startTwoDialects();
    const base = freshDir();
    const keyFile = join(base, 'provider.key');
    writeFileSync(keyFile, 'k\n');
    chmodSync(keyFile, 0o600);
    const entry = (dialect: string, path: string, model: string) =>
      `{ dialect: ${dialect}, base_url: "${provider.url}${path}", key_file: ${keyFile}, models: [${model}] }`;
    runtime = await startRuntime({
      base,
      port: 0,
      config: `modeld:
  providers:
    open: ${entry('openai', '/v1', 'gpt-up')}
    anth: ${entry('anthropic', '', 'claude-up')}
`,
    });
    const url = `http://127.0.0.1:${runtime.info.port}`;
    const more = { apiKey: runtime.operatorKey, maxRetries: 0 };
    const openai = new OpenAI({ ...more, baseURL: `${url}/openai/v1` });
    clients = {
      chat: chatClient(openai),
      responses: responsesClient(openai),
      messages: messagesClient(new Anthropic({ ...more, baseURL: `${url}/anthropic` })),
    };
  });
  after(async () => {
    await runtime.remove();
    await provider.close();
  });

  for (const [name, model] of [
    ['chat', 'claude-up'],
    ['responses', 'claude-up'],
    ['responses', 'gpt-up'],
    ['messages', 'gpt-up'],
  ] as const)
    describe(`${name} to ${model}`, () => {
      for (const stream of [false, true])
        it(`gets two calls at once, ${stream ? 'streamed' : 'whole'}, and every token count`, async () => {
          provider.mode = 'calls';
          const seen = await clients[name].ask(model, stream);
          assert.deepEqual(seen, {
            text: TEXT.join(''),
            calls: CALLS,
            stop: clients[name].stops.calls,
            tokens: TOKENS,
          });
        });

      for (const stream of [false, true])
        it(`is told when a response was cut off, ${stream ? 'streamed' : 'whole'}`, async () => {
          provider.mode = 'cut';
          const seen = await clients[name].ask(model, stream);
          assert.deepEqual([seen.stop, seen.calls], [clients[name].stops.cut, []]);
        });

      it('sends an image, and the results of both calls, in the form of the provider', async () => {
        provider.mode = 'calls';
        await clients[name].answer(model);
        const { messages } = provider.last();
        const asked = messages.find(({ role }) => role === 'user')!.content as { type: string }[];
        const image = asked.find(({ type }) => type.startsWith('image'));
        assert.partialDeepStrictEqual(image, IMAGES[model]);
        assert.deepEqual(
          readResults(messages),
          CALLS.map(({ id }, i) => [id, RESULTS[i]]),
        );
      });

      it('gets the first piece while the provider has not sent the second', async () => {
        provider.mode = 'calls';
        const release = provider.hold();
        const pieces: string[] = [];
        for await (const piece of clients[name].pieces(model)) {
          if (pieces.length === 0) assert.ok(release(), 'the first piece was held back');
          pieces.push(piece);
        }
        assert.deepEqual(pieces, [...TEXT]);
      });
    });
});
