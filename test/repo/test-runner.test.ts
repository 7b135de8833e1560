// The test runner runs a failed file a second time and tolerates a few flaky files. It leaves
// nothing behind, even when it is interrupted: tests write below its own directory, and processes
// that they started get time to exit.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, statSync, watch } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type Files, makeTree, projectRoot, runTool, type ToolRunResult } from './fixture.ts';

/** Creates a directory and starts a program that records its end and does not end by itself. */
const HANGS = `import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
test('hangs', async () => {
  mkdtempSync(join(tmpdir(), 'left-'));
  const script = 'trap "echo in order > SIGN; exit" TERM; sleep 60 & echo > READY; wait';
  const cwd = process.env.PLACE;
  spawn('sh', ['-c', script.replace('SIGN', cwd + '/sign').replace('READY', cwd + '/ready')]);
  await new Promise((done) => setTimeout(done, 60_000));
});
`;

function appears(dir: string, name: string): Promise<void> {
  return new Promise((resolve) => {
    const watcher = watch(dir, () => {
      if (!existsSync(join(dir, name))) return;
      watcher.close();
      resolve();
    });
  });
}

for (const signal of ['SIGTERM', 'SIGHUP'] as const)
  test(`interrupted by ${signal}, it leaves nothing`, { timeout: 60_000 }, async (t) => {
    const root = makeTree(t, { 'src/hangs.test.ts': HANGS });
    const [place, tmp] = [join(root, 'place'), join(root, 'tmp')];
    for (const dir of [place, tmp]) mkdirSync(dir);
    const ready = appears(place, 'ready');
    const runner = spawn(
      process.execPath,
      [join(projectRoot, 'tools/test.ts'), '--root', root, 'src'],
      { env: { ...process.env, TMPDIR: tmp, PLACE: place }, stdio: 'ignore' },
    );
    const ended = new Promise((resolve) => runner.once('exit', resolve));
    await ready;
    assert.equal(readdirSync(tmp).length, 1, 'one directory for all of them');
    runner.kill(signal);
    assert.equal(await ended, 130);
    assert.deepEqual(readdirSync(tmp), []);
    assert.ok(existsSync(join(place, 'sign')), 'the process could exit cleanly');
  });

/** A test file that does `badly` in its first run and passes in every later one. */
const failsOnce = (name: string, badly = "throw new Error('unlucky')"): string[] => [
  "import { existsSync, writeFileSync } from 'node:fs';",
  "import { test } from 'node:test';",
  `const isFirst = !existsSync('${name}.ran');`,
  `writeFileSync('${name}.ran', '');`,
  `console.log('${name}, the ' + (isFirst ? 'first' : 'second') + ' run');`,
  `test('${name} is unlucky', async () => { if (isFirst) { ${badly}; } });`,
  "test('steady', () => {});",
];
const ALWAYS_FAILS = [
  "import { test } from 'node:test';",
  "test('broken', () => { throw new Error('as always'); });",
];
const PASSES = ["import { test } from 'node:test';", "test('good', () => {});"];
const HANG = 'await new Promise((done) => setTimeout(done, 60_000))';

function runFiles(
  t: TestContext,
  files: Files,
  ...args: string[]
): ToolRunResult & { lastLine: string } {
  const ran = runTool('test.ts', '--root', makeTree(t, files), ...args);
  return { ...ran, lastLine: ran.output.trimEnd().split('\n').at(-1)! };
}
const countOf = (text: string, part: RegExp): number => text.match(part)?.length ?? 0;

test('a file that fails once passes as flaky, and both outputs are shown', (t) => {
  const { status, output, lastLine } = runFiles(t, {
    'src/good.test.ts': PASSES,
    'src/unlucky.test.ts': failsOnce('unlucky'),
  });
  assert.equal(lastLine, '3 passed, 0 failed, 0 skipped');
  assert.equal(status, 0);
  assert.match(output, /^FLAKY {3}src\/unlucky\.test\.ts: .*: unlucky is unlucky$/m);
  assert.match(output, /Error: unlucky/);
  assert.match(output, /unlucky, the first run[\s\S]*unlucky, the second run/);
  assert.doesNotMatch(output, /^FAILED/m);
  assert.equal(countOf(output, /src\/good\.test\.ts/g), 1, 'a passed file is run once');
});

