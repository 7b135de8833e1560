// The test runner itself: its counts, and that a file that did not run never counts as passed.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeTree, runTool } from './fixture.ts';

const suite = (...lines: string[]): string[] => ["import { test } from 'node:test';", ...lines];
const lastLine = (output: string): string => output.trimEnd().split('\n').at(-1)!;

test('counts passed, failed and skipped tests, and shows the reasons', (t) => {
  const root = makeTree(t, {
    'test/scenario/mixed.test.ts': suite(
      "test('good', () => {});",
      "test('bad', () => { throw new Error('it broke'); });",
      "test('cannot', { skip: 'no such device' }, () => {});",
      "test('outer', async (t) => { await t.test('inner', () => { throw new Error('deep'); }); });",
      "test('noted', (t) => { t.diagnostic('a remark'); });",
    ),
  });
  const { status, output } = runTool('test.ts', '--root', root);
  assert.equal(lastLine(output), '2 passed, 2 failed, 1 skipped');
  assert.match(output, /SKIPPED test\/scenario\/mixed\.test\.ts: cannot: no such device/);
  assert.match(output, /FAILED +test\/scenario\/mixed\.test\.ts: outer › inner/);
  assert.match(output, /Error: it broke/);
  assert.match(output, /a remark/);
  assert.equal(status, 1);
});

test('exits with 0 when all tests pass', (t) => {
  const root = makeTree(t, { 'src/a.test.ts': suite("test('good', () => {});") });
  const { status, output } = runTool('test.ts', '--root', root);
  assert.equal(lastLine(output), '1 passed, 0 failed, 0 skipped');
  assert.equal(status, 0);
});

test('runs only the named files and folders', (t) => {
  const root = makeTree(t, {
    'src/a.test.ts': suite("test('a', () => {});"),
    'test/wire/b.test.ts': suite("test('b', () => { throw new Error('b'); });"),
  });
  assert.equal(runTool('test.ts', '--root', root, 'src/a.test.ts').status, 0);
  assert.equal(runTool('test.ts', '--root', root, 'test/wire').status, 1);
});

const bad: Record<string, { lines: string[]; says: RegExp; limitS?: number }> = {
  'a file without tests': { lines: ["console.log('nothing here');"], says: /ran no test/ },
  'a file that does not parse': { lines: ['this is (not code'], says: /exited with 1/ },
  'a process that exits early': {
    lines: suite("test('good', () => {});", 'setTimeout(() => process.exit(3), 20);'),
    says: /exited with 3/,
  },
  'a process that is killed': {
    lines: suite("test('good', () => { process.kill(process.pid, 'SIGKILL'); });"),
    says: /was ended by SIGKILL/,
  },
  'a process that does not end': {
    lines: suite("test('good', () => {});", 'setInterval(() => {}, 1000);'),
    says: /did not end within 1 s/,
    limitS: 1,
  },
};

for (const [name, { lines, says, limitS = 120 }] of Object.entries(bad)) {
  test(`fails: ${name}`, (t) => {
    const root = makeTree(t, { 'src/a.test.ts': lines });
    const { status, output } = runTool('test.ts', '--root', root, '--limit-s', String(limitS));
    assert.match(output, says);
    assert.equal(status, 1);
  });
}

test('a run with only skipped tests or without tests fails', (t) => {
  const root = makeTree(t, { 'src/a.test.ts': suite("test('a', { skip: 'no' }, () => {});") });
  const skipped = runTool('test.ts', '--root', root);
  assert.match(skipped.output, /nothing was run/);
  assert.equal(skipped.status, 1);
  const none = runTool('test.ts', '--root', root, 'test/fuzz');
  assert.match(none.output, /no test file in test\/fuzz/);
  assert.equal(none.status, 2);
});
