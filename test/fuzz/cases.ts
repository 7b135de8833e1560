// Generates one malformed request per index: garbage, valid requests with changed bytes, and
// requests of a route with distorted values. A request that changes state is sent only if its
// schema rejects it.
import { checkValue } from '../../src/platform/check.ts';
import { LiveQuery } from '../../src/wire/live.ts';
import { findVendor, type Route } from '../../src/wire/route.ts';
import { pathOf } from '../support/callers.ts';
import { requestText } from '../support/raw-http.ts';
import { type Seeded, seeded } from '../support/seeded.ts';
import { anything, distort, valueFor } from './values.ts';

export type FuzzCase = {
  kind: 'garbage' | 'bytes' | 'shape' | 'meaning' | 'heavy';
  bytes: Buffer;
  /** Its end is recognizable: others may follow on the connection, and one response must come. */
  framed: boolean;
  isHead: boolean;
  dialect: boolean;
};

export type Aim = {
  /** Names the socket, and the seed of its cases with it. */
  name: string;
  routes: readonly Route[];
  /** Headers that a valid request needs on this socket. */
  headers: Record<string, string>;
};

const METHODS = ['GET', 'POST', 'PUT', 'DELETE', 'HEAD', 'OPTIONS', 'PATCH', 'TRACE', 'QUERY'];
const ODD_HEADERS: readonly (readonly [string, string])[] = [
  ['idempotency-key', 'k1'],
  ['idempotency-key', 'a b'],
  ['idempotency-key', 'k'.repeat(500)],
  ['content-type', 'text/plain'],
  ['content-type', 'application/json; charset=utf-16'],
  ['traceparent', '00-xyz'],
  ['x-request-id', '\xff\xfe'],
  ['agentd-deadline-ms', '-5'],
  ['agentd-deadline-ms', 'NaN'],
  ['agentd-person', '../../root'],
  ['authorization', 'Bearer wrong'],
  ['authorization', 'Basic Og=='],
  ['x-api-key', ''],
  ['accept-encoding', 'gzip, br'],
  ['cookie', 'a=b; c=d'],
  ['origin', 'http://evil.example'],
  ['host', 'evil.example'],
  ['expect', '100-continue'],
  ['upgrade', 'websocket'],
  ['anthropic-version', '2023-06-01'],
  ['anthropic-version', 'v'.repeat(5_000)],
  ['anthropic-beta', 'a-2026-01-01,b'],
  ['anthropic-beta', '{"a":\t\xff}'],
];
const PATHS = [
  '/',
  '//',
  '/v1',
  '/v1/',
  '/v1/tasks/',
  '/v2/tasks',
  '/v1/tasks/../status',
  '/%2e%2e/%2e%2e',
  '/v1/tasks/%',
  '/v1/tasks/%zz',
  '/v1/tasks/%ff',
  '/v1/tasks?%',
  '/v1/tasks?=&=&a',
  '/metrics',
  '/v1/tasks?limit=1&limit=2',
  '/v1/tasks?__proto__=1',
  '*',
  '/openai',
  '/openai/v1',
  '/anthropic//v1',
  '/anthropic/v1/messages?beta=true',
  '/anthropic/v1/messages/count_tokens?beta=true&beta=false',
  '/anthropic/v1/models/%',
  '/daemons/agentd/metrics',
  '/daemons/../metrics',
  '/healthz?x=1',
  `/v1/${'a/'.repeat(2_000)}`,
];
/** How long a live stream lasts, well and badly said; a valid one ends soon. */
const SECONDS = ['1', '1', '0', '-1', '1.5', '86401', '1e999', 'NaN', '', ' ', 'soon'];
const PARAMS = ['nobody', '..', '%2e%2e', 'a b', '\u0000', '💥', 'x'.repeat(5_000), 'task_1', '-'];

/** True if the route's schemas accept the request. */
function isAccepted(
  route: Route,
  shape: { params: unknown; query: unknown; body: unknown },
): boolean {
  const takes = (part: 'params' | 'query' | 'body'): boolean =>
    route[part] === undefined
      ? Object.keys((shape[part] as object | undefined) ?? {}).length === 0
      : checkValue(route[part], shape[part] ?? (part === 'query' ? {} : undefined)).success;
  return takes('params') && takes('query') && takes('body');
}

