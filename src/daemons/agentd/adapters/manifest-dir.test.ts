// The directory of manifests: reading, watching, and files that must not affect the others.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ManualClock, manualClock } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import { silentLog } from '../../../platform/log.ts';
import type { ManifestSet } from '../manifests/manifest-set.ts';
import { type ManifestDirOptions, openManifestDir } from './manifest-dir.ts';

const text = (name: string, more = '') =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata:\n  name: ${name}\nspec: {}\n${more}`;

async function makeFixture(
  t: TestContext,
  files: Record<string, string>,
  options: Partial<ManifestDirOptions> = {},
) {
  const root = mkdtempSync(join(tmpdir(), 'manifests-'));
  const dir = join(root, 'agents');
  mkdirSync(dir);
  const write = (name: string, content: string | Buffer) => writeFileSync(join(dir, name), content);
  for (const [name, content] of Object.entries(files)) write(name, content);
  const clock: ManualClock = manualClock(1_000_000);
  const sets: ManifestSet[] = [];
  const open = (more: Partial<ManifestDirOptions> = {}) =>
    openManifestDir({
      dir,
      clock,
      log: silentLog,
      onChange: (set) => void sets.push(set),
      ...options,
      ...more,
    });
  const manifests = await open();
  t.after(() => {
    manifests.close();
    rmSync(root, { recursive: true, force: true });
  });
  const names = (set = manifests.current()) => set.agents.map(({ agent }) => agent.name);
  const troubled = (set = manifests.current()) => set.problems.map(({ file }) => file);
  /** Advances the clock until the current set matches; the test's timeout is the only limit. */
  const until = async (matches: (set: ManifestSet) => boolean): Promise<void> => {
    while (!matches(manifests.current())) {
      await sleep(5, undefined, { signal: t.signal });
      clock.advance(100);
    }
  };
  return { root, dir, write, clock, sets, open, manifests, names, troubled, until };
}

test('each manifest is read, each broken one is reported with its line', async (t) => {
  const { manifests, names, dir } = await makeFixture(t, {
    'coder.yaml': text('coder'),
    'tester.yml': text('tester'),
    'broken.yaml': text('broken').replace('spec: {}', 'spec:\n  modell: x'),
    'notes.txt': 'hello',
    '.hidden.yaml': text('hidden'),
    'coder.yaml~': text('backup'),
  });
  assert.deepEqual(names(), ['coder', 'tester']);
  const { agents, problems } = manifests.current();
  assert.deepEqual(problems, [
    {
      file: join(dir, 'broken.yaml'),
      line: 6,
      message: 'unknown key spec.modell',
      hint: 'Did you mean model?',
    },
  ]);
  assert.equal(agents[0]!.file, join(dir, 'coder.yaml'));
  assert.equal(agents[0]!.agent.hash, sha256Hex(text('coder')));
});

test('a file that is not readable text is reported and affects no other', async (t) => {
  const fixture = await makeFixture(t, { 'good.yaml': text('good') });
  fixture.write('binary.yaml', Buffer.from([0xff, 0xfe, 0x00]));
  fixture.write('huge.yaml', `${text('huge')}# ${'x'.repeat(300_000)}`);
  mkdirSync(join(fixture.dir, 'folder.yaml'));
  symlinkSync('/nowhere/at/all', join(fixture.dir, 'link.yaml'));
  execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', join(fixture.dir, 'pipe.yaml')]);
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.names(), ['good']);
  const problems = fixture.manifests.current().problems.map(({ file, message }) => [file, message]);
  const expected: [string, RegExp][] = [
    ['binary.yaml', /not valid UTF-8/],
    ['folder.yaml', /not a regular file/],
    ['huge.yaml', /at most 262144/],
    ['link.yaml', /cannot be read/],
    ['pipe.yaml', /not a regular file/],
  ];
  assert.equal(problems.length, expected.length);
  for (const [i, [name, message]] of expected.entries()) {
    assert.equal(problems[i]![0], join(fixture.dir, name));
    assert.match(problems[i]![1]!, message);
  }
});

test('a link to a manifest is a manifest', async (t) => {
  const fixture = await makeFixture(t, {});
  writeFileSync(join(fixture.root, 'elsewhere'), text('linked'));
  symlinkSync(join(fixture.root, 'elsewhere'), join(fixture.dir, 'linked.yaml'));
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.names(), ['linked']);
});

