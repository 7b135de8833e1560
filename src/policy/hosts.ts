// Parses and matches hosts. Policy, toold and egressd all use this module, so that a name means the
// same to each of them. Text that two parsers could read differently is rejected. egressd decides
// which addresses may be dialed.

export type ParseOutcome<T> = { value: T } | { problem: string };
const problem = (text: string) => ({ problem: text });

export type Ip = { family: 4 | 6; text: string; bytes: readonly number[] };

/** `name` is canonical: lower case, A-labels, no trailing dot; for an address its text. */
export type Host = { name: string; ip: Ip | undefined };

/** Accepts four decimal numbers and nothing else: no 0x7f.1, no 0177.0.0.1, no 2130706433. */
function parseIp4(text: string): Ip | undefined {
  if (!/^(?:(?:0|[1-9]\d{0,2})\.){3}(?:0|[1-9]\d{0,2})$/.test(text)) return undefined;
  const bytes = text.split('.').map(Number);
  return bytes.every((byte) => byte <= 255) ? { family: 4, text, bytes } : undefined;
}

/** Without brackets. A zone (`%eth0`) names an interface of this machine and is rejected. */
function parseIp6(text: string): Ip | undefined {
  if (!/^[0-9a-f:.]{2,45}$/i.test(text) || !text.includes(':')) return undefined;
  const canonical = toHostname(`[${text}]`)?.slice(1, -1);
  if (canonical === undefined) return undefined;
  const [before = '', after] = canonical.split('::');
  const groups = (part: string) => (part === '' ? [] : part.split(':'));
  const [head, tail] = [groups(before), groups(after ?? '')];
  const all = [...head, ...Array<string>(8 - head.length - tail.length).fill('0'), ...tail];
  const bytes = all.flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 255];
  });
  return { family: 6, text: canonical, bytes };
}

export const parseIp = (text: string): Ip | undefined => parseIp4(text) ?? parseIp6(text);

/** Applies the IDNA and IPv6 rules of the URL standard. */
const toHostname = (text: string): string | undefined => URL.parse(`http://${text}/`)?.hostname;

const NAME_CHARS_MAX = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
/** ASCII characters that no name contains; letters of other scripts are left to IDNA. */
const NOT_IN_NAMES = /[\0-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]/;

/** Accepts a name, an IPv4 address, or an IPv6 address with or without brackets. */
export function parseHost(text: string): ParseOutcome<Host> {
  const bracketed = /^\[(.*)\]$/.exec(text)?.[1];
  if (bracketed !== undefined || text.includes(':')) {
    const ip = parseIp6(bracketed ?? text);
    return ip === undefined
      ? problem('it is not an IPv6 address')
      : { value: { name: ip.text, ip } };
  }
  if (text === '' || text.length > NAME_CHARS_MAX + 1)
    return problem(`it is empty or longer than ${NAME_CHARS_MAX} characters`);
  if (NOT_IN_NAMES.test(text))
    return problem('it contains a character that is not allowed in host names');
  const isAscii = /^[\0-\x7f]*$/.test(text);
  const ascii = isAscii ? text.toLowerCase() : toHostname(text);
  if (ascii === undefined) return problem('it is not a valid internationalized name');
  return parseName(ascii.endsWith('.') ? ascii.slice(0, -1) : ascii, isAscii);
}

function parseName(name: string, isAscii: boolean): ParseOutcome<Host> {
  const labels = name.split('.');
  if (name.length > NAME_CHARS_MAX || !labels.every((label) => LABEL.test(label)))
    return problem('it is not a host name');
  // The URL standard treats a name that ends in a number as an address; other parsers do not.
  if (/^(\d+|0x[0-9a-f]*)$/.test(labels.at(-1)!)) {
    const ip = isAscii ? parseIp4(name) : undefined;
    return ip === undefined
      ? problem('it is an address in an unusual form; write it as four decimal numbers')
      : { value: { name, ip } };
  }
  // The URL parser would change or reject it.
  if (toHostname(name) !== name) return problem('it is not a host name');
  return { value: { name, ip: undefined } };
}

