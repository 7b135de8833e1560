// agentctl memory, through the whole program: what it sends, and what it prints.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { ArtifactView } from '../../../wire/agentd.ts';
import type { MemorySnapshot, MemoryView, RecalledMemory } from '../../../wire/memoryd/records.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, event, id } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
const dir = mkdtempSync(join(tmpdir(), 'actl-memory-'));
after(async () => {
  rmSync(dir, { recursive: true });
  await fake.stop();
});
const run = (...args: string[]) => agentctl(args, { state: fake.stateDir });
const lastBody = () => fake.seen.at(-1)!.body as Record<string, unknown>;

const memory = (more: Partial<MemoryView> = {}): MemoryView => ({
  id: id('memory', 1),
  class: 'semantic',
  scope: 'project:app',
  status: 'active',
  version: 1,
  text: 'Herons eat fish.\u202e',
  occurred_at: null,
  speaker: null,
  ref: null,
  thread: null,
  seq: null,
  caption: null,
  valid_from: null,
  valid_to: null,
  importance: null,
  labels: ['person'],
  size_bytes: 16,
  recorded_at: at(0),
  ended_at: null,
  by: 'person:alice',
  run_id: null,
  task_id: null,
  root_task_id: null,
  call_id: null,
  links: [],
  created_at: at(0),
  expires_at: null,
  used_by: [],
  ...more,
});
const recalled: RecalledMemory = {
  id: id('memory', 1),
  class: 'semantic',
  scope: 'project:app',
  text: 'Herons eat fish.',
  ref: 'D1:3',
  labels: ['person', 'outside'],
  score: 2.5,
  occurred_at: '2026-06-01T09:00:00.000Z',
  speaker: 'Ann',
  thread: null,
  seq: null,
  caption: null,
  version: 1,
  recorded_at: at(0),
  words: ['heron'],
  reasons: { own: 2, neighbours: 0, conversation: 0.5, length: 0.9 },
};

test('memory remember sends what was said about the text, and prints the id', async () => {
  fake.script({ memoryd: { remember: async () => ({ memory: memory(), memories: [memory()] }) } });
  const about = [
    '--class',
    'episodic',
    '--speaker',
    'Ann',
    '--importance',
    '50',
    '--mark',
    'outside',
  ];
  const more = ['--valid-from', '2026-01-01', '--replaces', id('memory', 2)];
  const ran = await run('memory', 'remember', 'project:app', 'Herons eat fish.', ...about, ...more);
  assert.equal(ran.stdout, `${id('memory', 1)}\n`);
  assert.deepEqual(lastBody(), {
    class: 'episodic',
    scope: 'project:app',
    text: 'Herons eat fish.',
    speaker: 'Ann',
    importance: 0.5,
    labels: ['outside'],
    valid_from: '2026-01-01T00:00:00.000Z',
    supersedes: [id('memory', 2)],
  });
});

test('memory remember says that a proposal waits for a person', async () => {
  const proposed = memory({ status: 'proposed' });
  fake.script({ memoryd: { remember: async () => ({ memory: proposed, memories: [proposed] }) } });
  assert.match((await run('memory', 'remember', 'team', 'x')).stdout, /memory approve memory_/);
});

test('memory search prints what was found, its origin, marks and score', async () => {
  fake.script({ memoryd: { recall: async () => ({ memories: [recalled] }) } });
  const more = ['--scope', 'team', '--as-of', '2026-06-30', '--max-tokens', '50', '--explain'];
  const { stdout } = await run('memory', 'search', 'coder', 'herons', ...more);
  assert.match(
    stdout,
    /project:app {2}2026-06-01T09:00:00Z {2}Ann {2}D1:3 {2}score 2\.50 {2}outside/,
  );
  assert.match(stdout, /Herons eat fish\./);
  assert.match(stdout, /\(own 2\.00 \+ conversation 0\.50\) × length 0\.90 {2}words: heron/);
  assert.deepEqual(lastBody(), {
    agent: 'coder',
    query: 'herons',
    limit: 10,
    scopes: ['team'],
    as_of: '2026-06-30T00:00:00.000Z',
    max_tokens: 50,
    explain: true,
  });
  fake.script({ memoryd: { recall: async () => ({ memories: [] }) } });
  assert.equal((await run('memory', 'search', 'coder', 'x')).stdout, 'No memories.\n');
});

test('memory show escapes what cannot be seen, and names what came of it', async () => {
  const used_by = [
    { kind: 'supersedes' as const, id: id<MemoryView['id']>('memory', 2), version: 1 },
  ];
  fake.script({ memoryd: { getMemory: async () => ({ memory: memory({ used_by }) }) } });
  const { stdout } = await run('memory', 'show', id('memory', 1));
  assert.match(stdout, /used by +supersedes memory_/);
  assert.match(stdout, /Herons eat fish\.\\u\{202e\}/);
  const forgotten = memory({ text: null, status: 'forgotten' });
  fake.script({ memoryd: { getMemory: async () => ({ memory: forgotten }) } });
  assert.match((await run('memory', 'show', id('memory', 1))).stdout, /\[forgotten\]/);
});

