// A provider on loopback in OpenAI's chat dialect and in Anthropic's: it calls two tools at once or
// is cut off, and holds its stream after the first piece of text until released.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export const TEXT = ['I will ', 'look.'] as const;
export const CALLS = [
  { id: 'call_1', name: 'get_weather', input: { city: 'Oslo' } },
  { id: 'call_2', name: 'get_weather', input: { city: 'Bergen' } },
];
/** Tokens of every response; both dialects say the same in their own way. */
export const TOKENS = { fresh: 12, cached: 30, out: 9 };
const HELD_MS_MAX = 8_000;

export type TwoDialects = {
  url: string;
  /** The body of the last request. */
  last(): { messages: Record<string, unknown>[] };
  /** Later responses call tools, or are cut off. */
  mode: 'calls' | 'cut';
  /** Holds the next stream; the function goes on with it, and returns false if that is too late. */
  hold(): () => boolean;
  close(): Promise<void>;
};

const line = (data: unknown, name?: string): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;

const openaiUsage = {
  prompt_tokens: TOKENS.fresh + TOKENS.cached,
  completion_tokens: TOKENS.out,
  total_tokens: TOKENS.fresh + TOKENS.cached + TOKENS.out,
  prompt_tokens_details: { cached_tokens: TOKENS.cached },
};
const openaiStop = (isCut: boolean) => (isCut ? 'length' : 'tool_calls');
const openaiCalls = CALLS.map(({ id, name, input }) => ({
  id,
  type: 'function',
  function: { name, arguments: JSON.stringify(input) },
}));

function writeOpenaiWhole(isCut: boolean): object {
  const calls = isCut ? {} : { tool_calls: openaiCalls };
  const message = { role: 'assistant', content: TEXT.join(''), ...calls };
  const choices = [{ index: 0, message, finish_reason: openaiStop(isCut) }];
  return {
    id: 'up',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices,
    usage: openaiUsage,
  };
}

/** The arguments of both calls alternate. */
function writeOpenaiStream(isCut: boolean): string[] {
  const chunk = (more: object) =>
    line({ id: 'up', object: 'chat.completion.chunk', created: 1, model: 'm', ...more });
  const delta = (one: object, finish_reason: string | null = null) =>
    chunk({ choices: [{ index: 0, delta: one, finish_reason }] });
  const call = (index: number, more: object) => delta({ tool_calls: [{ index, ...more }] });
  const both = (write: (one: (typeof openaiCalls)[number], index: number) => string) =>
    isCut ? '' : openaiCalls.map(write).join('');
  const rest = [
    delta({ content: TEXT[1] }),
    both((one, i) => call(i, { ...one, function: { ...one.function, arguments: '' } })),
    both((one, i) => call(i, { function: { arguments: one.function.arguments.slice(0, 6) } })),
    both((one, i) => call(i, { function: { arguments: one.function.arguments.slice(6) } })),
    delta({}, openaiStop(isCut)),
    chunk({ choices: [], usage: openaiUsage }),
    'data: [DONE]\n\n',
  ];
  return [delta({ role: 'assistant', content: TEXT[0] }), rest.join('')];
}

const anthropicUsage = {
  input_tokens: TOKENS.fresh,
  cache_read_input_tokens: TOKENS.cached,
  cache_creation_input_tokens: 0,
};
const anthropicStop = (isCut: boolean) => (isCut ? 'max_tokens' : 'tool_use');
const anthropicHead = { id: 'up', type: 'message', role: 'assistant', model: 'm' };

function writeAnthropicWhole(isCut: boolean): object {
  const calls = isCut ? [] : CALLS.map((call) => ({ type: 'tool_use', ...call }));
  return {
    ...anthropicHead,
    content: [{ type: 'text', text: TEXT.join('') }, ...calls],
    stop_reason: anthropicStop(isCut),
    stop_sequence: null,
    usage: { ...anthropicUsage, output_tokens: TOKENS.out },
  };
}

function writeAnthropicStream(isCut: boolean): string[] {
  const send = (type: string, more: object) => line({ type, ...more }, type);
  const start = (index: number, content_block: object) =>
    send('content_block_start', { index, content_block });
  const delta = (index: number, one: object) => send('content_block_delta', { index, delta: one });
  const text = (piece: string) => delta(0, { type: 'text_delta', text: piece });
  const calls = CALLS.flatMap(({ id, name, input }, i) => {
    const json = JSON.stringify(input);
    const pieces = [json.slice(0, 6), json.slice(6)];
    return [
      start(i + 1, { type: 'tool_use', id, name, input: {} }),
      ...pieces.map((partial_json) => delta(i + 1, { type: 'input_json_delta', partial_json })),
      send('content_block_stop', { index: i + 1 }),
    ];
  });
  const message = { ...anthropicHead, content: [], stop_reason: null, stop_sequence: null };
  const usage = { ...anthropicUsage, output_tokens: 1 };
  return [
    send('message_start', { message: { ...message, usage } }) +
      start(0, { type: 'text', text: '' }) +
      text(TEXT[0]),
    [
      text(TEXT[1]),
      send('content_block_stop', { index: 0 }),
      ...(isCut ? [] : calls),
      send('message_delta', {
        delta: { stop_reason: anthropicStop(isCut), stop_sequence: null },
        usage: { output_tokens: TOKENS.out },
      }),
      send('message_stop', {}),
    ].join(''),
  ];
}

export async function startTwoDialects(): Promise<TwoDialects> {
  let last = { messages: [] as Record<string, unknown>[] };
  let held: Promise<void> | undefined;
  const respond = async (isAnthropic: boolean, response: http.ServerResponse): Promise<void> => {
    const isCut = provider.mode === 'cut';
    if ((last as { stream?: boolean }).stream !== true) {
      const whole = isAnthropic ? writeAnthropicWhole(isCut) : writeOpenaiWhole(isCut);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole));
      return;
    }
    const [first, rest] = isAnthropic ? writeAnthropicStream(isCut) : writeOpenaiStream(isCut);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(first);
    await held;
    held = undefined;
    response.end(rest);
  };
  const server = http.createServer((request, response) => {
    let text = '';
    request.on('data', (chunk: Buffer) => {
      text += chunk.toString('utf8');
    });
    request.on('end', () => {
      last = JSON.parse(text) as typeof last;
      void respond(request.url!.includes('/messages'), response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: TwoDialects = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    last: () => last,
    mode: 'calls',
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      let isLate = false;
      const timer = setTimeout(() => {
        isLate = true;
        resolve();
      }, HELD_MS_MAX);
      held = promise;
      return () => {
        clearTimeout(timer);
        resolve();
        return !isLate;
      };
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return provider;
}
