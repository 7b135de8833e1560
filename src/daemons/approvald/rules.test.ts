// Property tests of the rules: a permit never covers more than its scope, a chain is never rated
// milder than any of its parts, and one person never counts twice.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ChainLink } from '../../wire/approvald.ts';
import {
  combineRisks,
  countApprovers,
  covers,
  type DecisionRecord,
  describePermits,
  findObstacle,
  findUnshown,
  isRepeat,
  matchesPattern,
  type PermitScope,
  pickNarrowest,
  type RequestScope,
  selectApprovals,
} from './rules.ts';

const RISKS = ['low', 'medium', 'high'] as const;
const BACK = ['read-only', 'reversible', 'externally-reversible', 'irreversible'] as const;
const word = fc.constantFrom('a.b', 'a.c', 'd');
const link: fc.Arbitrary<ChainLink> = fc.record({
  class: word,
  risk: fc.constantFrom(...RISKS),
  reversibility: fc.constantFrom(...BACK),
  part: fc.constantFrom('call', 'brings', 'beside'),
  what: fc.constant(''),
});
const repo = fc.constantFrom('/r/1', '/r/2', null);
const ask: fc.Arbitrary<RequestScope> = fc
  .record({
    agent: fc.constantFrom('coder', 'deployer'),
    action: word,
    chain: fc.array(link, { minLength: 1, maxLength: 4 }),
    rootTaskId: fc.constantFrom('t1', 't2'),
    repo,
    labels: fc.uniqueArray(fc.constantFrom('outside' as const, 'tool' as const)),
    rules: fc.constant(['base:x']),
    eachCall: fc.constantFrom(false, false, true),
  })
  .map((one) => ({ ...one, ...combineRisks(one.chain as [ChainLink, ...ChainLink[]]) }));
const permit: fc.Arbitrary<PermitScope> = fc.record({
  scope: fc.constantFrom('task', 'repo', 'class'),
  agent: fc.constantFrom('coder', 'deployer'),
  action: fc.option(word),
  class: word,
  risk: fc.constantFrom(...RISKS),
  reversibility: fc.constantFrom(...BACK),
  rootTaskId: fc.constantFrom('t1', 't2', null),
  repo,
  shown: fc.subarray(['a.b', 'a.c', 'd']),
});

test('a chain is as risky as its worst link in each respect', () => {
  fc.assert(
    fc.property(fc.array(link, { minLength: 1 }), (chain) => {
      const worst = combineRisks(chain as [ChainLink, ...ChainLink[]]);
      for (const one of chain) {
        assert.ok(RISKS.indexOf(worst.risk) >= RISKS.indexOf(one.risk));
        assert.ok(BACK.indexOf(worst.reversibility) >= BACK.indexOf(one.reversibility));
      }
      assert.ok(chain.some((one) => one.class === worst.class && one.risk === worst.risk));
    }),
  );
});

test('a permit covers only its agent, class, scope, and nothing riskier or marked', () => {
  let covered = 0;
  /** Mostly close to the request: independent random values hardly ever match. */
  const pair = fc
    .tuple(permit, ask, fc.nat(4))
    .map(([free, wanted, far]): [PermitScope, RequestScope] => {
      if (far === 0) return [free, wanted];
      const { agent, rootTaskId, repo } = wanted;
      const near = { agent, class: wanted.class, rootTaskId, repo };
      return [{ ...free, ...near, action: far > 2 ? wanted.action : free.action }, wanted];
    });
  fc.assert(
    fc.property(pair, ([given, wanted]) => {
      if (!covers(given, wanted)) return;
      covered++;
      assert.equal(given.agent, wanted.agent);
      assert.equal(given.class, wanted.class);
      assert.equal(wanted.labels.includes('outside'), false);
      assert.equal(wanted.eachCall, false, 'no permit covers a tool that requires each approval');
      assert.ok(RISKS.indexOf(wanted.risk) <= RISKS.indexOf(given.risk));
      assert.ok(BACK.indexOf(wanted.reversibility) <= BACK.indexOf(given.reversibility));
      if (given.action !== null) assert.equal(given.action, wanted.action);
      if (given.scope === 'task') assert.equal(given.rootTaskId, wanted.rootTaskId);
      if (given.scope === 'repo') assert.equal(given.repo, wanted.repo);
      if (given.scope === 'class')
        for (const { part, class: word } of wanted.chain)
          assert.ok(part === 'beside' || given.shown.includes(word), `${word} was not shown`);
    }),
    { numRuns: 5_000 },
  );
  assert.ok(covered > 0, 'some requests are covered');
});

