// The capability table, and the promise of delegation: no subtask gets a tool that was not
// delegated to its parent.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Delegation } from '../wire/agentd.ts';
import type { Manifest } from '../wire/manifest.ts';
import {
  ALL_TOOLS,
  CAPABILITY_NAMES,
  computeGrant,
  delegationProblems,
  findAllowedTools,
  findGrantingCapabilities,
  findUndeniable,
} from './capabilities.ts';

const basic = [
  'artifact.get',
  'artifact.put',
  'message.send',
  'person.ask',
  'skill.read',
  'task.finish',
  'team.list',
  'timer.wait',
];

function manifest(tools?: { allow?: string[]; deny?: string[] }): Manifest {
  return {
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { name: 'coder' },
    spec: { ...(tools === undefined ? {} : { tools }) },
  };
}

const toolsWith = (tools?: { allow?: string[]; deny?: string[] }) =>
  findAllowedTools(manifest(tools)).tools;

test('an agent that names nothing has the basic coordination tools and nothing else', () => {
  assert.deepEqual(findAllowedTools(manifest()), { tools: basic, unknown: [] });
});

test('a capability includes all of its tools, and deny takes precedence over allow', () => {
  const tools = toolsWith({ allow: ['git.read', 'file.read'], deny: ['git.log'] });
  assert.deepEqual(
    tools.filter((tool) => !basic.includes(tool)),
    ['file.list', 'file.read', 'file.search', 'git.diff', 'git.show', 'git.status'],
  );
  assert.deepEqual(toolsWith({ allow: ['git.read'], deny: ['git.read'] }), basic);
});

test('network.external includes http.fetch and network.request; each can be granted alone', () => {
  const own = (allow: string[]) => toolsWith({ allow }).filter((tool) => !basic.includes(tool));
  assert.deepEqual(own(['network.external']), ['http.fetch', 'network.request']);
  assert.deepEqual(own(['network.request']), ['network.request']);
  assert.deepEqual(own(['http.fetch']), ['http.fetch']);
});

test('a tool may be named itself; denying a class denies what it covers', () => {
  assert.ok(toolsWith({ allow: ['git.diff'] }).includes('git.diff'));
  assert.ok(!toolsWith({ allow: ['git.diff'] }).includes('git.log'));
  assert.ok(
    !toolsWith({ allow: ['prod.deploy'], deny: ['production.change'] }).includes('prod.deploy'),
  );
  assert.ok(
    !toolsWith({ allow: ['http.fetch'], deny: ['network.external'] }).includes('http.fetch'),
  );
});

test('basic tools can be denied by name, but never the one that ends a task', () => {
  assert.ok(!toolsWith({ deny: ['person.ask'] }).includes('person.ask'));
  assert.deepEqual(toolsWith({ deny: ['team.basic'] }), ['task.finish']);
  assert.deepEqual(findUndeniable(['person.ask', 'team.basic', 'task.finish', 'no.such']), [
    'team.basic',
    'task.finish',
  ]);
});

test('unknown names are reported once, and allow only the tool of that name', () => {
  const odd = manifest({ allow: ['git.reed', 'constructor.name'], deny: ['git.reed'] });
  odd.spec.approvals = { required: ['production.chnage'] };
  const { tools, unknown } = findAllowedTools(odd);
  assert.deepEqual(unknown, ['git.reed', 'constructor.name', 'production.chnage']);
  assert.deepEqual(
    tools.filter((tool) => !basic.includes(tool)),
    ['constructor.name'],
  );
});

test('a declared tool is delegated by its name, by an agent that has it', () => {
  const tools = toolsWith({ allow: ['service.restart', 'git.read'] });
  assert.deepEqual(delegationProblems(tools, { allow: ['service.restart'] }), []);
  assert.deepEqual(computeGrant({ tools, delegations: [{ allow: ['service.restart'] }] }).tools, [
    ...[...basic, 'service.restart'].sort(),
  ]);
  assert.equal(delegationProblems(basic, { allow: ['service.restart'] }).length, 1);
});

test('wordsGranting lists exactly the capabilities that include a tool', () => {
  for (const tool of ALL_TOOLS) {
    const words = findGrantingCapabilities(tool);
    assert.ok(words.length > 0, tool);
    for (const word of words) assert.ok(toolsWith({ allow: [word] }).includes(tool), word);
  }
  assert.deepEqual(findGrantingCapabilities('no.such'), []);
});

