// The lock file is self-contained: `npm ci` refuses one that names packages without an entry.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTree, runTool } from './fixture.ts';

test('names without an entry are reported and removed, and the rest stays', (t) => {
  const root = makeTree(t, {
    'package-lock.json': JSON.stringify({
      packages: {
        'node_modules/a': { optionalDependencies: { 'a-linux': '1.0.0', 'a-other': '1.0.0' } },
        'node_modules/a-linux': { version: '1.0.0' },
        'node_modules/a/node_modules/b': { optionalDependencies: { 'a-linux': '1', near: '1' } },
        'node_modules/a/node_modules/near': { version: '1.0.0' },
        'node_modules/c': { optionalDependencies: { 'c-other': '1.0.0' } },
      },
    }),
  });
  const { status, output } = runTool('trim-lock.ts', '--check', '--root', root);
  assert.equal(status, 1);
  assert.match(output, /node_modules\/a names a-other/);
  assert.match(output, /lock: 2 to mend/);
  runTool('trim-lock.ts', '--root', root);
  assert.deepEqual(runTool('trim-lock.ts', '--check', '--root', root), { status: 0, output: '' });
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  assert.deepEqual(packages['node_modules/a'], { optionalDependencies: { 'a-linux': '1.0.0' } });
  assert.deepEqual(packages['node_modules/c'], {});
});

test('the lock file of this project is complete', () => {
  const { status, output } = runTool('trim-lock.ts', '--check');
  assert.equal(status, 0, output);
});
