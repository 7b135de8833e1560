// The bundles: required and forbidden content, and that a broken build leaves the last good one.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { addFiles, makeTree, runTool } from './fixture.ts';

const packages = {
  'node_modules/zod/index.js': 'export const z = 1;',
  'node_modules/zod/package.json': '{ "name": "zod", "main": "index.js", "type": "module" }',
};

function run(root: string, name: string): string {
  const ran = spawnSync(process.execPath, [join(root, 'build', name)], { encoding: 'utf8' });
  return ran.stdout + ran.stderr;
}

test('a lazy import becomes its own file next to the bundle', (t) => {
  const root = makeTree(t, {
    'src/clients/agentctl/main.ts': "console.log((await import('./up.ts')).where);",
    'src/clients/agentctl/up.ts': "export const where = new URL('.', import.meta.url).pathname;",
  });
  assert.deepEqual(runTool('build.ts', '--root', root), { status: 0, output: '' });
  assert.equal(run(root, 'agentctl.mjs').trim(), join(root, 'build/'));
  const names = readdirSync(join(root, 'build'));
  assert.ok(names.some((name) => /^agentctl-up-\w+\.mjs$/.test(name)));
  assert.ok(names.includes('agentctl.mjs.map'));
});

test('missing programs are left out, and data is copied next to the bundles', (t) => {
  const root = makeTree(t, {
    'rehearsal/main.ts': "console.log('played');",
    'rehearsal/screenplays/a/one.yaml': 'one: 1',
    'rehearsal/screenplays/two.yaml': 'two: 2',
  });
  runTool('build.ts', '--root', root);
  assert.equal(run(root, 'rehearsal.mjs'), 'played\n');
  assert.equal(existsSync(join(root, 'build/runner.mjs')), false);
  assert.equal(readFileSync(join(root, 'build/screenplays/a/one.yaml'), 'utf8'), 'one: 1');
});

test('CommonJS packages of a daemon find Node modules', (t) => {
  const root = makeTree(t, {
    'src/entry/daemon.ts': "import where from 'old';\nconsole.log(where);",
    'node_modules/old/index.js': "module.exports = require('node:path').join('a', 'b');",
    'node_modules/old/package.json': '{ "name": "old", "main": "index.js" }',
  });
  runTool('build.ts', '--root', root);
  assert.equal(run(root, 'daemon.mjs'), 'a/b\n');
});

test('a daemon without its packages still decides: rules, schema and Cedar are next to it', (t) => {
  const root = makeTree(t, {
    'src/entry/daemon.ts': `
      import { sealBundle } from '../policy/bundle-file.ts';
      import { makePolicy } from '../policy/decide.ts';
      const content = { site: [], people: null, protected: [], agents: { a: { resources: {} } } };
      const bundle = sealBundle(content as never, { version: 1, madeAt: '' });
      const resource = { type: 'Path', id: '/etc/passwd' } as const;
      const context = { path: resource.id };
      const request = { principal: 'agent:a', action: 'file.read', resource, context } as const;
      const { decide } = makePolicy(bundle, { nowMs: () => 0 });
      console.log((await decide(request)).rules.join());`,
  });
  const own = join(import.meta.dirname, '..', '..');
  for (const part of ['policy', 'platform', 'wire'])
    cpSync(join(own, 'src', part), join(root, 'src', part), { recursive: true });
  symlinkSync(join(own, 'node_modules'), join(root, 'node_modules'));
  assert.deepEqual(runTool('build.ts', '--root', root), { status: 0, output: '' });
  rmSync(join(root, 'node_modules'));
  rmSync(join(root, 'src'), { recursive: true });
  assert.equal(run(root, 'daemon.mjs'), 'base:etc\n');
});

for (const source of ['src/runner/main.ts', 'src/clients/agentctl/main.ts']) {
  test(`${source} with zod in it is refused, and the importing file is named`, (t) => {
    const root = makeTree(t, {
      ...packages,
      [source]: "import { deep } from './deep.ts';\nconsole.log(deep);",
      [source.replace('main.ts', 'deep.ts')]: "import { z } from 'zod';\nexport const deep = z;",
    });
    const { status, output } = runTool('build.ts', '--root', root);
    assert.equal(status, 1);
    assert.match(output, /must not contain node_modules\/zod\/index\.js .* by src\/.*\/deep\.ts/);
  });
}

test('a runner with node:http in it is refused, and one with node:net is not', (t) => {
  const root = makeTree(t, { 'src/runner/main.ts': "import net from 'node:net';\nnet.isIP('');" });
  assert.deepEqual(runTool('build.ts', '--root', root), { status: 0, output: '' });
  addFiles(root, { 'src/runner/main.ts': "import http from 'node:http';\nhttp.get('');" });
  const { status, output } = runTool('build.ts', '--root', root);
  assert.equal(status, 1);
  assert.match(output, /must not contain node:http .* by src\/runner\/main\.ts/);
});

test('a broken source keeps the last good bundle', (t) => {
  const root = makeTree(t, { 'src/runner/main.ts': "console.log('good');" });
  runTool('build.ts', '--root', root);
  addFiles(root, { 'src/runner/main.ts': 'this is (not code' });
  const { status, output } = runTool('build.ts', '--root', root);
  assert.equal(status, 1);
  assert.match(output, /src\/runner\/main\.ts:1/);
  assert.equal(run(root, 'runner.mjs'), 'good\n');
});

test('outputs have the time of the build’s start, so that later edits are newer', (t) => {
  const root = makeTree(t, { 'src/runner/main.ts': "console.log('a');" });
  const before = Date.now();
  runTool('build.ts', '--root', root);
  const after = Date.now();
  const builtAt = statSync(join(root, 'build/runner.mjs')).mtimeMs;
  assert.ok(builtAt >= before - 1 && builtAt <= after, 'between start and end');
});

test('nothing to build is an error', (t) => {
  const { status, output } = runTool('build.ts', '--root', makeTree(t, { 'a.md': 'a' }));
  assert.equal(status, 1);
  assert.match(output, /no program to build/);
});

test('chunks are removed one build after the last that names them', (t) => {
  const root = makeTree(t, {
    'src/clients/agentctl/main.ts': "console.log((await import('./up.ts')).deep);",
    'src/clients/agentctl/up.ts': "export const { deep } = await import('./deep.ts');",
  });
  const build = (n: number) => {
    addFiles(root, { 'src/clients/agentctl/deep.ts': `export const deep = ${n};` });
    assert.equal(runTool('build.ts', '--root', root).status, 0);
    assert.equal(run(root, 'agentctl.mjs'), `${n}\n`);
    return readdirSync(join(root, 'build')).filter((name) => name.startsWith('agentctl-'));
  };
  const first = build(1);
  const second = build(2);
  for (const name of first) assert.ok(second.includes(name), 'a program may still load it');
  const third = build(3);
  assert.deepEqual(
    third.filter((name) => first.includes(name)),
    [],
  );
  assert.equal(third.length, 2 * first.length);
});
