// Every source file that a page names exists.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listFiles } from '../../tools/source.ts';
import { projectRoot } from './fixture.ts';

const files = listFiles(projectRoot);
/** Decisions describe the past and may name removed files. */
const pages = files.filter((path) => path.endsWith('.md') && !path.startsWith('docs/decisions/'));

const namesIn = (page: string): string[] =>
  [...page.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = '']) =>
    [...code.matchAll(/(?<![\w*./>-])[\w-][\w./-]*\.(?:ts|c|h|cedar|cedarschema)(?![\w*-])/g)].map(
      ([name]) => name,
    ),
  );

const fileExists = (name: string): boolean =>
  files.some((path) => path === name || path.endsWith(`/${name}`));

test('every source file that a page names exists', () => {
  assert.ok(pages.length > 20, `${pages.length} pages`);
  const missing = pages.flatMap((page) =>
    namesIn(readFileSync(join(projectRoot, page), 'utf8'))
      .filter((name) => !fileExists(name))
      .map((name) => `${page}: ${name}`),
  );
  assert.deepEqual(missing, []);
});

test('a wrong name is found, and a pattern is ignored', () => {
  assert.deepEqual(namesIn('see `adapters/gone.ts`, `x/*.cedar`, `<x>-y.ts` and a.ts'), [
    'adapters/gone.ts',
  ]);
  assert.equal(fileExists('adapters/gone.ts'), false);
  assert.equal(fileExists('src/wire/primitives.ts'), true);
});
