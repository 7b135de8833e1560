// The plan of a box follows from the same rules as decisions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ANY_PATH, isNarrower, planAgentBox, planDeclaredPaths } from './box-rules.ts';
import { isWithin } from './paths.ts';
import { makeTestPolicy } from './testing/rights.ts';

const SYSTEM = ['/bin', '/lib', '/lib64', '/sbin', '/usr'];
const coder = {
  tools: { allow: ['file.read', 'file.write_workspace'] },
  filesystem: { read: ['/srv/docs/', '/srv/docs/more', '/srv/app'], write: ['/srv/app/out'] },
  network: { allow: ['github.com', '*.mirror.example', 'r.local:5000'] },
};
const boxOf = (site = '', more: object = {}) =>
  planAgentBox(
    makeTestPolicy({ coder: { ...coder, ...more } }, { site: { '10.cedar': site } }),
    'coder',
  );

test('a box shows the paths that unconditional rules open, each root once', async () => {
  const box = await boxOf();
  assert.deepEqual(box.read, [...SYSTEM, '/srv/app', '/srv/docs'].sort());
  assert.deepEqual(box.write, ['/home/coder', '/srv/app/out', '/workspace']);
  assert.deepEqual(box.deny, []);
  assert.deepEqual(box.network, {
    mode: 'restricted',
    allow: [
      { host: 'github.com', port: 443 },
      { host: 'github.com', port: 80 },
      { host: '*.mirror.example', port: 443 },
      { host: '*.mirror.example', port: 80 },
      { host: 'r.local', port: 5000 },
    ],
    granted: [],
  });
});

test('an agent without file tools has no workspace; an unknown agent has nothing', async () => {
  assert.deepEqual((await boxOf('', { tools: {}, filesystem: {} })).write, ['/home/coder']);
  const unknown = await planAgentBox(makeTestPolicy({ coder }), 'nobody');
  assert.deepEqual([unknown.read, unknown.write, unknown.network.allow], [[], [], []]);
});

test("the host's /tmp, /etc and homes are never in a box", async () => {
  const box = await boxOf('', { filesystem: { read: ['/etc', '/home'], write: ['/home/other'] } });
  assert.deepEqual([box.read, box.write], [SYSTEM, ['/home/coder', '/workspace']]);
});

test('paths with a forbid or ask rule are closed, whatever its conditions', async () => {
  const forbid = (action: string, path: string, rest = '') =>
    `forbid (principal, action == Action::"${action}", resource in Path::"${path}")${rest};`;
  const marked = ' when { context.labels.contains("outside") }';
  assert.deepEqual((await boxOf(forbid('file.read', '/srv/app/secret'))).deny, ['/srv/app/secret']);
  assert.deepEqual((await boxOf(forbid('file.read', '/srv/app/x', marked))).deny, ['/srv/app/x']);
  assert.deepEqual((await boxOf(forbid('file.write', '/workspace/ci'))).deny, ['/workspace/ci']);
  assert.deepEqual((await boxOf(forbid('file.write', '/srv/docs/x'))).deny, [], 'only read there');
  assert.ok(!(await boxOf(forbid('file.delete', '/workspace'))).write.includes('/workspace'));
  assert.ok(!(await boxOf(forbid('file.read', '/srv'))).read.includes('/srv/app'));
  const asks = `@ask("why") ${forbid('file.write', '/workspace/ci', marked)}`;
  const { deny, asked } = await boxOf(asks);
  assert.deepEqual([deny, asked], [['/workspace/ci'], ['/workspace/ci']]);
});

test('a path with an ask rule opens for the call that was decided on it; a forbidden one does not', async () => {
  const ask = '@ask("why") forbid (principal, action == Action::"file.write", resource';
  const text = `${ask} in Path::"/workspace/ci");
    forbid (principal, action == Action::"file.read", resource in Path::"/workspace/keys");`;
  const site = { '10.cedar': text };
  const denied = async (opened: string[], more = site) =>
    (await planAgentBox(makeTestPolicy({ coder }, { site: more }), 'coder', [], opened)).deny;
  assert.deepEqual(await denied([]), ['/workspace/ci', '/workspace/keys']);
  assert.deepEqual(await denied(['/workspace/ci']), ['/workspace/keys']);
  assert.deepEqual(await denied(['/workspace/keys']), ['/workspace/ci', '/workspace/keys']);
  // An ask rule about all files closes them all, except one about deleting trees.
  const any = { '10.cedar': `${ask}) when { context.path like "*.key" };` };
  const policy = makeTestPolicy({ coder }, { site: any });
  assert.deepEqual((await planAgentBox(policy, 'coder')).write, []);
  assert.ok((await planAgentBox(policy, 'coder', [], [ANY_PATH])).write.includes('/workspace'));
});

