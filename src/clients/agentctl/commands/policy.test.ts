// agentctl policy through the whole program.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { agent as agentView, event, tool } from '../testing/fixtures.ts';
import { agentctl, documentOf } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
const dir = mkdtempSync(join(tmpdir(), 'actl-p-'));
const file = join(dir, '10-docs.cedar');
const text = 'forbid (principal, action == Action::"file.read", resource in Path::"/srv/docs");\n';
before(async () => {
  writeFileSync(file, text);
  fake = await startFake();
});
after(async () => {
  rmSync(dir, { recursive: true });
  await fake.stop();
});
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });

const rule = {
  id: 'site:10-docs.cedar:1',
  effect: 'forbid' as const,
  from: '10-docs.cedar:1',
  why: 'not yours',
  until: null,
  text: text.trim(),
};
const policy = {
  version: 4,
  hash: 'a'.repeat(64),
  made_at: '2026-01-01T00:00:00.000Z',
  policies_dir: '/p',
  site: [],
  agents: 1,
  people: null,
  problems: [],
};
const shown = {
  agent: 'coder',
  version: 4,
  groups: ['agent-run-tests'],
  rules: [rule],
  box: {
    read: ['/usr'],
    write: ['/workspace'],
    deny: ['/workspace/infra'],
    network: { mode: 'restricted' as const, allow: [{ host: 'github.com', port: 443 }] },
  },
};

test('check sends the file and prints each problem with its line; a good file exits 0', async () => {
  const files = [{ file: '10-docs.cedar', kind: 'policy' as const, rules: 1 }];
  const problem = { file: '10-docs.cedar', line: 3, message: 'odd', hint: 'Did you mean even?' };
  fake.script({
    agentd: { checkPolicy: async () => ({ check: { files, problems: [problem], warnings: [] } }) },
  });
  const bad = await run('policy', 'check', file);
  assert.equal(bad.code, 78);
  assert.match(bad.stdout, /10-docs\.cedar:3: odd\n +Did you mean even\?/);
  assert.deepEqual(fake.seen.at(-1)?.body, { files: [{ name: '10-docs.cedar', text }] });
  const checked = await run('policy', 'check', file, '--json');
  assert.equal(checked.code, 78);
  assert.deepEqual(documentOf<{ check: { problems: unknown } }>(checked).check.problems, [problem]);
  fake.script({
    agentd: { checkPolicy: async () => ({ check: { files, problems: [], warnings: [problem] } }) },
  });
  const good = await run('policy', 'check', file);
  assert.equal(good.code, 0);
  assert.match(good.stdout, /is valid: 1 rule/);
});

test("show lists an agent's rules and its box; --rules prints the Cedar source", async () => {
  const manifest = { spec: { tools: { allow: ['metrics.read', 'git.read'] } } };
  const tools = [tool('git.log', { capabilities: ['git.read'] })];
  fake.script({
    agentd: {
      showPolicy: async () => shown,
      getAgent: async () => ({ agent: agentView('coder'), manifest }),
    },
    toold: { listTools: async () => ({ tools }) },
  });
  const { stdout } = await run('policy', 'show', 'coder');
  for (const fragment of [
    'site:10-docs.cedar:1',
    '/workspace/infra',
    'github.com:443',
    'agent-run-tests',
    'metrics.read: no tool yet',
  ])
    assert.ok(stdout.includes(fragment), fragment);
  assert.doesNotMatch(stdout, /git\.read: no tool/);
  assert.ok((await run('policy', 'show', 'coder', '--rules')).stdout.includes(text.trim()));
  assert.deepEqual(documentOf(await run('policy', 'show', 'coder', '--json')), {
    policy: { ...shown, without_tool: ['metrics.read'] },
  });
});

test('explain prints the request, the decision and the rules behind it', async () => {
  const denied = event(7, {
    id: 'call_1.denied',
    event: 'tool.call.denied',
    allowed: false,
    agent: 'coder',
    policy: 'site:10-docs.cedar:1 site:gone.cedar:2',
    data: {
      answer: 'deny',
      policy_version: 3,
      touches: 1,
      touch_1: '["file.read","/srv/docs/a",false]',
    },
  });
  const proof = { index: 7, size: 8, root: '', hashes: [], checkpoint: '', vkey: '' };
  fake.script({
    agentd: { showPolicy: async () => shown, getPolicy: async () => ({ policy }) },
    'auditd-ai': { prove: async () => ({ ...proof, event: JSON.stringify(denied) }) },
  });
  const { stdout, code } = await run('policy', 'explain', 'call_1.denied');
  assert.equal(code, 0);
  for (const fragment of [
    'file.read /srv/docs/a',
    'deny',
    'not yours',
    'site:gone.cedar:2',
    'version 4',
  ])
    assert.ok(stdout.includes(fragment), fragment);
  const { explanation } = documentOf<{ explanation: { rules: unknown[]; answer: string } }>(
    await run('policy', 'explain', 'call_1.denied', '--json'),
  );
  assert.deepEqual(explanation.rules, [rule, { id: 'site:gone.cedar:2' }]);
});

test('explain of an event without a decision says so', async () => {
  const { policy: _, ...other } = event(8, { id: 'task_1.created', event: 'task.created' });
  const proof = { index: 7, size: 8, root: '', hashes: [], checkpoint: '', vkey: '' };
  fake.script({
    'auditd-ai': { prove: async () => ({ ...proof, event: JSON.stringify(other) }) },
  });
  const { stderr, code } = await run('policy', 'explain', 'task_1.created');
  assert.equal(code, 2);
  assert.match(stderr, /is not a decision/);
  const { policy: __, ...ended } = event(9, {
    id: 'call_1.ended',
    event: 'tool.call.ended',
    call_id: 'call_1',
    data: { attempt: 2 },
  });
  fake.script({
    'auditd-ai': { prove: async () => ({ ...proof, event: JSON.stringify(ended) }) },
  });
  const end = await run('policy', 'explain', 'call_1.ended');
  assert.match(end.stderr, /See its decision: agentctl policy explain call_1\.attempted\.2\n$/);
});

test('simulate lists every decision that would differ', async () => {
  const change = {
    event: 'call_1.attempted.1',
    ts: '2026-01-01T00:00:00.000Z',
    agent: 'coder',
    tool: 'file.read',
    task_id: 'task_1',
    touches: ['file.read /srv/docs/a'],
    recorded: { answer: 'allow' as const, rules: [] },
    today: { answer: 'allow' as const, rules: [] },
    changed: { answer: 'deny' as const, rules: ['site:10-docs.cedar:1'], reason: 'x' },
  };
  const simulation = {
    version: 4,
    since: null,
    decisions: 12,
    unreadable: 1,
    truncated: false,
    changes: [change],
  };
  fake.script({ agentd: { simulatePolicy: async () => ({ simulation }) } });
  const { stdout } = await run('policy', 'simulate', file, '--since', '2026-01-01');
  assert.match(stdout, /call_1\.attempted\.1/);
  assert.match(stdout, /1 decision of 12 would change/);
  assert.deepEqual(fake.seen.at(-1)?.body, {
    files: [{ name: '10-docs.cedar', text }],
    since: '2026-01-01T00:00:00.000Z',
  });
  assert.deepEqual(documentOf(await run('policy', 'simulate', file, '--json')), { simulation });
});
