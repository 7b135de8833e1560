// A request that is to be passed on: where it goes, and which of its headers go along. Whatever two
// servers on the way could read differently is refused, not repaired.
import {
  authorityOf,
  type Host,
  type ParseOutcome,
  parseAuthority,
  type Target,
} from '../../../policy/hosts.ts';

export type RawRequest = {
  method: string;
  url: string;
  httpVersion: string;
  /** Name, value, name, value, as they came. */
  rawHeaders: readonly string[];
};

export type Passed = {
  target: Target;
  method: string;
  /** With its query, as it is sent on. */
  url: string;
  /** Without its query. */
  path: string;
  /** Name, value, …, the Host first. */
  headers: string[];
  hasBody: boolean;
};

const PORT_HTTP = 80;
const METHODS_REFUSED = new Set(['TRACE', 'TRACK', 'CONNECT']);

/** Meant for the next hop only. */
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
/** Naming one of these in Connection would change what the message is. */
const NOT_TO_BE_NAMED = new Set([
  'host',
  'content-length',
  'content-type',
  'authorization',
  'cookie',
]);

const problem = (text: string) => ({ problem: text });

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const found: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2)
    if (rawHeaders[i]!.toLowerCase() === name) found.push(rawHeaders[i + 1]!);
  return found;
}

/** The headers without those for this hop; a problem when the message names odd ones. */
export function endToEnd(rawHeaders: readonly string[]): ParseOutcome<string[]> {
  const named = new Set(
    valuesOf(rawHeaders, 'connection').flatMap((value) =>
      value.split(',').map((word) => word.trim().toLowerCase()),
    ),
  );
  for (const word of named)
    if (NOT_TO_BE_NAMED.has(word)) return problem(`its Connection header names ${word}`);
  const kept: string[] = [];
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    if (!HOP_BY_HOP.has(name) && !named.has(name)) kept.push(rawHeaders[i]!, rawHeaders[i + 1]!);
  }
  return { value: kept };
}

/** `http://host[:port]/path?query` in its parts. */
function readAbsolute(url: string): ParseOutcome<{ target: Target; rest: string }> {
  if (/^https:/i.test(url)) return problem('https goes through CONNECT, not through a request');
  const found = /^http:\/\/([^/?#]+)(.*)$/i.exec(url);
  if (found === null) return problem('it does not say http://host/path');
  const target = parseAuthority(found[1]!, PORT_HTTP);
  if ('problem' in target) return problem(`${found[1]!.slice(0, 100)}: ${target.problem}`);
  const rest = found[2]!;
  return { value: { target: target.value, rest: rest.startsWith('/') ? rest : `/${rest}` } };
}

const isSame = (a: Target, b: Target): boolean => a.host.name === b.host.name && a.port === b.port;

function readTarget(url: string, bound: Target | undefined) {
  if (bound === undefined || !url.startsWith('/')) {
    const read = readAbsolute(url);
    if ('problem' in read || bound === undefined || isSame(read.value.target, bound)) return read;
    return problem('it names another host than the tunnel it is in');
  }
  return { value: { target: bound, rest: url } };
}

function framingProblem(rawHeaders: readonly string[]): string | undefined {
  const lengths = valuesOf(rawHeaders, 'content-length');
  const codings = valuesOf(rawHeaders, 'transfer-encoding');
  if (lengths.length + codings.length > 1) return 'it says its length in more than one way';
  if (lengths.some((value) => !/^\d{1,15}$/.test(value))) return 'its Content-Length is no number';
  if (codings.some((value) => value.toLowerCase() !== 'chunked'))
    return 'its Transfer-Encoding is not chunked';
  return undefined;
}

/** `bound` is the target of the tunnel that the request came in, if it came in one. */
export function readRequest(raw: RawRequest, bound?: Target): ParseOutcome<Passed> {
  const { method, rawHeaders } = raw;
  if (!/^[A-Z][A-Z-]{1,23}$/.test(method) || METHODS_REFUSED.has(method))
    return problem(`the method ${method.slice(0, 24)} is not passed on`);
  if (raw.httpVersion !== '1.1' && raw.httpVersion !== '1.0')
    return problem(`HTTP/${raw.httpVersion} is not spoken here`);
  if (!/^[\x21-\x22\x24-\x5b\x5d-\x7e]+$/.test(raw.url))
    return problem('its address has characters that no URL has');
  const where = readTarget(raw.url, bound);
  if ('problem' in where) return where;
  const { target, rest } = where.value;
  const hosts = valuesOf(rawHeaders, 'host');
  const host = hosts.length === 1 ? parseAuthority(hosts[0]!, PORT_HTTP) : undefined;
  if (host === undefined || 'problem' in host || !isSame(host.value, target))
    return problem('its Host header and its address do not agree');
  if (valuesOf(rawHeaders, 'upgrade').length > 0)
    return problem('it asks for another protocol (Upgrade)');
  const framing = framingProblem(rawHeaders);
  if (framing !== undefined) return problem(framing);
  const kept = endToEnd(rawHeaders);
  if ('problem' in kept) return kept;
  return { value: passed({ target, method, rest, rawHeaders, kept: kept.value }) };
}

function passed(parts: {
  target: Target;
  method: string;
  rest: string;
  rawHeaders: readonly string[];
  kept: readonly string[];
}): Passed {
  const { target, method, rest, rawHeaders, kept } = parts;
  const isChunked = valuesOf(rawHeaders, 'transfer-encoding').length > 0;
  const headers = ['Host', hostHeaderOf(target, PORT_HTTP)];
  for (let i = 0; i + 1 < kept.length; i += 2)
    if (kept[i]!.toLowerCase() !== 'host') headers.push(kept[i]!, kept[i + 1]!);
  if (isChunked) headers.push('Transfer-Encoding', 'chunked');
  const length = valuesOf(rawHeaders, 'content-length')[0];
  return {
    target,
    method,
    url: rest,
    path: rest.split('?', 1)[0]!,
    headers,
    hasBody: isChunked || (length !== undefined && Number(length) > 0),
  };
}

export function hostHeaderOf(target: Target, portUsual: number): string {
  const whole = authorityOf(target);
  return target.port === portUsual ? whole.slice(0, whole.lastIndexOf(':')) : whole;
}

/** Whether the server named in a hello is the one the tunnel was opened to. */
export function isServerOf(host: Host, serverName: string | undefined): boolean {
  if (host.ip !== undefined) return serverName === undefined;
  return serverName !== undefined && serverName.toLowerCase() === host.name;
}

/** Headers of a request that egressd makes itself, which nobody else may set. */
export const isOwnHeader = (lower: string): boolean =>
  HOP_BY_HOP.has(lower) || lower === 'host' || lower === 'content-length';
