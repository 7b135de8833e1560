// Performs requests for http.fetch. egressd speaks TLS itself here, so that rules about methods and
// paths apply to https too. A request that may change something is sent at most once per call.
import http from 'node:http';
import type net from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../platform/clock.ts';
import { hashJson } from '../../platform/json.ts';
import type { FetchAnswer, FetchBody } from '../../wire/egressd.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { Connector, EgressLink } from './connector.ts';
import { type FetchTarget, parseFetchTarget } from './rules/fetch-target.ts';
import type { Destination } from './rules/match.ts';
import { makeRefusal } from './rules/refusal.ts';
import { formatHostHeader, isOverridingHeader, isReservedHeader } from './rules/request.ts';
import { type EgressRun, withRule } from './run.ts';
import type { EgressdStore } from './store.ts';

export type Fetches = {
  fetch(run: EgressRun, body: FetchBody, signal: AbortSignal): Promise<FetchAnswer>;
  /** Resolves to the outcome of a request that may change something, for a caller that lost it. */
  getFetch(callId: string): Promise<FetchRecord>;
  /** Resolves to false when there is no unknown outcome to forget. */
  forgetFetch(callId: string): Promise<boolean>;
};
export type FetchRecord = { outcome: 'none' | 'unknown' | 'answered'; answer: FetchAnswer | null };

const ONLY_READS = new Set(['GET', 'HEAD', 'OPTIONS']);
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const ANSWER_RETENTION_MS = 7 * 86_400_000;
const HEAD_BYTES_MAX = 65_536;

type OutgoingFetch = {
  method: string;
  target: FetchTarget;
  headers: Record<string, string>;
  body: Buffer | undefined;
};
type FetchedResponse = {
  status: number;
  headers: Record<string, string>;
  body: Buffer;
  isCut: boolean;
};

export function makeFetches(options: {
  connector: Connector;
  store: EgressdStore;
  clock: Clock;
  ca: string | undefined;
  failpoint(name: string): void;
}): Fetches {
  const { connector, store, clock } = options;
  const inFlight = new Map<string, { hash: string; answer: Promise<FetchAnswer> }>();

  const performFetch = async (
    run: EgressRun,
    body: FetchBody,
    { signal, onSent }: Pick<SendContext, 'signal' | 'onSent'>,
  ): Promise<FetchAnswer> => {
    const { call_id: callId, decided } = body;
    let req = makeOutgoing(connector, run, body);
    for (let redirects = 0; ; redirects++) {
      const as = redirects === 0 && decided !== undefined ? withRule(run, decided) : run;
      const context = { connector, run: as, callId, ca: options.ca, signal, onSent };
      const response = await sendRequest(context, req, body);
      const next = redirects < body.redirects_max ? followRedirect(req, response) : undefined;
      if (next === undefined) return toFetchAnswer(req, response);
      req = { ...next, target: parseTarget(connector, run, { ...next, callId }) };
    }
  };

  const performOnce = async (
    run: EgressRun,
    body: FetchBody,
    hash: string,
  ): Promise<FetchAnswer> => {
    const known = await store.findFetch(body.call_id);
    if (known !== undefined) {
      if (known.requestHash !== hash)
        throw fault('idempotency_mismatch', `${body.call_id} was used for another request`);
      if (known.answer !== undefined) return { ...known.answer, recorded: true };
      throw fault('conflict', `the outcome of ${body.method} ${body.url} is unknown`, {
        hint: 'Find out by other means before you send it again.',
        details: { outcome: 'unknown' },
      });
    }
    await store.beginFetch(body.call_id, hash, {
      nowMs: clock.nowMs(),
      keepMs: ANSWER_RETENTION_MS,
    });
    options.failpoint('egressd.after-fetch-intent');
    // Not aborted when the caller disconnects: it will query the outcome.
    const signal = AbortSignal.timeout(body.time_ms_max);
    let isSent = false;
    const onSent = (method: string): void => {
      isSent ||= !ONLY_READS.has(method);
    };
    try {
      const answer = await performFetch(run, body, { signal, onSent });
      options.failpoint('egressd.after-fetch');
      await store.endFetch(body.call_id, answer);
      return answer;
    } catch (error) {
      if (isSent) throw sentFault(error, body);
      await store.forgetFetch(body.call_id);
      throw error;
    }
  };

  const getFetch: Fetches['getFetch'] = async (callId) => {
    // The outcome is recorded when this settles.
    await inFlight.get(callId)?.answer.catch(() => undefined);
    const known = await store.findFetch(callId);
    if (known === undefined) return { outcome: 'none', answer: null };
    if (known.answer === undefined) return { outcome: 'unknown', answer: null };
    return { outcome: 'answered', answer: { ...known.answer, recorded: true } };
  };

  const fetch: Fetches['fetch'] = async (run, body, signal) => {
    if (ONLY_READS.has(body.method)) {
      const late = AbortSignal.timeout(body.time_ms_max);
      return performFetch(run, body, { signal: AbortSignal.any([signal, late]), onSent: () => {} });
    }
    const { fence: _, ...same } = body;
    const hash = hashJson(same);
    const flight = inFlight.get(body.call_id);
    if (flight !== undefined) {
      if (flight.hash === hash) return flight.answer;
      throw fault('idempotency_mismatch', `${body.call_id} was used for another request`);
    }
    const answer = performOnce(run, body, hash).finally(() => inFlight.delete(body.call_id));
    inFlight.set(body.call_id, { hash, answer });
    return answer;
  };

  return {
    fetch,
    getFetch,
    async forgetFetch(callId) {
      const { outcome } = await getFetch(callId);
      if (outcome === 'unknown') await store.forgetFetch(callId);
      return outcome === 'unknown';
    },
  };
}

