// One request made for a tool. Here egressd speaks TLS itself, so that rules about methods and
// paths hold for https too. A request that may change something is sent at most once per call.
import http from 'node:http';
import type net from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../../platform/clock.ts';
import { hashJson } from '../../platform/json.ts';
import type { FetchAnswer, FetchBody } from '../../wire/egressd.ts';
import { Fault, fault } from '../../wire/errors.ts';
import type { Connector, Reached } from './connector.ts';
import type { Wanted } from './rules/match.ts';
import { type FetchTarget, readPlace } from './rules/place.ts';
import { refuse } from './rules/refusal.ts';
import { hostHeaderOf, isOwnHeader } from './rules/request.ts';
import { type EgressRun, withRule } from './run.ts';
import type { EgressdStore } from './store.ts';

export type Fetches = {
  fetch(run: EgressRun, body: FetchBody, signal: AbortSignal): Promise<FetchAnswer>;
  /** Of what may change something, after whoever asked for it has lost sight of it. */
  recall(callId: string): Promise<Recalled>;
  /** False when there was nothing to forget: never sent, or answered. */
  forget(callId: string): Promise<boolean>;
};
export type Recalled = { outcome: 'none' | 'unknown' | 'answered'; answer: FetchAnswer | null };

const ONLY_READS = new Set(['GET', 'HEAD', 'OPTIONS']);
const REDIRECTS = new Set([301, 302, 303, 307, 308]);
const KEEP_MS = 7 * 86_400_000;
const HEAD_BYTES_MAX = 65_536;

type OutgoingFetch = {
  method: string;
  place: FetchTarget;
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
  gate: Connector;
  store: EgressdStore;
  clock: Clock;
  ca: string | undefined;
  failpoint(name: string): void;
}): Fetches {
  const { gate, store, clock } = options;
  const inHand = new Map<string, { hash: string; answer: Promise<FetchAnswer> }>();

  const ask = async (
    run: EgressRun,
    body: FetchBody,
    { signal, onSent }: Pick<Sending, 'signal' | 'onSent'>,
  ): Promise<FetchAnswer> => {
    const { call_id: callId, decided } = body;
    let order = orderOf(gate, run, body);
    for (let redirects = 0; ; redirects++) {
      const as = redirects === 0 && decided !== undefined ? withRule(run, decided) : run;
      const sending = { gate, run: as, callId, ca: options.ca, signal, onSent };
      const got = await sendOne(sending, order, body);
      const next = redirects < body.redirects_max ? redirected(order, got) : undefined;
      if (next === undefined) return answerOf(order, got);
      order = { ...next, place: placeOf(gate, run, { ...next, callId }) };
    }
  };

  const askOnce = async (run: EgressRun, body: FetchBody, hash: string): Promise<FetchAnswer> => {
    const known = await store.findFetch(body.call_id);
    if (known !== undefined) {
      if (known.requestHash !== hash)
        throw fault('idempotency_mismatch', `${body.call_id} was used for another request`);
      if (known.answer !== undefined) return { ...known.answer, recorded: true };
      throw fault('conflict', `whether ${body.method} ${body.url} was carried out is not known`, {
        hint: 'Find out by other means before you send it again.',
        details: { outcome: 'unknown' },
      });
    }
    await store.beginFetch(body.call_id, hash, { nowMs: clock.nowMs(), keepMs: KEEP_MS });
    options.failpoint('egressd.after-fetch-intent');
    // Not given up when the caller goes away: it will ask for the outcome.
    const signal = AbortSignal.timeout(body.time_ms_max);
    let isSent = false;
    const onSent = (method: string): void => {
      isSent ||= !ONLY_READS.has(method);
    };
    try {
      const answer = await ask(run, body, { signal, onSent });
      options.failpoint('egressd.after-fetch');
      await store.endFetch(body.call_id, answer);
      return answer;
    } catch (error) {
      if (isSent) throw saidSent(error, body);
      await store.forgetFetch(body.call_id);
      throw error;
    }
  };

  const recall: Fetches['recall'] = async (callId) => {
    // However it ends, the record has it then.
    await inHand.get(callId)?.answer.catch(() => undefined);
    const known = await store.findFetch(callId);
    if (known === undefined) return { outcome: 'none', answer: null };
    if (known.answer === undefined) return { outcome: 'unknown', answer: null };
    return { outcome: 'answered', answer: { ...known.answer, recorded: true } };
  };

  const fetch: Fetches['fetch'] = async (run, body, signal) => {
    if (ONLY_READS.has(body.method)) {
      const late = AbortSignal.timeout(body.time_ms_max);
      return ask(run, body, { signal: AbortSignal.any([signal, late]), onSent: () => {} });
    }
    const { fence: _, ...same } = body;
    const hash = hashJson(same);
    const flight = inHand.get(body.call_id);
    if (flight !== undefined) {
      if (flight.hash === hash) return flight.answer;
      throw fault('idempotency_mismatch', `${body.call_id} was used for another request`);
    }
    const answer = askOnce(run, body, hash).finally(() => inHand.delete(body.call_id));
    inHand.set(body.call_id, { hash, answer });
    return answer;
  };

  return {
    fetch,
    recall,
    async forget(callId) {
      const { outcome } = await recall(callId);
      if (outcome === 'unknown') await store.forgetFetch(callId);
      return outcome === 'unknown';
    },
  };
}