test('a conditional rule about any file closes all files', async () => {
  const box = await boxOf(
    'forbid (principal, action == Action::"file.write", resource) when { context.path like "*.key" };',
  );
  assert.deepEqual(box.write, []);
  assert.ok(box.read.includes('/srv/docs'));
});

test('a site rule opens a path in the box only without conditions', async () => {
  const permit =
    'permit (principal, action == Action::"file.read", resource in Path::"/srv/shared")';
  assert.ok((await boxOf(`${permit};`)).read.includes('/srv/shared'));
  const only = await boxOf(`${permit} when { context.labels.contains("person") };`);
  assert.ok(!only.read.includes('/srv/shared'));
});

test('a permit of exactly one path opens nothing, because a box would show its contents', async () => {
  const permit = (how: string) =>
    `permit (principal, action == Action::"file.read", resource ${how} Path::"/srv/shared");`;
  assert.ok(!(await boxOf(permit('=='))).read.includes('/srv/shared'));
  assert.ok((await boxOf(permit('in'))).read.includes('/srv/shared'));
  assert.ok((await boxOf(permit('is Path in'))).read.includes('/srv/shared'));
});

test('hosts that a rule may forbid are not reachable from a box', async () => {
  const hostsWith = async (resource: string) => {
    const text = `forbid (principal, action == Action::"net.connect", ${resource});`;
    return (await boxOf(text)).network.allow.map(({ host }) => host);
  };
  assert.ok(!(await hostsWith('resource == Host::"github.com"')).includes('github.com'));
  const part = await hostsWith('resource == Host::"a.mirror.example"');
  assert.ok(!part.includes('*.mirror.example'), 'a part of it is forbidden');
  assert.ok(part.includes('github.com'));
  assert.ok(!(await hostsWith('resource in Host::"*.example"')).includes('*.mirror.example'));
  assert.deepEqual(await hostsWith('resource'), []);
});

test('hosts with an ask rule are not reachable from a box', async () => {
  const hostsWith = async (rest: string) => {
    const text = `@ask("why") forbid (principal, action == Action::"net.connect", ${rest};`;
    return (await boxOf(text)).network.allow.map(({ host }) => host);
  };
  const all = ['github.com', 'github.com', '*.mirror.example', '*.mirror.example', 'r.local'];
  assert.deepEqual(await hostsWith('resource == Host::"elsewhere.org")'), all);
  assert.deepEqual(await hostsWith('resource)'), []);
  assert.deepEqual(
    await hostsWith('resource) unless { resource in Host::"*.mirror.example" }'),
    all.slice(2, 4),
  );
  assert.deepEqual(await hostsWith('resource in Host::"*.example")'), [
    'github.com',
    'github.com',
    'r.local',
  ]);
  assert.ok(
    !(await hostsWith('resource == Host::"a.mirror.example")')).includes('*.mirror.example'),
  );
  assert.deepEqual(await hostsWith('resource) when { context.port == 80 }'), [
    'github.com',
    '*.mirror.example',
    'r.local',
  ]);
  // Rules about marked runs are applied when the run is marked.
  assert.deepEqual(await hostsWith('resource) when { context.labels.contains("outside") }'), all);
});

test('a suffix is not reachable when a condition may ask about a name below it', async () => {
  const isReached = async (condition: string) => {
    const rule = `@ask("why") forbid (principal, action == Action::"net.connect", resource)`;
    const { network } = await boxOf(`${rule} ${condition};`);
    return network.allow.some(({ host }) => host === '*.mirror.example');
  };
  for (const condition of [
    'when { resource == Host::"a.mirror.example" }',
    'when { resource in [Host::"x.org", Host::"*.deep.mirror.example"] }',
    'when { resource is Host in Host::"*.example" }',
    'unless { resource == Host::"any.mirror.example" }',
    'when { context.host == "a.mirror.example" }',
    'when { context.host like "a.*" }',
  ])
    assert.equal(await isReached(condition), false, condition);
  for (const condition of [
    'when { resource == Host::"mirror.example" }',
    'when { resource in Host::"*.notmirror.example" }',
    'unless { resource in Host::"*.example" }',
    'when { context has method && context.method == "POST" }',
  ])
    assert.equal(await isReached(condition), true, condition);
});