test('memory rebuild names damaged lines', async () => {
  const problems = [{ day: '2026-06-29', line: 3 }];
  fake.script({ memoryd: { rebuildMemory: async () => ({ applied: 2, problems }) } });
  const { stdout } = await run('memory', 'rebuild');
  assert.match(stdout, /^Applied 2 operations of the journal\.$/m);
  assert.match(stdout, /journals\/2026-06-29\.jsonl:3 is damaged/);
});

const one =
  (more: Partial<MemoryView> = {}) =>
  async () => ({ memory: memory(more) });
const ID = id<MemoryView['id']>('memory', 1);
const decided =
  (...memories: (MemoryView | null)[]) =>
  async () => ({
    decided: memories.map((each, i) => ({
      id: id<MemoryView['id']>('memory', i + 1),
      memory: each,
      error: each === null ? { code: 'denied', message: 'a rule forbids it', hint: 'Ask.' } : null,
    })),
  });

test('memory edit, approve, reject, merge, summarize and propose print what came of it', async () => {
  const proposed = memory({ status: 'proposed' });
  fake.script({
    memoryd: {
      editMemory: one({ version: 2 }),
      approveMemories: decided(memory()),
      rejectMemories: decided(memory({ status: 'rejected' })),
      merge: one(),
      summarize: one(),
      proposeMemory: async () => ({ memory: proposed, memories: [proposed] }),
    },
  });
  assert.equal((await run('memory', 'edit', ID)).code, 2, 'nothing to change');
  assert.match((await run('memory', 'edit', ID, 'New.', '--vouch')).stdout, /has version 2/);
  assert.deepEqual(lastBody(), { text: 'New.', vouch: true });
  assert.match((await run('memory', 'approve', ID)).stdout, /recalled in project:app/);
  assert.match((await run('memory', 'reject', ID)).stdout, /nobody recalls it/);
  assert.equal((await run('memory', 'merge', 'Both.', ID, ID)).stdout, `${ID}\n`);
  assert.deepEqual(lastBody(), { ids: [ID, ID], text: 'Both.' });
  assert.equal((await run('memory', 'summarize', 'x', ID, '--scope', 'team')).stdout, `${ID}\n`);
  assert.match((await run('memory', 'propose', 'team', 'x')).stdout, /memory approve memory_/);
});

test('memory approve decides several, and ends with the error of the first that it cannot', async () => {
  const two = id<MemoryView['id']>('memory', 2);
  fake.script({ memoryd: { approveMemories: decided(memory(), null) } });
  const some = await run('memory', 'approve', ID, two);
  assert.equal(some.code, 3);
  assert.match(
    some.stdout,
    /^memory_\w+ {2}Approved; .*\nmemory_\w+ {2}not decided: a rule forbids/,
  );
  assert.match(some.stderr, /1 of 2 were not decided/);
  assert.deepEqual(lastBody(), { ids: [ID, two] });
  fake.script({ memoryd: { approveMemories: decided(null) } });
  const none = await run('memory', 'approve', ID);
  assert.deepEqual([none.code, none.stdout], [3, '']);
  assert.match(none.stderr, /a rule forbids it/);
});

test('memory forget, expire, snapshot and rollback', async () => {
  const snapshot = {
    id: id<MemorySnapshot['id']>('memsnap', 1),
    name: 'before',
    scope: 'team',
    taken_at: at(0),
    by: 'person:alice' as const,
  };
  fake.script({
    memoryd: {
      forget: async () => ({ memories: [memory()] }),
      expire: async () => ({ memories: [memory()] }),
      takeMemorySnapshot: async () => ({ snapshot }),
      listMemorySnapshots: async () => ({ snapshots: [snapshot], cursor: null }),
      rollBackMemory: async () => ({ changed: 2 }),
    },
  });
  assert.match((await run('memory', 'forget', ID, ID)).stdout, /Forgot 2 memories/);
  assert.match((await run('memory', 'expire', ID)).stdout, /Expired 1 memory/);
  assert.match((await run('memory', 'expire', ID, '--at', '30d')).stdout, /will expire at 20/);
  assert.match(
    (await run('memory', 'snapshot', 'team', '--name', 'before')).stdout,
    /rollback memsnap_/,
  );
  assert.match((await run('memory', 'snapshot')).stdout, /team +before/);
  assert.match((await run('memory', 'rollback', snapshot.id)).stdout, /Took back 2 memories/);
  assert.deepEqual(lastBody(), { snapshot_id: snapshot.id });
  assert.equal((await run('memory', 'rollback', ID)).code, 2);
  await run('memory', 'rollback', ID, '--version', '1');
  assert.deepEqual(lastBody(), { id: ID, version: 1 });
});

