// A provider on loopback in both vendors' dialects. Records every request, and responds with a tool
// call if tools are offered, and with text once it has their result.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export type RecordedRequest = {
  path: string;
  headers: http.IncomingHttpHeaders;
  text: string;
  body: Record<string, unknown>;
};

export type RecordingUpstream = {
  url: string;
  requests: RecordedRequest[];
  last(): RecordedRequest;
  /** Rejects the next request with this status, in the vendor's format. */
  refuseNext(status: number, message: string): void;
  close(): Promise<void>;
};

const CALL = { name: 'get_weather', input: { city: 'Oslo' } };
/** Unknown fields: they must be passed through if both sides use the same dialect. */
export const EXTRA = { x_vendor: { nested: [1, 'two', null], ratio: 0.1 } };

/** Tokens that it counts in any body. */
export const COUNTED_TOKENS = 4_242;

type Reply = { tool: boolean; text: string };

function replyTo(body: Record<string, unknown>): Reply {
  const messages = (body.messages ?? []) as { role: string; content: unknown }[];
  const last = messages.at(-1);
  const parts = Array.isArray(last?.content) ? (last.content as { type: string }[]) : [];
  const hasResult = last?.role === 'tool' || parts.some(({ type }) => type === 'tool_result');
  const isOffered = Array.isArray(body.tools) && body.tools.length > 0;
  return { tool: isOffered && !hasResult, text: hasResult ? 'It rains in Oslo.' : 'Hello there.' };
}

const event = (name: string | undefined, data: unknown): string =>
  `${name === undefined ? '' : `event: ${name}\n`}data: ${JSON.stringify(data)}\n\n`;

function openaiWhole({ tool, text }: Reply, model: unknown): object {
  const call = {
    id: 'call_up1',
    type: 'function',
    function: { name: CALL.name, arguments: JSON.stringify(CALL.input) },
  };
  const message = tool
    ? { role: 'assistant', content: null, tool_calls: [call] }
    : { role: 'assistant', content: text, refusal: null };
  return {
    id: 'chatcmpl-up',
    object: 'chat.completion',
    created: 1_700_000_000,
    model,
    choices: [{ index: 0, message, finish_reason: tool ? 'tool_calls' : 'stop', logprobs: null }],
    usage: { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 },
    ...EXTRA,
  };
}

function openaiStream({ tool, text }: Reply, model: unknown): string {
  const head = {
    id: 'chatcmpl-up',
    object: 'chat.completion.chunk',
    created: 1_700_000_000,
    model,
  };
  const chunk = (delta: object, finish_reason: string | null = null) =>
    event(undefined, { ...head, choices: [{ index: 0, delta, finish_reason }] });
  const argumentsText = JSON.stringify(CALL.input);
  const call = (more: object) => chunk({ tool_calls: [{ index: 0, ...more }] });
  const middle = tool
    ? [
        call({ id: 'call_up1', type: 'function', function: { name: CALL.name, arguments: '' } }),
        call({ function: { arguments: argumentsText.slice(0, 6) } }),
        call({ function: { arguments: argumentsText.slice(6) } }),
      ]
    : text.split(/(?<= )/).map((content) => chunk({ content }));
  const usage = { prompt_tokens: 12, completion_tokens: 5, total_tokens: 17 };
  return [
    chunk({ role: 'assistant', content: '' }),
    ...middle,
    chunk({}, tool ? 'tool_calls' : 'stop'),
    event(undefined, { ...head, choices: [], usage, ...EXTRA }),
    'data: [DONE]\n\n',
  ].join('');
}

function anthropicWhole({ tool, text }: Reply, model: unknown): object {
  const block = tool ? { type: 'tool_use', id: 'toolu_up1', ...CALL } : { type: 'text', text };
  return {
    id: 'msg_up',
    type: 'message',
    role: 'assistant',
    model,
    content: [block],
    stop_reason: tool ? 'tool_use' : 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 12, output_tokens: 5 },
    ...EXTRA,
  };
}

function anthropicStream(reply: Reply, model: unknown): string {
  const { tool, text } = reply;
  const { content: _, ...rest } = anthropicWhole(reply, model) as { content: unknown };
  const message = {
    ...rest,
    content: [],
    stop_reason: null,
    usage: { input_tokens: 12, output_tokens: 1 },
  };
  const start = tool
    ? { type: 'tool_use', id: 'toolu_up1', name: CALL.name, input: {} }
    : { type: 'text', text: '' };
  const json = JSON.stringify(CALL.input);
  const deltas = tool
    ? [json.slice(0, 6), json.slice(6)].map((partial_json) => ({
        type: 'input_json_delta',
        partial_json,
      }))
    : text.split(/(?<= )/).map((piece) => ({ type: 'text_delta', text: piece }));
  return [
    event('message_start', { type: 'message_start', message }),
    event('content_block_start', { type: 'content_block_start', index: 0, content_block: start }),
    event('ping', { type: 'ping' }),
    ...deltas.map((delta) =>
      event('content_block_delta', { type: 'content_block_delta', index: 0, delta }),
    ),
    event('content_block_stop', { type: 'content_block_stop', index: 0 }),
    event('message_delta', {
      type: 'message_delta',
      delta: { stop_reason: tool ? 'tool_use' : 'end_turn', stop_sequence: null },
      usage: { output_tokens: 5 },
    }),
    event('message_stop', { type: 'message_stop' }),
  ].join('');
}

export async function startRecordingUpstream(): Promise<RecordingUpstream> {
  const requests: RecordedRequest[] = [];
  let refusal: { status: number; message: string } | undefined;
  const respond = (recorded: RecordedRequest, response: http.ServerResponse): void => {
    const isAnthropic = recorded.path.includes('/messages');
    const { model, stream } = recorded.body;
    if (refusal !== undefined) {
      const { status, message } = refusal;
      refusal = undefined;
      const error = { type: 'invalid_request_error', message };
      const body = isAnthropic ? { type: 'error', error } : { error: { ...error, code: null } };
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
      return;
    }
    if (recorded.path.startsWith('/v1/messages/count_tokens')) {
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify({ input_tokens: COUNTED_TOKENS, ...EXTRA }));
    }
    if (recorded.path.endsWith('/embeddings')) {
      const data = (recorded.body.input as string[]).map((text, index) => ({
        object: 'embedding',
        index,
        embedding: [text.length, 0.25],
      }));
      const usage = { prompt_tokens: data.length, total_tokens: data.length };
      response.writeHead(200, { 'content-type': 'application/json' });
      return void response.end(JSON.stringify({ object: 'list', model, data, usage }));
    }
    const reply = replyTo(recorded.body);
    if (stream === true) {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(isAnthropic ? anthropicStream(reply, model) : openaiStream(reply, model));
    } else {
      const whole = isAnthropic ? anthropicWhole(reply, model) : openaiWhole(reply, model);
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(whole));
    }
  };
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const body = JSON.parse(text) as Record<string, unknown>;
      const recorded = { path: request.url ?? '', headers: request.headers, text, body };
      requests.push(recorded);
      respond(recorded, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    last: () => requests.at(-1)!,
    refuseNext: (status, message) => {
      refusal = { status, message };
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
