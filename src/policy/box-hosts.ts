// The hosts that a box may reach by the rules of its agent. Nobody can be asked while a command
// runs, so a host that policy asks about is left out, unless a person granted it to the run.
import type { Policy } from './decide.ts';
import { type HostPattern, type HostRule, overlap, parseHostPattern } from './hosts.ts';
import { requestOfTouch, type Touch } from './request.ts';
import { actionFits, namedIn, type Rule, type Scope } from './rule.ts';

/** `host` is a pattern in its one spelling. */
export type HostPort = { host: string; port: number };

export type BoxNetwork = {
  mode: 'none' | 'restricted';
  allow: HostPort[];
  /** The granted hosts that no rule forbids. */
  granted: HostPort[];
};

/**
 * Leaves out every host that a rule forbids in some circumstances, because a box knows none. The
 * marks of a run narrow the rest elsewhere.
 */
export async function networkOf(
  policy: Policy,
  agent: string,
  { allowed, granted }: { allowed: readonly HostRule[]; granted: readonly HostPort[] },
): Promise<BoxNetwork> {
  const rules = (await policy.rulesOf(`agent:${agent}`)).filter(
    ({ effect, scope }) => effect === 'forbid' && actionFits(scope.action, 'net.connect'),
  );
  const isOpen = (pattern: HostPattern) =>
    !rules.some(({ ask, scope }) => ask === null && concerns(scope, pattern));
  const asks = rules.filter(({ ask }) => ask !== null);
  const mayReach = async (host: string, port: number) => {
    const touch: Touch = { action: 'net.connect', host, port };
    return (await policy.decide(requestOfTouch(`agent:${agent}`, touch, {}))).answer === 'allow';
  };
  const allow: HostPort[] = [];
  for (const { pattern, ports } of allowed) {
    const sample = isOpen(pattern) ? sampleOf(pattern, asks) : undefined;
    for (const port of sample === undefined ? [] : ports)
      if (await mayReach(sample!, port)) allow.push({ host: pattern.text, port });
  }
  const open = granted.filter(({ host }) => {
    const pattern = parseHostPattern(host);
    return 'value' in pattern && isOpen(pattern.value);
  });
  return {
    mode: allow.length + open.length === 0 ? 'none' : 'restricted',
    allow,
    granted: open.map(({ host, port }) => ({ host, port })),
  };
}

/** A name that stands for all that the pattern matches; none where rules name some of these. */
function sampleOf(pattern: HostPattern, rules: readonly Rule[]): string | undefined {
  if (!pattern.isSuffix) return pattern.text;
  const isNamed = rules.some(
    ({ scope }) => namedIn(scope.resource) !== undefined && concerns(scope, pattern),
  );
  return isNamed ? undefined : `any.${pattern.host.name}`;
}

/** Whether a rule's scope could include a host that the pattern matches. In doubt it could. */
function concerns({ resource }: Scope, pattern: HostPattern): boolean {
  const named = namedIn(resource);
  const about = named === undefined ? undefined : parseHostPattern(named.id);
  return about === undefined || 'problem' in about || overlap(about.value, pattern);
}