test('granted hosts are reachable, unless a rule may forbid them', async () => {
  const granted = [
    { host: 'docs.org', port: 443 },
    { host: 'a.evil.org', port: 443 },
  ];
  const bare = { coder: { tools: {} } };
  const text =
    'forbid (principal, action == Action::"net.connect", resource in Host::"*.evil.org");';
  const site = { '10.cedar': text };
  const networkOf = async (more: object, hosts = granted) =>
    (await planAgentBox(makeTestPolicy(bare, more), 'coder', hosts)).network;
  assert.deepEqual(await networkOf({}), { mode: 'restricted', allow: [], granted });
  assert.deepEqual((await networkOf({ site })).granted, [granted[0]]);
  assert.equal((await networkOf({ site }, [granted[1]!])).mode, 'none');
  const unknown = await planAgentBox(makeTestPolicy(bare), 'nobody', granted);
  assert.deepEqual(unknown.network, { mode: 'none', allow: [], granted: [] });
});

test('a declared tool gets its paths minus those that rules close, or is refused', async () => {
  const declared = { read: ['/srv/app'], write: ['/srv/app/out', '/srv/log'] };
  const of = (site: string) =>
    planDeclaredPaths(makeTestPolicy({ coder }, { site: { '10.cedar': site } }), 'coder', declared);
  const forbid = (action: string, path: string) =>
    `forbid (principal, action == Action::"${action}", resource in Path::"${path}");`;
  assert.deepEqual(await of(''), { deny: [] });
  assert.deepEqual(await of(forbid('file.read', '/srv/app/keys')), { deny: ['/srv/app/keys'] });
  assert.deepEqual(await of(forbid('file.delete', '/srv/log/old')), { deny: ['/srv/log/old'] });
  assert.deepEqual(await of(forbid('file.write', '/srv/app/x')), { deny: [] }, 'only read there');
  assert.deepEqual(await of(forbid('file.write', '/srv/log')), {
    refused: 'a rule closes /srv/log to file.write',
  });
  assert.deepEqual(await of(forbid('file.read', '/srv')), {
    refused: 'a rule closes /srv/app to file.read',
  });
  const any =
    'forbid (principal, action == Action::"file.write", resource is Path) when { context.path like "*.env" };';
  assert.match(JSON.stringify(await of(any)), /refused.*names no path/);
  // Approval covers the declared paths, not those inside them.
  assert.deepEqual(await of(`@ask("why") ${forbid('file.write', '/srv/log')}`), { deny: [] });
  assert.deepEqual(await of(`@ask("why") ${forbid('file.write', '/srv/log/old')}`), {
    deny: ['/srv/log/old'],
  });
});

test('a plan that is not narrower opens every path that its predecessor opened', () => {
  const path = fc
    .array(fc.constantFrom('a', 'b'), { minLength: 1, maxLength: 3 })
    .map((parts) => `/${parts.join('/')}`);
  const paths = fc.array(path, { maxLength: 3 });
  const plan = fc.record({ read: paths, write: paths, deny: paths });
  type Plan = { read: string[]; write: string[]; deny: string[] };
  const isOpen = ({ read, write, deny }: Plan, at: string, writes: boolean) =>
    (writes ? write : [...read, ...write]).some((root) => isWithin(at, root)) &&
    !deny.some((closed) => isWithin(at, closed));
  let narrower = 0;
  fc.assert(
    fc.property(plan, plan, path, fc.boolean(), (now, before, at, writes) => {
      assert.equal(isNarrower(before, before), false);
      if (isNarrower(now, before)) return void narrower++;
      assert.ok(isOpen(now, at, writes) || !isOpen(before, at, writes));
    }),
    { numRuns: 2_000 },
  );
  assert.ok(narrower > 0);
  const known = { read: ['/usr', '/srv'], write: ['/workspace'], deny: ['/srv/keys'] };
  for (const [change, is] of [
    [{ read: ['/usr'] }, true],
    [{ write: [] }, true],
    [{ write: [], read: ['/usr', '/srv', '/workspace'] }, true],
    [{ deny: ['/srv/keys', '/workspace/ci'] }, true],
    [{ deny: ['/srv/keys', '/elsewhere'] }, false],
    [{ deny: ['/srv/keys', '/'] }, true],
    [{ deny: [] }, false],
    [{ read: ['/usr', '/srv', '/more'] }, false],
    [{ read: ['/usr'], write: ['/workspace', '/srv'] }, false],
  ] satisfies [Partial<Plan>, boolean][])
    assert.equal(isNarrower({ ...known, ...change }, known), is, JSON.stringify(change));
});
