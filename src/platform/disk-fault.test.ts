// File system errors become faults with the path in them; other errors are unchanged.
import assert from 'node:assert/strict';
import { mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { diskFault } from './disk-fault.ts';

const thrownBy = (act: () => void): unknown => {
  try {
    act();
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
};

test('a full disk becomes storage_full', () => {
  const known = diskFault(thrownBy(() => writeSync(openSync('/dev/full', 'w'), 'x')));
  assert.equal(known?.code, 'storage_full');
  assert.equal(known.message, 'write: the disk is full (ENOSPC)');
});

test('an unusable path is named, with the reason', () => {
  const dir = mkdtempSync(join(tmpdir(), 'disk-fault-'));
  const known = diskFault(thrownBy(() => readFileSync(join(dir, 'none'))));
  assert.equal(known?.code, 'bad_config');
  assert.equal(known.message, `open ${dir}/none: no such file or directory (ENOENT)`);
  rmSync(dir, { recursive: true });
});

test('other errors are left unchanged', () => {
  const gone = Object.assign(new Error('gone'), { code: 'ECONNREFUSED', syscall: 'connect' });
  for (const other of [new Error('a bug'), gone, 'text', undefined])
    assert.equal(diskFault(other), undefined);
});
