// The hosts that a box may reach by the rules of its agent. Nobody can be asked while a command
// runs, so a host that policy asks about is left out, unless a person granted it to the run.
import type { Policy } from './decide.ts';
import {
  type HostPattern,
  type HostRule,
  matchesHost,
  overlap,
  parseHost,
  parseHostPattern,
} from './hosts.ts';
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
    const samples = isOpen(pattern) ? samplesOf(pattern, asks) : [];
    for (const port of samples.length === 0 ? [] : ports) {
      const answers = await Promise.all(samples.map((host) => mayReach(host, port)));
      if (answers.every(Boolean)) allow.push({ host: pattern.text, port });
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

/** One label that no rule names: it stands for all names that rules do not tell apart. */
const ANY_LABEL = 'any-name-that-no-rule-names';

/**
 * Hosts that the pattern matches, one of each kind that these rules tell apart; none where they may
 * tell apart more. They do that by the hosts that their conditions name.
 */
function samplesOf(pattern: HostPattern, rules: readonly Rule[]): string[] {
  if (!pattern.isSuffix) return [pattern.text];
  const about = rules.filter(({ scope }) => concerns(scope, pattern));
  if (
    about.some(({ scope, hosts }) => namedIn(scope.resource) !== undefined || hosts === undefined)
  )
    return [];
  const named = about.flatMap(({ hosts = [] }) =>
    hosts.map(parseHostPattern).flatMap((one) => ('value' in one ? [one.value] : [])),
  );
  const samples = [pattern, ...named].map(({ host, isSuffix }) =>
    isSuffix ? `${ANY_LABEL}.${host.name}` : host.name,
  );
  const isMatch = (name: string) => {
    const host = parseHost(name);
    return 'value' in host && matchesHost(pattern, host.value);
  };
  // The first may be longer than a name can be: then nothing stands for the other names.
  return isMatch(samples[0]!) ? samples.filter(isMatch) : [];
}

/** Whether a rule's scope could include a host that the pattern matches. In doubt it could. */
function concerns({ resource }: Scope, pattern: HostPattern): boolean {
  const named = namedIn(resource);
  const about = named === undefined ? undefined : parseHostPattern(named.id);
  return about === undefined || 'problem' in about || overlap(about.value, pattern);
}