export type Target = { host: Host; port: number };

/** Parses `host:port`; only with a default may the port be absent. IPv6 needs brackets. */
export function parseAuthority(text: string, portDefault?: number): ParseOutcome<Target> {
  if (text.includes('@')) return problem('it contains a user name');
  const found = /^(\[[^\]]*\]|[^:]*)(?::([1-9]\d{0,4}))?$/.exec(text);
  if (found === null) return problem('it is not host:port');
  const port = found[2] === undefined ? portDefault : Number(found[2]);
  if (port === undefined) return problem('it has no port');
  if (port > 65_535) return problem(`${port} is not a port`);
  const host = parseHost(found[1]!);
  return 'problem' in host ? host : { value: { host: host.value, port } };
}

export const formatAuthority = ({ host, port }: Target): string =>
  `${host.ip?.family === 6 ? `[${host.name}]` : host.name}:${port}`;

/**
 * One host, or with `isSuffix` (written `*.example.com`) every name below one, at any depth. `text`
 * is its canonical form, and its id in Cedar.
 */
export type HostPattern = { text: string; host: Host; isSuffix: boolean };

export function parseHostPattern(text: string): ParseOutcome<HostPattern> {
  const isSuffix = text.startsWith('*.');
  const host = parseHost(isSuffix ? text.slice(2) : text);
  if ('problem' in host) return host;
  if (isSuffix && host.value.ip !== undefined) return problem('an address has no subdomains');
  const { name } = host.value;
  return { value: { text: isSuffix ? `*.${name}` : name, host: host.value, isSuffix } };
}

/** Every decision about a host uses this match. An address matches only itself. */
export function matchesHost({ host, isSuffix }: HostPattern, { name, ip }: Host): boolean {
  return isSuffix ? ip === undefined && name.endsWith(`.${host.name}`) : name === host.name;
}

/** Returns the suffix patterns that match a host: its parents in Cedar. */
export function matchingSuffixes({ name, ip }: Host): string[] {
  if (ip !== undefined) return [];
  const labels = name.split('.');
  return labels.slice(1).map((_, i) => `*.${labels.slice(i + 1).join('.')}`);
}

/** Returns true when some host matches both patterns. */
export function overlap(a: HostPattern, b: HostPattern): boolean {
  const isInside = (inner: HostPattern, outer: HostPattern) =>
    outer.isSuffix && matchesHost(outer, inner.host);
  return a.text === b.text || isInside(a, b) || isInside(b, a);
}

/** The ports of a rule that names none. */
export const WEB_PORTS: readonly number[] = [443, 80];

export type HostRule = { pattern: HostPattern; ports: readonly number[] };

/** Rejects patterns such as `*.com`, which would allow a whole top-level domain. */
export function parseAllowedHost(text: string): ParseOutcome<HostPattern> {
  const pattern = parseHostPattern(text);
  if ('problem' in pattern) return pattern;
  const { host, isSuffix } = pattern.value;
  return isSuffix && !host.name.includes('.')
    ? problem(`${text} would allow every name under .${host.name}`)
    : pattern;
}

/** Parses github.com, *.npmjs.org or registry.local:5000. IPv6 needs brackets. */
export function parseHostRule(text: string): ParseOutcome<HostRule> {
  const found = /^((?:\*\.)?(?:\[[^\]]*\]|[^:]*))(?::([1-9]\d{0,4}))?$/.exec(text);
  if (found === null) return problem('it is not a host or host:port');
  const pattern = parseAllowedHost(found[1]!);
  if ('problem' in pattern) return pattern;
  const ports = found[2] === undefined ? WEB_PORTS : [Number(found[2])];
  if (ports[0]! > 65_535) return problem(`${ports[0]} is not a port`);
  return { value: { pattern: pattern.value, ports } };
}
