// A provider that responds immediately in OpenAI's format, behind every measured gateway. Records
// the time of the first request about each numbered goal, on the machine's monotonic clock.
import net from 'node:net';
import { makeChatResponse, plainChatResponse } from './chat-response.ts';
import { serveCommands } from './commands.ts';
import { readMessage } from './http-message.ts';

const GOAL = /goal-number-(\d+)/;

const finish = { name: 'task_finish', arguments: '{"status":"completed","result":"done"}' };
const finishAnswer = makeChatResponse(
  { content: null, tool_calls: [{ id: 'call_finish', type: 'function', function: finish }] },
  'tool_calls',
);

const arrivals = new Map<string, number>();
let requests = 0;

const server = net.createServer({ noDelay: true }, (socket) => {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    const at = process.hrtime.bigint();
    text += chunk.toString('latin1');
    for (let message = readMessage(text); message !== undefined; message = readMessage(text)) {
      text = text.slice(message.length);
      requests++;
      const goal = message.body.includes('goal-number-') ? GOAL.exec(message.body)?.[1] : undefined;
      if (goal !== undefined && !arrivals.has(goal)) arrivals.set(goal, Number(at) / 1e6);
      socket.write(goal === undefined ? plainChatResponse : finishAnswer);
    }
  });
  socket.on('error', () => socket.destroy());
});

server.listen(0, '127.0.0.1', () => {
  const { port } = server.address() as net.AddressInfo;
  serveCommands<{ arrivalOf?: string }>(port, async ({ arrivalOf }) =>
    arrivalOf === undefined ? requests : (arrivals.get(arrivalOf) ?? null),
  );
});
