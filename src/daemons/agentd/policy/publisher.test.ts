// Publishing policy: changes are in the next bundle, broken files are not, and a change can be
// simulated on recorded decisions.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { manualClock, systemClock } from '../../../platform/clock.ts';
import type { HandlerContext } from '../../../platform/dispatch.ts';
import { silentLog } from '../../../platform/log.ts';
import { readBundle } from '../../../policy/bundle-file.ts';
import { recordDecision } from '../../../policy/recorded.ts';
import type { policyRoutes } from '../../../wire/agentd/policy.ts';
import type { AuditEvent } from '../../../wire/events.ts';
import { followPolicyDir } from '../adapters/policy-dir.ts';
import { readManifest } from '../manifests/read-manifest.ts';
import { makePolicyHandlers } from './handlers.ts';
import { bundlePath, makePublisher, type RefusedBundle } from './publisher.ts';

type Routes = typeof policyRoutes;

function manifest(name: string, spec: object = {}) {
  const text = JSON.stringify({
    apiVersion: 'agentd/v1',
    kind: 'Agent',
    metadata: { name },
    spec,
  });
  const read = readManifest(text, `${name}.yaml`);
  assert.ok(read.ok, JSON.stringify(read));
  return { agent: read.agent, file: `${name}.yaml` };
}

function makeSite(t: TestContext) {
  const root = mkdtempSync(join(tmpdir(), 'agentd-policy-'));
  chmodSync(root, 0o700);
  const rulesDir = join(root, 'policies');
  mkdirSync(rulesDir);
  t.after(() => rmSync(root, { recursive: true, force: true }));
  const versions: number[] = [];
  const refusals: RefusedBundle[] = [];
  const open = () => {
    const dir = followPolicyDir(rulesDir, manualClock(0), () => {});
    t.after(() => dir.stop());
    return makePublisher({
      stateDir: root,
      people: null,
      protectedDirs: [root],
      readSite: dir.read,
      listToolSchemas: async () => undefined,
      clock: manualClock(Date.parse('2026-01-01T00:00:00Z')),
      log: silentLog,
      onPublished: async ({ version }) => void versions.push(version),
      onRefused: async (refused) => void refusals.push(refused),
    });
  };
  const write = (name: string, text: string) => {
    writeFileSync(join(rulesDir, name), text, { mode: 0o600 });
  };
  const read = () => {
    const found = readBundle(bundlePath(root));
    assert.ok(found.ok);
    return found.bundle;
  };
  return { root, rulesDir, versions, refusals, open, write, read };
}

const noDocs =
  'forbid (principal, action == Action::"file.read", resource in Path::"/srv/docs");\n';
const broken = 'permit (principal, action == Action::"file.reed", resource);\n';

test('a bundle is published when something changes, private, and not otherwise', async (t) => {
  const site = makeSite(t);
  const publisher = site.open();
  await publisher.setAgents([manifest('coder', { tools: { allow: ['git.read'] } })]);
  assert.equal(statSync(bundlePath(site.root)).mode & 0o777, 0o600);
  await publisher.setAgents([manifest('coder', { tools: { allow: ['git.read'] } })]);
  await publisher.rescan();
  assert.deepEqual(site.versions, [1]);
  site.write('10-docs.cedar', noDocs);
  await publisher.rescan();
  await publisher.setAgents([manifest('coder')]);
  assert.deepEqual(site.versions, [1, 2, 3]);
  assert.deepEqual(site.read().site, [{ file: '10-docs.cedar', text: noDocs }]);
  assert.deepEqual(Object.keys(site.read().agents), ['coder']);
  assert.equal(site.read().agents.coder?.tools, undefined, 'revoked with the manifest');
});

test('a broken file keeps its previous version, is reported with its line, and affects no other', async (t) => {
  const site = makeSite(t);
  const publisher = site.open();
  site.write('10-docs.cedar', noDocs);
  await publisher.setAgents([manifest('coder')]);
  site.write('10-docs.cedar', noDocs + broken);
  site.write('20-new.cedar', `// new\n${noDocs}`);
  await publisher.rescan();
  assert.deepEqual(
    site.read().site.map(({ file, text }) => [file, text]),
    [
      ['10-docs.cedar', noDocs],
      ['20-new.cedar', `// new\n${noDocs}`],
    ],
  );
  const [problem] = publisher.problems();
  assert.deepEqual([problem?.file, problem?.line], ['10-docs.cedar', 2]);
  assert.match(problem!.hint, /did you mean.*file\.read/i);
  assert.equal(site.refusals.length, 1);
  assert.match(site.refusals[0]!.first, /^10-docs\.cedar:2: /);
  await publisher.rescan();
  assert.equal(site.refusals.length, 1, 'the same problem is reported once');
  rmSync(join(site.rulesDir, '10-docs.cedar'));
  await publisher.rescan();
  assert.deepEqual(publisher.problems(), []);
  assert.deepEqual(
    site.read().site.map(({ file }) => file),
    ['20-new.cedar'],
  );
});

test('a file that broke before a restart keeps its published version', async (t) => {
  const site = makeSite(t);
  site.write('10-docs.cedar', noDocs);
  await site.open().setAgents([manifest('coder')]);
  site.write('10-docs.cedar', broken);
  const again = site.open();
  await again.setAgents([manifest('coder')]);
  assert.equal(site.read().site[0]?.text, noDocs);
  assert.equal(again.problems().length, 1);
});

test('refuses to start with a rule file that was never valid', async (t) => {
  const site = makeSite(t);
  site.write('10-docs.cedar', broken);
  await assert.rejects(site.open().setAgents([manifest('coder')]), { code: 'bad_config' });
});

