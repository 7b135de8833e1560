// Serves HTTP: finds the wire of a request, reads the body, and sends the response that the wire
// returns. Its only state is the failure count of requests whose scripted error has a limit.
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { anthropicWire } from './anthropic/wire.ts';
import { deliverReply, sleepUnlessClosed } from './deliver-reply.ts';
import { openaiWire } from './openai/wire.ts';
import type { RehearsalRefusal } from './refusal.ts';
import type { ScriptedError } from './render-reply.ts';
import { responsesWire } from './responses/wire.ts';
import type { Scenario } from './screenplay/types.ts';
import type { RehearsalResponse, RehearsalWire } from './wire.ts';

const BODY_BYTES_MAX = 32 * 1024 * 1024;
const FAILURE_COUNTS_MAX = 10_000;

type RehearsalRoute = { readonly wire: RehearsalWire; readonly method: 'GET' | 'POST' };

const ROUTES: Readonly<Record<string, RehearsalRoute>> = {
  '/v1/chat/completions': { wire: openaiWire, method: 'POST' },
  '/v1/responses': { wire: responsesWire, method: 'POST' },
  '/v1/embeddings': { wire: openaiWire, method: 'POST' },
  '/v1/messages': { wire: anthropicWire, method: 'POST' },
  '/v1/messages/count_tokens': { wire: anthropicWire, method: 'POST' },
};

/** Both vendors have /v1/models; the version header tells them apart. */
function findRoute(path: string, request: IncomingMessage): RehearsalRoute | undefined {
  const route = ROUTES[path];
  if (route) return route;
  if (path !== '/v1/models' && !/^\/v1\/models\/[\w.:-]+$/.test(path)) return undefined;
  return { wire: selectWire(request), method: 'GET' };
}

function selectWire(request: IncomingMessage): RehearsalWire {
  return request.headers['anthropic-version'] === undefined ? openaiWire : anthropicWire;
}

function readBody(request: IncomingMessage): Promise<Buffer | 'too_large'> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > BODY_BYTES_MAX) resolve('too_large');
      else chunks.push(chunk);
    });
    request.on('end', () => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
    request.on('error', reject);
  });
}

function parseBody(bytes: Buffer): unknown {
  if (!isUtf8(bytes)) return undefined;
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}

class RehearsalServer {
  readonly #scenarios: readonly Scenario[];
  readonly #failureCounts = new Map<string, number>();

  constructor(scenarios: readonly Scenario[]) {
    this.#scenarios = scenarios;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?', 1)[0]!;
    const route = findRoute(path, request);
    if (!route) return this.#refuseUnknownPath(path, request, response);
    const { wire } = route;
    if (request.method !== route.method) {
      const message = `Not allowed to ${request.method} on ${path}. Use ${route.method}.`;
      const refusal = { status: 405, type: 'invalid_request_error', message };
      return sendRefusal(response, wire, refusal, hash('sha1', path));
    }
    const headerRefusal = wire.checkHeaders(request.headers);
    if (headerRefusal) return sendRefusal(response, wire, headerRefusal, hash('sha1', path));
    const bytes = route.method === 'POST' ? await readBody(request) : Buffer.alloc(0);
    if (bytes === 'too_large') {
      const message = `Request exceeds the maximum size of ${BODY_BYTES_MAX} bytes`;
      const refusal = { status: 413, type: 'request_too_large', message };
      response.shouldKeepAlive = false;
      return sendRefusal(response, wire, refusal, hash('sha1', path));
    }
    const seed = hash('sha1', bytes);
    const incoming = { path, headers: request.headers, seed, scenarios: this.#scenarios };
    const body = route.method === 'POST' ? parseBody(bytes) : undefined;
    return this.#sendResponse(response, wire, wire.respond({ ...incoming, body }), seed);
  }

  async #sendResponse(
    response: ServerResponse,
    wire: RehearsalWire,
    result: RehearsalResponse,
    seed: string,
  ): Promise<void> {
    switch (result.kind) {
      case 'refusal':
        return sendRefusal(response, wire, result.refusal, seed);
      case 'body':
        response.writeHead(200, {
          'content-type': 'application/json',
          [wire.requestIdHeader]: `req_${seed.slice(0, 24)}`,
        });
        response.end(result.body);
        return;
      case 'scripted':
        if (result.error && this.#shouldFail(result.error, seed)) {
          return sendScriptedError(response, wire, result.error, result.delivery.delayMs, seed);
        }
        return deliverReply(response, result.reply, result.delivery);
    }
  }

  #shouldFail(error: ScriptedError, seed: string): boolean {
    if (error.times === undefined) return true;
    const count = this.#failureCounts.get(seed) ?? 0;
    if (count >= error.times) return false;
    if (this.#failureCounts.size >= FAILURE_COUNTS_MAX) {
      this.#failureCounts.delete(this.#failureCounts.keys().next().value!);
    }
    this.#failureCounts.set(seed, count + 1);
    return true;
  }

  #refuseUnknownPath(path: string, request: IncomingMessage, response: ServerResponse): void {
    const wire = selectWire(request);
    const message = wire === openaiWire ? `Invalid URL (${request.method} ${path})` : 'Not Found';
    const type = wire === openaiWire ? 'invalid_request_error' : 'not_found_error';
    sendRefusal(response, wire, { status: 404, type, message }, hash('sha1', path));
  }
}

function sendRefusal(
  response: ServerResponse,
  wire: RehearsalWire,
  refusal: RehearsalRefusal,
  seed: string,
): void {
  const requestId = `req_${seed.slice(0, 24)}`;
  const body = wire.formatRefusal(refusal, requestId);
  response.writeHead(refusal.status, {
    'content-type': 'application/json',
    [wire.requestIdHeader]: requestId,
  });
  response.end(body);
}

async function sendScriptedError(
  response: ServerResponse,
  wire: RehearsalWire,
  error: ScriptedError,
  delayMs: number,
  seed: string,
): Promise<void> {
  if (delayMs > 0) await sleepUnlessClosed(response, delayMs);
  if (response.destroyed) return;
  const requestId = `req_${seed.slice(0, 24)}`;
  const retryAfter =
    error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(error.retryAfterSeconds) };
  response.writeHead(error.status, {
    'content-type': 'application/json',
    [wire.requestIdHeader]: requestId,
    ...retryAfter,
  });
  response.end(wire.formatError(error, requestId));
}

/**
 * A bug in this server must look like an error of the vendor, and must not end the process.
 */
function sendInternalError(
  request: IncomingMessage,
  response: ServerResponse,
  error: unknown,
): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const isTooDeep = error instanceof RangeError;
  const refusal = isTooDeep
    ? { status: 400, type: 'invalid_request_error', message: 'The body is nested too deeply' }
    : { status: 500, type: 'api_error', message: `Internal server error: ${String(error)}` };
  const isAnthropicPath = (request.url ?? '').startsWith('/v1/messages');
  sendRefusal(
    response,
    isAnthropicPath ? anthropicWire : selectWire(request),
    refusal,
    hash('sha1', 'internal'),
  );
}

export function createRehearsalServer(scenarios: readonly Scenario[]): Server {
  const rehearsal = new RehearsalServer(scenarios);
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    rehearsal
      .handle(request, response)
      .catch((error) => sendInternalError(request, response, error));
  });
  return server;
}