test('changes are reported: added, changed, broken, repaired, removed', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a') }, { pollIntervalMs: 1e12 });
  const has = (name: string, content?: string) => (set: ManifestSet) => {
    const found = set.agents.find(({ agent }) => agent.name === name);
    if (content === undefined) return found === undefined;
    return found?.agent.hash === sha256Hex(content);
  };
  const isBroken = (set: ManifestSet) => set.problems.length > 0;

  fixture.write('b.yaml', text('b'));
  await fixture.until(has('b', text('b')));
  assert.deepEqual(fixture.names(), ['a', 'b']);

  fixture.write('a.yaml', text('a', '# changed\n'));
  await fixture.until(has('a', text('a', '# changed\n')));

  fixture.write('a.yaml', 'apiVersion: [\n');
  await fixture.until(isBroken);
  assert.ok(has('a', text('a', '# changed\n'))(fixture.manifests.current()));
  assert.deepEqual([...new Set(fixture.troubled())], [join(fixture.dir, 'a.yaml')]);

  fixture.write('a.yaml', text('a'));
  await fixture.until((set) => !isBroken(set));
  assert.ok(has('a', text('a'))(fixture.manifests.current()));

  // As editors save: a new file, renamed over the old one.
  fixture.write('.b.tmp', text('b', '# edited\n'));
  renameSync(join(fixture.dir, '.b.tmp'), join(fixture.dir, 'b.yaml'));
  await fixture.until(has('b', text('b', '# edited\n')));

  rmSync(join(fixture.dir, 'b.yaml'));
  await fixture.until(has('b'));
  assert.deepEqual(fixture.names(), ['a']);
  assert.equal(fixture.manifests.current(), fixture.sets.at(-1));
});

test('without a change nothing is reported, however often it scans', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a'), 'bad.yaml': 'x: 1\n' });
  for (let i = 0; i < 5; i++) {
    fixture.clock.advance(5_000);
    await fixture.manifests.rescan();
  }
  fixture.write('a.yaml', text('a'));
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.sets, []);
});

test('polling finds what watching missed', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a') }, { settleMs: 3_600_000 });
  fixture.write('a.yaml', text('a', '# more\n'));
  fixture.clock.advance(4_999);
  assert.equal(fixture.sets.length, 0);
  fixture.clock.advance(1);
  while (fixture.sets.length === 0) await sleep(5, undefined, { signal: t.signal });
  assert.equal(fixture.sets[0]!.agents[0]!.agent.hash, sha256Hex(text('a', '# more\n')));
});

test('a rescan finds a change that keeps size and time', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a', '# 1\n') }, { settleMs: 3_600_000 });
  const file = join(fixture.dir, 'a.yaml');
  const { atime, mtime } = statSync(file);
  fixture.write('a.yaml', text('a', '# 2\n'));
  utimesSync(file, atime, mtime);
  await fixture.manifests.rescan();
  assert.equal(fixture.manifests.current().agents[0]!.agent.hash, sha256Hex(text('a', '# 2\n')));
});

test('a removed directory changes nothing; when recreated it is watched again', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a') });
  renameSync(fixture.dir, `${fixture.dir}.away`);
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.names(), ['a']);
  assert.deepEqual(fixture.troubled(), [fixture.dir]);
  mkdirSync(fixture.dir);
  fixture.write('a.yaml', text('a'));
  fixture.write('b.yaml', text('b'));
  await fixture.until(({ agents, problems }) => agents.length === 2 && problems.length === 0);
  fixture.write('c.yaml', text('c'));
  await fixture.until(({ agents }) => agents.length === 3);
});

test('a missing directory is a problem, not a crash', async (t) => {
  const fixture = await makeFixture(t, {});
  const dir = join(fixture.root, 'none');
  const manifests = await fixture.open({ dir });
  manifests.close();
  assert.deepEqual(manifests.current().agents, []);
  assert.equal(manifests.current().problems[0]!.file, dir);
});

test('a file that broke while agentd was down keeps the agent that was in force', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a') });
  const inForce = fixture.manifests.current().agents;
  fixture.write('a.yaml', 'broken');
  const next = await fixture.open({ inForce });
  next.close();
  assert.deepEqual(fixture.names(next.current()), ['a']);
  assert.deepEqual([...new Set(fixture.troubled(next.current()))], [join(fixture.dir, 'a.yaml')]);
});

test('a set that could not be applied is reported again', async (t) => {
  let offered = 0;
  const fixture = await makeFixture(
    t,
    { 'a.yaml': text('a') },
    {
      onChange: async () => {
        offered++;
        if (offered < 3) throw new Error('the store is busy');
      },
    },
  );
  fixture.write('b.yaml', text('b'));
  await assert.rejects(fixture.manifests.rescan(), /busy/);
  assert.deepEqual(fixture.names(), ['a']);
  while (offered < 3) {
    await sleep(5, undefined, { signal: t.signal });
    fixture.clock.advance(5_000);
  }
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.names(), ['a', 'b']);
  assert.equal(offered, 3);
});

test('after close nothing is reported', async (t) => {
  const fixture = await makeFixture(t, { 'a.yaml': text('a') });
  fixture.manifests.close();
  fixture.write('b.yaml', text('b'));
  fixture.clock.advance(60_000);
  await fixture.manifests.rescan();
  assert.deepEqual(fixture.sets, []);
});