test('a delegation narrows, keeps the basic tools, and the earliest expiry applies', () => {
  const tools = toolsWith({ allow: ['git.read', 'logs.read', 'task.delegate'] });
  const grant = computeGrant({
    tools,
    delegations: [
      { allow: ['git.read', 'logs.read'], expires_at: '2026-06-29T18:00:00Z' },
      { deny: ['git.log'], expires_at: '2026-06-29T17:59:59.999Z' },
      { expires_at: '2026-06-30T00:00:00Z' },
    ],
  });
  assert.deepEqual(
    grant.tools.filter((tool) => !basic.includes(tool)),
    ['git.diff', 'git.show', 'git.status', 'logs.read'],
  );
  assert.ok(basic.every((tool) => grant.tools.includes(tool)));
  assert.equal(grant.expiresAt, '2026-06-29T17:59:59.999Z');
  assert.equal(computeGrant({ tools, delegations: [{}] }).expiresAt, null);
  assert.deepEqual(computeGrant({ tools, delegations: [{ allow: [] }] }).tools, basic);
});

test('the problems of a delegation are described', () => {
  const tools = toolsWith({ allow: ['git.diff', 'logs.read'] });
  assert.deepEqual(delegationProblems(tools, { allow: ['logs.read'], deny: ['prod.write'] }), []);
  assert.deepEqual(
    delegationProblems(tools, {
      allow: ['git.read', 'secrets.read', 'logs.raed'],
      deny: ['team.basic'],
    }),
    [
      'logs.raed is not a known capability or tool',
      'git.read cannot be delegated: the delegator lacks it (git.status, git.log, git.show)',
      'secrets.read cannot be delegated: the delegator lacks it',
      'team.basic cannot be denied: without task.finish the task could not end',
    ],
  );
});

const words = fc.array(fc.constantFrom(...CAPABILITY_NAMES), { maxLength: 8 });
const delegation: fc.Arbitrary<Delegation> = fc
  .record({ allow: fc.option(words, { nil: undefined }), deny: words })
  .map(({ allow, deny }) => ({ deny, ...(allow === undefined ? {} : { allow }) }));
const own = fc.record({ allow: words, deny: words }).map(toolsWith);
const isSubset = (part: readonly string[], whole: readonly string[]) =>
  part.every((tool) => whole.includes(tool));

test('no chain of delegations allows what one of them excludes, in any order', () => {
  fc.assert(
    fc.property(own, fc.array(delegation, { maxLength: 6 }), (tools, delegations) => {
      const grant = computeGrant({ tools, delegations }).tools;
      assert.ok(isSubset(grant, tools));
      for (const delegation of delegations) {
        assert.ok(isSubset(grant, computeGrant({ tools, delegations: [delegation] }).tools));
      }
      const reversed = computeGrant({ tools, delegations: delegations.toReversed() }).tools;
      assert.deepEqual(reversed, grant);
    }),
  );
});

test('in a chain of accepted delegations no agent has what an ancestor could not delegate', () => {
  const link = fc.record({ tools: own, passes: delegation });
  fc.assert(
    fc.property(own, fc.array(link, { minLength: 1, maxLength: 6 }), (first, chain) => {
      const above: Delegation[] = [];
      const ceilings: string[][] = [];
      let grant = first;
      for (const { tools, passes: delegation } of chain) {
        const fits = (word: string) => delegationProblems(grant, { allow: [word] }).length === 0;
        const allow = delegation.allow?.filter(fits);
        if (allow !== undefined && allow.length < delegation.allow!.length) {
          assert.notDeepEqual(delegationProblems(grant, delegation), []);
        }
        // An allow list delegates the delegator's own rights, so its grant is the ceiling from here
        // on.
        if (allow !== undefined) ceilings.push([...grant, ...basic]);
        above.push({ ...delegation, ...(allow === undefined ? {} : { allow }) });
        grant = computeGrant({ tools, delegations: above }).tools;
        for (const ceiling of ceilings) assert.ok(isSubset(grant, ceiling));
        assert.ok(isSubset(grant, tools));
        assert.ok(grant.includes('task.finish'));
      }
    }),
    { numRuns: 500 },
  );
});

test('adding a deny or a delegation never allows more', () => {
  fc.assert(
    fc.property(own, fc.array(delegation, { maxLength: 4 }), words, (tools, delegations, deny) => {
      const before = computeGrant({ tools, delegations }).tools;
      const after = computeGrant({ tools, delegations: [...delegations, { deny }] }).tools;
      assert.ok(isSubset(after, before));
    }),
  );
  fc.assert(
    fc.property(words, words, words, (allow, deny, more) => {
      const wider = toolsWith({ allow, deny });
      assert.ok(isSubset(toolsWith({ allow, deny: [...deny, ...more] }), wider));
    }),
  );
});