type FetchRequest = { method: string; url: string; callId: string };

function parseTarget(
  connector: Connector,
  run: EgressRun,
  { url, method, callId }: FetchRequest,
): FetchTarget {
  const read = parseFetchTarget(url);
  if ('value' in read) return read.value;
  const what = { host: url.slice(0, 200), port: 0, method };
  throw connector.denialFault(
    run,
    makeRefusal('request', what, `${what.host}: ${read.problem}`),
    callId,
  );
}

function makeOutgoing(connector: Connector, run: EgressRun, body: FetchBody): OutgoingFetch {
  const { method, url, call_id: callId } = body;
  const target = parseTarget(connector, run, { method, url, callId });
  const headers: Record<string, string> = { 'accept-encoding': 'identity', accept: '*/*' };
  for (const [name, value] of Object.entries(body.headers)) {
    const lower = name.toLowerCase();
    if (isReservedHeader(lower) || isOverridingHeader(lower))
      throw fault('bad_request', `the header ${name} cannot be set`);
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(lower) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw fault('bad_request', `the header ${name.slice(0, 100)} has invalid characters`);
    headers[lower] = value;
  }
  const bytes = body.body_base64;
  return {
    method,
    target,
    headers,
    body: bytes === undefined ? undefined : Buffer.from(bytes, 'base64'),
  };
}

