// A request that changes something at a host asks a person, unless a permit names host and method.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findNearest } from '../platform/did-you-mean.ts';
import { loadCedar } from './cedar.ts';
import { checkSiteFile } from './site.ts';
import { makeTestPolicy, net } from './testing/rights.ts';

const CHANGES = ['POST', 'PUT', 'PATCH', 'DELETE'];
const network = { allow: ['a.org', '*.b.org', 'a.org:8443'] };
const answers = async (policy: ReturnType<typeof makeTestPolicy>, hosts: string[], port = 443) =>
  Promise.all(
    hosts.flatMap((host) =>
      ['GET', ...CHANGES].map(
        async (method) => (await policy.decide(net(host, port, { method }))).answer,
      ),
    ),
  );
const ASKED = ['allow', 'ask', 'ask', 'ask', 'ask'];

test('[R414] without a rule, every changing request asks, and reading does not', async () => {
  const policy = makeTestPolicy({ coder: { network } });
  assert.deepEqual(await answers(policy, ['a.org', 'x.b.org']), [...ASKED, ...ASKED]);
  const granted = await policy.decide(net('c.org', 443, { granted: true, method: 'POST' }));
  assert.equal(granted.answer, 'ask', 'a grant names the host and no method');
  assert.equal((await policy.decide(net('c.org', 443, { method: 'POST' }))).answer, 'deny');
});

test('[R414] a manifest names methods for a host and port, and for nothing else', async () => {
  const change = { 'a.org': ['POST' as const], '*.b.org': ['PUT' as const, 'DELETE' as const] };
  const policy = makeTestPolicy({ coder: { network: { ...network, change } } });
  assert.deepEqual(await answers(policy, ['a.org', 'x.b.org']), [
    'allow',
    'allow',
    'ask',
    'ask',
    'ask',
    'allow',
    'ask',
    'allow',
    'ask',
    'allow',
  ]);
  assert.deepEqual(await answers(policy, ['a.org'], 8443), ASKED, 'another port');
  const marked = net('a.org', 443, { method: 'POST', labels: ['outside'] });
  assert.deepEqual((await policy.decide(marked)).rules, ['base:outside-sends']);
  const none = makeTestPolicy({ coder: { network: { ...network, mode: 'none', change } } });
  assert.ok((await answers(none, ['a.org'])).every((answer) => answer === 'deny'));
});

const permit = (resource: string, condition: string) =>
  `permit (principal, action == Action::"net.connect", ${resource}) ${condition};`;
const HOST = 'resource == Host::"a.org"';
const has = 'context has method';

/** Each with the methods that it lets an agent use without asking. */
const RULES: [title: string, rule: string, lifted: string[]][] = [
  ['one method', permit(HOST, `when { ${has} && context.method == "POST" }`), ['POST']],
  ['turned around', permit(HOST, `when { ${has} && "PUT" == context.method }`), ['PUT']],
  [
    'several, as a set and by name',
    permit(
      'resource in Host::"*.org"',
      `when { ${has} && (["POST", "PUT"].contains(context.method) || context.method == "DELETE") }`,
    ),
    ['POST', 'PUT', 'DELETE'],
  ],
  [
    'and only on some paths',
    permit(
      HOST,
      `when { ${has} && context.method == "POST" && context has url_path && context.url_path like "/x*" }`,
    ),
    [],
  ],
  ['a host without a method', permit(HOST, ''), []],
  [
    'a method without a host',
    permit('resource', `when { ${has} && context.method == "POST" }`),
    [],
  ],
  ['all methods but one', permit(HOST, `when { ${has} && context.method != "POST" }`), []],
  ['a method or anything', permit(HOST, `when { ${has} && context.method == "POST" || true }`), []],
  ['not a method', permit(HOST, `unless { ${has} && context.method == "POST" }`), []],
];

for (const [title, rule, lifted] of RULES)
  test(`[R414] a rule of the site: ${title}`, async () => {
    const policy = makeTestPolicy({ coder: { network } }, { site: { '10.cedar': rule } });
    const expected = CHANGES.map((method) => (lifted.includes(method) ? 'allow' : 'ask'));
    assert.deepEqual(await answers(policy, ['a.org']), ['allow', ...expected]);
    assert.deepEqual(
      await answers(policy, ['x.b.org']),
      title.startsWith('several') ? ['allow', ...expected] : ASKED,
    );
    const cedar = await loadCedar();
    const known = { agents: ['coder'], nearest: findNearest };
    const { problems, warnings } = checkSiteFile(cedar, { file: '10.cedar', text: rule }, known);
    assert.deepEqual(problems, []);
    const isWarned = warnings.some(({ message }) => /still ask a person/.test(message));
    const saysMethod = rule.includes('context.method');
    assert.equal(isWarned, saysMethod && lifted.length === 0 && !title.startsWith('and only'));
  });

test('[R414] a forbid still forbids, and no rule of the site can yield', async () => {
  const rules = [
    permit(HOST, `when { ${has} && context.method == "POST" }`),
    `forbid (principal, action == Action::"net.connect", ${HOST}) when { ${has} && context.method == "POST" };`,
  ];
  const policy = makeTestPolicy({ coder: { network } }, { site: { '10.cedar': rules.join('') } });
  assert.equal((await policy.decide(net('a.org', 443, { method: 'POST' }))).answer, 'deny');
  const text = `@yields("method") @ask("x") forbid (principal, action == Action::"net.connect", resource);`;
  const known = { agents: ['coder'], nearest: findNearest };
  const { problems } = checkSiteFile(await loadCedar(), { file: 'x.cedar', text }, known);
  assert.match(problems[0]?.message ?? '', /unknown annotation @yields/);
});
