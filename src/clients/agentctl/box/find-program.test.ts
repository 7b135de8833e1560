// Which program a person means, and what of theirs its box gets: a package with what it depends on
// or one file, and never more.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { freshDir } from '../../../../test/support/runtime.ts';
import { PROGRAMS_DIR as CONTRACT } from '../../../wire/sandboxd/programs.ts';
import { findProgram, PROGRAMS_DIR } from './find-program.ts';

const home = realpathSync(freshDir());
const put = (path: string, text: string, mode = 0o644): string => {
  const file = join(home, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
};
const link = (path: string, target: string): void => {
  mkdirSync(dirname(join(home, path)), { recursive: true });
  symlinkSync(target, join(home, path));
};
const inBox = (path: string) => `${PROGRAMS_DIR}${path}`;

put('lib/node_modules/agent/bin/agent.js', '#!/usr/bin/env node\n', 0o755);
put(
  'lib/node_modules/agent/package.json',
  JSON.stringify({
    dependencies: { inner: '1', '@scope/beside': '1' },
    optionalDependencies: { gone: '1' },
  }),
);
put('lib/node_modules/agent/node_modules/inner/package.json', '{}');
put(
  'lib/node_modules/@scope/beside/package.json',
  JSON.stringify({ dependencies: { further: '1' } }),
);
put('lib/node_modules/further/package.json', JSON.stringify({ dependencies: { agent: '1' } }));
put('lib/node_modules/unrelated/package.json', '{}');
put('.npmrc', 'a secret');
link('bin/agent', '../lib/node_modules/agent/bin/agent.js');
put('bin/node', 'ELF', 0o755);
put('tools/single', 'ELF', 0o755);
link('bin/single', '../tools/single');
put('bin/no-program', 'text');
const path = `${join(home, 'bin')}:relative:/usr/bin:/bin`;
const modules = (name: string) => join(home, 'lib/node_modules', name);

test('the place is that of the contract', () => assert.equal(PROGRAMS_DIR, CONTRACT));

test('a package comes with what it depends on, and its Node', () => {
  const { argv, shown } = findProgram(['agent', '--here', 'x'], path);
  const [node, script] = [join(home, 'bin/node'), modules('agent/bin/agent.js')];
  assert.deepEqual(argv, [inBox(node), inBox(script), '--here', 'x']);
  const expected = [modules('agent'), modules('@scope/beside'), modules('further'), node];
  assert.deepEqual([...shown].sort(), expected.sort());
});

test('a single file comes alone, behind its link', () => {
  const file = join(home, 'tools/single');
  assert.deepEqual(findProgram(['single'], path), { argv: [inBox(file)], shown: [file] });
  assert.deepEqual(findProgram([file], ''), { argv: [inBox(file)], shown: [file] });
});

test('what every box has, is in the workspace, or is no program stays as it was typed', () => {
  for (const words of [
    ['sh', '-c', 'x'],
    ['./run', 'x'],
    ['sub/run'],
    ['no-program'],
    ['nothing'],
    ['/nothing'],
  ])
    assert.deepEqual(findProgram(words, path), { argv: words, shown: [] });
});

test('a package that depends on too many is refused', () => {
  const names = Array.from({ length: 80 }, (_, i) => `many${i}`);
  for (const name of names) put(`lib/node_modules/${name}/package.json`, '{}');
  const dependencies = Object.fromEntries(names.map((name) => [name, '1']));
  put('lib/node_modules/hub/package.json', JSON.stringify({ dependencies }));
  put('lib/node_modules/hub/run', 'ELF', 0o755);
  assert.throws(() => findProgram([modules('hub/run')], path), { code: 'limit' });
});
