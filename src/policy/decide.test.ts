// Decisions: allow, ask or deny, and the rules that decided.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Request, touchRequest } from './request.ts';
import { call, decideEach, file, makeTestPolicy, net } from './testing/rights.ts';

test("the runtime's own directories stay closed inside an agent's readable paths", async () => {
  const policy = makeTestPolicy(
    { coder: { filesystem: { write: ['/srv'] } } },
    { protected: ['/srv/agentd'] },
  );
  assert.deepEqual(
    await decideEach(policy, [
      file('file.write', '/srv/x'),
      file('file.read', '/srv/agentd/operator.key'),
    ]),
    ['allow manifest:coder:file.write:1', 'deny base:runtime:1'],
  );
});

test('[R116] [R117] [R118] [R120] [R316] a call that needs a person gets the decision ask, with the reason', async () => {
  const policy = makeTestPolicy({
    coder: {
      tools: { allow: ['production.change', 'email.send_external', 'tests.run', 'secrets.read'] },
      approvals: { required: ['tests.run', 'git.read'] },
    },
  });
  assert.deepEqual(
    await decideEach(policy, [
      call('prod.deploy'),
      call('email.send_external'),
      call('secrets.read'),
      call('tests.run'),
      call('git.diff'),
      file('file.delete', '/workspace/build', { recursive: true }),
      file('file.delete', '/workspace/build/x'),
    ]),
    [
      'ask base:production',
      'ask base:send-email',
      'ask base:secrets',
      'ask manifest:coder:approval:1',
      'deny',
      'ask base:delete-recursive',
      'allow manifest:coder:file.write:1',
    ],
  );
  const { reason } = await policy.decide(call('prod.deploy'));
  assert.equal(reason, 'it changes production');
});

test('[R414] a run that read text from outside does nothing irreversible and sends nothing out alone', async () => {
  const policy = makeTestPolicy({
    coder: {
      tools: { allow: ['http.fetch', 'test.tools', 'git.write_branch'] },
      network: { allow: ['github.com'] },
    },
  });
  const labels = ['outside'];
  const irreversible = { reversibility: 'irreversible' };
  assert.deepEqual(
    await decideEach(policy, [
      call('test.count_effect', irreversible),
      call('test.count_effect', { ...irreversible, labels }),
      call('message.send', { ...irreversible, labels }),
      call('git.commit', { labels }),
      net('github.com', 443, { method: 'POST' }),
      net('github.com', 443, { method: 'POST', labels }),
      net('github.com', 443, { labels }),
      net('github.com', 443, { method: 'GET', labels }),
    ]),
    [
      'allow manifest:coder:tool.call:2',
      'ask base:outside-irreversible',
      'allow base:basic-tools',
      'allow manifest:coder:tool.call:3',
      'ask base:changing-request',
      'ask base:changing-request base:outside-sends',
      'ask base:outside-sends',
      'allow manifest:coder:net.connect:1',
    ],
  );
});

test('every subject of policy has its action', async () => {
  const policy = makeTestPolicy({
    coder: {
      model: 'coder-large',
      memory: { read: ['project:app'], write: ['project:app/coder'] },
      tools: { allow: ['task.delegate'] },
      team: { delegateTo: ['tester'], talkTo: ['ops'] },
    },
  });
  const on = (
    action: Request['action'],
    type: Request['resource']['type'],
    id: string,
    context = {},
  ): Request => ({ principal: 'agent:coder', action, resource: { type, id }, context });
  const scope = (action: Request['action'], id: string) => on(action, 'Scope', id, { scope: id });
  const message = { message_type: 'TaskUpdate' };
  assert.deepEqual(
    await decideEach(policy, [
      on('model.use', 'Model', 'coder-large', { model: 'coder-large' }),
      on('model.use', 'Model', 'other', { model: 'other' }),
      scope('memory.read', 'project:app/tester'),
      scope('memory.write', 'project:app/coder/notes'),
      scope('memory.write', 'project:app/coder2'),
      scope('memory.write', 'agent:coder'),
      on('task.delegate', 'Agent', 'tester'),
      on('task.delegate', 'Agent', 'ops'),
      on('message.send', 'Agent', 'ops', message),
      on('message.send', 'Agent', 'tester', message),
      scope('data.delete', 'agent:coder'),
      { ...scope('data.delete', 'agent:coder'), principal: 'person:alice' },
    ]),
    [
      'allow manifest:coder:model.use:1',
      'deny',
      'allow manifest:coder:memory.read:2',
      'allow manifest:coder:memory.write:2',
      'deny',
      'allow manifest:coder:memory.write:1',
      'allow manifest:coder:task.delegate:1',
      'deny manifest:coder:task.delegate:2',
      'allow base:messages manifest:coder:message.send:1',
      'allow base:messages',
      'ask base:agent-deletes-data',
      'allow base:people',
    ],
  );
});

