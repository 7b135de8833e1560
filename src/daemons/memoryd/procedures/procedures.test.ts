// Procedural memories are files that a person reads with git: a commit for each change, the same
// after a rebuild, and nothing of a forgotten one in any object.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { inflateSync } from 'node:zlib';
import type { MemoryView, NewMemory } from '../../../wire/memoryd/records.ts';
import { hostMemoryd, type MemoryHost, type MemoryWorld, makeWorld } from '../testing/host.ts';
import { dumpTables, withoutIndex } from '../testing/tables.ts';

let world: MemoryWorld;
let host: MemoryHost;
beforeEach(async () => {
  world = makeWorld();
  host = await hostMemoryd(world);
});
afterEach(async () => {
  await host.stop();
  world.remove();
});

const dir = () => join(world.stateDir, 'memory', 'procedures');
const git = (...args: string[]): string =>
  execFileSync('git', ['-C', dir(), '-c', 'safe.directory=*', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { PATH: process.env.PATH, GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1' },
  }).trimEnd();
const files = () => git('ls-files').split('\n').toSorted();
const read = (path: string) => readFileSync(join(dir(), path), 'utf8');
const procedure = (text: string, more: Partial<NewMemory> = {}): Promise<MemoryView> =>
  host.remember(text, { class: 'procedural', ...more });

/** The files follow in the background. */
async function published(commits: number): Promise<void> {
  for (const until = Date.now() + 10_000; ; ) {
    try {
      if (git('log', '--format=%H').split('\n').length === commits) break;
    } catch {
      // Not there yet.
    }
    assert.ok(Date.now() < until, `${commits} commits`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  git('fsck', '--strict', '--full');
  assert.equal(git('status', '--porcelain'), '', 'the files are those of the newest commit');
}

/** Everything on the disk below it, objects inflated. */
const allBytes = (): string =>
  globSync('**/*', { cwd: dir(), withFileTypes: true, exclude: [] })
    .concat(globSync('.git/**/*', { cwd: dir(), withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map((entry) => {
      const bytes = readFileSync(join(entry.parentPath, entry.name));
      const isObject = /objects\/..$/.test(entry.parentPath);
      return `${entry.name} ${isObject ? inflateSync(bytes).toString('latin1') : bytes.toString('latin1')}`;
    })
    .join('\n');

test('[R58] each change is a commit that says who made it, and the file can be read', async () => {
  assert.equal(existsSync(dir()), false, 'nothing without procedures');
  const one = await procedure('Deploy with make ship.\nThen look at the clock.');
  await host.remember('A fact is no procedure.');
  await published(1);
  const path = `project/app/deploy-with-make-ship-${one.id.slice(-6)}.md`;
  assert.deepEqual(files(), ['README.md', path]);
  assert.match(
    read(path),
    /^---\nid: "memory_.*\nversion: 1\nscope: "project:app"\nlabels: \["person"\]/,
  );
  assert.match(read(path), /\n---\n\nDeploy with make ship\.\nThen look at the clock\.\n$/);
  assert.match(read('README.md'), /has no effect\. To change a procedure: agentctl memory edit ID/);

  world.clock.advance(60_000);
  const body = { text: 'Deploy with make ship, twice.' };
  await host.operator.editMemory({ params: { id: one.id }, body });
  await published(2);
  assert.match(git('diff', 'HEAD~1', '--', path), /^-Deploy with make ship\.$/m);
  assert.match(git('diff', 'HEAD~1', '--', path), /^\+Deploy with make ship, twice\.$/m);
  assert.deepEqual(git('log', '--format=%an %aI %s').split('\n'), [
    `person:operator 2026-06-29T18:01:00+00:00 edit ${one.id} version 2`,
    `person:alice 2026-06-29T18:00:00+00:00 remember ${one.id} version 1`,
  ]);
  assert.match(git('log', '-1', '--format=%b'), /^Scope: project:app\nLabels: person/);

  await host.operator.expire({ body: { ids: [one.id] } });
  await published(3);
  assert.deepEqual(files(), ['README.md']);
  assert.equal(existsSync(join(dir(), path)), false);
});

test('a proposal is no file until it is approved', async () => {
  const body = { class: 'procedural', scope: 'team', text: 'Ask twice.' } as const;
  const { memory } = await host.alice.proposeMemory({ body });
  await procedure('Another.');
  await published(1);
  assert.equal(files().length, 2);
  await host.operator.approveMemory({ params: { id: memory.id } });
  await published(2);
  assert.match(read(`team/ask-twice-${memory.id.slice(-6)}.md`), /Ask twice/);
});

test('of a forgotten one no byte is left, and of others everything', async () => {
  const secret = 'Cormorants nest in the boiler room';
  const forgotten = await procedure(`${secret}.`);
  const kept = await procedure('Herons are counted at dawn.');
  const params = { id: forgotten.id };
  await host.operator.editMemory({ params, body: { text: `${secret}, again.` } });
  await host.operator.editMemory({ params: { id: kept.id }, body: { text: 'At dusk.' } });
  await published(4);
  assert.match(allBytes(), /Cormorants/);
  await host.operator.forget({ body: { ids: [forgotten.id] } });
  assert.doesNotMatch(allBytes(), /cormorants/i, 'as soon as it is answered');
  assert.ok(!allBytes().includes(forgotten.id.slice(-6)));
  await published(2);
  assert.match(git('log', '-p'), /Herons are counted at dawn[\s\S]*|At dusk/);
  assert.deepEqual(
    readdirSync(join(dir(), '..')).filter((name) => name.startsWith('procedures')),
    ['procedures'],
  );
  await host.operator.forget({ body: { ids: [kept.id] } });
  assert.equal(existsSync(dir()), false, 'there is nothing to keep');
});

test('a rebuild, a restart and a lost directory give the same commits', async () => {
  const one = await procedure('Fold the map.');
  const two = await procedure('東京 — 서울 🦀', { scope: 'team' });
  await procedure(`Long. ${'blah '.repeat(2_000)}`, { scope: 'agent:coder' });
  await host.operator.editMemory({ params: { id: one.id }, body: { text: 'Fold it twice.' } });
  await host.operator.forget({ body: { ids: [two.id] } });
  await published(3);
  const head = git('rev-parse', 'HEAD');
  const tables = withoutIndex(dumpTables(world.stateDir));
  await host.alice.rebuildMemory({});
  assert.equal(git('rev-parse', 'HEAD'), head);
  assert.deepEqual(withoutIndex(dumpTables(world.stateDir)), tables);
  for (const lose of [() => {}, () => rmSync(dir(), { recursive: true })]) {
    await host.stop();
    lose();
    host = await hostMemoryd(world);
    await published(3);
    assert.equal(git('rev-parse', 'HEAD'), head);
  }
  await procedure('One more.');
  await published(4);
  assert.equal(git('rev-parse', 'HEAD~1'), head, 'history goes on');
});

test('what a person changes in the files has no effect', async () => {
  const one = await procedure('Walk the dog.');
  await published(1);
  const path = `project/app/walk-the-dog-${one.id.slice(-6)}.md`;
  writeFileSync(join(dir(), path), 'Walk the cat.');
  const { memory } = await host.operator.getMemory({ params: { id: one.id }, query: {} });
  assert.equal(memory.text, 'Walk the dog.');
  assert.match(git('status', '--porcelain'), /^ M/);
  await host.operator.editMemory({ params: { id: one.id }, body: { text: 'Walk both.' } });
  await published(2);
  assert.match(read(path), /Walk both/);
});

test('scopes that would be special to git or the file system are plain directories', async () => {
  await procedure('Inner.', { scope: 'project:.git' });
  await procedure('Outer.', { scope: 'project:.gitattributes' });
  await procedure('Name.', { scope: 'project:x.md' });
  await procedure('../../etc/passwd', { scope: 'team' });
  await published(4);
  assert.deepEqual(
    files().map((path) => path.split('/').slice(0, -1).join('/')),
    ['', 'project/%2Egit', 'project/%2Egitattributes', 'project/x%2Emd', 'team'],
  );
});