test('memory list and history print one line each, and every version', async () => {
  const { text, labels, ...rest } = memory();
  const version = { ...rest, text, labels };
  fake.script({
    memoryd: {
      listMemories: async () => ({ memories: [memory()], cursor: 'memory_next' }),
      memoryHistory: async () => ({ versions: [version] }),
    },
  });
  const listed = (await run('memory', 'list', '--status', 'proposed')).stdout;
  assert.match(listed, /active +semantic +project:app +Herons eat fish/);
  assert.match(listed, /More: --cursor memory_next/);
  assert.match((await run('memory', 'history', ID)).stdout, /version 1 {2}person:alice/);
});

test('memory list has the views artifact and audit, from those that keep them', async () => {
  const artifact: ArtifactView = {
    id: id<ArtifactView['id']>('artifact', 1),
    ref: `artifact://${id('artifact', 1)}`,
    name: 'notes.md',
    mime_type: 'text/markdown',
    size_bytes: 7,
    object_hash: 'a'.repeat(64),
    created_by: 'agent:coder',
    task_id: null,
    context_id: null,
    labels: [],
    created_at: at(0),
  };
  fake.script({
    agentd: {
      listArtifacts: async () => ({ artifacts: [artifact], cursor: null }),
    },
    'auditd-ai': {
      events: async () => ({ events: [event(1), event(2)], cursor: null }),
    },
  });
  fake.seen.length = 0;
  const artifacts = await run('memory', 'list', '--class', 'artifact', '--limit', '3');
  assert.match(artifacts.stdout, /artifact_\w+ +notes\.md +text\/markdown/);
  const log = await run('memory', 'list', '--class', 'audit', '--limit', '2');
  assert.equal(log.stdout.trim().split('\n').length, 2, log.stdout);
  assert.deepEqual(
    fake.seen.map(({ route, query }) => [route, (query as { limit?: number }).limit]),
    [
      ['listArtifacts', 3],
      ['events', 2],
    ],
  );
  const scoped = await run('memory', 'list', '--class', 'audit', '--scope', 'team');
  assert.equal(scoped.code, 2);
  assert.match(scoped.stderr, /the class audit has no scopes/);
  const written = await run('memory', 'remember', 'team', 'x', '--class', 'artifact');
  assert.equal(written.code, 2, 'a view is not written');
});

test('memory export writes lines that import reads, with their marks', async () => {
  const exported = memory({ text: 'Herons.', labels: ['person', 'outside'], ref: 'a.md:1' });
  fake.script({
    memoryd: {
      listMemories: async () => ({ memories: [exported], cursor: null }),
      remember: async () => ({ memory: exported, memories: [exported] }),
    },
  });
  const file = join(dir, 'out.jsonl');
  const line = { class: 'semantic', scope: 'project:app', text: 'Herons.', ref: 'a.md:1' };
  const { stdout } = await run('memory', 'export');
  assert.deepEqual(JSON.parse(stdout), { ...line, labels: ['outside'] });
  assert.match((await run('memory', 'export', '--out', file)).stdout, /1 memory written/);
  assert.match((await run('memory', 'export', '--markdown')).stdout, /- Herons\.$/m);
  assert.match((await run('memory', 'import', file)).stdout, /Imported 1 memory/);
  assert.deepEqual(lastBody(), { memories: [{ ...line, labels: ['outside'] }] });
  const key = fake.seen.at(-1)!.idempotencyKey;
  await run('memory', 'import', file);
  assert.equal(fake.seen.at(-1)!.idempotencyKey, key, 'the same lines have the same key');
});

test('memory import takes the items of Markdown, and names the line that is wrong', async () => {
  fake.script({
    memoryd: { remember: async () => ({ memory: memory(), memories: [memory(), memory()] }) },
  });
  const file = join(dir, 'MEMORY.md');
  writeFileSync(file, '# People\n\n- Ann leads.\n- Bob builds.\n');
  assert.equal((await run('memory', 'import', file)).code, 2, 'it needs a scope');
  const ran = await run('memory', 'import', file, '--scope', 'team', '--class', 'procedural');
  assert.match(ran.stdout, /Imported 2 memories/);
  const item = (text: string, line: number) => ({
    class: 'procedural',
    scope: 'team',
    text,
    ref: `MEMORY.md:${line}`,
  });
  assert.deepEqual(lastBody(), {
    memories: [item('People: Ann leads.', 3), item('People: Bob builds.', 4)],
  });
  const lines = join(dir, 'bad.jsonl');
  writeFileSync(lines, '{"text":"a"}\nnot json\n');
  const wrong = await run('memory', 'import', lines);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /bad\.jsonl:2 is not a JSON object/);
});
