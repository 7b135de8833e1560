// Every built-in rule has a request that it decides and a similar one that it does not, so that
// removing or widening a rule fails here.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readBaseText } from './cedar.ts';
import type { Action, PolicyContext, Request } from './request.ts';
import { call, decideEach, file, makeTestPolicy, net } from './testing/rights.ts';

const on = (
  action: Action,
  type: Request['resource']['type'],
  id: string,
  context: PolicyContext = {},
): Request => ({ principal: 'agent:coder', action, resource: { type, id }, context });
const scope = (action: Action, context: PolicyContext = {}): Request =>
  on(action, 'Scope', 'project:app', { scope: 'project:app', ...context });
const ofAlice = (action: Action, context: PolicyContext = {}): Request =>
  on(action, 'Scope', 'person:alice', { scope: 'person:alice', ...context });
const message = (to: 'Agent' | 'External', context: PolicyContext): Request =>
  on('message.send', to, 'x', { message_type: 'TaskUpdate', ...context });
const decision = (principal: string): Request => ({
  ...on('approval.decide', 'Approval', 'approval_1', {
    agent: 'coder',
    tool: 'a.b',
    class: 'a.b',
    risk: 'high',
    decision: 'approve',
    reversibility: 'irreversible',
    reach: 'once',
    channel: 'api',
  }),
  principal: `person:${principal}`,
});
const by = (principal: string, request: Request): Request => ({ ...request, principal });

const files = ['file.read', 'file.write', 'file.delete'] as const;
const outside = { labels: ['outside'] };
const irreversible = { reversibility: 'irreversible' };

type Row = { decides: Request[]; leaves: Request[] };

/** Without other permits: the requests these rules allow, and similar ones that stay denied. */
const ALLOWS: Record<string, Row> = {
  'basic-tools': { decides: [call('task.finish')], leaves: [call('file.read')] },
  ...Object.fromEntries(
    [
      ['system-files', '/usr'],
      ['system-bin', '/bin'],
      ['system-sbin', '/sbin'],
      ['system-lib', '/lib'],
      ['system-lib64', '/lib64'],
    ].map(([id, dir]): [string, Row] => [
      id!,
      {
        decides: [file('file.read', `${dir}/x`)],
        leaves: [file('file.write', `${dir}/x`), file('file.read', `${dir}x`)],
      },
    ]),
  ),
  scratch: {
    decides: files.map((action) => file(action, '/tmp/x')),
    leaves: files.map((action) => file(action, '/var/tmp/x')),
  },
  messages: {
    decides: [message('Agent', {})],
    leaves: [by('external:x', message('Agent', {}))],
  },
  'granted-host': {
    decides: [net('a.org', 443, { granted: true })],
    leaves: [net('a.org', 443), net('10.0.0.1', 443, { granted: true })],
  },
  'declared-path': {
    decides: files.map((action) => file(action, '/srv/x', { declared: true })),
    leaves: files.map((action) => file(action, '/srv/x', { declared: false })),
  },
  retention: {
    decides: (['data.retain', 'data.delete'] as const).map((action) =>
      by('service:agentd', scope(action, { age_days: 91 })),
    ),
    leaves: [by('service:toold', scope('data.delete'))],
  },
  people: {
    decides: [
      ...(['memory.read', 'memory.write', 'data.retain', 'data.delete'] as const).map((action) =>
        by('person:alice', scope(action)),
      ),
      by('person:alice', on('task.delegate', 'Agent', 'coder')),
      by('person:alice', message('Agent', {})),
    ],
    leaves: [decision('intern'), scope('memory.read')],
  },
  approvers: { decides: [decision('alice')], leaves: [decision('mallory')] },
  admins: { decides: [decision('eve')], leaves: [decision('intern')] },
};

const closed = (dir: string): Row => ({
  decides: files.map((action) => file(action, `${dir}/x`)),
  leaves: [...files.map((action) => file(action, `/srv${dir}/x`)), file('file.read', `${dir}x/y`)],
});

