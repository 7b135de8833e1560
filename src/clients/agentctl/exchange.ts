// One HTTP request and its whole answer over a Unix socket. node:http would do the same and take
// 10 ms more of every start; the daemons are the only servers this ever meets, and it asks them to
// close afterwards.
import { fault } from '../../wire/errors.ts';

export type Exchange = {
  socketPath: string;
  method: string;
  path: string;
  headers: Readonly<Record<string, string>>;
  body: string | undefined;
  deadlineMs: number;
};
export type Answer = { status: number; body: string };

/** Rejects with the error of the socket, or with a fault when the answer cannot be read. */
export function exchange(request: Exchange): Promise<Answer> {
  // Not by `import`: that would read every export of the module.
  const { connect } = process.getBuiltinModule('node:net');
  return new Promise((resolve, reject) => {
    const socket = connect(request.socketPath);
    let text = '';
    socket.setEncoding('utf8');
    socket.setTimeout(request.deadlineMs, () =>
      socket.destroy(fault('deadline', `no answer within ${request.deadlineMs / 1_000} s`)),
    );
    socket.on('data', (chunk: string) => {
      text += chunk;
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      // A daemon that refuses a body answers and closes before it has read all of it.
      const early =
        error.code === 'EPIPE' || error.code === 'ECONNRESET' ? tryParse(text) : undefined;
      if (early === undefined) reject(error);
      else resolve(early);
    });
    socket.on('end', () => {
      try {
        resolve(parseAnswer(text));
      } catch (error) {
        reject(error);
      }
    });
    socket.write(formatRequest(request));
  });
}

export function formatRequest({
  method,
  path,
  headers,
  body,
}: Omit<Exchange, 'socketPath'>): string {
  const lines = [`${method} ${path} HTTP/1.1`, 'host: agentd', 'connection: close'];
  for (const [name, value] of Object.entries(headers)) {
    if (/[\r\n]/.test(value)) throw fault('bad_usage', `the value of ${name} has a line break`);
    lines.push(`${name}: ${value}`);
  }
  if (body !== undefined)
    lines.push('content-type: application/json', `content-length: ${Buffer.byteLength(body)}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}

function tryParse(text: string): Answer | undefined {
  try {
    return parseAnswer(text);
  } catch {
    return undefined;
  }
}

/** The daemons give the length of every document; an answer that is shorter was cut off. */
export function parseAnswer(text: string): Answer {
  const end = text.indexOf('\r\n\r\n');
  const head = text.slice(0, Math.max(0, end));
  const status = /^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1];
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  const body = text.slice(end + 4);
  if (status === undefined || length === undefined || Buffer.byteLength(body) !== Number(length))
    throw fault('unavailable', 'the answer was cut off', { hint: 'Ask again.' });
  return { status: Number(status), body };
}
