// Sends faults to clients of the proxy, as HTTP responses with the API's error JSON.
import http from 'node:http';
import type { Duplex } from 'node:stream';
import type { Log } from '../../../platform/log.ts';
import { Fault, fault } from '../../../wire/errors.ts';

/** Other errors than faults are bugs: they are logged, and the client gets `internal`. */
export function toFault(error: unknown, log: Log): Fault {
  if (error instanceof Fault) return error;
  log.error('unexpected proxy error', { error });
  return fault('internal', 'internal error in the proxy');
}

function encodeFault(error: Fault): { head: [string, string][]; body: string } {
  const body = `${JSON.stringify({ error: error.toBody() })}\n`;
  const length = String(Buffer.byteLength(body));
  return {
    body,
    head: [
      ['content-type', 'application/json'],
      ['content-length', length],
    ],
  };
}

/** For a connection that has no response object: a refused tunnel. */
export function endWithFault(socket: Duplex, error: Fault): void {
  const { head, body } = encodeFault(error);
  const lines = [...head, ['connection', 'close']].map((pair) => pair.join(': '));
  const status = `HTTP/1.1 ${error.http} ${http.STATUS_CODES[error.http]}`;
  socket.on('error', () => undefined);
  socket.on('finish', () => socket.destroy());
  socket.end(`${[status, ...lines].join('\r\n')}\r\n\r\n${body}`);
}

export function sendFault(response: http.ServerResponse, error: Fault): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const { head, body } = encodeFault(error);
  // After an ambiguous request, the rest of the connection cannot be trusted.
  if (error.details?.reason === 'request') response.setHeader('connection', 'close');
  response.writeHead(error.http, Object.fromEntries(head));
  response.end(body);
  // A client that is still sending would otherwise lose the response with the connection.
  response.req.resume();
}
