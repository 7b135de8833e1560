// A fault as a client of the proxy gets it: an HTTP answer with the same JSON as everywhere.
import http from 'node:http';
import type { Duplex } from 'node:stream';
import type { Log } from '../../../platform/log.ts';
import { Fault, fault } from '../../../wire/errors.ts';

/** What is no fault is a bug: the log says which, the client only hears that there is one. */
export function knownFault(error: unknown, log: Log): Fault {
  if (error instanceof Fault) return error;
  log.error('a bug in the proxy', { error });
  return fault('internal', 'something went wrong in the proxy');
}

function textOf(known: Fault): { head: [string, string][]; body: string } {
  const body = `${JSON.stringify({ error: known.toBody() })}\n`;
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
export function endWith(socket: Duplex, known: Fault): void {
  const { head, body } = textOf(known);
  const lines = [...head, ['connection', 'close']].map((pair) => pair.join(': '));
  const status = `HTTP/1.1 ${known.http} ${http.STATUS_CODES[known.http]}`;
  socket.on('error', () => undefined);
  socket.on('finish', () => socket.destroy());
  socket.end(`${[status, ...lines].join('\r\n')}\r\n\r\n${body}`);
}

export function sendFault(response: http.ServerResponse, known: Fault): void {
  if (response.headersSent || response.destroyed) return void response.destroy();
  const { head, body } = textOf(known);
  // What could be read in two ways is not read on.
  if (known.details?.reason === 'request') response.setHeader('connection', 'close');
  response.writeHead(known.http, Object.fromEntries(head));
  response.end(body);
  // A client that still sends would otherwise lose the answer with the connection.
  response.req.resume();
}
