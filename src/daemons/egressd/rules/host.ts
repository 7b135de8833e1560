// Names of hosts: one spelling for each, and a refusal of everything that two readers could
// understand differently.
import { type Ip, readIp4, readIp6 } from './address.ts';

/** `name` is what rules are compared with: lowercase, punycode, no dot at the end. */
export type Host = { name: string; ip: Ip | undefined };
export type Read<T> = { value: T } | { problem: string };

const problem = (text: string) => ({ problem: text });
const ASCII_NAME = /^[a-z0-9._-]+$/;
/** Letters of other scripts are left to IDNA; what has a meaning in a URL is not. */
const ODD = /[\0-\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]/;

function hostnameOf(text: string): string | undefined {
  try {
    return new URL(`http://${text}/`).hostname;
  } catch {
    return undefined;
  }
}

/** A name, an IPv4 address, or an IPv6 address in brackets. */
export function readHost(text: string): Read<Host> {
  if (text.startsWith('[')) {
    const ip = text.endsWith(']') ? readIp6(text.slice(1, -1)) : undefined;
    return ip === undefined
      ? problem('it is not an IPv6 address in brackets')
      : { value: { name: ip.text, ip } };
  }
  if (text === '' || text.length > 254) return problem('it is empty or longer than 253 characters');
  if (ODD.test(text)) return problem('it has characters that no host name has');
  const lower = text.toLowerCase();
  const isAscii = ASCII_NAME.test(lower);
  const ascii = isAscii ? lower : hostnameOf(lower);
  if (ascii === undefined || !ASCII_NAME.test(ascii)) return problem('it is not a host name');
  const name = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii;
  return readName(name, isAscii);
}

function readName(name: string, isAscii: boolean): Read<Host> {
  const labels = name.split('.');
  const isGood = (label: string) => /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/.test(label);
  if (name.length > 253 || !labels.every(isGood)) return problem('it is not a host name');
  // Readers of URLs take a name that ends in a number for an address, in forms that others do not.
  if (/^(\d+|0x[0-9a-f]*)$/.test(labels.at(-1)!)) {
    const ip = isAscii ? readIp4(name) : undefined;
    return ip === undefined
      ? problem('it is an address in an odd form; write it as four decimal numbers')
      : { value: { name, ip } };
  }
  // What the URL parser would spell otherwise is no name either.
  if (hostnameOf(name) !== name) return problem('it is not a host name');
  return { value: { name, ip: undefined } };
}

export type Target = { host: Host; port: number };

/** `host:port`; the port may be left out only where there is a usual one. */
export function readAuthority(text: string, portUsual?: number): Read<Target> {
  if (text.includes('@')) return problem('it has a user name in it');
  const found = /^(\[[^\]]*\]|[^:]*)(?::([1-9]\d{0,4}))?$/.exec(text);
  if (found === null) return problem('it is not host:port');
  const port = found[2] === undefined ? portUsual : Number(found[2]);
  if (port === undefined) return problem('it has no port');
  if (port > 65_535) return problem('there is no such port');
  const host = readHost(found[1]!);
  return 'problem' in host ? host : { value: { host: host.value, port } };
}

export const authorityOf = ({ host, port }: Target): string =>
  `${host.ip?.family === 6 ? `[${host.name}]` : host.name}:${port}`;