type FetchRequest = { method: string; url: string; callId: string };

function placeOf(
  gate: Connector,
  run: EgressRun,
  { url, method, callId }: FetchRequest,
): FetchTarget {
  const read = readPlace(url);
  if ('value' in read) return read.value;
  const what = { host: url.slice(0, 200), port: 0, method };
  throw gate.refused(run, refuse('request', what, `${what.host}: ${read.problem}`), callId);
}

function orderOf(gate: Connector, run: EgressRun, body: FetchBody): OutgoingFetch {
  const { method, url, call_id: callId } = body;
  const place = placeOf(gate, run, { method, url, callId });
  const headers: Record<string, string> = { 'accept-encoding': 'identity', accept: '*/*' };
  for (const [name, value] of Object.entries(body.headers)) {
    const lower = name.toLowerCase();
    if (isOwnHeader(lower)) throw fault('bad_request', `the header ${name} cannot be set`);
    if (!/^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(lower) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw fault('bad_request', `the header ${name.slice(0, 100)} cannot be sent as it is`);
    headers[lower] = value;
  }
  const bytes = body.body_base64;
  return {
    method,
    place,
    headers,
    body: bytes === undefined ? undefined : Buffer.from(bytes, 'base64'),
  };
}

/** What a redirect asks for, or undefined when the answer is one to give back. */
function redirected(order: OutgoingFetch, { status, headers }: FetchedResponse) {
  const { location } = headers;
  if (!REDIRECTS.has(status) || location === undefined) return undefined;
  const url = URL.canParse(location, order.place.url)
    ? new URL(location, order.place.url).href.replace(/#.*$/, '')
    : location;
  const keeps = status === 307 || status === 308 || ONLY_READS.has(order.method);
  const isSameOrigin = new URL(order.place.url).origin === originOf(url);
  const kept = Object.entries(order.headers).filter(
    ([name]) =>
      (isSameOrigin || !['authorization', 'cookie'].includes(name)) &&
      (keeps || !name.startsWith('content-')),
  );
  return {
    url,
    method: keeps ? order.method : 'GET',
    headers: Object.fromEntries(kept),
    body: keeps ? order.body : undefined,
  };
}

const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : '');

const answerOf = (
  { place }: OutgoingFetch,
  { status, headers, body, isCut }: FetchedResponse,
): FetchAnswer => ({
  url: place.url,
  status,
  headers,
  body_base64: body.toString('base64'),
  size_bytes: body.length,
  truncated: isCut,
  recorded: false,
});

type Sending = {
  gate: Connector;
  run: EgressRun;
  callId: string;
  ca: string | undefined;
  signal: AbortSignal;
  /** Called before the first byte of a request goes out: from then on nobody knows. */
  onSent(method: string): void;
};

async function sendOne(
  sending: Sending,
  order: OutgoingFetch,
  body: FetchBody,
): Promise<FetchedResponse> {
  const { gate, run, callId, signal } = sending;
  const { host, port, path } = order.place;
  const hasBody = order.body !== undefined && order.body.length > 0;
  const wanted: Wanted = { host, port, how: 'http', method: order.method, path, hasBody };
  const reached = await gate.reach(run, wanted, { kind: 'fetch', callId });
  const { connection, socket } = reached;
  const end = (): void => void socket.destroy();
  socket.on('error', end);
  socket.on('close', () => gate.finish(run, connection));
  connection.ending.signal.addEventListener('abort', end);
  signal.addEventListener('abort', end, { once: true });
  if (signal.aborted || connection.ending.signal.aborted) end();
  try {
    const through = order.place.isTls ? await secure(sending, reached, order.place) : socket;
    sending.onSent(order.method);
    connection.requests++;
    return await exchange(sending, reached, through, { order, bytesMax: body.response_bytes_max });
  } catch (error) {
    throw translate(error, { order, isLate: signal.aborted });
  } finally {
    signal.removeEventListener('abort', end);
    end();
  }
}

function translate(
  error: unknown,
  { order, isLate }: { order: OutgoingFetch; isLate: boolean },
): Fault {
  if (error instanceof Fault) return error;
  const code = (error as NodeJS.ErrnoException).code ?? (error as Error).message;
  const why = isLate ? 'no answer in time' : code;
  const message = `${order.method} ${order.place.url.slice(0, 200)} failed: ${why}`;
  return fault('unreachable', message, { cause: error });
}

/** Whoever asked must not take it for something that did not happen. */
function saidSent(error: unknown, { method, url }: FetchBody): Fault {
  if (!(error instanceof Fault)) {
    const message = `${method} ${url.slice(0, 200)} was sent, and then something failed here`;
    return fault('internal', message, { details: { sent: true }, cause: error });
  }
  const { code, message, hint, retryAfterMs } = error;
  const details = { ...error.details, sent: true };
  return fault(code, message, { hint, retryAfterMs, details, cause: error });
}

async function secure(
  { ca }: Sending,
  { socket }: Reached,
  { host }: FetchTarget,
): Promise<TLSSocket> {
  // Loaded when first needed: most runs never need it.
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
  { gate, run }: Sending,
  { connection }: Reached,
  through: net.Socket,
  { order, bytesMax }: { order: OutgoingFetch; bytesMax: number },
): Promise<FetchedResponse> {
  const { place, method, headers, body } = order;
  return new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { 'content-length': String(body.length) };
    const host = hostHeaderOf(place, place.isTls ? 443 : 80);
    // Without an agent: one would dial by itself.
    const request = http.request({
      createConnection: () => through,
      method,
      path: place.pathAndQuery,
      headers: { host, ...headers, ...length },
      setHost: false,
      maxHeaderSize: HEAD_BYTES_MAX,
    });
    const sent = (body?.length ?? 0) + JSON.stringify(headers).length + place.url.length;
    const isOver = () => reject(fault('budget', 'this run has used up its bytes'));
    request.on('error', reject);
    request.on('upgrade', () => reject(new Error('it wants another protocol')));
    request.on('response', (answer) => {
      const chunks: Buffer[] = [];
      let size = 0;
      const done = (isCut: boolean): void =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: flat(answer.headers),
          body: Buffer.concat(chunks).subarray(0, bytesMax),
          isCut,
        });
      answer.on('data', (chunk: Buffer) => {
        if (!gate.spend(run, connection, { received: chunk.length })) return isOver();
        chunks.push(chunk);
        size += chunk.length;
        if (size <= bytesMax) return;
        done(true);
        answer.destroy();
      });
      answer.on('end', () => done(false));
      answer.on('error', reject);
    });
    if (!gate.spend(run, connection, { sent })) return isOver();
    request.end(body);
  });
}

function flat(headers: http.IncomingHttpHeaders): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers))
    if (value !== undefined) result[name] = Array.isArray(value) ? value.join(', ') : value;
  return result;
}
