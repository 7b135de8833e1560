// Forwards one HTTP request: parses it strictly, matches host, port, method and path, and writes it
// anew, so that no ambiguous framing reaches the server.
import http from 'node:http';
import type { Log } from '../../../platform/log.ts';
import type { Target } from '../../../policy/hosts.ts';
import { fault } from '../../../wire/errors.ts';
import type { Connector } from '../connector.ts';
import type { Destination } from '../rules/match.ts';
import { makeRefusal } from '../rules/refusal.ts';
import { type ForwardedRequest, readRequest, stripHopHeaders } from '../rules/request.ts';
import type { EgressRun, TrackedConnection } from '../run.ts';
import { sendFault, toFault } from './fault-response.ts';
import { pipeMetered } from './pipe-metered.ts';
import type { PoolRequest, SocketPool } from './pool.ts';

export type ForwardOptions = {
  run: EgressRun;
  connector: Connector;
  pool: SocketPool;
  request: http.IncomingMessage;
  response: http.ServerResponse;
  /** The target of the tunnel it came through, if any. */
  bound: Target | undefined;
  idleTimeoutMs: number;
  log: Log;
};

const HEAD_BYTES_MAX = 65_536;
const RETRYABLE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

function parseForwarded({ run, connector, request, bound }: ForwardOptions): ForwardedRequest {
  const { method = '', url = '', httpVersion, rawHeaders } = request;
  const read = readRequest({ method, url, httpVersion, rawHeaders }, bound);
  if ('value' in read) return read.value;
  const host = bound?.host.name ?? url.slice(0, 200);
  const target = { host, port: bound?.port ?? 0, method: method.slice(0, 24) };
  throw connector.denialFault(
    run,
    makeRefusal('request', target, `the request is refused: ${read.problem}`),
  );
}

export async function serveRequest(options: ForwardOptions): Promise<void> {
  const { run, connector, request, response } = options;
  try {
    const forwarded = parseForwarded(options);
    const { target, method, path, hasBody, isOverridden } = forwarded;
    const dest: Destination = { ...target, how: 'http', method, path, hasBody, isOverridden };
    connector.assertAllowed(run, dest, { kind: 'http' });
    if (request.headers.expect !== undefined) response.writeContinue();
    await send(options, forwarded, dest);
  } catch (error) {
    sendFault(response, toFault(error, options.log));
  }
}

/** Resolves when the response was sent to the client, or the client is gone. */
function send(
  options: ForwardOptions,
  forwarded: ForwardedRequest,
  dest: Destination,
): Promise<void> {
  const { run, connector, pool, request, response } = options;
  return new Promise((resolve, reject) => {
    const start = (isRetry: boolean): void => {
      let connection: TrackedConnection | undefined;
      const poolRequest: PoolRequest = {
        agent: pool.agent,
        dest,
        host: dest.host.name,
        port: dest.port,
        method: forwarded.method,
        path: forwarded.url,
        headers: forwarded.headers,
        setHost: false,
        timeout: options.idleTimeoutMs,
        maxHeaderSize: HEAD_BYTES_MAX,
      };
      const req = http.request(poolRequest);
      const onGone = (): void => void req.destroy();
      response.once('close', onGone);
      const fail = (error: Error): void => {
        response.off('close', onGone);
        const isStale = req.reusedSocket && !isRetry && RETRYABLE_METHODS.has(forwarded.method);
        if (isStale && !forwarded.hasBody && !response.headersSent && !response.destroyed)
          start(true);
        else
          reject(
            connection?.ending.signal.aborted === true
              ? connector.cutFault(run, connection)
              : unreachableFault(error),
          );
      };
      req.on('error', fail);
      req.on('timeout', () => req.destroy(new Error('idle timeout')));
      req.on('socket', (socket) => {
        connection = pool.connectionFor(socket);
        if (connection === undefined) return void req.destroy();
        connection.dest = dest;
        connection.requests++;
        const sent = headBytes(forwarded.url, forwarded.headers);
        if (!connector.spend(run, connection, { sent })) req.destroy();
      });
      req.on('response', (upstream) => {
        upstream.once('end', () => response.off('close', onGone));
        sendResponse({ run, connector, upstream, response, connection: connection!, fail });
        response.once('finish', resolve);
        response.once('close', resolve);
      });
      if (!forwarded.hasBody) return void req.end();
      pipeMetered(request, req, (sent) => {
        if (connection === undefined) return true;
        return connector.spend(run, connection, { sent });
      });
    };
    start(false);
  });
}

function sendResponse(parts: {
  run: EgressRun;
  connector: Connector;
  upstream: http.IncomingMessage;
  response: http.ServerResponse;
  connection: TrackedConnection;
  fail(error: Error): void;
}): void {
  const { run, connector, upstream, response, connection } = parts;
  const { statusCode = 502, statusMessage, rawHeaders } = upstream;
  const kept = stripHopHeaders(rawHeaders);
  if ('problem' in kept) return void parts.fail(new Error(kept.problem));
  const received = headBytes('', rawHeaders);
  if (!connector.spend(run, connection, { received })) return;
  try {
    response.writeHead(statusCode, statusMessage ?? '', kept.value);
  } catch (error) {
    return void parts.fail(error as Error);
  }
  // The client must not mistake a truncated response for a complete one.
  upstream.on('error', () => response.destroy());
  upstream.on('aborted', () => response.destroy());
  pipeMetered(upstream, response, (bytes) => connector.spend(run, connection, { received: bytes }));
}

const headBytes = (first: string, headers: readonly string[]): number =>
  headers.reduce((sum, text) => sum + text.length + 2, first.length + 16);

function unreachableFault(error: Error): Error {
  if (error.name === 'Fault') return error;
  const code = (error as NodeJS.ErrnoException).code ?? error.message;
  return fault('unreachable', `the host did not respond: ${code}`, { cause: error });
}
