// The HTTP server: finds the wire of a request, reads its body, and delivers what the wire answers.
// The only thing it remembers is how often a request has failed whose play says how often it
// should.
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { anthropicWire } from './anthropic/wire.ts';
import { deliver, pause } from './delivery.ts';
import { openaiWire } from './openai/wire.ts';
import type { PlayedError } from './perform.ts';
import type { Refusal } from './refusal.ts';
import type { Play } from './screenplay/types.ts';
import type { Reply, Wire } from './wire.ts';

const bodyBytesMax = 32 * 1024 * 1024;
const remembersMax = 10_000;

type Route = { readonly wire: Wire; readonly method: 'GET' | 'POST' };

const ROUTES: Readonly<Record<string, Route>> = {
  '/v1/chat/completions': { wire: openaiWire, method: 'POST' },
  '/v1/embeddings': { wire: openaiWire, method: 'POST' },
  '/v1/messages': { wire: anthropicWire, method: 'POST' },
  '/v1/messages/count_tokens': { wire: anthropicWire, method: 'POST' },
};

/** Both vendors have /v1/models; which one is asked shows in the version header. */
function findRoute(path: string, request: IncomingMessage): Route | undefined {
  const route = ROUTES[path];
  if (route) return route;
  if (path !== '/v1/models' && !/^\/v1\/models\/[\w.:-]+$/.test(path)) return undefined;
  return { wire: wireOf(request), method: 'GET' };
}

function wireOf(request: IncomingMessage): Wire {
  return request.headers['anthropic-version'] === undefined ? openaiWire : anthropicWire;
}

function readBody(request: IncomingMessage): Promise<Buffer | 'too_large'> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > bodyBytesMax) resolve('too_large');
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
  readonly #plays: readonly Play[];
  readonly #failures = new Map<string, number>();

  constructor(plays: readonly Play[]) {
    this.#plays = plays;
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = (request.url ?? '/').split('?', 1)[0]!;
    const route = findRoute(path, request);
    if (!route) return this.#refuseUnknown(path, request, response);
    const { wire } = route;
    if (request.method !== route.method) {
      const message = `Not allowed to ${request.method} on ${path}. Use ${route.method}.`;
      const refusal = { status: 405, type: 'invalid_request_error', message };
      return send(response, wire, refusal, hash('sha1', path));
    }
    const headerRefusal = wire.checkHeaders(request.headers);
    if (headerRefusal) return send(response, wire, headerRefusal, hash('sha1', path));
    const bytes = route.method === 'POST' ? await readBody(request) : Buffer.alloc(0);
    if (bytes === 'too_large') {
      const message = `Request exceeds the maximum size of ${bodyBytesMax} bytes`;
      const refusal = { status: 413, type: 'request_too_large', message };
      response.shouldKeepAlive = false;
      return send(response, wire, refusal, hash('sha1', path));
    }
    const seed = hash('sha1', bytes);
    const asked = { path, headers: request.headers, seed, plays: this.#plays };
    const body = route.method === 'POST' ? parseBody(bytes) : undefined;
    return this.#reply(response, wire, wire.answer({ ...asked, body }), seed);
  }

  async #reply(response: ServerResponse, wire: Wire, reply: Reply, seed: string): Promise<void> {
    switch (reply.kind) {
      case 'refusal':
        return send(response, wire, reply.refusal, seed);
      case 'body':
        response.writeHead(200, {
          'content-type': 'application/json',
          [wire.requestIdHeader]: `req_${seed.slice(0, 24)}`,
        });
        response.end(reply.body);
        return;
      case 'play':
        if (reply.error && this.#fails(reply.error, seed)) {
          return sendPlayed(response, wire, reply.error, reply.manner.delayMs, seed);
        }
        return deliver(response, reply.script, reply.manner);
    }
  }

  #fails(error: PlayedError, seed: string): boolean {
    if (error.times === undefined) return true;
    const count = this.#failures.get(seed) ?? 0;
    if (count >= error.times) return false;
    if (this.#failures.size >= remembersMax) {
      this.#failures.delete(this.#failures.keys().next().value!);
    }
    this.#failures.set(seed, count + 1);
    return true;
  }

  #refuseUnknown(path: string, request: IncomingMessage, response: ServerResponse): void {
    const wire = wireOf(request);
    const message = wire === openaiWire ? `Invalid URL (${request.method} ${path})` : 'Not Found';
    const type = wire === openaiWire ? 'invalid_request_error' : 'not_found_error';
    send(response, wire, { status: 404, type, message }, hash('sha1', path));
  }
}

function send(response: ServerResponse, wire: Wire, refusal: Refusal, seed: string): void {
  const requestId = `req_${seed.slice(0, 24)}`;
  const body = wire.shape(refusal, requestId);
  response.writeHead(refusal.status, {
    'content-type': 'application/json',
    [wire.requestIdHeader]: requestId,
  });
  response.end(body);
}

async function sendPlayed(
  response: ServerResponse,
  wire: Wire,
  error: PlayedError,
  delayMs: number,
  seed: string,
): Promise<void> {
  if (delayMs > 0) await pause(response, delayMs);
  if (response.destroyed) return;
  const requestId = `req_${seed.slice(0, 24)}`;
  const retryAfter =
    error.retryAfterSeconds === undefined ? {} : { 'retry-after': String(error.retryAfterSeconds) };
  response.writeHead(error.status, {
    'content-type': 'application/json',
    [wire.requestIdHeader]: requestId,
    ...retryAfter,
  });
  response.end(wire.shapeError(error, requestId));
}

/**
 * A mistake in this server must look like one on the vendor's side, and must not end the process.
 */
function sendInternal(request: IncomingMessage, response: ServerResponse, error: unknown): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  const isTooDeep = error instanceof RangeError;
  const refusal = isTooDeep
    ? { status: 400, type: 'invalid_request_error', message: 'The body is nested too deeply' }
    : { status: 500, type: 'api_error', message: `Internal server error: ${String(error)}` };
  const isMessages = (request.url ?? '').startsWith('/v1/messages');
  send(response, isMessages ? anthropicWire : wireOf(request), refusal, hash('sha1', 'internal'));
}

export function createRehearsalServer(plays: readonly Play[]): Server {
  const rehearsal = new RehearsalServer(plays);
  const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
    rehearsal.handle(request, response).catch((error) => sendInternal(request, response, error));
  });
  return server;
}
