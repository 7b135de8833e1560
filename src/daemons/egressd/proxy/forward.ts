// One HTTP request passed on: read strictly, decided on by host, port, method and path, and written
// anew, so that nothing of its form survives that another server could read differently.
import http from 'node:http';
import type { Log } from '../../../platform/log.ts';
import type { Target } from '../../../policy/hosts.ts';
import { type Fault, fault } from '../../../wire/errors.ts';
import type { Connector } from '../connector.ts';
import type { Wanted } from '../rules/match.ts';
import { refuse } from '../rules/refusal.ts';
import { endToEnd, type Passed, readRequest } from '../rules/request.ts';
import type { EgressRun, TrackedConnection } from '../run.ts';
import { knownFault, sendFault } from './answer.ts';
import { pipeMetered } from './pipe-metered.ts';
import type { PoolRequest, SocketPool } from './pool.ts';

export type ForwardOptions = {
  run: EgressRun;
  gate: Connector;
  pool: SocketPool;
  request: http.IncomingMessage;
  response: http.ServerResponse;
  /** The tunnel it came in, if it came in one. */
  bound: Target | undefined;
  idleTimeoutMs: number;
  log: Log;
};

const HEAD_BYTES_MAX = 65_536;
const CAN_BE_SENT_AGAIN = new Set(['GET', 'HEAD', 'OPTIONS']);

function readPassed({ run, gate, request, bound }: ForwardOptions): Passed {
  const { method = '', url = '', httpVersion, rawHeaders } = request;
  const read = readRequest({ method, url, httpVersion, rawHeaders }, bound);
  if ('value' in read) return read.value;
  const host = bound?.host.name ?? url.slice(0, 200);
  const what = { host, port: bound?.port ?? 0, method: method.slice(0, 24) };
  throw gate.refused(run, refuse('request', what, `the request is refused: ${read.problem}`));
}

export async function serveRequest(options: ForwardOptions): Promise<void> {
  const { run, gate, request, response } = options;
  try {
    const passed = readPassed(options);
    const { target, method, path, hasBody } = passed;
    const wanted: Wanted = { ...target, how: 'http', method, path, hasBody };
    gate.assertAllowed(run, wanted, { kind: 'http' });
    if (request.headers.expect !== undefined) response.writeContinue();
    await send(options, passed, wanted);
  } catch (error) {
    sendFault(response, knownFault(error, options.log));
  }
}

/** Resolves when the answer has gone to the client, or cannot any more. */
function send(options: ForwardOptions, passed: Passed, wanted: Wanted): Promise<void> {
  const { run, gate, pool, request, response } = options;
  return new Promise((resolve, reject) => {
    const start = (isAgain: boolean): void => {
      let connection: TrackedConnection | undefined;
      const order: PoolRequest = {
        agent: pool.agent,
        wanted,
        host: wanted.host.name,
        port: wanted.port,
        method: passed.method,
        path: passed.url,
        headers: passed.headers,
        setHost: false,
        timeout: options.idleTimeoutMs,
        maxHeaderSize: HEAD_BYTES_MAX,
      };
      const out = http.request(order);
      const onGone = (): void => void out.destroy();
      response.once('close', onGone);
      const fail = (error: Error): void => {
        response.off('close', onGone);
        const isStale = out.reusedSocket && !isAgain && CAN_BE_SENT_AGAIN.has(passed.method);
        if (isStale && !passed.hasBody && !response.headersSent && !response.destroyed) start(true);
        else
          reject(
            connection?.ending.signal.aborted === true ? cutFault(run, connection) : away(error),
          );
      };
      out.on('error', fail);
      out.on('timeout', () => out.destroy(new Error('nothing came for too long')));
      out.on('socket', (socket) => {
        connection = pool.connectionOf(socket);
        if (connection === undefined) return void out.destroy();
        connection.wanted = wanted;
        connection.requests++;
        const sent = headBytes(passed.url, passed.headers);
        if (!gate.spend(run, connection, { sent })) out.destroy();
      });
      out.on('response', (answer) => {
        answer.once('end', () => response.off('close', onGone));
        passBack({ run, gate, answer, response, connection: connection!, fail });
        response.once('finish', resolve);
        response.once('close', resolve);
      });
      if (!passed.hasBody) return void out.end();
      pipeMetered(request, out, (sent) => {
        if (connection === undefined) return true;
        return gate.spend(run, connection, { sent });
      });
    };
    start(false);
  });
}

function passBack(parts: {
  run: EgressRun;
  gate: Connector;
  answer: http.IncomingMessage;
  response: http.ServerResponse;
  connection: TrackedConnection;
  fail(error: Error): void;
}): void {
  const { run, gate, answer, response, connection } = parts;
  const { statusCode = 502, statusMessage, rawHeaders } = answer;
  const kept = endToEnd(rawHeaders);
  if ('problem' in kept) return void parts.fail(new Error(kept.problem));
  const received = headBytes('', rawHeaders);
  if (!gate.spend(run, connection, { received })) return;
  try {
    response.writeHead(statusCode, statusMessage ?? '', kept.value);
  } catch (error) {
    return void parts.fail(error as Error);
  }
  // Cut short: the client must not take what it has for the whole.
  answer.on('error', () => response.destroy());
  answer.on('aborted', () => response.destroy());
  pipeMetered(answer, response, (bytes) => gate.spend(run, connection, { received: bytes }));
}

const headBytes = (first: string, headers: readonly string[]): number =>
  headers.reduce((sum, text) => sum + text.length + 2, first.length + 16);

function away(error: Error): Error {
  if (error.name === 'Fault') return error;
  const code = (error as NodeJS.ErrnoException).code ?? error.message;
  return fault('unreachable', `the host did not answer the request: ${code}`, { cause: error });
}

function cutFault(run: EgressRun, { status }: TrackedConnection): Fault {
  if (status === 'budget') {
    const used = `${run.body.bytes_max} bytes`;
    return fault('budget', `this run has used up the ${used} it may send and receive`);
  }
  return fault('denied', 'the connection was cut: this run may no longer use it');
}