test('a file that fails twice fails the run and is counted once', (t) => {
  const { status, output, lastLine } = runFiles(t, {
    'src/good.test.ts': PASSES,
    'src/broken.test.ts': ALWAYS_FAILS,
    'src/unlucky.test.ts': failsOnce('unlucky'),
  });
  assert.equal(lastLine, '3 passed, 1 failed, 0 skipped');
  assert.equal(status, 1);
  assert.match(output, /^FAILED {2}src\/broken\.test\.ts: broken$/m);
  assert.match(output, /^FLAKY {3}src\/unlucky\.test\.ts/m);
  assert.equal(countOf(output, /Error: as always/g), 2, 'both failures are shown');
});

for (const [count, isTolerated] of [
  [3, true],
  [4, false],
] as const)
  test(`${count} flaky files ${isTolerated ? 'pass' : 'fail the run'}`, (t) => {
    const names = Array.from({ length: count }, (_, i) => `unlucky-${i}`);
    const { status, output, lastLine } = runFiles(
      t,
      Object.fromEntries(names.map((name) => [`src/${name}.test.ts`, failsOnce(name)])),
    );
    assert.equal(countOf(output, /^FLAKY {3}/gm), count);
    assert.equal(status, isTolerated ? 0 : 1);
    assert.equal(
      lastLine,
      isTolerated ? '6 passed, 0 failed, 0 skipped' : '4 passed, 4 failed, 0 skipped',
    );
    assert.equal(/at most 3 may be/.test(output), !isTolerated);
  });

test('a file that hangs once is flaky, and one that hangs twice fails', (t) => {
  const once = runFiles(t, { 'src/slow.test.ts': failsOnce('slow', HANG) }, '--limit-s', '4');
  assert.match(once.output, /did not end within 4 s/);
  assert.match(once.output, /^FLAKY {3}src\/slow\.test\.ts/m);
  assert.equal(once.lastLine, '2 passed, 0 failed, 0 skipped');
  assert.equal(once.status, 0);
  const always = ["import { test } from 'node:test';", `test('hangs', async () => { ${HANG}; });`];
  const twice = runFiles(t, { 'src/slow.test.ts': always }, '--limit-s', '1');
  assert.equal(countOf(twice.output, /did not end within 1 s/g), 2);
  assert.equal(twice.lastLine, '0 passed, 1 failed, 0 skipped');
  assert.equal(twice.status, 1);
});

test('many failed files are not run again', (t) => {
  const names = Array.from({ length: 11 }, (_, i) => `unlucky-${i}`);
  const { status, output, lastLine } = runFiles(
    t,
    Object.fromEntries(names.map((name) => [`src/${name}.test.ts`, failsOnce(name)])),
  );
  assert.match(output, /11 files failed: too many/);
  assert.equal(lastLine, '11 passed, 11 failed, 0 skipped');
  assert.equal(status, 1);
});

test('a long fuzz run is not repeated: a second run could hide what the first found', (t) => {
  process.env.FUZZ = 'long';
  t.after(() => delete process.env.FUZZ);
  const { status, output, lastLine } = runFiles(t, { 'src/fuzz.test.ts': failsOnce('fuzz') });
  assert.equal(lastLine, '1 passed, 1 failed, 0 skipped');
  assert.equal(status, 1);
  assert.doesNotMatch(output, /FLAKY/);
});

const IS_ROOT = process.getuid?.() === 0;
const skip = IS_ROOT ? false : 'needs root';
test('below a directory that only root can enter, another user can run programs', { skip }, (t) => {
  const reads = [
    "import { spawnSync } from 'node:child_process';",
    "import { test } from 'node:test';",
    "const who = ['--reuid=65534', '--regid=65534', '--clear-groups'];",
    "test('reads', () => {",
    "  const { status } = spawnSync('setpriv', [...who, 'cat', import.meta.filename]);",
    "  if (status !== 0) throw new Error('cannot read ' + import.meta.filename);",
    '});',
  ];
  const closed = makeTree(t, { 'clone/src/reads.test.ts': reads });
  const clone = join(closed, 'clone');
  assert.equal(statSync(closed).mode & 0o777, 0o700);
  const { status, output } = runTool('test.ts', '--root', clone, 'src');
  assert.equal(status, 0, output);
  assert.deepEqual(readdirSync(join(clone, 'src')), ['reads.test.ts']);
  const file = join(clone, 'src/reads.test.ts');
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  assert.equal(spawnSync(process.execPath, [file], { env }).status, 1, 'control: in its own place');
});
