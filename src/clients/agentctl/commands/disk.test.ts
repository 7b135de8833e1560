// Disk errors name the path and the reason, and are never reported as a bug: a read-only state
// directory, a full disk, a missing directory.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it, test } from 'node:test';
import { agentctl } from '../testing/run-agentctl.ts';

const dir = mkdtempSync(join(tmpdir(), 'actl-disk-'));
const state = join(dir, 'state');
const ctl = (...args: string[]) => agentctl(args, { state });
const mount = (...args: string[]) => execFileSync('mount', args, { stdio: 'ignore' });

function mounted(): boolean {
  if (process.getuid?.() !== 0) return false;
  try {
    mount('-t', 'tmpfs', '-o', 'size=256k,mode=0700', 'tmpfs', dir);
    return true;
  } catch {
    return false;
  }
}
const isMounted = mounted();
after(() => {
  if (isMounted) execFileSync('umount', [dir]);
  rmSync(dir, { recursive: true, force: true });
});

function fillDisk(): void {
  const fd = openSync(join(dir, 'filler'), 'a');
  for (let size = 65_536; size >= 1; ) {
    try {
      if (writeSync(fd, Buffer.alloc(size)) < size) size = Math.floor(size / 2);
    } catch {
      size = Math.floor(size / 2);
    }
  }
  closeSync(fd);
}

test('a missing state directory is not reported as a bug', async () => {
  const ran = await agentctl(['person', 'add', 'ann', '--state', join(dir, 'none')]);
  assert.equal(ran.code, 5);
  assert.match(ran.stderr, /state directory .*none not found \(not_found\)\n.*agentctl up/);
});

describe('a disk', { skip: isMounted ? false : 'needs root to mount a small tmpfs' }, () => {
  before(() => {
    for (const below of ['audit', 'logs'])
      mkdirSync(join(state, below), { recursive: true, mode: 0o700 });
    writeFileSync(join(state, 'audit', 'audit.jsonl'), 'x'.repeat(5_000));
  });

  it('that is full: halt takes effect, and no partial key or copy is left', async () => {
    const copy = join(dir, 'copy');
    mkdirSync(copy);
    fillDisk();
    const halted = await ctl('halt', '--reason', 'no room to say why');
    assert.equal(halted.code, 0, halted.stderr);
    assert.ok(existsSync(join(state, 'HALT')));
    const person = await ctl('person', 'add', 'ann');
    assert.equal(person.code, 1);
    assert.match(person.stderr, /the disk is full \(ENOSPC\) \(storage_full\)\nFree space/);
    const exported = await ctl('audit', 'export', copy, '--json');
    assert.equal(JSON.parse(exported.stderr).error.code, 'storage_full');
    assert.deepEqual(readdirSync(copy), []);
    rmSync(join(dir, 'filler'));
    assert.equal((await ctl('audit', 'export', copy)).code, 0);
    assert.equal((await ctl('person', 'add', 'ann')).code, 0);
    assert.ok(readFileSync(join(state, 'people', 'ann.key'), 'utf8').length > 32);
  });

  it('that is read-only: every command names the path', async () => {
    mount('-o', 'remount,ro', dir);
    for (const [args, path] of [
      [['halt'], 'state/HALT'],
      [['up'], 'state/logs/runtime.log'],
      [['person', 'add', 'bob'], 'state/people/bob.key'],
      [['audit', 'export', join(dir, 'new')], 'new'],
    ] as const) {
      const ran = await ctl(...args);
      assert.equal(ran.code, 78, ran.stderr);
      assert.ok(ran.stderr.includes(`${join(dir, path)}: that file system is read-only (EROFS)`));
    }
    const doctor = await ctl('doctor');
    assert.equal(doctor.code, 1);
    assert.match(doctor.stdout, /fail {2}state .* cannot be written \(EROFS\)\n +fix: findmnt -T/);
    mount('-o', 'remount,rw', dir);
  });
});