/** Returns the next request of a redirect, or undefined when the response is final. */
function followRedirect(req: OutgoingFetch, { status, headers }: FetchedResponse) {
  const { location } = headers;
  if (!REDIRECTS.has(status) || location === undefined) return undefined;
  const url = URL.canParse(location, req.target.url)
    ? new URL(location, req.target.url).href.replace(/#.*$/, '')
    : location;
  const keeps = status === 307 || status === 308 || ONLY_READS.has(req.method);
  const isSameOrigin = new URL(req.target.url).origin === parseOrigin(url);
  const kept = Object.entries(req.headers).filter(
    ([name]) =>
      (isSameOrigin || !['authorization', 'cookie'].includes(name)) &&
      (keeps || !name.startsWith('content-')),
  );
  return {
    url,
    method: keeps ? req.method : 'GET',
    headers: Object.fromEntries(kept),
    body: keeps ? req.body : undefined,
  };
}

const parseOrigin = (url: string): string => (URL.canParse(url) ? new URL(url).origin : '');

const toFetchAnswer = (
  { target }: OutgoingFetch,
  { status, headers, body, isCut }: FetchedResponse,
): FetchAnswer => ({
  url: target.url,
  status,
  headers,
  body_base64: body.toString('base64'),
  size_bytes: body.length,
  truncated: isCut,
  recorded: false,
});

type SendContext = {
  connector: Connector;
  run: EgressRun;
  callId: string;
  ca: string | undefined;
  signal: AbortSignal;
  /** Called before the first byte is sent: from then on the outcome may be unknown. */
  onSent(method: string): void;
};

async function sendRequest(
  context: SendContext,
  req: OutgoingFetch,
  body: FetchBody,
): Promise<FetchedResponse> {
  const { connector, run, callId, signal } = context;
  const { host, port, path } = req.target;
  const hasBody = req.body !== undefined && req.body.length > 0;
  const dest: Destination = {
    host,
    port,
    how: 'http',
    method: req.method,
    path,
    hasBody,
    isOverridden: false,
  };
  const link = await connector.connect(run, dest, { kind: 'fetch', callId });
  const { connection, socket } = link;
  const end = (): void => void socket.destroy();
  socket.on('error', end);
  socket.on('close', () => connector.finish(run, connection));
  connection.ending.signal.addEventListener('abort', end);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted || connection.ending.signal.aborted) end();
  try {
    const through = req.target.isTls ? await connectTls(context, link, req.target) : socket;
    context.onSent(req.method);
    connection.requests++;
    return await exchange(context, link, through, {
      req,
      bytesMax: body.response_bytes_max,
    });
  } catch (error) {
    throw unreachableFault(error, { req, isLate: signal.aborted });
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

function unreachableFault(
  error: unknown,
  { req, isLate }: { req: OutgoingFetch; isLate: boolean },
): Fault {
  if (error instanceof Fault) return error;
  const code = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
  const why = isLate ? 'timed out' : code;
  const message = `${req.method} ${req.target.url.slice(0, 200)} failed: ${why}`;
  return fault('unreachable', message, { cause: error });
}

/** Marks the error as `sent`, so the caller does not assume that nothing happened. */
function sentFault(error: unknown, { method, url }: FetchBody): Fault {
  if (!(error instanceof Fault)) {
    const message = `${method} ${url.slice(0, 200)} was sent, then egressd failed`;
    return fault('internal', message, { details: { sent: true }, cause: error });
  }
  const { code, message, hint, retryAfterMs } = error;
  const details = { ...error.details, sent: true };
  return fault(code, message, { hint, retryAfterMs, details, cause: error });
}

async function connectTls(
  { ca }: SendContext,
  { socket }: EgressLink,
  { host }: FetchTarget,
): Promise<TLSSocket> {
  // Loaded on first use: most runs never need it.
  const { default: tls } = await import('node:tls');
  return new Promise((resolve, reject) => {
    const secured = tls.connect({
      socket,
      ALPNProtocols: ['http/1.1'],
      ...(host.ip === undefined ? { servername: host.name } : { host: host.name }),
      ...(ca === undefined ? {} : { ca: [...tls.rootCertificates, ca] }),
    });
    secured.once('secureConnect', () => resolve(secured));
    secured.once('error', reject);
    secured.once('close', () => reject(new Error('the connection was closed')));
  });
}

function exchange(
  { connector, run }: SendContext,
  { connection }: EgressLink,
  through: net.Socket,
  { req, bytesMax }: { req: OutgoingFetch; bytesMax: number },
): Promise<FetchedResponse> {
  const { target, method, headers, body } = req;
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(body.length) };
    const host = formatHostHeader(target, target.isTls ? 443 : 80);
    // Without an agent, which would dial by itself.
    const request = http.request({
      createConnection: () => through,
      method,
      path: target.pathAndQuery,
      headers: { host, ...headers, ...length },
      setHost: false,
      maxHeaderSize: HEAD_BYTES_MAX,
    });
    const sent = (body?.length ?? 0) + JSON.stringify(headers).length + target.url.length;
    const isOver = () => reject(fault('budget', 'this run has used up its byte budget'));
    request.on('error', reject);
    request.on('upgrade', () => reject(new Error('the server requested a protocol upgrade')));
    request.on('response', (answer) => {
      const chunks: Buffer[] = [];
      let size = 0;
      const done = (isCut: boolean): void =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: flattenHeaders(answer.headers),
          body: Buffer.concat(chunks).subarray(0, bytesMax),
          isCut,
        });
      answer.on('data', (chunk: Buffer) => {
        if (!connector.spend(run, connection, { received: chunk.length })) return isOver();
        chunks.push(chunk);
        size += chunk.length;
        if (size <= bytesMax) return;
        done(true);
        answer.destroy();
      });
      answer.on('end', () => done(false));
      answer.on('error', reject);
    });
    if (!connector.spend(run, connection, { sent })) return isOver();
    request.end(body);
  });
}

function flattenHeaders(headers: http.IncomingHttpHeaders): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) result[name] = Array.isArray(value) ? value.join(', ') : value;
  return result;
}
