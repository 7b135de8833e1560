// The verifying program as a person sees it: its output, and the files it leaves.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { addEvents, copyDir, makeDir, writeLog } from './log/fixture.ts';
import { VERIFIED_FILE } from './log/verified-file.ts';

const PROGRAM = path.join(import.meta.dirname, 'verify-main.ts');
const NOBODY = 65_534;

function verify(...args: string[]): { code: number | null; stdout: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [PROGRAM, ...args], {
    encoding: 'utf8',
    env: {},
  });
  assert.equal(stderr, '');
  return { code: status, stdout };
}

test('its own log: the report separates events hashed now and earlier', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  const first = verify('--own', dir);
  assert.equal(first.code, 0);
  assert.match(first.stdout, /^The log is whole: 30 events\.\nRoot /);
  await addEvents(dir, 12);
  const next = verify('--own', dir);
  const time = '\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z';
  assert.match(
    next.stdout,
    new RegExp(
      '^The log is whole: 42 events\\.\n' +
        `Verified 12 events since ${time} \\(30 verified earlier\\)\\.\n` +
        `--full hashes everything; that was last done at ${time}\\.\nRoot `,
    ),
  );
  const { verify: full } = JSON.parse(verify('--own', '--full', '--json', dir).stdout);
  assert.deepEqual([full.hashed, full.verified_earlier], [42, null]);
});

test('against a checkpoint or a key kept elsewhere everything is hashed', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  verify('--own', dir);
  const kept = path.join(dir, 'checkpoint');
  const key = fs.readFileSync(path.join(dir, 'keys', 'public.txt'), 'utf8').trim();
  for (const more of [
    ['--from', kept],
    ['--key', key],
  ]) {
    const { verify: report } = JSON.parse(verify('--own', '--json', ...more, dir).stdout);
    assert.deepEqual([report.ok, report.hashed], [true, 30], more[0]);
  }
});

test('a copy is only read', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  const copy = copyDir(t, dir);
  for (let n = 0; n < 2; n += 1)
    assert.equal(JSON.parse(verify('--json', copy).stdout).verify.hashed, 30);
  assert.ok(!fs.existsSync(path.join(copy, VERIFIED_FILE)));
});

test('a result that cannot be stored is a warning, not a failure', async (t) => {
  const dir = makeDir(t);
  await writeLog(dir, 3);
  // Not a file that a rename could replace; modes would not stop root.
  fs.mkdirSync(path.join(dir, VERIFIED_FILE));
  const { code, stdout } = verify('--own', dir);
  assert.equal(code, 0);
  assert.match(stdout, /verified\.json could not be written \(EISDIR\)/);
  assert.deepEqual(
    fs.readdirSync(dir).filter((name) => name.startsWith(`${VERIFIED_FILE}.`)),
    [],
    'nothing is left of the attempt',
  );
});

test('root leaves the file to the owner of the log', async (t) => {
  if (process.getuid!() !== 0) return t.skip('needs root');
  const dir = makeDir(t);
  await writeLog(dir, 3);
  for (const name of ['.', ...fs.readdirSync(dir, { recursive: true }).map(String)])
    fs.chownSync(path.join(dir, name), NOBODY, NOBODY);
  // As below a home that only root can enter.
  fs.chmodSync(path.dirname(dir), 0o700);
  assert.equal(verify('--own', dir).code, 0);
  assert.equal(fs.statSync(path.join(dir, VERIFIED_FILE)).uid, NOBODY);
});