test('approving a call does not offer a permit for the worse class of a sibling', () => {
  fc.assert(
    fc.property(ask, (wanted) => {
      const { class: offered } = describePermits(wanted);
      if (wanted.chain[0]!.class !== wanted.class) assert.equal(offered, undefined);
    }),
  );
});

test('links that a call has now and that were not shown are found', () => {
  const own = { class: 'shell.exec', risk: 'medium', reversibility: 'reversible' } as const;
  const out = { class: 'network.external', risk: 'low', reversibility: 'read-only' } as const;
  const as = (link: Omit<ChainLink, 'part' | 'what'>, part: ChainLink['part']) => ({
    ...link,
    part,
    what: '',
  });
  const shown = [as(own, 'call'), as(out, 'brings')];
  assert.equal(findUnshown([as(out, 'brings')], shown), undefined);
  assert.equal(findUnshown([], shown), undefined);
  assert.ok(findUnshown([as({ ...out, risk: 'high' }, 'brings')], shown), 'a worse link');
  assert.ok(findUnshown([as({ ...out, class: 'x' }, 'brings')], shown), 'another link');
  assert.ok(findUnshown([as(out, 'brings')], [as(own, 'call'), as(out, 'beside')]));
});

test('a run that has read text from outside is offered only once', () => {
  fc.assert(
    fc.property(ask, (wanted) => {
      const offered = Object.keys(describePermits(wanted));
      if (wanted.labels.includes('outside') || wanted.eachCall) assert.deepEqual(offered, ['once']);
      assert.equal(offered.includes('repo'), wanted.repo !== null && offered.length > 1);
    }),
  );
});

test('scopes of rules', () => {
  assert.equal(matchesPattern('production.*', 'production.change'), true);
  assert.equal(matchesPattern('production.*', 'productionx'), false);
  assert.equal(matchesPattern('deploy.run', 'deploy.runner'), false);
  const mail = { class: 'mail.send', risk: 'low', reversibility: 'irreversible' } as const;
  const chain: ChainLink[] = [{ ...mail, part: 'call', what: '' }];
  assert.equal(countApprovers(['mail.*'], { action: 'x', chain }), 2);
  assert.equal(countApprovers(['x'], { action: 'x', chain }), 2);
  assert.equal(countApprovers([], { action: 'x', chain }), 1);
  assert.equal(pickNarrowest(['class', 'task', 'repo']), 'task');
});

const decisionRecord: fc.Arbitrary<DecisionRecord> = fc
  .record({
    person: fc.constantFrom(
      { by: 'person:a', key: 'people/a' },
      { by: 'person:b', key: 'people/b' },
      { by: 'person:o', key: 'operator' },
      { by: 'person:p', key: 'operator' },
    ),
    answer: fc.constantFrom('approve', 'escalate'),
    edited_hash: fc.option(fc.constantFrom('h1', 'h2')),
  })
  .map(({ person, answer, edited_hash }) => ({
    ...person,
    answer,
    edited_hash: answer === 'approve' ? edited_hash : null,
    for: 'once' as const,
    text: null,
    to: null,
  }));

test('no key and no name counts twice, and no decision before an edit counts', () => {
  fc.assert(
    fc.property(fc.array(decisionRecord, { maxLength: 8 }), (all) => {
      const people = selectApprovals(all);
      assert.equal(new Set(people.map(({ key }) => key)).size, people.length);
      assert.equal(new Set(people.map(({ by }) => by)).size, people.length);
      const lastEdit = all.findLastIndex(({ edited_hash }) => edited_hash !== null);
      for (const one of people) assert.ok(all.indexOf(one) >= lastEdit);
    }),
  );
});

test('a person who escalated never approves, under any name', () => {
  fc.assert(
    fc.property(fc.array(decisionRecord, { maxLength: 6 }), decisionRecord, (all, next) => {
      const passed = all.some(
        (one) => one.answer === 'escalate' && (one.key === next.key || one.by === next.by),
      );
      const why = findObstacle(all, { principal: next.by, key: next.key });
      assert.equal(why !== undefined, passed);
    }),
  );
});

test('approving arguments that were edited since is not a repeat', () => {
  const mine: DecisionRecord = {
    by: 'person:a',
    key: 'people/a',
    answer: 'approve',
    edited_hash: null,
    for: 'once',
    text: null,
    to: null,
  };
  const edit: DecisionRecord = { ...mine, by: 'person:b', key: 'people/b', edited_hash: 'h' };
  assert.equal(isRepeat([mine], mine), true);
  assert.equal(isRepeat([mine, edit], mine), false);
  assert.equal(isRepeat([mine], { ...mine, for: 'task' }), false);
});