test('a world-writable rule file is refused', async (t) => {
  const site = makeSite(t);
  const publisher = site.open();
  await publisher.setAgents([manifest('coder')]);
  site.write('10-docs.cedar', noDocs);
  chmodSync(join(site.rulesDir, '10-docs.cedar'), 0o666);
  await publisher.rescan();
  assert.deepEqual(site.read().site, []);
  assert.match(publisher.problems()[0]!.message, /any user/);
});

test('the directory is watched: a new file is reported', async (t) => {
  const site = makeSite(t);
  const changed = Promise.withResolvers<void>();
  const dir = followPolicyDir(site.rulesDir, systemClock(), changed.resolve);
  t.after(() => dir.stop());
  await dir.read();
  const late = setTimeout(() => changed.reject(new Error('not reported')), 10_000);
  site.write('10-docs.cedar', noDocs);
  await changed.promise;
  clearTimeout(late);
  assert.equal((await dir.read()).files.length, 1);
});

function event(seq: number, more: Partial<AuditEvent>): AuditEvent {
  return {
    id: `call_${seq}.attempted.1`,
    ts: `2026-01-01T00:00:0${seq}.000Z`,
    seq,
    event: 'tool.call.attempted',
    source: 'toold',
    source_store: 's',
    source_seq: seq + 1,
    agent: 'coder',
    tool: 'file.read',
    task_id: 'task_1',
    call_id: `call_${seq}`,
    ...more,
  } as AuditEvent;
}

const spec = { risk: 'low', reversibility: 'read-only', idempotent: true, level: 'L1' };
const reads = (path: string) =>
  recordDecision(
    { tool: { name: 'file.read', ...spec }, labels: [], touches: [{ action: 'file.read', path }] },
    { answer: 'allow', rules: ['manifest:coder:file.read:2'], reason: '', version: 1 },
  );

async function withPast(t: TestContext, events: AuditEvent[]) {
  const site = makeSite(t);
  const publisher = site.open();
  const tools = { allow: ['file.read'] };
  await publisher.setAgents([manifest('coder', { tools, filesystem: { read: ['/srv/docs'] } })]);
  return makePolicyHandlers({
    publisher,
    policiesDir: site.rulesDir,
    clock: manualClock(0),
    listToolSchemas: async () => undefined,
    readManifest: async (text, file) => readManifest(text, file),
    audit: {
      events: async ({ query }) => ({
        events: events.filter((entry) => entry.event === query?.event).toReversed(),
        cursor: null,
      }),
    },
    toold: {
      getCall: async () => {
        throw new Error('unexpected call');
      },
    },
  });
}

const request = <R extends keyof Routes>(more: object) =>
  more as unknown as HandlerContext<Routes[R]>;

test('a simulation reports each recorded decision that would change', async (t) => {
  const handlers = await withPast(t, [
    event(1, reads('/srv/docs/a')),
    event(2, reads('/usr/share/b')),
    event(3, { ...reads('/srv/docs/a'), call_id: 'call_1', id: 'call_1.attempted.2' }),
    event(4, { policy: 'toold:known', data: {} }),
    event(5, { ...reads('/srv/docs/c'), ts: '2025-01-01T00:00:00.000Z' }),
  ]);
  const body = {
    files: [{ name: '10-docs.cedar', text: noDocs }],
    since: '2026-01-01T00:00:00Z',
  };
  const response = await handlers.simulatePolicy(request<'simulatePolicy'>({ body }));
  assert.ok('simulation' in response);
  const { simulation } = response;
  assert.equal(simulation.decisions, 2);
  assert.deepEqual(
    simulation.changes.map(({ event: id, recorded, today, changed }) => [
      id,
      recorded.answer,
      today.answer,
      changed.answer,
      changed.rules,
    ]),
    [['call_1.attempted.1', 'allow', 'allow', 'deny', ['site:10-docs.cedar:1']]],
  );
});

test('an invalid file is not simulated', async (t) => {
  const handlers = await withPast(t, []);
  const body = { files: [{ name: '10-docs.cedar', text: broken }] };
  await assert.rejects(async () => handlers.simulatePolicy(request<'simulatePolicy'>({ body })), {
    code: 'bad_request',
  });
});

test('check reports problems of rules and manifests; show lists every rule and the box', async (t) => {
  const handlers = await withPast(t, []);
  const files = [
    { name: '10-docs.cedar', text: broken },
    { name: 'odd.yaml', text: 'apiVersion: agentd/v1\nkind: Agent\nmetadta: { name: odd }\n' },
  ];
  const { check } = (await handlers.checkPolicy(request<'checkPolicy'>({ body: { files } }))) as {
    check: { problems: { file: string; line: number | null }[] };
  };
  const where = check.problems.map(({ file, line }) => `${file}:${line}`);
  assert.ok(where.includes('10-docs.cedar:1'), where.join());
  assert.ok(where.includes('odd.yaml:3'), where.join());
  const shown = (await handlers.showPolicy(
    request<'showPolicy'>({ params: { name: 'coder' } }),
  )) as {
    rules: { id: string; text: string }[];
    box: { read: string[] };
  };
  const own = shown.rules.find(({ id }) => id === 'manifest:coder:file.read:2');
  assert.match(own!.text, /Path::"\/srv\/docs"/);
  assert.ok(shown.box.read.includes('/srv/docs'));
  await assert.rejects(
    async () => handlers.showPolicy(request<'showPolicy'>({ params: { name: 'missing' } })),
    { code: 'not_found' },
  );
});
