// Skills as people have them: extra keys, nested files, scripts, front matter that is no YAML; and
// paths that must not leave a skill's folder.
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { manualClock } from '../../../platform/clock.ts';
import { isFault } from '../../../platform/daemon.ts';
import { silentLog } from '../../../platform/log.ts';
import { matchSkills } from '../skills/library.ts';
import { openSkillDirs } from './skill-dirs.ts';

const ROOT = join(import.meta.dirname, '..', '..', '..', '..');

/** As published collections of skills have it. */
const PDF = `---
name: pdf
description: Comprehensive PDF manipulation toolkit for extracting text and tables, merging,
  splitting and filling forms. When Claude needs to fill in a PDF form or process PDFs at scale.
license: Proprietary. LICENSE.txt has complete terms
version: 1.2.0
metadata:
  author: someone
  tags: [pdf, forms]
allowed-tools: Bash(python:*), Read
---

# PDF processing

Read [forms.md](forms.md), then run \`scripts/fill.py\`.
`;
/** A colon in a plain value is no YAML, and is common. */
const COLON = `---
name: commit-messages
description: Use when: writing commit messages or pull request descriptions
  from staged changes
---
Write the subject in the imperative.
`;

async function makeFixture(t: TestContext) {
  const base = mkdtempSync(join(tmpdir(), 'skills-'));
  const dir = join(base, 'operator');
  const write = (path: string, text: string | Buffer): string => {
    const file = join(dir, path);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, text);
    return file;
  };
  mkdirSync(dir);
  const dirs = await openSkillDirs({
    roots: [
      { source: 'package', dir: join(ROOT, 'skills') },
      { source: 'site', dir: join(base, 'site') },
      { source: 'operator', dir },
    ],
    clock: manualClock(1_000_000),
    log: silentLog,
  });
  t.after(() => {
    dirs.close();
    rmSync(base, { recursive: true, force: true });
  });
  return { base, dir, dirs, write, skill: (name: string) => dirs.current().skills.get(name)! };
}

const refusal = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'not refused',
    (error: unknown) => (isFault(error) ? `${error.code} ${error.message}` : String(error)),
  );

test('five ship, and a goal finds the one that is for it', async (t) => {
  const { dirs } = await makeFixture(t);
  const library = dirs.current();
  assert.deepEqual(library.problems, []);
  assert.equal(library.skills.size, 5);
  const cases: [goal: string, skill: string | undefined][] = [
    ['The login test fails since yesterday. Find out why and fix the bug.', 'debug-a-failure'],
    [
      'Write the changelog for version 2.3 from the commits since the last tag',
      'write-release-notes',
    ],
    ['Audit this repository: give me an overview of its structure and risks', 'map-a-codebase'],
    ['Do a security review of the design of our new API', 'model-threats'],
    ['Write a post-mortem of the outage last night with a timeline', 'review-an-incident'],
    ['Translate this poem into French', undefined],
    ['Say hello', undefined],
    ['', undefined],
  ];
  for (const [goal, skill] of cases)
    assert.equal(matchSkills(library, goal, undefined)[0]?.name, skill, goal);
  const goal = cases[0]![0];
  assert.deepEqual(matchSkills(library, goal, []), []);
  assert.deepEqual(matchSkills(library, goal, ['model-threats']), []);
});

