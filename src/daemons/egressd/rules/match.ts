// Matches a destination against a run's rules. Anything that no rule lists is denied.
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
  /** Stays open whatever the run has read. */
  isChosen: boolean;
  expiresMs: number;
};

/** `tunnel`: opaque bytes. `http`: one request, with method and path. */
export type Destination = { host: Host; port: number } & (
  | { how: 'tunnel' }
  | {
      how: 'http';
      method: string;
      path: string;
      hasBody: boolean;
      /** A header tells the server to take another method or path. */
      isOverridden: boolean;
    }
);

export type MatchResult =
  | { allowed: true; plain: boolean; isChosen: boolean }
  | { allowed: false; reason: DenialReason };

export function parseRule(rule: GrantedRule): ParseOutcome<ParsedEgressRule> {
  const pattern = parseAllowedHost(rule.host);
  if ('problem' in pattern) return { problem: `${rule.host}: ${pattern.problem}` };
  return {
    value: {
      pattern: pattern.value,
      ports: rule.port === undefined ? WEB_PORTS : [rule.port],
      methods: rule.methods === undefined ? undefined : new Set(rule.methods),
      paths: rule.paths,
      plain: rule.plain === true,
      isChosen: rule.chosen === true,
      expiresMs: rule.expires_at === undefined ? Infinity : Date.parse(rule.expires_at),
    },
  };
}

/** Servers interpret these differently, so a path rule cannot match them safely. */
const AMBIGUOUS = /%2e|%2f|%5c|%00|%25|\\|;|\/\/|\/\.{1,2}(?:\/|$)/i;

const matchesPath = (paths: readonly string[], path: string): boolean =>
  !AMBIGUOUS.test(path) &&
  paths.some((rule) => (rule.endsWith('*') ? path.startsWith(rule.slice(0, -1)) : path === rule));

/** From least to most specific: the denial reports the rule that came closest. */
const REASON_ORDER: readonly DenialReason[] = ['host', 'port', 'unreadable', 'method', 'path'];

/** The body of a GET or HEAD could send data out past a rule that only allows reading. */
const isReadWithBody = ({ method, hasBody }: { method: string; hasBody: boolean }): boolean =>
  hasBody && (method === 'GET' || method === 'HEAD');

function checkRule(rule: ParsedEgressRule, dest: Destination): DenialReason | undefined {
  if (!matchesHost(rule.pattern, dest.host)) return 'host';
  if (!rule.ports.includes(dest.port)) return 'port';
  const { methods, paths } = rule;
  if (dest.how === 'tunnel')
    return methods === undefined && paths === undefined ? undefined : 'unreadable';
  const { isOverridden } = dest;
  if (methods !== undefined && (!methods.has(dest.method) || isReadWithBody(dest) || isOverridden))
    return 'method';
  if (paths !== undefined && (!matchesPath(paths, dest.path) || isOverridden)) return 'path';
  return undefined;
}

export function matchRules(
  rules: readonly ParsedEgressRule[],
  dest: Destination,
  nowMs: number,
): MatchResult {
  let reason: DenialReason = 'host';
  const fitting: ParsedEgressRule[] = [];
  for (const rule of rules) {
    if (rule.expiresMs <= nowMs) continue;
    const mismatch = checkRule(rule, dest);
    if (mismatch === undefined) fitting.push(rule);
    else if (REASON_ORDER.indexOf(mismatch) > REASON_ORDER.indexOf(reason)) reason = mismatch;
  }
  if (fitting.length === 0) return { allowed: false, reason };
  return {
    allowed: true,
    plain: fitting.some(({ plain }) => plain),
    isChosen: fitting.some(({ isChosen }) => isChosen),
  };
}
