// The decision: may this run reach this place in this way? Nothing listed, nothing allowed.

import {
  type Host,
  type HostPattern,
  matchesHost,
  type ParseOutcome,
  parseAllowedHost,
  WEB_PORTS,
} from '../../../policy/hosts.ts';
import type { DenialReason, GrantedRule } from '../../../wire/egressd.ts';

export type ParsedEgressRule = {
  pattern: HostPattern;
  ports: readonly number[];
  methods: ReadonlySet<string> | undefined;
  paths: readonly string[] | undefined;
  plain: boolean;
  expiresMs: number;
};

/** `tunnel`: bytes that cannot be read. `http`: one request, with method and path. */
export type Wanted = { host: Host; port: number } & (
  | { how: 'tunnel' }
  | { how: 'http'; method: string; path: string; hasBody: boolean }
);

export type MatchResult =
  | { allowed: true; plain: boolean }
  | { allowed: false; reason: DenialReason };

export function readRule(rule: GrantedRule): ParseOutcome<ParsedEgressRule> {
  const pattern = parseAllowedHost(rule.host);
  if ('problem' in pattern) return { problem: `${rule.host}: ${pattern.problem}` };
  return {
    value: {
      pattern: pattern.value,
      ports: rule.port === undefined ? WEB_PORTS : [rule.port],
      methods: rule.methods === undefined ? undefined : new Set(rule.methods),
      paths: rule.paths,
      plain: rule.plain === true,
      expiresMs: rule.expires_at === undefined ? Infinity : Date.parse(rule.expires_at),
    },
  };
}

/** Servers differ in what these mean, so a rule about paths cannot be held to them. */
const AMBIGUOUS = /%2e|%2f|%5c|%00|%25|\\|;|\/\/|\/\.{1,2}(?:\/|$)/i;

const fitsPath = (paths: readonly string[], path: string): boolean =>
  !AMBIGUOUS.test(path) &&
  paths.some((one) => (one.endsWith('*') ? path.startsWith(one.slice(0, -1)) : path === one));

/** The nearer a rule came to allowing, the more its reason says. */
const ORDER: readonly DenialReason[] = ['host', 'port', 'unreadable', 'method', 'path'];

/** Who may only read would send data that way, and few servers even look at it. */
const isOddlyFull = ({ method, hasBody }: { method: string; hasBody: boolean }): boolean =>
  hasBody && (method === 'GET' || method === 'HEAD');

function matchRules(rule: ParsedEgressRule, wanted: Wanted): DenialReason | undefined {
  if (!matchesHost(rule.pattern, wanted.host)) return 'host';
  if (!rule.ports.includes(wanted.port)) return 'port';
  const { methods, paths } = rule;
  if (wanted.how === 'tunnel')
    return methods === undefined && paths === undefined ? undefined : 'unreadable';
  if (methods !== undefined && (!methods.has(wanted.method) || isOddlyFull(wanted)))
    return 'method';
  if (paths !== undefined && !fitsPath(paths, wanted.path)) return 'path';
  return undefined;
}

export function decide(
  rules: readonly ParsedEgressRule[],
  wanted: Wanted,
  nowMs: number,
): MatchResult {
  let reason: DenialReason = 'host';
  let isAllowed = false;
  for (const rule of rules) {
    if (rule.expiresMs <= nowMs) continue;
    const against = matchRules(rule, wanted);
    if (against === undefined) {
      if (rule.plain) return { allowed: true, plain: true };
      isAllowed = true;
    } else if (ORDER.indexOf(against) > ORDER.indexOf(reason)) reason = against;
  }
  return isAllowed ? { allowed: true, plain: false } : { allowed: false, reason };
}
