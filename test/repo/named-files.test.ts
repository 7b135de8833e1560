// Pages name files of the project; a file that was moved or removed must not be named any more.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listFiles } from '../../tools/source.ts';
import { projectRoot } from './fixture.ts';

const files = listFiles(projectRoot);
/** Decisions tell of what was, and may name what is gone. */
const pages = files.filter((path) => path.endsWith('.md') && !path.startsWith('docs/decisions/'));

const namesIn = (page: string): string[] =>
  [...page.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = '']) =>
    [...code.matchAll(/(?<![\w*./>-])[\w-][\w./-]*\.(?:ts|c|h|cedar|cedarschema)(?![\w*-])/g)].map(
      ([name]) => name,
    ),
  );

const isThere = (name: string): boolean =>
  files.some((path) => path === name || path.endsWith(`/${name}`));

test('every source file that a page names is there', () => {
  assert.ok(pages.length > 20, `${pages.length} pages`);
  const gone = pages.flatMap((page) =>
    namesIn(readFileSync(join(projectRoot, page), 'utf8'))
      .filter((name) => !isThere(name))
      .map((name) => `${page}: ${name}`),
  );
  assert.deepEqual(gone, []);
});

test('a name that is wrong is seen, and a pattern is none', () => {
  assert.deepEqual(namesIn('see `adapters/gone.ts`, `x/*.cedar`, `<x>-y.ts` and a.ts'), [
    'adapters/gone.ts',
  ]);
  assert.equal(isThere('adapters/gone.ts'), false);
  assert.equal(isThere('src/wire/primitives.ts'), true);
});
