// A fake provider on loopback for tests: speaks both dialects in their simplest form, records its
// requests, and plays scripted failures.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export type ReceivedRequest = {
  path: string;
  headers: http.IncomingHttpHeaders;
  text: string;
  body: Record<string, unknown>;
  response: http.ServerResponse;
};
export type ProviderPlay = (request: ReceivedRequest) => void | Promise<void>;

export type FakeProvider = {
  url: string;
  requests: ReceivedRequest[];
  /** The responses to the next requests; then the default response. */
  plays: ProviderPlay[];
  /** Replaces the default response. */
  usual: ProviderPlay;
  close(): Promise<void>;
};

export const OPENAI_USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };

export function openaiAnswer(text: string, usage: object | undefined = OPENAI_USAGE): object {
  return {
    id: 'chatcmpl-1',
    object: 'chat.completion',
    created: 1,
    model: 'gpt-test',
    choices: [{ index: 0, message: { role: 'assistant', content: text }, finish_reason: 'stop' }],
    ...(usage === undefined ? {} : { usage }),
  };
}

export function anthropicAnswer(text: string): object {
  return {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-test',
    content: [{ type: 'text', text }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { input_tokens: 11, output_tokens: 7 },
  };
}

export function sendJson(response: http.ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}

export function openaiChunks(texts: readonly string[]): string[] {
  const head = { id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'gpt-test' };
  const chunk = (more: object) => `data: ${JSON.stringify({ ...head, ...more })}\n\n`;
  return [
    chunk({ choices: [{ index: 0, delta: { role: 'assistant', content: '' } }] }),
    ...texts.map((content) => chunk({ choices: [{ index: 0, delta: { content } }] })),
    chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
    chunk({ choices: [], usage: OPENAI_USAGE }),
    'data: [DONE]\n\n',
  ];
}

export const ordinary: ProviderPlay = ({ path, body, response }) => {
  if (path.endsWith('/embeddings')) {
    const input = body.input as string[];
    return sendJson(response, 200, {
      object: 'list',
      model: 'embed-test',
      data: input.map((text, index) => ({
        object: 'embedding',
        index,
        embedding: [text.length, 0.5, index],
      })),
      usage: { prompt_tokens: input.length, total_tokens: input.length },
    });
  }
  if (path.endsWith('/messages')) return sendJson(response, 200, anthropicAnswer('hello'));
  if (body.stream === true) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const chunk of openaiChunks(['hel', 'lo'])) response.write(chunk);
    response.end();
    return;
  }
  sendJson(response, 200, openaiAnswer('hello'));
};

export async function startProvider(): Promise<FakeProvider> {
  const requests: ReceivedRequest[] = [];
  const plays: ProviderPlay[] = [];
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const text = Buffer.concat(chunks).toString('utf8');
      const body = JSON.parse(text) as Record<string, unknown>;
      const one = { path: request.url ?? '', headers: request.headers, text, body, response };
      requests.push(one);
      void (plays.shift() ?? provider.usual)(one);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const provider: FakeProvider = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    plays,
    usual: ordinary,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return provider;
}
