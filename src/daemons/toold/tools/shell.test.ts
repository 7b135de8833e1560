// Commands and logs through the tools: what a model gets, and what only an operator sets.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { openTestBox, type TestBox } from '../../../../test/support/test-box.ts';
import { fault } from '../../../wire/errors.ts';
import { notStartedFault } from './box.ts';
import { fileTools } from './files.ts';
import { logTools, parseTime, pickLines } from './logs.ts';
import { shellTools } from './shell.ts';

let world: TestBox;
const tests = { default: ['sh', '-c', 'echo ran; exit 3'], ok: ['true'] };
const tool = (name: string) =>
  [
    ...shellTools({ tests }, world.workspace),
    ...logTools(world.workspace),
    ...fileTools(world.workspace),
  ].find((one) => one.name === name);
const ask = (name: string, input: object) => world.result(tool(name), input);

beforeEach(async () => {
  world = await openTestBox();
});
afterEach(() => world.close());

describe('shell.exec', () => {
  it('runs in the workspace with a minimal environment and returns its exit', async () => {
    const done = await ask('shell.exec', { command: 'pwd; env | sort; echo no >&2; exit 4' });
    assert.equal(done.exit_code, 4);
    assert.equal(done.stderr, 'no\n');
    const [where, ...set] = String(done.stdout).trim().split('\n');
    assert.equal(where, world.workspace);
    const names = set.map((line) => line.split('=')[0]);
    assert.deepEqual(
      names.filter((name) => !['PWD', 'OLDPWD', 'SHLVL', '_'].includes(name!)),
      ['HOME', 'LANG', 'PATH', 'TMPDIR'],
    );
  });

  it('a command that runs or prints too long is ended, and says so', async () => {
    const slow = await ask('shell.exec', { command: 'sleep 60', timeout_s: 1 });
    assert.deepEqual([slow.exit_code, slow.ended_by], [null, 'wall']);
    const loud = await ask('shell.exec', { command: 'yes' });
    assert.deepEqual([loud.ended_by, loud.truncated], ['output', true]);
  });
});

describe('a box that is closed', () => {
  const failing = (error: unknown) => ({
    ...world.context,
    box: async () => ({
      ...world.box,
      exec: async () => {
        throw error;
      },
    }),
  });
  const doing = (name: string, error: unknown) =>
    tool(name)!.perform(tool(name)!.input.parse({ command: 'x' }), failing(error));

  it('leaves the outcome of a command open, unless it was closed before', async () => {
    const lost = doing('shell.exec', fault('unavailable', 'gone'));
    await assert.rejects(lost, { name: 'Error', message: /the box ended/ });
    const cause = fault('not_found', 'no such box');
    const gone = doing('shell.exec', fault('unavailable', 'gone', { cause }));
    await assert.rejects(gone, { code: 'unavailable' });
    await assert.rejects(doing('shell.exec', fault('denied', 'no')), { code: 'denied' });
  });

  it('so does a dismissal while the command ran, but not one before it', async () => {
    const ended = doing('shell.exec', fault('canceled', 'the caller gave up'));
    await assert.rejects(ended, { name: 'Error', message: /the box ended/ });
    await assert.rejects(doing('shell.exec', notStartedFault()), { code: 'canceled' });
  });
});

describe('tests.run', () => {
  it('runs what the operator declared, and nothing else', async () => {
    const failed = await ask('tests.run', {});
    assert.deepEqual([failed.passed, failed.exit_code, failed.stdout], [false, 3, 'ran\n']);
    assert.equal((await ask('tests.run', { name: 'ok' })).passed, true);
    for (const name of ['none', 'toString', '__proto__'])
      await assert.rejects(ask('tests.run', { name }), { code: 'not_found' });
    assert.equal(tool('tests.run')!.input.safeParse({ command: ['rm'] }).success, false);
  });
});

describe('logs.read', () => {
  const log = () => join(world.logs, 'access.log');
  const line = (i: number) =>
    `10.0.0.1 - - [29/Jun/2026:18:00:${String(i % 60).padStart(2, '0')} +0000] "GET /${i}"`;

  it('returns the last lines, filtered by time and text', async () => {
    writeFileSync(log(), Array.from({ length: 60 }, (_, i) => `${line(i)}\n`).join(''));
    const last = await ask('logs.read', { path: log(), tail_lines: 2 });
    assert.deepEqual([last.text, last.lines], [`${line(58)}\n${line(59)}`, 2]);
    const since = await ask('logs.read', { path: log(), since: '2026-06-29T18:00:57Z' });
    assert.equal(since.lines, 3);
    const found = await ask('logs.read', { path: log(), grep: 'get /7', ignore_case: true });
    assert.equal(found.text, line(7));
  });

  it('searches far back in a large log, and says when not far enough', async () => {
    writeFileSync(log(), 'the first line\n');
    for (let i = 0; i < 30; i++) appendFileSync(log(), `${'x'.repeat(99)}\n`.repeat(10_000));
    const far = await ask('logs.read', { path: log(), grep: 'the first' });
    assert.deepEqual([far.lines, typeof far.incomplete], [0, 'string']);
    assert.equal((await ask('logs.read', { path: log(), tail_lines: 3_000 })).lines, 3_000);
  });

  it('comes from outside, stays within readable paths, and cannot be written', async () => {
    assert.deepEqual(tool('logs.read')!.outputLabels, ['outside']);
    writeFileSync(join(world.outside, 'secret.log'), 'x');
    symlinkSync('../outside/secret.log', join(world.logs, 'way.log'));
    const path = join(world.logs, 'way.log');
    await assert.rejects(ask('logs.read', { path }), { code: 'denied' });
    writeFileSync(log(), 'x');
    await assert.rejects(ask('file.write', { path: log(), text: '' }), { code: 'denied' });
  });

  it('parses the times people write, and keeps continuation lines with their line', () => {
    const times = ['2026-06-29T18:00:00Z', '2026-06-29 18:00:00,000', '2026-06-29T20:00:00+02:00'];
    for (const text of [...times, 'a [29/Jun/2026:18:00:00 +0000] b'])
      assert.equal(parseTime(text), Date.parse('2026-06-29T18:00:00Z'), text);
    assert.equal(parseTime('no time'), undefined);
    const text = '2026-06-29T18:00:00Z old\n  at old\n2026-06-29T19:00:00Z new\n  at new\n';
    const wanted = { sinceMs: Date.parse('2026-06-29T18:30:00Z'), grep: undefined };
    const { lines } = pickLines(text, { ...wanted, ignoreCase: false, linesMax: 10 });
    assert.deepEqual(lines, ['2026-06-29T19:00:00Z new', '  at new']);
  });
});

describe("git's own files", () => {
  it('are not changed as files, under any name', async () => {
    mkdirSync(join(world.workspace, 'sub/.git'), { recursive: true });
    symlinkSync('.git', join(world.workspace, 'sub/alias'));
    writeFileSync(join(world.workspace, 'sub/.git/config'), '');
    for (const path of [
      'sub/.git/config',
      'sub/.GIT/hooks/pre-commit',
      'sub/.git',
      'sub/alias/config',
    ]) {
      await assert.rejects(ask('file.write', { path, text: 'x' }), { code: 'denied' }, path);
      await assert.rejects(ask('file.delete', { path }), { code: 'denied' }, path);
    }
    await ask('file.write', { path: 'sub/.gitignore', text: 'x' });
    assert.equal((await ask('file.read', { path: 'sub/.git/config' })).text, '');
  });
});
