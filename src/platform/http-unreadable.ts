// Answers to what Node's HTTP parser gives up on, or would answer itself without a word: every
// refusal has the same form. What can be read is http-server's.
import http from 'node:http';
import type { Duplex } from 'node:stream';
import { type Fault, fault } from '../wire/errors.ts';

export const HEADER_BYTES_MAX = 16_384;

export function answerUnreadable(server: http.Server): void {
  const begun = new WeakMap<Duplex, Set<http.ServerResponse>>();
  server.on('request', ({ socket }, response) => {
    const responses = begun.get(socket) ?? new Set();
    begun.set(socket, responses.add(response));
    response.on('close', () => responses.delete(response));
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Our words must not stand inside another answer, nor be taken for the answer to an earlier
    // request.
    const [first, second] = begun.get(socket) ?? [];
    const isInUse = second !== undefined || first?.headersSent === true || first?.req.complete;
    if (isInUse === true || !socket.writable || error.code === 'ECONNRESET')
      return void socket.destroy();
    endWith(socket, faultOfParser(error));
  });
  server.on('checkExpectation', (request, response: http.ServerResponse) => {
    const what = String(request.headers.expect).slice(0, 100);
    sendJson(response, 400, { error: fault('bad_request', `nobody can meet ${what}`).toBody() });
  });
  // Whoever reads the body asks for it, so that what is refused without it is never sent.
  server.on('checkContinue', (request, response) => server.emit('request', request, response));
  server.on('connect', (_, socket) =>
    endWith(socket, fault('method_not_allowed', 'there are no tunnels here')),
  );
}

function faultOfParser(error: NodeJS.ErrnoException): Fault {
  if (error.code === 'HPE_HEADER_OVERFLOW')
    return fault('too_large', `the headers are larger than ${HEADER_BYTES_MAX} bytes`);
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return fault('deadline', 'the request did not arrive in time');
  return fault('bad_request', 'this is not an HTTP request that can be read');
}

/** Tells a client that waits with its body to send it. Unasked, Node ends the connection after. */
export function askForBody(request: http.IncomingMessage, response: http.ServerResponse): void {
  if (request.headers.expect === undefined) return;
  // Behind another answer it could not be said in time; then the body is on its way already.
  if (response.socket !== null) response.writeContinue();
}

/** For a connection that has no response object. */
function endWith(socket: Duplex, known: Fault): void {
  const body = JSON.stringify({ error: known.toBody() });
  const head = [
    `HTTP/1.1 ${known.http} ${http.STATUS_CODES[known.http]}`,
    'content-type: application/json',
    'connection: close',
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  socket.on('error', () => undefined);
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

export function sendJson(response: http.ServerResponse, status: number, value: unknown): void {
  const text = JSON.stringify(value);
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}
