// Pages that name tests as evidence name tests that exist; docs/aisvs.md has every item of the
// chapter once, and claims nothing without a test.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { missingTests, namedTests } from '../requirements/named-tests.ts';
import { makeTree, projectRoot } from './fixture.ts';

const PAGES = ['docs/aisvs.md', 'docs/threat-model.md', 'test/escape/README.md'];
/** The number of items in each section of a chapter. */
const CHAPTERS = { 8: [6, 6, 3, 1, 4], 9: [3, 10, 8, 4, 6, 3] };

for (const page of PAGES)
  test(`${page} names only tests that exist`, () => {
    assert.deepEqual(missingTests(projectRoot, page), []);
    const named = namedTests(readFileSync(join(projectRoot, page), 'utf8'));
    assert.ok(named.length > 20, `only ${named.length} tests are named`);
  });

test('a renamed or removed test is reported', (t) => {
  const root = makeTree(t, {
    'docs/a.md': ['| `test/a.test.ts` “it works” “it does not” | `test/b.test.ts` |'],
    'test/a.test.ts': ["it('it works', () => {});"],
  });
  assert.deepEqual(missingTests(root, 'docs/a.md'), [
    'docs/a.md: no test in test/a.test.ts is called “it does not”',
    'docs/a.md: test/b.test.ts does not exist',
  ]);
});

for (const [chapter, sections] of Object.entries(CHAPTERS))
  test(`docs/aisvs.md has every item of C${chapter}, met with a test or not met with a reason`, () => {
    const text = readFileSync(join(projectRoot, 'docs/aisvs.md'), 'utf8');
    const rows = [...text.matchAll(/^\| (\d+\.\d+\.\d+) \| (.+?) \| (.+?) \| (.+?) \|$/gm)].filter(
      ([, id]) => id!.startsWith(`${chapter}.`),
    );
    const wanted = sections.flatMap((count, section) =>
      Array.from({ length: count }, (_, i) => `${chapter}.${section + 1}.${i + 1}`),
    );
    assert.deepEqual(
      rows.map(([, id]) => id),
      wanted,
    );
    for (const [, id, , status, shown] of rows) {
      assert.match(status!, /^(met|partly|not met)$/, id);
      const tests = namedTests(shown!).filter(({ name }) => name !== '');
      if (status === 'not met') assert.deepEqual(tests, [], `${id} is not met, and names a test`);
      else assert.ok(tests.length > 0, `${id} names no test`);
      if (status !== 'met')
        assert.match(shown!, /[Mm]issing: /, `${id} does not say what is missing`);
    }
    const count = (word: string) => rows.filter(([, , , status]) => status === word).length;
    const summary = `${count('met')} of the ${wanted.length} are met, ${count('partly')} in part, ${count('not met')} not`;
    assert.ok(text.includes(summary), `the page should say: ${summary}`);
  });

test('test/escape/README.md counts the attacks that it names', () => {
  const text = readFileSync(join(projectRoot, 'test/escape/README.md'), 'utf8');
  const [tried, notTried] = text.split('## Not tried') as [string, string];
  const idsIn = (part: string) => [...part.matchAll(/^\| ((?:[A-F]\d+(?:, )?)+) \|/gm)];
  const split = (part: string) => idsIn(part).flatMap(([, ids]) => ids!.split(', '));
  const [yes, no] = [split(tried), split(notTried)];
  assert.deepEqual(
    yes.filter((id) => no.includes(id)),
    [],
  );
  assert.equal(new Set([...yes, ...no]).size, yes.length + no.length, 'an id occurs twice');
  const of = (ids: string[], isE: boolean) => ids.filter((id) => id.startsWith('E') === isE).length;
  const sum = (isE: boolean) => of(yes, isE) + of(no, isE);
  const summary =
    `${of(yes, false)} of the ${sum(false)} attacks of groups A to D and F are tried, ` +
    `and ${of(yes, true)} of the ${sum(true)} of group E`;
  assert.ok(text.includes(summary), `the page should say: ${summary}`);
});

test('test/escape/README.md says of every file as whom it runs', () => {
  const dir = join(projectRoot, 'test/escape');
  const text = readFileSync(join(dir, 'README.md'), 'utf8');
  const rowOf = (start: string) => {
    const row = text.split('\n').find((line) => line.startsWith(`| ${start} |`)) ?? '';
    return [...row.matchAll(/`([a-z0-9-]+)`/g)].map(([, name]) => `${name}.test.ts`);
  };
  const both = rowOf('root, then an ordinary user');
  const once = [...rowOf('root'), ...rowOf('whoever runs the tests')];
  const files = readdirSync(dir).filter((name) => name.endsWith('.test.ts'));
  assert.deepEqual([...both, ...once].sort(), files.sort());
  const runsBoth = (name: string) =>
    / of MODES\)|runCases\(/.test(readFileSync(join(dir, name), 'utf8'));
  assert.deepEqual(files.filter(runsBoth), both.sort());
});