const decideApproval = (principal: string): Request => ({
  principal,
  action: 'approval.decide',
  resource: { type: 'Approval', id: 'approval_1' },
  context: {
    agent: 'coder',
    tool: 'prod.deploy',
    class: 'prod.deploy',
    risk: 'high',
    reversibility: 'irreversible',
    decision: 'approve',
    reach: 'once',
    channel: 'api',
  },
});

test('policy decides who may decide an approval: roles when people are configured, else any person', async () => {
  const open = makeTestPolicy({ coder: {} });
  const named = makeTestPolicy(
    { coder: {} },
    {
      people: {
        alice: { roles: ['approver'] },
        bob: { roles: ['intern'] },
        eve: { roles: ['admin'] },
      },
      site: {
        '10-deploys.cedar':
          '@why("deploys are approved by admins") forbid (principal, action == Action::"approval.decide", resource)' +
          ' when { context.tool == "prod.deploy" } unless { principal in Role::"admin" };',
      },
    },
  );
  assert.equal((await open.decide(decideApproval('person:anyone'))).answer, 'allow');
  assert.equal((await open.decide(decideApproval('agent:coder'))).answer, 'deny');
  assert.deepEqual(
    await decideEach(
      named,
      ['alice', 'bob', 'eve', 'mallory'].map((name) => decideApproval(`person:${name}`)),
    ),
    [
      'deny site:10-deploys.cedar:1',
      'deny site:10-deploys.cedar:1',
      'allow base:admins',
      'deny site:10-deploys.cedar:1',
    ],
  );
});

test('a host that a person granted is permitted, but forbid and ask rules still apply', async () => {
  const site = {
    '10.cedar':
      'forbid (principal, action == Action::"net.connect", resource == Host::"evil.org");',
  };
  const coder = { approvals: { required: ['network.external'] } };
  const policies = [makeTestPolicy({ coder: {} }, { site }), makeTestPolicy({ coder }, { site })];
  const granted = { granted: true };
  for (const [i, policy] of policies.entries()) {
    assert.deepEqual(
      await decideEach(policy, [
        net('docs.org', 443, granted),
        net('evil.org', 443, granted),
        net('10.0.0.1', 443, granted),
        net('docs.org', 443, { ...granted, labels: ['outside'], method: 'GET' }),
        net('docs.org', 443, { ...granted, labels: ['outside'], method: 'POST' }),
        net('docs.org', 443, { ...granted, labels: ['outside'] }),
      ]),
      [
        `allow base:granted-host${i === 0 ? '' : ' manifest:coder:net.connect:1'}`,
        'deny site:10.cedar:1',
        'deny',
        `allow base:granted-host${i === 0 ? '' : ' manifest:coder:net.connect:1'}`,
        'ask base:changing-request base:outside-sends',
        'ask base:outside-sends',
      ],
    );
    // Control: a host that was not granted.
    const [plain] = await decideEach(policy, [net('docs.org', 443)]);
    assert.equal(plain, i === 0 ? 'deny' : 'ask manifest:coder:net.connect:2');
    const [not] = await decideEach(policy, [net('docs.org', 443, { granted: false })]);
    assert.equal(not, plain);
  }
});

test("a declared tool's path is permitted, but forbid and ask rules still apply", async () => {
  const site = {
    '10.cedar':
      'forbid (principal, action, resource in Path::"/srv/app/keys");' +
      '@ask("why") forbid (principal, action == Action::"file.write", resource in Path::"/srv/live");',
  };
  const policy = makeTestPolicy({ coder: {} }, { site });
  const touch = (action: 'file.read' | 'file.write', path: string, declared?: boolean) =>
    touchRequest(
      'agent:coder',
      { action, path, ...(declared === undefined ? {} : { declared }) },
      { labels: [] },
    );
  assert.deepEqual(
    await decideEach(policy, [
      touch('file.read', '/srv/app', true),
      touch('file.read', '/srv/app/keys/a', true),
      touch('file.write', '/srv/live', true),
      touch('file.write', '/etc/app', true),
      touch('file.read', '/srv/app'),
      touch('file.read', '/srv/app', false),
    ]),
    [
      'allow base:declared-path',
      'deny site:10.cedar:1',
      'ask site:10.cedar:2',
      'deny base:etc',
      'deny',
      'deny',
    ],
  );
});

