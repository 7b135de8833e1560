// A provider on loopback that never finishes: a stream starts in its dialect and then waits, any
// other response does not start. It reports which requests are open.
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export type HoldingUpstream = {
  url: string;
  /** The bytes of the bodies of requests that are open. */
  open(): number[];
  close(): Promise<void>;
};

const sse = (...events: { type?: string }[]): string =>
  events
    .map(
      (event) => `${event.type ? `event: ${event.type}\n` : ''}data: ${JSON.stringify(event)}\n\n`,
    )
    .join('');

const STARTS: Record<string, string> = {
  messages: sse(
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        usage: { input_tokens: 3, output_tokens: 1 },
      },
    } as never,
    { type: 'content_block_start', index: 0, content_block: { type: 'text', text: '' } } as never,
    { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'He' } } as never,
  ),
  completions: sse({
    id: 'c',
    object: 'chat.completion.chunk',
    created: 1,
    model: 'm',
    choices: [{ index: 0, delta: { role: 'assistant', content: 'He' }, finish_reason: null }],
  } as never),
  responses: sse(
    { type: 'response.created', response: { id: 'r', model: 'm', output: [] } } as never,
    {
      type: 'response.output_item.added',
      output_index: 0,
      item: { type: 'message', id: 'i', role: 'assistant', content: [] },
    } as never,
    { type: 'response.output_text.delta', output_index: 0, content_index: 0, delta: 'He' } as never,
  ),
};

export async function startHoldingUpstream(): Promise<HoldingUpstream> {
  const open = new Map<http.ServerResponse, number>();
  const server = http.createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const bytes = Buffer.concat(chunks);
      open.set(response, bytes.length);
      // The flag is within the first or the last members.
      const ends = bytes.subarray(0, 200).toString() + bytes.subarray(-200).toString();
      if (!/"stream":\s*true/.test(ends)) return;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(STARTS[request.url!.split('/').at(-1)!]);
    });
    response.on('close', () => open.delete(response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    open: () => [...open.values()],
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
