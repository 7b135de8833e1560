// What is allowed, asked for and denied, and by which rule.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Policy } from './decide.ts';
import type { Request } from './request.ts';
import { call, file, net, policyOf } from './testing/rights.ts';

async function answers(policy: Policy, requests: readonly Request[]): Promise<string[]> {
  const found = await Promise.all(requests.map((one) => policy.decide(one)));
  return found.map(({ answer, rules }) => [answer, ...rules].join(' '));
}

test("[R199] [R200] [R201] [R318] a manifest's lists become rules with readable names", async () => {
  const policy = policyOf({
    coder: {
      tools: { allow: ['git.read', 'file.write_workspace'], deny: ['git.log'] },
      filesystem: { read: ['/srv/docs/'], write: ['/srv/workspaces/app'], deny: ['/srv/docs/x'] },
    },
  });
  assert.deepEqual(
    await answers(policy, [
      call('git.diff'),
      call('git.log'),
      call('git.commit'),
      file('file.write', '/workspace/src/a.ts'),
      file('file.read', '/srv/docs/a'),
      file('file.read', '/srv/docs2/a'),
      file('file.write', '/srv/docs/a'),
      file('file.read', '/srv/docs/x/y'),
      file('file.delete', '/srv/workspaces/app/y'),
    ]),
    [
      'allow manifest:coder:tool.call:1',
      'deny manifest:coder:tool.call:3',
      'deny',
      'allow manifest:coder:file.write:1',
      'allow manifest:coder:file.read:2',
      'deny',
      'deny',
      'deny manifest:coder:file.deny:1',
      'allow manifest:coder:file.write:2',
    ],
  );
});

test('[R185] [R186] /etc and the homes of others are never for agents, whatever a manifest says', async () => {
  const policy = policyOf({
    coder: { filesystem: { read: ['/etc', '/home', '/'], write: ['/home/other', '/proc/self'] } },
  });
  assert.deepEqual(
    await answers(policy, [
      file('file.read', '/etc/passwd'),
      file('file.read', '/home/other/.ssh/id'),
      file('file.write', '/home/other/x'),
      file('file.write', '/home/coder/x'),
      file('file.read', '/proc/self/environ'),
    ]),
    [
      'deny base:etc',
      'deny manifest:coder:file.deny:1',
      'deny manifest:coder:file.deny:1',
      'allow manifest:coder:home:1',
      'deny base:proc',
    ],
  );
});

test("the runtime's own directories stay closed inside what an agent may read", async () => {
  const policy = policyOf(
    { coder: { filesystem: { write: ['/srv'] } } },
    { protected: ['/srv/agentd'] },
  );
  assert.deepEqual(
    await answers(policy, [
      file('file.write', '/srv/x'),
      file('file.read', '/srv/agentd/operator.key'),
    ]),
    ['allow manifest:coder:file.write:1', 'deny base:runtime:1'],
  );
});

test('[R202] [R203] [R320] hosts: listed ones on their ports, the rest denied or asked for, addresses never', async () => {
  const network = {
    mode: 'restricted' as const,
    allow: ['github.com', '*.mirror.example', 'r.local:5000'],
  };
  const listed = policyOf({ coder: { network } });
  const requests = [
    net('github.com', 443),
    net('github.com', 22),
    net('a.mirror.example', 443),
    net('mirror.example', 443),
    net('r.local', 5000),
    net('10.0.0.1', 443),
    net('GitHub.com', 443),
  ];
  assert.deepEqual(
    (await answers(listed, requests)).map((one) => one.split(' ')[0]),
    ['allow', 'deny', 'allow', 'deny', 'allow', 'deny', 'deny'],
  );
  const asking = policyOf({ coder: { network, approvals: { required: ['network.external'] } } });
  assert.deepEqual(
    (await answers(asking, requests)).map((one) => one.split(' ')[0]),
    ['allow', 'ask', 'allow', 'ask', 'allow', 'deny', 'deny'],
  );
  const none = policyOf({ coder: { network: { ...network, mode: 'none' } } });
  assert.ok((await answers(none, requests)).every((one) => one.startsWith('deny')));
  const address = policyOf({ coder: { network: { allow: ['10.0.0.1'] } } });
  assert.deepEqual(await answers(address, [net('10.0.0.1', 443), net('10.0.0.2', 443)]), [
    'allow manifest:coder:net.connect:1',
    'deny',
  ]);
});

