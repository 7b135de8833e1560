// A fault test kills at every failpoint of a daemon, and no test names a missing one.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { listFiles } from '../../tools/source.ts';
import { projectRoot } from './fixture.ts';

const files = listFiles(projectRoot);
const textOf = (path: string): string => readFileSync(join(projectRoot, path), 'utf8');
const namesIn = (paths: readonly string[], pattern: RegExp): Set<string> =>
  new Set(paths.flatMap((path) => [...textOf(path).matchAll(pattern)].map(([, name]) => name!)));

const inSource = namesIn(
  files.filter((path) => /^src\/daemons\/.*(?<!\.test)\.ts$/.test(path)),
  /\bfailpoint\('([^']+)'\)/g,
);
const inTests = namesIn(
  files.filter((path) => path.startsWith('test/fault/')),
  /'([a-z-]+\.(?:before|after)-[a-z-]+)'/g,
);

test('a fault test kills at every failpoint', () => {
  assert.ok(inSource.size > 30, `${inSource.size} failpoints`);
  assert.deepEqual([...inSource.difference(inTests)], []);
});

test('no test names a missing failpoint', () => {
  assert.deepEqual([...inTests.difference(inSource)], []);
});
