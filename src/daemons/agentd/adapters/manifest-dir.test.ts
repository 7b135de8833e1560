// A real directory of manifests: what is read, what is followed, and what must never stop the rest.
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
import { type ManifestDirOptions, type ManifestSet, openManifestDir } from './manifest-dir.ts';

const text = (name: string, more = '') =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata:\n  name: ${name}\nspec: {}\n${more}`;

async function makePlace(
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
  /** Lets time pass until the set in force is like this; the test's end is the only limit. */
  const until = async (isSo: (set: ManifestSet) => boolean): Promise<void> => {
    while (!isSo(manifests.current())) {
      await sleep(5, undefined, { signal: t.signal });
      clock.advance(100);
    }
  };
  return { root, dir, write, clock, sets, open, manifests, names, troubled, until };
}

test('each manifest is read, each broken one named with its line', async (t) => {
  const { manifests, names, dir } = await makePlace(t, {
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

test('what is no readable text file is named and stops nobody', async (t) => {
  const place = await makePlace(t, { 'good.yaml': text('good') });
  place.write('binary.yaml', Buffer.from([0xff, 0xfe, 0x00]));
  place.write('huge.yaml', `${text('huge')}# ${'x'.repeat(300_000)}`);
  mkdirSync(join(place.dir, 'folder.yaml'));
  symlinkSync('/nowhere/at/all', join(place.dir, 'link.yaml'));
  execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', join(place.dir, 'pipe.yaml')]);
  await place.manifests.rescan();
  assert.deepEqual(place.names(), ['good']);
  const said = place.manifests.current().problems.map(({ file, message }) => [file, message]);
  const expected: [string, RegExp][] = [
    ['binary.yaml', /not valid UTF-8/],
    ['folder.yaml', /not a file/],
    ['huge.yaml', /at most 262144/],
    ['link.yaml', /cannot be read/],
    ['pipe.yaml', /not a file/],
  ];
  assert.equal(said.length, expected.length);
  for (const [i, [name, message]] of expected.entries()) {
    assert.equal(said[i]![0], join(place.dir, name));
    assert.match(said[i]![1]!, message);
  }
});

test('a link to a manifest is a manifest', async (t) => {
  const place = await makePlace(t, {});
  writeFileSync(join(place.root, 'elsewhere'), text('linked'));
  symlinkSync(join(place.root, 'elsewhere'), join(place.dir, 'linked.yaml'));
  await place.manifests.rescan();
  assert.deepEqual(place.names(), ['linked']);
});

test('changes are followed: added, changed, broken, repaired, removed', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a') }, { lookEveryMs: 1e12 });
  const has = (name: string, content?: string) => (set: ManifestSet) => {
    const found = set.agents.find(({ agent }) => agent.name === name);
    if (content === undefined) return found === undefined;
    return found?.agent.hash === sha256Hex(content);
  };
  const isBroken = (set: ManifestSet) => set.problems.length > 0;

  place.write('b.yaml', text('b'));
  await place.until(has('b', text('b')));
  assert.deepEqual(place.names(), ['a', 'b']);

  place.write('a.yaml', text('a', '# changed\n'));
  await place.until(has('a', text('a', '# changed\n')));

  place.write('a.yaml', 'apiVersion: [\n');
  await place.until(isBroken);
  assert.ok(has('a', text('a', '# changed\n'))(place.manifests.current()));
  assert.deepEqual([...new Set(place.troubled())], [join(place.dir, 'a.yaml')]);

  place.write('a.yaml', text('a'));
  await place.until((set) => !isBroken(set));
  assert.ok(has('a', text('a'))(place.manifests.current()));

  // As editors save: a new file, renamed over the old one.
  place.write('.b.tmp', text('b', '# edited\n'));
  renameSync(join(place.dir, '.b.tmp'), join(place.dir, 'b.yaml'));
  await place.until(has('b', text('b', '# edited\n')));

  rmSync(join(place.dir, 'b.yaml'));
  await place.until(has('b'));
  assert.deepEqual(place.names(), ['a']);
  assert.equal(place.manifests.current(), place.sets.at(-1));
});

test('without a change nothing is told, however often it looks', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a'), 'bad.yaml': 'x: 1\n' });
  for (let i = 0; i < 5; i++) {
    place.clock.advance(5_000);
    await place.manifests.rescan();
  }
  place.write('a.yaml', text('a'));
  await place.manifests.rescan();
  assert.deepEqual(place.sets, []);
});

test('the regular look finds what watching did not tell', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a') }, { settleMs: 3_600_000 });
  place.write('a.yaml', text('a', '# more\n'));
  place.clock.advance(4_999);
  assert.equal(place.sets.length, 0);
  place.clock.advance(1);
  while (place.sets.length === 0) await sleep(5, undefined, { signal: t.signal });
  assert.equal(place.sets[0]!.agents[0]!.agent.hash, sha256Hex(text('a', '# more\n')));
});

test('a change that keeps size and time is found when somebody asks', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a', '# 1\n') }, { settleMs: 3_600_000 });
  const file = join(place.dir, 'a.yaml');
  const { atime, mtime } = statSync(file);
  place.write('a.yaml', text('a', '# 2\n'));
  utimesSync(file, atime, mtime);
  await place.manifests.rescan();
  assert.equal(place.manifests.current().agents[0]!.agent.hash, sha256Hex(text('a', '# 2\n')));
});

test('a directory that goes changes nothing; the one that comes back is followed', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a') });
  renameSync(place.dir, `${place.dir}.away`);
  await place.manifests.rescan();
  assert.deepEqual(place.names(), ['a']);
  assert.deepEqual(place.troubled(), [place.dir]);
  mkdirSync(place.dir);
  place.write('a.yaml', text('a'));
  place.write('b.yaml', text('b'));
  await place.until(({ agents, problems }) => agents.length === 2 && problems.length === 0);
  place.write('c.yaml', text('c'));
  await place.until(({ agents }) => agents.length === 3);
});

test('a directory that is not there is a problem and no crash', async (t) => {
  const place = await makePlace(t, {});
  const dir = join(place.root, 'none');
  const manifests = await place.open({ dir });
  manifests.close();
  assert.deepEqual(manifests.current().agents, []);
  assert.equal(manifests.current().problems[0]!.file, dir);
});

test('a file broken while nobody ran keeps the agent that was in force before', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a') });
  const inForce = place.manifests.current().agents;
  place.write('a.yaml', 'broken');
  const next = await place.open({ inForce });
  next.close();
  assert.deepEqual(place.names(next.current()), ['a']);
  assert.deepEqual([...new Set(place.troubled(next.current()))], [join(place.dir, 'a.yaml')]);
});

test('a set that could not be taken is offered again', async (t) => {
  let offered = 0;
  const place = await makePlace(
    t,
    { 'a.yaml': text('a') },
    {
      onChange: async () => {
        offered++;
        if (offered < 3) throw new Error('the store is busy');
      },
    },
  );
  place.write('b.yaml', text('b'));
  await assert.rejects(place.manifests.rescan(), /busy/);
  assert.deepEqual(place.names(), ['a']);
  while (offered < 3) {
    await sleep(5, undefined, { signal: t.signal });
    place.clock.advance(5_000);
  }
  await place.manifests.rescan();
  assert.deepEqual(place.names(), ['a', 'b']);
  assert.equal(offered, 3);
});

test('after close nothing more is told', async (t) => {
  const place = await makePlace(t, { 'a.yaml': text('a') });
  place.manifests.close();
  place.write('b.yaml', text('b'));
  place.clock.advance(60_000);
  await place.manifests.rescan();
  assert.deepEqual(place.sets, []);
});