test('[R116] [R117] [R118] [R120] [R207] what needs a person is asked for, with the reason', async () => {
  const policy = policyOf({
    coder: {
      tools: { allow: ['production.change', 'email.send_external', 'tests.run', 'secrets.read'] },
      approvals: { required: ['tests.run', 'git.read'] },
    },
  });
  assert.deepEqual(
    await answers(policy, [
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
  const policy = policyOf({
    coder: {
      tools: { allow: ['http.fetch', 'test.tools', 'git.write_branch'] },
      network: { allow: ['github.com'] },
    },
  });
  const labels = ['outside'];
  const irreversible = { reversibility: 'irreversible' };
  assert.deepEqual(
    await answers(policy, [
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
      'allow manifest:coder:net.connect:1',
      'ask base:outside-sends',
      'ask base:outside-sends',
      'allow manifest:coder:net.connect:1',
    ],
  );
});

test('every subject of policy has its action', async () => {
  const policy = policyOf({
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
  const message = { message_type: 'TaskUpdate', in_thread: false };
  assert.deepEqual(
    await answers(policy, [
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
      on('message.send', 'Agent', 'tester', { ...message, in_thread: true }),
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
      'deny',
      'allow manifest:coder:message.send:1',
      'deny',
      'allow base:thread',
      'deny',
      'allow base:people',
    ],
  );
});

const decideApproval = (principal: string): Request => ({
  principal,
  action: 'approval.decide',
  resource: { type: 'Approval', id: 'approval_1' },
  context: {
    ...{ agent: 'coder', tool: 'prod.deploy', class: 'prod.deploy', risk: 'high' },
    ...{ reversibility: 'irreversible', decision: 'approve', reach: 'once' },
  },
});

test('who may answer an approval is policy: roles when people are named, else any person', async () => {
  const open = policyOf({ coder: {} });
  const named = policyOf(
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
    await answers(
      named,
      ['alice', 'bob', 'eve', 'mallory'].map((one) => decideApproval(`person:${one}`)),
    ),
    [
      'deny site:10-deploys.cedar:1',
      'deny site:10-deploys.cedar:1',
      'allow base:admins',
      'deny site:10-deploys.cedar:1',
    ],
  );
});

test('[R181] [R182] [R183] [R184] [R187] the filesystem table of the specification holds', async () => {
  const own = (principal: string, path: string, action: Request['action']) => ({
    ...{ ...file(action, path), principal: `agent:${principal}` },
  });
  const policy = policyOf({
    researcher: { filesystem: { read: ['/srv/docs'] } },
    coder: { filesystem: { read: ['/srv/repos/app'], write: ['/srv/workspaces/app'] } },
    'ops-agent': { tools: { allow: ['logs.read'] }, filesystem: { read: ['/var/log/app'] } },
    deployer: { tools: { allow: ['prod.deploy'] }, filesystem: { deny: ['/srv/prod'] } },
  });
  const may = async (request: Request) => (await policy.decide(request)).answer;
  const table: [string, string, string, string][] = [
    ['researcher', '/srv/docs', 'allow', 'deny'],
    ['coder', '/srv/repos/app', 'allow', 'deny'],
    ['coder', '/srv/workspaces/app', 'allow', 'allow'],
    ['ops-agent', '/var/log/app', 'allow', 'deny'],
    ['researcher', '/srv/repos/app', 'deny', 'deny'],
    ['deployer', '/srv/prod', 'deny', 'deny'],
  ];
  for (const [agent, dir, read, write] of table) {
    assert.equal(await may(own(agent, `${dir}/x`, 'file.read')), read, `${agent} ${dir}`);
    assert.equal(await may(own(agent, `${dir}/x`, 'file.write')), write, `${agent} ${dir}`);
  }
  assert.equal(await may({ ...call('prod.deploy'), principal: 'agent:deployer' }), 'ask');
});

test('[R175-R180] each group brings its capability and no other', async () => {
  const groups: [string, string][] = [
    ['agent-read-docs', 'file.read'],
    ['agent-write-workspace', 'file.write'],
    ['agent-run-tests', 'tests.run'],
    ['agent-read-logs', 'logs.read'],
    ['agent-deploy-staging', 'staging.deploy'],
    ['agent-deploy-prod', 'prod.deploy'],
  ];
  const tools = groups.map(([, tool]) => tool).filter((tool) => tool !== 'file.read');
  for (const [group, own] of groups) {
    const policy = policyOf({ coder: { groups: [group] } });
    assert.notEqual((await policy.decide(call(own))).answer, 'deny', group);
    for (const other of tools)
      if (other !== own) assert.equal((await policy.decide(call(other))).answer, 'deny', other);
  }
});

test('groups bring capabilities, and rules of the site can refer to them', async () => {
  const policy = policyOf(
    { coder: { groups: ['agent-run-tests', 'ours'] }, other: {} },
    {
      site: {
        '10-docs.cedar':
          'permit (principal in Group::"ours", action == Action::"file.read", resource in Path::"/srv/docs");',
      },
    },
  );
  assert.deepEqual(
    await answers(policy, [
      call('tests.run'),
      file('file.read', '/srv/docs/a'),
      { ...file('file.read', '/srv/docs/a'), principal: 'agent:other' },
    ]),
    ['allow manifest:coder:tool.call:1', 'allow site:10-docs.cedar:1', 'deny'],
  );
});

test('a delegation that left a tool out is looked at too', async () => {
  const policy = policyOf({ coder: { tools: { allow: ['git.read'] } } });
  assert.deepEqual(
    await answers(policy, [
      call('git.diff', { delegated_tools: ['git.diff'] }),
      call('git.log', { delegated_tools: ['git.diff'] }),
    ]),
    ['allow manifest:coder:tool.call:1', 'deny base:delegation'],
  );
});

test('what cannot be understood is denied', async () => {
  const policy = policyOf({ coder: { filesystem: { read: ['/'] } } });
  const odd: Request[] = [
    file('file.read', '/srv/../etc/passwd'),
    file('file.read', '/srv//x'),
    { ...file('file.read', '/srv/x'), principal: 'agent:nobody' },
    { ...file('file.read', '/srv/x'), principal: 'nobody' },
    { ...file('file.read', '/srv/x'), principal: 'agent:constructor' },
    { ...file('file.read', '/srv/x'), context: {} },
    { ...file('file.read', '/srv/x'), context: { path: '/srv/x', pth: 'x' } },
    { ...file('file.read', '/srv/x'), context: { path: 5 } },
  ];
  assert.equal((await policy.decide(file('file.read', '/srv/x'))).answer, 'allow');
  for (const request of odd)
    assert.equal((await policy.decide(request)).answer, 'deny', JSON.stringify(request));
});

test('a rule that forbids and cannot be evaluated forbids', async () => {
  const overflow = 'context.port + 9223372036854775807 > 0';
  const request = net('github.com', 443);
  const agents = { coder: { network: { allow: ['github.com'] } } };
  const site = (text: string) => policyOf(agents, { site: { '10-odd.cedar': text } });
  const forbids = site(
    `forbid (principal, action == Action::"net.connect", resource) when { ${overflow} };`,
  );
  assert.deepEqual(await answers(forbids, [request]), ['deny site:10-odd.cedar:1']);
  const permits = site(
    `permit (principal, action == Action::"net.connect", resource) when { ${overflow} };`,
  );
  assert.deepEqual(await answers(permits, [request, net('evil.org', 443)]), [
    'allow manifest:coder:net.connect:1',
    'deny',
  ]);
});

test('a rule ends at the moment it names, also for a question that was just asked', async () => {
  let now = Date.parse('2026-01-01T00:00:00Z');
  const policy = policyOf(
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

test('the strictest answer of a whole call holds', async () => {
  const policy = policyOf({ coder: { tools: { allow: ['file.read', 'prod.deploy'] } } });
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
