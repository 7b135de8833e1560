// Parses a request to forward: its target and its end-to-end headers. Anything that two servers
// could read differently is rejected, not repaired.
import {
  formatAuthority,
  type Host,
  type ParseOutcome,
  parseAuthority,
  type Target,
} from '../../../policy/hosts.ts';

export type RawRequest = {
  method: string;
  url: string;
  httpVersion: string;
  /** Name, value, name, value, as received. */
  rawHeaders: readonly string[];
};

export type ForwardedRequest = {
  target: Target;
  method: string;
  /** With the query, as it is forwarded. */
  url: string;
  path: string;
  /** Name, value, …, the Host first. */
  headers: string[];
  hasBody: boolean;
  isOverridden: boolean;
};

const PORT_HTTP = 80;
const METHODS_REFUSED = new Set(['TRACE', 'TRACK', 'CONNECT']);

/** Hop-by-hop headers: not forwarded. */
const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-authentication-info',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
  'expect',
]);
/** Listing one of these in Connection would change the meaning of the message. */
const CONNECTION_FORBIDDEN = new Set([
  'host',
  'content-length',
  'content-type',
  'authorization',
  'cookie',
]);

const problem = (text: string) => ({ problem: text });

function readHeaderValues(rawHeaders: readonly string[], name: string): string[] {
  const found: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.toLowerCase() === name) found.push(rawHeaders[i + 1]!);
  return found;
}

/** Removes hop-by-hop headers; fails when Connection lists a header it must not. */
export function stripHopHeaders(rawHeaders: readonly string[]): ParseOutcome<string[]> {
  const named = new Set(
    readHeaderValues(rawHeaders, 'connection').flatMap((value) =>
      value.split(',').map((token) => token.trim().toLowerCase()),
    ),
  );
  for (const token of named)
    if (CONNECTION_FORBIDDEN.has(token)) return problem(`its Connection header names ${token}`);
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!HOP_BY_HOP.has(name) && !named.has(name)) kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  return { value: kept };
}

function readAbsolute(url: string): ParseOutcome<{ target: Target; rest: string }> {
  if (/^https:/i.test(url)) return problem('https goes through CONNECT, not through a request');
  const found = /^http:\/\/([^/?#]+)(.*)$/i.exec(url);
  if (found === null) return problem('it is not of the form http://host/path');
  const target = parseAuthority(found[1]!, PORT_HTTP);
  if ('problem' in target) return problem(`${found[1]!.slice(0, 100)}: ${target.problem}`);
  const rest = found[2]!;
  return { value: { target: target.value, rest: rest.startsWith('/') ? rest : `/${rest}` } };
}

const isSameTarget = (a: Target, b: Target): boolean =>
  a.host.name === b.host.name && a.port === b.port;

function readTarget(url: string, bound: Target | undefined) {
  if (bound === undefined || !url.startsWith('/')) {
    const read = readAbsolute(url);
    if ('problem' in read || bound === undefined || isSameTarget(read.value.target, bound))
      return read;
    return problem('it names another host than the tunnel it is in');
  }
  return { value: { target: bound, rest: url } };
}

function findFramingProblem(rawHeaders: readonly string[]): string | undefined {
  const lengths = readHeaderValues(rawHeaders, 'content-length');
  const codings = readHeaderValues(rawHeaders, 'transfer-encoding');
  if (lengths.length + codings.length > 1) return 'it has more than one length';
  if (lengths.some((value) => !/^\d{1,15}$/.test(value)))
    return 'its Content-Length is not a number';
  if (codings.some((value) => value.toLowerCase() !== 'chunked'))
    return 'its Transfer-Encoding is not chunked';
  return undefined;
}

/** `bound` is the target of the tunnel that the request came through, if any. */
export function readRequest(raw: RawRequest, bound?: Target): ParseOutcome<ForwardedRequest> {
  const { method, rawHeaders } = raw;
  if (!/^[A-Z][A-Z-]{1,23}$/.test(method) || METHODS_REFUSED.has(method))
    return problem(`the method ${method.slice(0, 24)} is not forwarded`);
  if (raw.httpVersion !== '1.1' && raw.httpVersion !== '1.0')
    return problem(`HTTP/${raw.httpVersion} is not supported`);
  if (!/^[\x21-\x22\x24-\x5b\x5d-\x7e]+$/.test(raw.url))
    return problem('its URL has invalid characters');
  const parsed = readTarget(raw.url, bound);
  if ('problem' in parsed) return parsed;
  const { target, rest } = parsed.value;
  const hosts = readHeaderValues(rawHeaders, 'host');
  const host = hosts.length === 1 ? parseAuthority(hosts[0]!, PORT_HTTP) : undefined;
  if (host === undefined || 'problem' in host || !isSameTarget(host.value, target))
    return problem('its Host header and its URL differ');
  if (readHeaderValues(rawHeaders, 'upgrade').length > 0)
    return problem('it asks for another protocol (Upgrade)');
  const framing = findFramingProblem(rawHeaders);
  if (framing !== undefined) return problem(framing);
  const kept = stripHopHeaders(rawHeaders);
  if ('problem' in kept) return kept;
  return { value: makeForwarded({ target, method, rest, rawHeaders, kept: kept.value }) };
}

function makeForwarded(parts: {
  target: Target;
  method: string;
  rest: string;
  rawHeaders: readonly string[];
  kept: readonly string[];
}): ForwardedRequest {
  const { target, method, rest, rawHeaders, kept } = parts;
  const isChunked = readHeaderValues(rawHeaders, 'transfer-encoding').length > 0;
  const headers = ['Host', formatHostHeader(target, PORT_HTTP)];
  for (let i = 0; i + 1 < kept.length; i += 2)
    if (kept[i]!.toLowerCase() !== 'host') headers.push(kept[i]!, kept[i + 1]!);
  if (isChunked) headers.push('Transfer-Encoding', 'chunked');
  const length = readHeaderValues(rawHeaders, 'content-length')[0];
  return {
    target,
    method,
    url: rest,
    path: rest.split('?', 1)[0]!,
    headers,
    hasBody: isChunked || (length !== undefined && Number(length) > 0),
    isOverridden: headers.some((name, i) => i % 2 === 0 && isOverridingHeader(name)),
  };
}

export function formatHostHeader(target: Target, defaultPort: number): string {
  const whole = formatAuthority(target);
  return target.port === defaultPort ? whole.slice(0, whole.lastIndexOf(':')) : whole;
}

/** True when the server name in a ClientHello is that of the tunnel's target. */
export function matchesServerName(host: Host, serverName: string | undefined): boolean {
  if (host.ip !== undefined) return serverName === undefined;
  return serverName !== undefined && serverName.toLowerCase() === host.name;
}

/** Frameworks let these replace the method or the path, so a rule about either would not hold. */
const OVERRIDING = new Set([
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-original-method',
  'x-original-uri',
  'x-original-url',
  'x-override-url',
  'x-rewrite-url',
]);

/** CGI and WSGI read `_` in a name like `-`. */
export const isOverridingHeader = (name: string): boolean =>
  OVERRIDING.has(name.toLowerCase().replaceAll('_', '-'));

/** Headers that egressd sets itself and callers may not. */
export const isReservedHeader = (lower: string): boolean =>
  HOP_BY_HOP.has(lower) || lower === 'host' || lower === 'content-length';