function strings(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  const entries = Object.entries(value).filter(([name]) => name !== 'follow');
  const textOf = (inner: unknown) =>
    typeof inner === 'object' ? JSON.stringify(inner) : `${inner}`;
  return Object.fromEntries(entries.map(([name, inner]) => [name, textOf(inner).toWellFormed()]));
}

function shapeOf(rnd: Seeded, route: Route) {
  const params = strings(route.params === undefined ? {} : valueFor(rnd, route.params));
  const [name] = Object.keys(params);
  if (name !== undefined && rnd.chance(0.5)) params[name] = rnd.pick(PARAMS);
  const query = strings(route.query === undefined ? {} : valueFor(rnd, route.query));
  if (route.query === LiveQuery) query.seconds = rnd.pick(SECONDS);
  if (rnd.chance(0.2)) query[rnd.pick(['x', 'limit', 'cursor', 'after'])] = rnd.pick(PARAMS);
  const good = route.body === undefined ? undefined : valueFor(rnd, route.body);
  const body = rnd.chance(0.8) ? distort(rnd, good) : rnd.chance(0.5) ? good : anything(rnd);
  return { params, query, body: route.body === undefined && rnd.chance(0.7) ? undefined : body };
}

/** Generates a request that its schema rejects, or that only reads. */
function requestFor(
  rnd: Seeded,
  aim: Aim,
): { route: Route; path: string; body: string | undefined } {
  for (;;) {
    const route = rnd.pick(aim.routes);
    // A vendor's body is rejected by its adapter, after a call to a provider: keep those few.
    if (route.dialect !== undefined && rnd.chance(0.97)) continue;
    const shape = shapeOf(rnd, route);
    const mayPass = route.method === 'GET' ? rnd.chance(0.1) : route.dialect !== undefined;
    if (!mayPass && isAccepted(route, shape)) continue;
    const body = shape.body === undefined ? undefined : JSON.stringify(shape.body);
    return { route, path: pathOf(route, shape), body };
  }
}

function shaped(rnd: Seeded, aim: Aim): FuzzCase {
  const { route, path, body = '' } = requestFor(rnd, aim);
  const headers: Record<string, string> = { ...aim.headers };
  if (body !== '') headers['content-type'] = 'application/json';
  for (let i = rnd.pick([0, 0, 0, 1, 2]); i > 0; i--) {
    const [name, value] = rnd.pick(ODD_HEADERS);
    headers[name] = value;
  }
  const isOdd = rnd.chance(0.05);
  const method = isOdd ? rnd.pick(METHODS) : route.method;
  const at = rnd.chance(0.05) ? rnd.pick(PATHS) : path;
  // Must not match a route of another method by chance, with a body that it accepts.
  const text = isOdd && method !== 'GET' && method !== 'HEAD' ? '"x"' : body;
  return {
    kind: 'shape',
    bytes: requestText(method, at, headers, text),
    framed: true,
    isHead: method === 'HEAD',
    dialect: findVendor(at) !== undefined,
  };
}

/** Routes that get well-formed nonsense, with the values that make it harmless. */
const HARMLESS: Record<string, Record<string, unknown>> = {
  'POST /v1/tasks': { agent: 'nobody' },
  'POST /v1/tasks/{id}/cancel': {},
  'POST /v1/tasks/{id}/assign': {},
  'POST /v1/waits/{id}/answer': {},
  'POST /v1/messages': { to: 'agent:nobody' },
  'POST /v1/artifacts': {},
  'PUT /v1/models/budgets': { subject: 'agent', name: 'nobody' },
  'POST /v1/models/generate': { model: 'rehearsal-small', stream: false },
  'POST /v1/models/embed': { model: 'rehearsal-embed' },
};

/** A request that matches its schema, with unknown ids and random text. */
function meant(rnd: Seeded, aim: Aim): FuzzCase {
  const routes = aim.routes.filter(({ method, path }) => `${method} ${path}` in HARMLESS);
  if (routes.length === 0) return shaped(rnd, aim);
  const route = rnd.pick(routes);
  const params = strings(route.params === undefined ? {} : valueFor(rnd, route.params));
  const value = valueFor(rnd, route.body!) as Record<string, unknown>;
  const body = JSON.stringify({ ...value, ...HARMLESS[`${route.method} ${route.path}`] });
  const headers = { ...aim.headers, 'content-type': 'application/json' };
  const bytes = requestText(route.method, pathOf(route, { params }), headers, body);
  return { kind: 'meaning', bytes, framed: true, isHead: false, dialect: false };
}

