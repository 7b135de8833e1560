// A provider that responds immediately in OpenAI's format, behind every measured gateway. Records
// the time of the first request about each numbered goal, on the machine's monotonic clock.
import net from 'node:net';
import { serveCommands } from './commands.ts';
import { readMessage } from './http-message.ts';

const TEXT =
  'A careful answer of ordinary length, so that reading, keeping and passing it on costs what ' +
  'it costs in earnest. It names what was asked, says what follows from it, ends. '.repeat(4);
const GOAL = /goal-number-(\d+)/;

const usage = { prompt_tokens: 280, completion_tokens: 120, total_tokens: 400 };
const answerOf = (message: object, finish_reason: string): Buffer => {
  const body = JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 1_750_000_000,
    model: 'bench-model',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
    usage,
  });
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
};

const plainAnswer = answerOf({ content: TEXT }, 'stop');
const finish = { name: 'task_finish', arguments: '{"status":"completed","result":"done"}' };
const finishAnswer = answerOf(
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
      socket.write(goal === undefined ? plainAnswer : finishAnswer);
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
