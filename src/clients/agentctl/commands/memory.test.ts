// agentctl memory, through the whole program: what it sends, and what it prints.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { MemoryView, RecalledMemory } from '../../../wire/memoryd/records.ts';
import { type FakeRuntime, startFake } from '../testing/fake-runtime.ts';
import { at, id } from '../testing/fixtures.ts';
import { agentctl } from '../testing/run-agentctl.ts';

let fake: FakeRuntime;
before(async () => {
  fake = await startFake();
});
after(() => fake.stop());
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