test("people's folders work unchanged", async (t) => {
  const { dirs, write, skill } = await makeFixture(t);
  write('pdf/SKILL.md', PDF);
  write('pdf/forms.md', '# Forms');
  write('pdf/scripts/fill.py', 'print(1)\n');
  write('pdf/assets/logo.png', Buffer.from([0x89, 0x50, 0xff]));
  write('commit-messages/SKILL.md', COLON);
  write('bare/SKILL.md', '# Bare\n\nHow we bake bread here.\n');
  write('notes.txt', 'not a skill');
  write('.git/SKILL.md', 'hidden');
  mkdirSync(join(write('empty/x', ''), '..'), { recursive: true });
  await dirs.rescan();
  assert.equal(dirs.current().skills.size, 8);
  const pdf = skill('pdf');
  assert.match(pdf.description, /^Comprehensive PDF manipulation/);
  assert.deepEqual(pdf.expects, ['Bash(python:*)', 'Read']);
  assert.match(pdf.body, /^# PDF processing/);
  assert.deepEqual(
    (await dirs.listFiles(pdf)).map(({ path }) => path),
    ['assets/logo.png', 'forms.md', 'scripts/fill.py'],
  );
  assert.equal(await dirs.readFile(pdf, 'scripts/fill.py'), 'print(1)\n');
  assert.match(await refusal(dirs.readFile(pdf, 'assets/logo.png')), /not valid UTF-8/);
  assert.equal(
    skill('commit-messages').description,
    'Use when: writing commit messages or pull request descriptions from staged changes',
  );
  assert.equal(skill('bare').description, 'How we bake bread here.');
  const [problem, ...rest] = dirs.current().problems;
  assert.deepEqual(rest, []);
  assert.equal(problem!.line, 3);
  assert.match(problem!.hint, /quotes/);
  const [match] = matchSkills(dirs.current(), 'Fill in this PDF form', undefined);
  assert.equal(match?.name, 'pdf');
});

test('no path leaves the folder of a skill', async (t) => {
  const { base, dir, dirs, write, skill } = await makeFixture(t);
  writeFileSync(join(base, 'secret'), 'secret');
  mkdirSync(join(base, 'elsewhere'));
  writeFileSync(join(base, 'elsewhere', 'secret'), 'secret');
  write('s/SKILL.md', 'Do it.');
  write('s/fine.md', 'fine');
  symlinkSync(join(base, 'secret'), join(dir, 's', 'link'));
  symlinkSync(join(base, 'elsewhere'), join(dir, 's', 'way'));
  write('other/SKILL.md', 'Other.');
  await dirs.rescan();
  const s = skill('s');
  assert.equal(await dirs.readFile(s, 'fine.md'), 'fine', 'control');
  for (const path of [
    '../other/SKILL.md',
    '../../secret',
    join(base, 'secret'),
    'link',
    'way/secret',
    './fine.md',
    'x/../fine.md',
    'fine.md\0',
    '',
  ])
    assert.match(await refusal(dirs.readFile(s, path)), /^not_found skill s has no file/, path);
});

test('[C107] the last of equal names counts; a broken one leaves the one before it in force', async (t) => {
  const { dir, dirs, write, skill } = await makeFixture(t);
  const file = write('map-a-codebase/SKILL.md', '---\ndescription: Ours.\n---\nOur way.');
  await dirs.rescan();
  assert.deepEqual(
    [skill('map-a-codebase').source, skill('map-a-codebase').body],
    ['operator', 'Our way.'],
  );
  const cases: [text: string | Buffer, line: number | null, message: RegExp][] = [
    ['---\nname: x\n', 1, /not closed/],
    ['---\nname: x\n---\n', 4, /no text/],
    [Buffer.from('a\n\xff', 'latin1'), 2, /not valid UTF-8/],
    ['x'.repeat(10_000_000), null, /has 10000000 bytes/],
    ['# Only a heading', 1, /no description/],
  ];
  for (const [text, line, message] of cases) {
    writeFileSync(file, text);
    await dirs.rescan();
    const [problem, ...rest] = dirs.current().problems;
    assert.deepEqual(rest, []);
    assert.deepEqual([problem!.file, problem!.line], [file, line]);
    assert.match(problem!.message, message);
    assert.match(problem!.hint, /stays as it was/);
    assert.equal(skill('map-a-codebase').body, 'Our way.');
  }
  writeFileSync(file, 'Again.');
  chmodSync(file, 0o666);
  await dirs.rescan();
  assert.match(dirs.current().problems[0]!.message, /any user can write/);
  assert.equal(skill('map-a-codebase').body, 'Our way.');
  renameSync(join(dir, 'map-a-codebase'), join(dir, '..', 'gone'));
  await dirs.rescan();
  assert.deepEqual([skill('map-a-codebase').source, dirs.current().problems], ['package', []]);
});
