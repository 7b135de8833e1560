// A manifest's lists, groups and hosts, as decisions.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Request } from './request.ts';
import { call, decideEach, file, makeTestPolicy, net } from './testing/rights.ts';

test("[R199] [R200] [R201] [R318] a manifest's lists become rules with readable names", async () => {
  const policy = makeTestPolicy({
    coder: {
      tools: { allow: ['git.read', 'file.write_workspace'], deny: ['git.log'] },
      filesystem: { read: ['/srv/docs/'], write: ['/srv/workspaces/app'], deny: ['/srv/docs/x'] },
    },
  });
  assert.deepEqual(
    await decideEach(policy, [
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

test("[R185] [R186] /etc and other users' homes are never open to agents, whatever a manifest says", async () => {
  const policy = makeTestPolicy({
    coder: { filesystem: { read: ['/etc', '/home', '/'], write: ['/home/other', '/proc/self'] } },
  });
  assert.deepEqual(
    await decideEach(policy, [
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

test('[R202] [R203] [R313] [R320] hosts: listed ones on their ports, the rest denied or asked about, addresses never', async () => {
  const network = {
    mode: 'restricted' as const,
    allow: ['github.com', '*.mirror.example', 'r.local:5000'],
  };
  const listed = makeTestPolicy({ coder: { network } });
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
    (await decideEach(listed, requests)).map((decision) => decision.split(' ')[0]),
    ['allow', 'deny', 'allow', 'deny', 'allow', 'deny', 'deny'],
  );
  const asking = makeTestPolicy({
    coder: { network, approvals: { required: ['network.external'] } },
  });
  assert.deepEqual(
    (await decideEach(asking, requests)).map((decision) => decision.split(' ')[0]),
    ['allow', 'ask', 'allow', 'ask', 'allow', 'deny', 'deny'],
  );
  const none = makeTestPolicy({ coder: { network: { ...network, mode: 'none' } } });
  assert.ok((await decideEach(none, requests)).every((text) => text.startsWith('deny')));
  const address = makeTestPolicy({ coder: { network: { allow: ['10.0.0.1'] } } });
  assert.deepEqual(await decideEach(address, [net('10.0.0.1', 443), net('10.0.0.2', 443)]), [
    'allow manifest:coder:net.connect:1',
    'deny',
  ]);
});

test('[R207] the approvals of the example manifest: a whole tree, a host beyond the list, production', async () => {
  const tools = { allow: ['delete.recursive', 'http.fetch', 'production.change', 'git.read'] };
  const required = ['delete.recursive', 'network.external', 'production.change'];
  const network = { allow: ['github.com'] };
  const requests = [
    call('delete.recursive'),
    net('docs.org', 443),
    call('prod.deploy'),
    call('prod.write'),
    call('git.diff'),
    net('github.com', 443),
  ];
  const asking = makeTestPolicy({ coder: { tools, network, approvals: { required } } });
  assert.deepEqual(await decideEach(asking, requests), [
    'ask base:delete-recursive-tool manifest:coder:approval:1',
    'ask manifest:coder:net.connect:3',
    'ask base:production manifest:coder:approval:2',
    'ask base:production manifest:coder:approval:2',
    'allow manifest:coder:tool.call:4',
    'allow manifest:coder:net.connect:1 manifest:coder:net.connect:2',
  ]);
  const control = makeTestPolicy({ coder: { tools, network } });
  assert.deepEqual(await decideEach(control, [requests[0]!, requests[1]!]), [
    'ask base:delete-recursive-tool',
    'deny',
  ]);
});

test('[R181] [R182] [R183] [R184] [R187] the filesystem table of the specification is enforced', async () => {
  const own = (principal: string, path: string, action: Request['action']) => ({
    ...file(action, path),
    principal: `agent:${principal}`,
  });
  const policy = makeTestPolicy({
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

test('each group adds its capability and no other', async () => {
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
    const policy = makeTestPolicy({ coder: { groups: [group] } });
    assert.notEqual((await policy.decide(call(own))).answer, 'deny', group);
    for (const other of tools)
      if (other !== own) assert.equal((await policy.decide(call(other))).answer, 'deny', other);
  }
});

test('groups add capabilities, and site rules can refer to them', async () => {
  const policy = makeTestPolicy(
    { coder: { groups: ['agent-run-tests', 'ours'] }, other: {} },
    {
      site: {
        '10-docs.cedar':
          'permit (principal in Group::"ours", action == Action::"file.read", resource in Path::"/srv/docs");',
      },
    },
  );
  assert.deepEqual(
    await decideEach(policy, [
      call('tests.run'),
      file('file.read', '/srv/docs/a'),
      { ...file('file.read', '/srv/docs/a'), principal: 'agent:other' },
    ]),
    ['allow manifest:coder:tool.call:1', 'allow site:10-docs.cedar:1', 'deny'],
  );
});
