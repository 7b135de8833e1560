// Properties of policy, for generated rules, manifests and requests.
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import * as cedarWasm from '@cedar-policy/cedar-wasm/nodejs';
import fc from 'fast-check';
import type { Delegation } from '../wire/agentd.ts';
import { planAgentBox } from './box-rules.ts';
import {
  ALL_TOOLS,
  CAPABILITY_NAMES,
  computeGrant,
  delegationProblems,
  findAllowedTools,
} from './capabilities.ts';
import { loadCedar } from './cedar.ts';
import { placeResource } from './entities.ts';
import { isWithin } from './paths.ts';
import type { PolicyDecision, Request } from './request.ts';
import {
  call,
  file,
  makeTestPolicy,
  net,
  rights,
  someLabels,
  somePath,
  someRequest,
  someRights,
  someRule,
} from './testing/rights.ts';

const STRICTNESS = { allow: 0, ask: 1, deny: 2 } as const;
const isAtLeastAsStrict = (after: PolicyDecision, first: PolicyDecision) =>
  STRICTNESS[after.answer] >= STRICTNESS[first.answer];

const someRules = fc.array(someRule(['permit', 'forbid', 'ask']), { maxLength: 5 });
const someQuestions = fc.array(someRequest, { minLength: 1, maxLength: 6 });
const site = (rules: readonly string[]) => ({ site: { '10.cedar': rules.join('\n') } });

before(() => loadCedar());

test('adding a rule that forbids never allows more', async () => {
  await fc.assert(
    fc.asyncProperty(
      someRights,
      someRules,
      someRule(['forbid']),
      someQuestions,
      async (agent, rules, forbid, requests) => {
        const first = makeTestPolicy({ coder: agent }, site(rules));
        const after = makeTestPolicy({ coder: agent }, site([...rules, forbid]));
        for (const request of requests)
          assert.ok(
            isAtLeastAsStrict(await after.decide(request), await first.decide(request)),
            JSON.stringify(request),
          );
      },
    ),
    { numRuns: 40 },
  );
});

test('adding an ask rule never turns a deny into anything else', async () => {
  await fc.assert(
    fc.asyncProperty(
      someRights,
      someRules,
      someRule(['ask']),
      someQuestions,
      async (agent, rules, ask, requests) => {
        const first = makeTestPolicy({ coder: agent }, site(rules));
        const after = makeTestPolicy({ coder: agent }, site([...rules, ask]));
        for (const request of requests) {
          const [was, is] = [await first.decide(request), await after.decide(request)];
          assert.ok(isAtLeastAsStrict(is, was), JSON.stringify(request));
          assert.equal(is.answer === 'deny', was.answer === 'deny');
        }
      },
    ),
    { numRuns: 40 },
  );
});

/** Decides with Cedar alone over all rules. */
function askCedarAlone(
  texts: readonly { id: string; text: string; asks: boolean }[],
  request: Request,
  parents: { type: string; id: string }[],
): PolicyDecision['answer'] {
  const placed = placeResource(request.resource);
  assert.ok(placed.ok);
  const principal = { type: 'Agent', id: 'coder' };
  const decide = (chosen: typeof texts) => {
    const answer = cedarWasm.isAuthorized({
      principal,
      action: { type: 'Action', id: request.action },
      resource: placed.placed.uid,
      context: { labels: [], ...request.context } as never,
      policies: { staticPolicies: Object.fromEntries(chosen.map(({ id, text }) => [id, text])) },
      entities: [
        { uid: principal, attrs: {}, parents },
        { ...placed.placed, attrs: {} },
      ],
    });
    assert.ok(answer.type === 'success', JSON.stringify(answer));
    return answer.response.decision === 'allow';
  };
  if (!decide(texts.filter(({ asks }) => !asks))) return 'deny';
  const isNaming = (text: string) => /^permit.*Host::.*method/s.test(text);
  const isNamed = decide(texts.filter(({ asks, text }) => !asks && isNaming(text)));
  return decide(texts.filter(({ id }) => !(isNamed && id === 'base:changing-request')))
    ? 'allow'
    : 'ask';
}

test('skipping rules whose scope does not fit changes no decision', async () => {
  await fc.assert(
    fc.asyncProperty(someRights, someRules, someQuestions, async (agent, rules, requests) => {
      const policy = makeTestPolicy({ coder: agent }, site(rules));
      const all = (await policy.listRules('agent:coder')).map(({ id, text, ask }) => ({
        id,
        text,
        asks: ask !== null,
      }));
      const others = rules.map((text, i) => ({
        id: `all:${i}`,
        text,
        asks: text.startsWith('@ask'),
      }));
      const parents = (agent.groups ?? []).map((id) => ({ type: 'Group', id }));
      for (const request of requests)
        assert.equal(
          (await policy.decide(request)).answer,
          askCedarAlone([...all, ...others], request, parents),
          JSON.stringify(request),
        );
    }),
    { numRuns: 40 },
  );
});

