// Hosts as policy sees them: one spelling per name, so that a rule and a request can be compared
// letter by letter. Pure: which address a name has, and whether that may be dialled, is egressd's.

export type HostResult =
  | { ok: true; host: string; isAddress: boolean }
  | { ok: false; problem: string };

const LABEL = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/;
const IPV4 = /^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}$/;
/** What some resolver or library would read as an address although it is not written as one. */
const ODD_NUMBER = /^(0x[0-9a-f]*|\d+)$/;

const refuse = (problem: string): HostResult => ({ ok: false, problem });

/**
 * Lower case, A-labels for international names, no dot at the end. IPv6 addresses stand without
 * brackets in their shortest form. Odd spellings of addresses (octal, hexadecimal, one number) are
 * refused.
 */
export function canonicalHost(written: string): HostResult {
  if (written === '') return refuse('it is empty');
  if (written.length > 1_024) return refuse('it is too long');
  const bare = /^\[(.*)\]$/.exec(written)?.[1];
  if (bare !== undefined || written.includes(':')) return canonicalAddress6(bare ?? written);
  if (!/^[^\s/\\@?#%<>^|[\]:]+$/u.test(written))
    return refuse('it contains a character no host has');
  const ascii = toAscii(written);
  if (ascii === undefined) return refuse('it is not a valid international name');
  const host = ascii.endsWith('.') ? ascii.slice(0, -1) : ascii;
  const labels = host.split('.');
  if (IPV4.test(host)) {
    if (labels.some((part) => Number(part) > 255)) return refuse('it is not a valid address');
    return { ok: true, host, isAddress: true };
  }
  if (ODD_NUMBER.test(labels.at(-1)!)) return refuse('it is an odd spelling of an address');
  if (host.length > 253 || !labels.every((label) => LABEL.test(label)))
    return refuse('it is not a host name');
  return { ok: true, host, isAddress: false };
}

/** The platform's own IDNA; plain ASCII needs none, and must not be read as an odd address. */
function toAscii(written: string): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is ASCII.
  if (/^[\u0000-\u007f]*$/.test(written)) return written.toLowerCase();
  try {
    const { hostname } = new URL(`http://${written}/`);
    return hostname === '' ? undefined : hostname;
  } catch {
    return undefined;
  }
}

function canonicalAddress6(written: string): HostResult {
  if (!/^[0-9a-fA-F:.]+$/.test(written)) return refuse('it is not a valid address');
  try {
    const { hostname } = new URL(`http://[${written}]/`);
    return { ok: true, host: hostname.slice(1, -1), isAddress: true };
  } catch {
    return refuse('it is not a valid address');
  }
}

/** `*.example.com` for each suffix a name has; an address has none. */
export function suffixesOf(host: string, isAddress: boolean): string[] {
  if (isAddress) return [];
  const labels = host.split('.');
  return labels.slice(1).map((_, i) => `*.${labels.slice(i + 1).join('.')}`);
}

export const DEFAULT_PORTS: readonly number[] = [443, 80];

export type HostRule = {
  /** A canonical name or address, or `*.` and a canonical name. */
  host: string;
  ports: readonly number[];
};
export type HostRuleResult = { ok: true; rule: HostRule } | { ok: false; problem: string };

/** github.com, *.npmjs.org, registry.local:5000. Without a port: those of the web. */
export function readHostRule(written: string): HostRuleResult {
  const [, star = '', name = '', port] = /^(\*\.)?(.*?)(?::(\d{1,5}))?$/.exec(written) ?? [];
  const found = canonicalHost(name);
  if (!found.ok) return found;
  if (star !== '' && found.isAddress) return { ok: false, problem: 'an address has no subdomains' };
  if (star !== '' && !found.host.includes('.'))
    return { ok: false, problem: `${written} would be every name under .${found.host}` };
  if (port !== undefined && (Number(port) < 1 || Number(port) > 65_535))
    return { ok: false, problem: `${port} is not a port` };
  const ports = port === undefined ? DEFAULT_PORTS : [Number(port)];
  return { ok: true, rule: { host: `${star}${found.host}`, ports } };
}

export function hostMatches(rule: HostRule, host: string, port: number): boolean {
  if (!rule.ports.includes(port)) return false;
  if (!rule.host.startsWith('*.')) return rule.host === host;
  return host.length > rule.host.length - 1 && host.endsWith(rule.host.slice(1));
}
