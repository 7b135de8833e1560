// The directories of personas: what ships is clean, and a broken file is named and harms no other.
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { silentLog } from '../../../platform/log.ts';
import { readManifest } from '../manifests/read-manifest.ts';
import { listPersonaProblems } from '../personas/handlers.ts';
import type { PersonaLibrary } from '../personas/library.ts';
import { openPersonaDirs } from './persona-dirs.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..', '..');
const SHIPPED = [
  'coder',
  'devops',
  'planner',
  'researcher',
  'reviewer',
  'security-auditor',
  'tester',
  'writer',
];

async function makeFixture(t: TestContext) {
  const operator = mkdtempSync(join(tmpdir(), 'personas-'));
  const seen: PersonaLibrary[] = [];
  const dirs = await openPersonaDirs({
    roots: [
      { source: 'package', dir: join(ROOT, 'personas') },
      { source: 'site', dir: join(operator, 'no-such-directory') },
      { source: 'operator', dir: operator },
    ],
    clock: manualClock(1_000_000),
    log: silentLog,
    onChange: async (library) => void seen.push(library),
  });
  t.after(() => {
    dirs.close();
    rmSync(operator, { recursive: true, force: true });
  });
  const write = (path: string, text: string | Buffer): string => {
    const file = join(operator, path);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  const problems = async () => {
    await dirs.rescan();
    return listPersonaProblems(dirs.current());
  };
  return { dirs, write, problems, seen };
}

test('[K102] the eight that ship are there, without a warning, and compose', async (t) => {
  const { dirs, problems } = await makeFixture(t);
  assert.deepEqual(await problems(), []);
  const roles = [...dirs.current().files.keys()].filter((ref) => ref.startsWith('roles/'));
  assert.deepEqual(
    roles.sort(),
    SHIPPED.map((name) => `roles/${name}`),
  );
  for (const name of SHIPPED) {
    const [file] = dirs.current().files.get(`roles/${name}`)!;
    const { role, purpose, tools } = file!.front;
    assert.ok(role !== undefined && purpose !== undefined && tools !== undefined, name);
    const manifest = `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: x }\nspec:\n  personas: [${name}]\n  tools: { allow: [${tools.join(', ')}] }\n`;
    const read = readManifest(manifest, 'x.yaml', { personas: dirs.current() });
    assert.ok(read.ok);
    assert.deepEqual(read.warnings, []);
    assert.match(read.agent.persona, /^# How you work\n\nYou are x, one of a team/);
    const bare = readManifest(manifest.replace(/ {2}tools.*\n/, ''), 'x.yaml', {
      personas: dirs.current(),
    });
    assert.ok(bare.ok);
    assert.match(bare.warnings[0]!.message, /agent x may not use what its persona expects/);
  }
});

test('broken files are named with their line; the others are read', async (t) => {
  const { dirs, write, problems, seen } = await makeFixture(t);
  const cases: [path: string, text: string | Buffer, line: number | null, message: RegExp][] = [
    ['roles/bytes.md', Buffer.from('one\ntwo\nthree \xff\n', 'latin1'), 3, /not valid UTF-8/],
    ['roles/nul.md', 'one\n\0', 2, /NUL/],
    ['roles/big.md', 'x'.repeat(10_000_000), null, /has 10000000 bytes; at most 65536/],
    ['roles/front.md', '---\nrole: [\n---\nx', 2, /./],
    ['roles/Bad Name.md', 'x', null, /its name is not that of a persona/],
  ];
  for (const [path, text, line, message] of cases) {
    const file = write(path, text);
    const [problem, ...rest] = await problems();
    assert.deepEqual(rest, []);
    assert.deepEqual([problem!.file, problem!.line], [file, line]);
    assert.match(problem!.message, message);
    assert.notEqual(problem!.hint, '');
    rmSync(file);
  }
  assert.deepEqual(await problems(), []);
  assert.equal(seen.length, cases.length + 1);
  assert.ok(dirs.current().files.has('roles/coder'));
});

test('[C105] a file that any user can write to is not read; one behind a link is', async (t) => {
  const { dirs, write, problems } = await makeFixture(t);
  const file = write('roles/coder.md', 'Obey me.');
  chmodSync(file, 0o666);
  const [problem] = await problems();
  assert.match(problem!.message, /any user can write/);
  chmodSync(file, 0o644);
  assert.deepEqual(await problems(), []);
  assert.equal(dirs.current().files.get('roles/coder')!.at(-1)!.body, 'Obey me.');
  symlinkSync(file, join(file, '..', 'linked.md'));
  await dirs.rescan();
  assert.ok(dirs.current().files.has('roles/linked'));
});

test('[K102] a role that lacks something is warned about', async (t) => {
  const { write, problems } = await makeFixture(t);
  write('roles/thin.md', '---\ntools: [git.read, no.such]\n---\nUse `shell.exec`.\n');
  const messages = (await problems()).map(({ message }) => message);
  for (const expected of [
    /no\.such, which is neither/,
    /mentions shell\.exec/,
    /no role/,
    /no purpose/,
    /no rules to decide by/,
    /which tools/,
    /form of the answer/,
    /has \d+ characters/,
  ])
    assert.ok(
      messages.some((message) => expected.test(message)),
      String(expected),
    );
});

test('the starter team loads without a warning; only its planner delegates', async (t) => {
  const { dirs } = await makeFixture(t);
  const dir = join(ROOT, 'presets', 'starter');
  const agents = readdirSync(dir).map((file) => {
    const read = readManifest(readFileSync(join(dir, file), 'utf8'), file, {
      personas: dirs.current(),
    });
    assert.ok(read.ok);
    assert.deepEqual(read.warnings, []);
    assert.equal(file, `${read.agent.name}.yaml`);
    return read.agent;
  });
  assert.deepEqual(agents.map(({ name }) => name).sort(), ['coder', 'planner', 'researcher']);
  for (const agent of agents) {
    assert.equal(agent.model, 'default');
    assert.notEqual(agent.description, '');
    assert.equal(agent.tools.includes('task.delegate'), agent.name === 'planner');
  }
});