function changed(rnd: Seeded, bytes: Buffer): Buffer {
  let result = Buffer.from(bytes);
  for (let i = 1 + rnd.int(4); i > 0; i--) {
    const at = rnd.int(result.length + 1);
    const to = Math.min(result.length, at + 1 + rnd.int(8));
    const [head, tail] = [result.subarray(0, at), result.subarray(at)];
    const kind = rnd.int(5);
    if (kind === 0) result[at] = rnd.int(256);
    else if (kind === 1) result = Buffer.concat([head, rnd.bytes(1 + rnd.int(8)), tail]);
    else if (kind === 2) result = Buffer.concat([head, result.subarray(to)]);
    else if (kind === 3) result = Buffer.concat([head, result.subarray(at, to), tail]);
    else result = Buffer.from(head);
  }
  return result;
}

/** Reads only, so that a request that is still valid does no harm. */
function altered(rnd: Seeded, aim: Aim): FuzzCase {
  const reading = aim.routes.filter(({ method, streams }) => method === 'GET' && streams !== true);
  const route = rnd.pick(
    reading.length > 0 ? reading : [{ method: 'GET', path: '/healthz' } as Route],
  );
  const path = pathOf(route, { params: strings({ id: 'x', name: 'worker' }) });
  const good = requestText('GET', path, aim.headers, rnd.chance(0.3) ? '{"a":[1,"b"]}' : '');
  return { kind: 'bytes', bytes: changed(rnd, good), framed: false, isHead: false, dialect: true };
}

const CRLF = '\r\n';
const PIECES = [
  'GET ',
  'POST ',
  '/ ',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/2',
  CRLF,
  '\n',
  '\r',
  ': ',
  '\0',
  '\t',
  ' ',
  'host: a',
  'content-length: 5',
  'content-length: -1',
  'content-length: 99999999999999999999',
  'transfer-encoding: chunked',
  'transfer-encoding: gzip',
  'ffffffff',
  '0',
  '5;a=b',
  'hello',
  'connection: close',
  'connection: upgrade',
  'expect: 100-continue',
  'a'.repeat(20_000),
  '{"a":',
];

function garbage(rnd: Seeded): FuzzCase {
  const bytes = rnd.chance(0.5)
    ? rnd.bytes(1 + rnd.int(200))
    : Buffer.from(
        Array.from({ length: 1 + rnd.int(12) }, () => rnd.pick(PIECES)).join(''),
        'latin1',
      );
  const end = rnd.chance(0.5) ? Buffer.from(CRLF + CRLF) : Buffer.alloc(0);
  return {
    kind: 'garbage',
    bytes: Buffer.concat([bytes, end]),
    framed: false,
    isHead: false,
    dialect: true,
  };
}

function heavy(rnd: Seeded, aim: Aim): FuzzCase {
  const taking = aim.routes.filter(({ body }) => body !== undefined);
  const route = rnd.pick(taking.length > 0 ? taking : aim.routes);
  const size = rnd.pick([100_000, 900_000, 1_100_000, 3_000_000]);
  const bodies: (() => Buffer)[] = [
    () => Buffer.alloc(size, '['),
    () => Buffer.alloc(size, '{"a":'),
    () => Buffer.alloc(size, ' '),
    () => Buffer.alloc(size, 0xff),
    () => Buffer.from(JSON.stringify({ x: 'y'.repeat(size) })),
    () => Buffer.from(`{${Array.from({ length: size / 20 }, (_, i) => `"k${i}":${i}`).join(',')}}`),
  ];
  const bytes = requestText(route.method, pathOf(route, {}), aim.headers, rnd.pick(bodies)());
  const dialect = route.dialect !== undefined;
  return { kind: 'heavy', bytes, framed: false, isHead: false, dialect };
}

export function caseOf(seed: string, aim: Aim, index: number): FuzzCase {
  const rnd = seeded(seed, aim.name, index);
  const roll = rnd.int(1_000);
  if (roll < 2) return heavy(rnd, aim);
  if (roll < 120) return garbage(rnd);
  if (roll < 300) return altered(rnd, aim);
  if (roll < 320) return meant(rnd, aim);
  return shaped(rnd, aim);
}