test('a delegation that excludes a tool denies it', async () => {
  const policy = makeTestPolicy({ coder: { tools: { allow: ['git.read'] } } });
  assert.deepEqual(
    await decideEach(policy, [
      call('git.diff', { delegated_tools: ['git.diff'] }),
      call('git.log', { delegated_tools: ['git.diff'] }),
    ]),
    ['allow manifest:coder:tool.call:1', 'deny base:delegation'],
  );
});

test('malformed requests are denied', async () => {
  const network = { allow: ['github.com'] };
  const approvals = { required: ['network.external'] };
  const policy = makeTestPolicy({ coder: { filesystem: { read: ['/'] }, network, approvals } });
  const odd: Request[] = [
    file('file.read', '/srv/../etc/passwd'),
    file('file.read', '/srv//x'),
    { ...file('file.read', '/srv/x'), principal: 'agent:nobody' },
    { ...file('file.read', '/srv/x'), principal: 'nobody' },
    { ...file('file.read', '/srv/x'), principal: 'agent:constructor' },
    { ...file('file.read', '/srv/x'), context: {} },
    { ...file('file.read', '/srv/x'), context: { path: '/srv/x', pth: 'x' } },
    { ...file('file.read', '/srv/x'), context: { path: 5 } },
    { ...file('file.read', '/srv/x'), context: { path: '/srv/y' } },
    { ...net('github.com', 443), context: { host: 'other.org', port: 443, is_address: false } },
    { ...net('10.0.0.1', 443), context: { host: '10.0.0.1', port: 443, is_address: false } },
  ];
  assert.equal((await policy.decide(file('file.read', '/srv/x'))).answer, 'allow');
  for (const request of odd)
    assert.equal((await policy.decide(request)).answer, 'deny', JSON.stringify(request));
});

test('a forbid that cannot be evaluated forbids', async () => {
  const overflow = 'context.port + 9223372036854775807 > 0';
  const request = net('github.com', 443);
  const agents = { coder: { network: { allow: ['github.com'] } } };
  const site = (text: string) => makeTestPolicy(agents, { site: { '10-odd.cedar': text } });
  const forbids = site(
    `forbid (principal, action == Action::"net.connect", resource) when { ${overflow} };`,
  );
  assert.deepEqual(await decideEach(forbids, [request]), ['deny site:10-odd.cedar:1']);
  const permits = site(
    `permit (principal, action == Action::"net.connect", resource) when { ${overflow} };`,
  );
  assert.deepEqual(await decideEach(permits, [request, net('evil.org', 443)]), [
    'allow manifest:coder:net.connect:1',
    'deny',
  ]);
});

test('a rule expires at its @until, also for a request that was just decided', async () => {
  let now = Date.parse('2026-01-01T00:00:00Z');
  const policy = makeTestPolicy(
    { coder: {} },
    {
      nowMs: () => now,
      site: {
        '10-lent.cedar':
          '@until("2026-01-01T00:00:10Z") permit (principal, action == Action::"file.read", resource in Path::"/srv/lent");',
      },
    },
  );
  const request = file('file.read', '/srv/lent/x');
  assert.equal((await policy.decide(request)).answer, 'allow');
  now += 9_999;
  assert.equal((await policy.decide(request)).answer, 'allow');
  now += 1;
  assert.equal((await policy.decide(request)).answer, 'deny');
});

test('the strictest decision applies to a whole call', async () => {
  const policy = makeTestPolicy({ coder: { tools: { allow: ['file.read', 'prod.deploy'] } } });
  const all = (requests: Request[]) => policy.decideAll(requests);
  const fine = [call('file.read'), file('file.read', '/workspace/a')];
  assert.equal((await all(fine)).answer, 'allow');
  assert.deepEqual((await all(fine)).rules, [
    'manifest:coder:tool.call:1',
    'manifest:coder:file.read:1',
  ]);
  assert.equal((await all([...fine, call('prod.deploy')])).answer, 'ask');
  const denied = await all([...fine, call('prod.deploy'), file('file.read', '/etc/passwd')]);
  assert.deepEqual([denied.answer, denied.rules], ['deny', ['base:etc']]);
});