/** With a site that permits everything: the requests these rules deny or ask about, and others. */
const REFUSES: Record<string, Row> = {
  delegation: {
    decides: [call('git.log', { delegated_tools: ['git.diff'] })],
    leaves: [call('git.log', { delegated_tools: ['git.log'] }), call('git.log')],
  },
  'private-memory': {
    decides: (['memory.read', 'memory.write', 'data.delete'] as const).flatMap((action) =>
      ['agent:coder', 'person:alice'].flatMap((who) => [
        by(who, ofAlice(action)),
        by(who, ofAlice(action, { own: false })),
      ]),
    ),
    leaves: [
      by('person:alice', ofAlice('memory.read', { own: true })),
      ofAlice('memory.read', { own: true }),
      scope('memory.read'),
    ],
  },
  etc: closed('/etc'),
  'root-home': closed('/root'),
  boot: closed('/boot'),
  proc: closed('/proc'),
  sys: closed('/sys'),
  dev: closed('/dev'),
  run: closed('/run'),
};
const ASKS: Record<string, Row> = {
  production: { decides: [call('prod.deploy')], leaves: [call('git.commit')] },
  'send-email': { decides: [call('email.send_external')], leaves: [call('message.send')] },
  secrets: { decides: [call('secrets.read')], leaves: [call('file.read')] },
  'delete-recursive-tool': {
    decides: [call('delete.recursive')],
    leaves: [call('file.delete')],
  },
  'delete-recursive': {
    decides: [file('file.delete', '/srv/x', { recursive: true })],
    leaves: [file('file.delete', '/srv/x'), file('file.delete', '/srv/x', { recursive: false })],
  },
  irreversible: {
    decides: [call('a.b', { ...irreversible, risk: 'high' })],
    leaves: [
      call('a.b', { ...irreversible, risk: 'medium' }),
      call('a.b', { reversibility: 'externally-reversible', risk: 'high' }),
    ],
  },
  'sensitive-memory': {
    decides: ['secret', 'personal'].map((label) => scope('memory.write', { labels: [label] })),
    leaves: [scope('memory.write', { labels: ['tool'] })],
  },
  'agent-deletes-data': {
    decides: [scope('data.retain'), scope('data.delete')],
    leaves: [by('person:alice', scope('data.delete')), scope('memory.write')],
  },
  'changing-request': {
    decides: ['POST', 'PUT', 'PATCH', 'DELETE'].map((method) => net('a.org', 443, { method })),
    leaves: [
      net('a.org', 443),
      ...['GET', 'HEAD', 'CONNECT'].map((method) => net('a.org', 443, { method })),
    ],
  },
  'outside-irreversible': {
    decides: [call('a.b', { ...irreversible, ...outside })],
    leaves: [
      call('a.b', irreversible),
      call('a.b', outside),
      call('task.finish', { ...irreversible, ...outside }),
    ],
  },
  'outside-sends': {
    decides: [
      net('a.org', 443, outside),
      net('a.org', 443, { ...outside, method: 'POST' }),
      net('a.org', 443, { ...outside, method: 'CONNECT' }),
    ],
    leaves: [
      net('a.org', 443, { method: 'CONNECT' }),
      net('a.org', 443, { ...outside, method: 'GET' }),
      net('a.org', 443, { ...outside, method: 'HEAD' }),
    ],
  },
  'outside-message': {
    decides: [message('External', outside)],
    leaves: [message('External', {}), message('Agent', outside)],
  },
  'outside-memory': {
    decides: [scope('memory.write', outside)],
    leaves: [scope('memory.write'), scope('memory.read', outside)],
  },
};

const people = {
  alice: { roles: ['approver'] },
  eve: { roles: ['admin'] },
  intern: { roles: ['intern'] },
};
const site = { '10-all.cedar': 'permit (principal, action, resource);' };

const KINDS = [
  {
    what: 'allows',
    rows: ALLOWS,
    beside: 'deny',
    policy: makeTestPolicy({ coder: {} }, { people }),
  },
  {
    what: 'denies',
    rows: REFUSES,
    beside: 'allow',
    policy: makeTestPolicy({ coder: {} }, { site }),
  },
  { what: 'asks', rows: ASKS, beside: 'allow', policy: makeTestPolicy({ coder: {} }, { site }) },
] as const;

for (const { what, rows, beside, policy } of KINDS)
  for (const [id, { decides, leaves }] of Object.entries(rows))
    test(`base:${id} ${what} its own requests, and no similar one`, async () => {
      const word = { allows: 'allow', denies: 'deny', asks: 'ask' }[what];
      for (const [i, decision] of (await decideEach(policy, decides)).entries()) {
        const [answer, ...rules] = decision.split(' ');
        assert.equal(answer, word, JSON.stringify(decides[i]));
        assert.ok(rules.includes(`base:${id}`), `${decision}: ${JSON.stringify(decides[i])}`);
      }
      for (const [i, decision] of (await decideEach(policy, leaves)).entries()) {
        assert.equal(decision.split(' ')[0], beside, `${decision}: ${JSON.stringify(leaves[i])}`);
        assert.doesNotMatch(decision, new RegExp(`base:${id}\\b`));
      }
    });

test('every rule of base.cedar has a row here', () => {
  const written = [...readBaseText().matchAll(/^@id\("([^"]+)"\)/gm)].map(([, id]) => id);
  const shown = KINDS.flatMap(({ rows }) => Object.keys(rows));
  assert.deepEqual(shown.sort(), written.sort());
});
