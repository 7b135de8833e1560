// Sends one request to a daemon and returns its response, whole or as a stream. Daemons, agentctl
// and the runner share it, so it imports nothing that slows a start; the runner's bundle leaves the
// fault table out, because the runner does not use readDocument.
import type { Readable } from 'node:stream';
import { fault, faultFromBody } from '../../wire/errors.ts';
import { codeError, type HttpPool, makePool } from './client.ts';
import { assertTarget, type SentHeaders, writeHeaders } from './head.ts';

export type HttpRequest = {
  method: string;
  path: string;
  headers: SentHeaders;
  /** JSON text. */
  body?: string | undefined;
  signal?: AbortSignal | undefined;
};
export type HttpResponse = { status: number; body: string };
export type OpenedStream = { status: number; body: Readable };

/** Larger than any response of a daemon. */
const RESPONSE_BYTES_MAX = 256_000_000;

/** Up to `connectionsMax` connections to a Unix socket. */
export function unixPool(path: string, connectionsMax = Number.POSITIVE_INFINITY): HttpPool {
  // Not by `import`: outside of a bundle that would read every export of the module.
  const { connect } = process.getBuiltinModule('node:net');
  return makePool({ connect: (onread) => connect({ path, onread }), connectionsMax });
}

/**
 * Rejects with the error of the socket, or with one of the codes ETIMEDOUT, ABORT_ERR, EMSGSIZE,
 * ECONNRESET (closed without a response), HPE_INVALID_EOF_STATE (closed within the response) and
 * HPE_INVALID (anything else that is not a complete HTTP response).
 */
export function sendRequest(
  pool: HttpPool,
  request: HttpRequest & { timeoutMs: number },
): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const { signal, timeoutMs } = request;
    if (signal?.aborted === true) return reject(abortError());
    const chunks: Buffer[] = [];
    let status = 0;
    let sizeBytes = 0;
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    const fail = (cause: NodeJS.ErrnoException): void => {
      settle();
      call.destroy();
      reject(cause);
    };
    const onAbort = (): void => fail(abortError());
    const call = pool.send(writeRequest(request), {
      connected() {},
      more() {},
      head({ status: received, headers }) {
        status = received;
        // Without an end of its own, a response that was cut off would look complete.
        if (headers['content-length'] === undefined && headers['transfer-encoding'] === undefined)
          fail(codeError('HPE_INVALID', 'the response does not announce its length'));
      },
      data(chunk) {
        sizeBytes += chunk.length;
        if (sizeBytes > RESPONSE_BYTES_MAX)
          return fail(codeError('EMSGSIZE', `the response exceeds ${RESPONSE_BYTES_MAX} bytes`));
        chunks.push(chunk);
      },
      end() {
        settle();
        const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
        resolve({ status, body: bytes.toString('utf8') });
      },
      fail,
    });
    const timer = setTimeout(
      () => fail(codeError('ETIMEDOUT', `no response within ${timeoutMs} ms`)),
      timeoutMs,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/** Returns the JSON value of a successful response and throws the fault of any other. */
export function readDocument({ status, body }: HttpResponse, sender: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch (cause) {
    throw fault('bad_output', `the response of ${sender} is not JSON`, { cause });
  }
  if (status >= 400) throw faultFromBody(value);
  return value;
}

/** Resolves with the head. Failures later than that are errors of the body. */
export function openStream(pool: HttpPool, request: HttpRequest): Promise<OpenedStream> {
  const { Readable } = process.getBuiltinModule('node:stream');
  return new Promise((resolve, reject) => {
    const { signal } = request;
    if (signal?.aborted === true) return reject(abortError());
    const body = new Readable({
      ...(signal === undefined ? {} : { signal }),
      read: () => call.resume(),
      destroy(error, done) {
        call.destroy();
        done(error);
      },
    });
    // Before the head this rejects; afterwards the reader of the body gets the error.
    body.on('error', reject);
    const call = pool.send(writeRequest(request), {
      connected() {},
      more() {},
      head: ({ status }) => resolve({ status, body }),
      data(chunk) {
        if (!body.push(chunk)) call.pause();
      },
      end: () => void body.push(null),
      fail: (cause) => void body.destroy(cause),
    });
  });
}

const abortError = (): NodeJS.ErrnoException =>
  codeError('ABORT_ERR', 'the caller canceled the request');

function writeRequest({ method, path, headers, body }: HttpRequest) {
  assertTarget(path);
  const start = `${method} ${path} HTTP/1.1\r\nhost: agentd\r\n${writeHeaders(headers)}`;
  if (body === undefined) return { method, head: `${start}\r\n`, body };
  const bodyBytes = Buffer.byteLength(body);
  const head = `${start}content-type: application/json\r\ncontent-length: ${bodyBytes}\r\n\r\n`;
  return { method, head, body, bodyBytes };
}
