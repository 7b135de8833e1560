// One rule says which hosts a pattern matches. The policy of a manifest, Cedar's own evaluation,
// the plan of a box and egressd must all decide by it, for every spelling of a host and a pattern.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { planAgentBox } from '../../../policy/box-rules.ts';
import type { Policy } from '../../../policy/decide.ts';
import {
  matchesHost,
  parseAuthority,
  parseHost,
  parseHostPattern,
  parseHostRule,
} from '../../../policy/hosts.ts';
import { touchRequest } from '../../../policy/request.ts';
import { quote } from '../../../policy/rule.ts';
import { somePatternAndHost, somePort, someRuleAndHost } from '../../../policy/testing/hosts.ts';
import { makeTestPolicy } from '../../../policy/testing/rights.ts';
import { matchRules, parseRule } from './match.ts';

async function policyAllows(policy: Policy, host: string, port: number): Promise<boolean> {
  const touch = { action: 'net.connect', host, port } as const;
  const { answer } = await policy.decide(touchRequest('agent:coder', touch, { labels: [] }));
  return answer === 'allow';
}

/** Decides like the proxy about `CONNECT host:port` from a box of the agent. */
async function egressOf(policy: Policy): Promise<(host: string, port: number) => boolean> {
  const { network } = await planAgentBox(policy, 'coder');
  const rules = network.allow.map((rule) => {
    const read = parseRule(rule);
    assert.ok('value' in read, `egressd does not take ${rule.host}`);
    return read.value;
  });
  return (host, port) => {
    const isBare = host.includes(':') && !host.startsWith('[');
    const target = parseAuthority(`${isBare ? `[${host}]` : host}:${port}`);
    return 'value' in target && matchRules(rules, { ...target.value, how: 'tunnel' }, 0).allowed;
  };
}

function matchesRule(written: string, host: string, port: number): boolean {
  const [rule, parsed] = [parseHostRule(written), parseHost(host)];
  if ('problem' in rule || 'problem' in parsed) return false;
  return matchesHost(rule.value.pattern, parsed.value) && rule.value.ports.includes(port);
}

function matchesPattern(written: string, host: string): boolean {
  const [pattern, parsed] = [parseHostPattern(written), parseHost(host)];
  return 'value' in pattern && 'value' in parsed && matchesHost(pattern.value, parsed.value);
}

const CONNECT = 'principal, action == Action::"net.connect"';
/** Written as in a site rule: another spelling is refused when the file is loaded. */
const inHost = (written: string): string[] => {
  const pattern = parseHostPattern(written);
  return 'value' in pattern ? [`resource in Host::${quote(pattern.value.text)}`] : [];
};

const someRules = fc.array(someRuleAndHost, { minLength: 4, maxLength: 8 });
const somePatterns = fc.array(somePatternAndHost, { minLength: 4, maxLength: 8 });

test('what a manifest allows is the same for policy, box and egressd', async () => {
  const counts = { allowed: 0, denied: 0 };
  await fc.assert(
    fc.asyncProperty(someRules, somePort, async (pairs, port) => {
      const allow = pairs.map(([rule]) => rule);
      const policy = makeTestPolicy({ coder: { network: { mode: 'restricted', allow } } });
      const egressAllows = await egressOf(policy);
      for (const [, host] of pairs) {
        const isAllowed = allow.some((rule) => matchesRule(rule, host, port));
        counts[isAllowed ? 'allowed' : 'denied']++;
        assert.equal(await policyAllows(policy, host, port), isAllowed, `policy: ${host}`);
        assert.equal(egressAllows(host, port), isAllowed, `egressd: ${host}`);
      }
    }),
    { numRuns: 200 },
  );
  assert.ok(Math.min(counts.allowed, counts.denied) > 10, JSON.stringify(counts));
});

test("Cedar's own evaluation of conditions about hosts is the same", async () => {
  const counts = { allowed: 0, denied: 0 };
  await fc.assert(
    fc.asyncProperty(somePatterns, somePort, async (pairs, port) => {
      const conditions = pairs.flatMap(([pattern]) => inHost(pattern));
      const rules = conditions.map((one) => `permit (${CONNECT}, resource) when { ${one} };`);
      const policy = makeTestPolicy({ coder: {} }, { site: { '10.cedar': rules.join('\n') } });
      for (const [, host] of pairs) {
        const isAllowed = pairs.some(([pattern]) => matchesPattern(pattern, host));
        counts[isAllowed ? 'allowed' : 'denied']++;
        assert.equal(await policyAllows(policy, host, port), isAllowed, host);
      }
    }),
    { numRuns: 100 },
  );
  assert.ok(Math.min(counts.allowed, counts.denied) > 10, JSON.stringify(counts));
});

test('a box reaches no host that a rule forbids or asks about, wherever the rule names it', async () => {
  const someRule = fc.tuple(
    fc.constantFrom('forbid', '@ask("it is far away") forbid'),
    fc.constantFrom('scope', 'when', 'unless', 'name'),
  );
  const counts = { reached: 0, closed: 0 };
  await fc.assert(
    fc.asyncProperty(someRules, somePatterns, someRule, somePort, async (...given) => {
      const [allowed, named, [effect, where], port] = given;
      const [about] = named.flatMap(([pattern]) => inHost(pattern));
      fc.pre(about !== undefined);
      const rule = {
        scope: `${effect} (${CONNECT}, ${about});`,
        when: `${effect} (${CONNECT}, resource) when { ${about} };`,
        unless: `${effect} (${CONNECT}, resource) unless { ${about} };`,
        name: `${effect} (${CONNECT}, resource) when { context.host like "a.*" };`,
      }[where];
      const allow = [...allowed.map(([written]) => written), '*.example.com'];
      const policy = makeTestPolicy(
        { coder: { network: { mode: 'restricted', allow } } },
        { site: { '10.cedar': rule } },
      );
      const egressAllows = await egressOf(policy);
      for (const [, host] of [...allowed, ...named]) {
        const mayReach = await policyAllows(policy, host, port);
        if (egressAllows(host, port)) assert.ok(mayReach, `${host}:${port} by ${rule}`);
        if (egressAllows(host, port)) counts.reached++;
        else if (!mayReach && allow.some((one) => matchesRule(one, host, port))) counts.closed++;
      }
    }),
    { numRuns: 200 },
  );
  assert.ok(Math.min(counts.reached, counts.closed) > 10, JSON.stringify(counts));
});