test('the tools of a manifest are the tools that policy allows', async () => {
  await fc.assert(
    fc.asyncProperty(someRights, async (agent) => {
      const policy = makeTestPolicy({ coder: agent });
      const given = new Set(findAllowedTools({ spec: rights(agent) }).tools);
      for (const tool of ALL_TOOLS) {
        const { answer } = await policy.decide(call(tool));
        assert.equal(answer !== 'deny', given.has(tool), `${tool}: ${answer}`);
      }
    }),
    { numRuns: 25 },
  );
});

const words = fc.array(fc.constantFrom(...CAPABILITY_NAMES), { maxLength: 6 });
const link = fc.record({
  tools: fc.record({ allow: words, deny: words }),
  passes: fc.option(words, { nil: undefined }),
});

test('no chain of delegations allows what an ancestor could not', async () => {
  const isDeniable = (word: string) => word !== 'team.basic' && word !== 'task.finish';
  const basic = findAllowedTools({ spec: {} }).tools;
  await fc.assert(
    fc.asyncProperty(fc.array(link, { minLength: 2, maxLength: 5 }), async (chain) => {
      const spec = chain.map(({ tools }) => ({
        tools: { allow: tools.allow, deny: tools.deny.filter(isDeniable) },
      }));
      const policy = makeTestPolicy(
        Object.fromEntries(spec.map((some, i) => [`agent-${i}`, some])),
      );
      const callable = async (i: number, grant: readonly string[]): Promise<Set<string>> => {
        const may = new Set<string>();
        for (const tool of ALL_TOOLS) {
          const request = call(tool, { delegated_tools: grant });
          const delegated = { ...request, principal: `agent:agent-${i}` };
          if ((await policy.decide(delegated)).answer !== 'deny') may.add(tool);
        }
        return may;
      };
      const above: Delegation[] = [];
      const ceilings: Set<string>[] = [];
      for (const [i, { passes }] of chain.entries()) {
        const { tools } = findAllowedTools({ spec: spec[i]! });
        const grant = computeGrant({ tools, delegations: above }).tools;
        const may = await callable(i, grant);
        for (const ceiling of ceilings)
          assert.deepEqual([...may.difference(ceiling)], [], `agent-${i}`);
        // A delegation of tools that the delegator lacks is rejected.
        const allow = passes?.filter(
          (word) => delegationProblems([...may], { allow: [word] }).length === 0,
        );
        above.push(allow === undefined ? {} : { allow });
        if (allow !== undefined) ceilings.push(new Set([...may, ...basic]));
      }
    }),
    { numRuns: 15 },
  );
});

test('the plan of a box never opens more than policy allows', async () => {
  const paths = fc.array(somePath, { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(
      someRights,
      someRules,
      paths,
      someLabels,
      async (agent, rules, samples, labels) => {
        const policy = makeTestPolicy(
          { coder: agent },
          { ...site(rules), protected: ['/srv/app/src'] },
        );
        const box = await planAgentBox(policy, 'coder');
        const isDenied = (path: string) => box.deny.some((root) => isWithin(path, root));
        const isOpen = (path: string, roots: readonly string[]) =>
          !isDenied(path) && roots.some((root) => isWithin(path, root));
        const roots = [...box.read, ...box.write].flatMap((root) => [root, `${root}/z`]);
        for (const path of [...samples, ...roots]) {
          const may = async (action: 'file.read' | 'file.write' | 'file.delete') =>
            (await policy.decide(file(action, path, { labels }))).answer === 'allow';
          if (isOpen(path, [...box.read, ...box.write]))
            assert.ok(await may('file.read'), `reads ${path}`);
          if (!isOpen(path, box.write)) continue;
          assert.ok(await may('file.write'), `writes ${path}`);
          assert.ok(await may('file.delete'), `deletes ${path}`);
        }
        for (const { host, port } of box.network.allow) {
          const name = host.replace(/^\*/, 'deep.sub');
          const { answer } = await policy.decide(net(name, port, { labels, method: 'GET' }));
          assert.notEqual(answer, 'deny', `${name}:${port}`);
        }
      },
    ),
    { numRuns: 40 },
  );
});
