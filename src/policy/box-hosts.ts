// Computes the hosts that an agent's box may reach. Policy cannot ask while a command runs, so a
// host that needs approval is left out, unless a person granted it to the run.
import type { Policy } from './decide.ts';
import {
  type HostPattern,
  type HostRule,
  matchesHost,
  overlap,
  parseHost,
  parseHostPattern,
} from './hosts.ts';
import { type Touch, touchRequest } from './request.ts';
import { actionFits, findNamedEntity, type Rule, type Scope } from './rule.ts';

/** `host` is a canonical pattern. */
export type HostPort = { host: string; port: number };

export type BoxNetwork = {
  mode: 'none' | 'restricted';
  allow: HostPort[];
  /** The granted hosts that no rule forbids. */
  granted: HostPort[];
};

/**
 * Leaves out every host that some rule forbids under any condition, because a box is planned before
 * the conditions are known. A run's marks narrow the result elsewhere.
 */
export async function planNetwork(
  policy: Policy,
  agent: string,
  { allowed, granted }: { allowed: readonly HostRule[]; granted: readonly HostPort[] },
): Promise<BoxNetwork> {
  const rules = (await policy.listRules(`agent:${agent}`)).filter(
    ({ effect, scope }) => effect === 'forbid' && actionFits(scope.action, 'net.connect'),
  );
  const isOpen = (pattern: HostPattern) =>
    !rules.some(({ ask, scope }) => ask === null && concerns(scope, pattern));
  const asks = rules.filter(({ ask }) => ask !== null);
  const mayReach = async (host: string, port: number) => {
    const touch: Touch = { action: 'net.connect', host, port };
    return (await policy.decide(touchRequest(`agent:${agent}`, touch, {}))).answer === 'allow';
  };
  const allow: HostPort[] = [];
  for (const { pattern, ports } of allowed) {
    const samples = isOpen(pattern) ? sampleHosts(pattern, asks) : [];
    for (const port of samples.length === 0 ? [] : ports) {
      const allowances = await Promise.all(samples.map((host) => mayReach(host, port)));
      if (allowances.every(Boolean)) allow.push({ host: pattern.text, port });
    }
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

/** A label that no rule names: it stands for all names that the rules do not distinguish. */
const ANY_LABEL = 'any-name-that-no-rule-names';

/**
 * Returns one matching host for each kind that the rules' conditions distinguish by naming hosts;
 * an empty list when the rules may distinguish more kinds than that.
 */
function sampleHosts(pattern: HostPattern, rules: readonly Rule[]): string[] {
  if (!pattern.isSuffix) return [pattern.text];
  const concerned = rules.filter(({ scope }) => concerns(scope, pattern));
  if (
    concerned.some(
      ({ scope, hosts }) => findNamedEntity(scope.resource) !== undefined || hosts === undefined,
    )
  )
    return [];
  const named = concerned.flatMap(({ hosts = [] }) =>
    hosts.map(parseHostPattern).flatMap((parsed) => ('value' in parsed ? [parsed.value] : [])),
  );
  const samples = [pattern, ...named].map(({ host, isSuffix }) =>
    isSuffix ? `${ANY_LABEL}.${host.name}` : host.name,
  );
  const isMatch = (name: string) => {
    const host = parseHost(name);
    return 'value' in host && matchesHost(pattern, host.value);
  };
  // The first may exceed the maximum length of a name: then no sample stands for the other names.
  return isMatch(samples[0]!) ? samples.filter(isMatch) : [];
}

/** Returns true when a rule's scope may include a host that the pattern matches. */
function concerns({ resource }: Scope, pattern: HostPattern): boolean {
  const named = findNamedEntity(resource);
  const scoped = named === undefined ? undefined : parseHostPattern(named.id);
  return scoped === undefined || 'problem' in scoped || overlap(scoped.value, pattern);
}
