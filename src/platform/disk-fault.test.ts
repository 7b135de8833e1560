// Errors of the file system become faults with the path in them; bugs stay bugs.
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

test('a full disk is said to be full', () => {
  const known = diskFault(thrownBy(() => writeSync(openSync('/dev/full', 'w'), 'x')));
  assert.equal(known?.code, 'storage_full');
  assert.equal(known.message, 'write: the disk is full (ENOSPC)');
});

test('a path that cannot be used is named, and why', () => {
  const dir = mkdtempSync(join(tmpdir(), 'disk-fault-'));
  const known = diskFault(thrownBy(() => readFileSync(join(dir, 'none'))));
  assert.equal(known?.code, 'bad_config');
  assert.equal(known.message, `open ${dir}/none: no such file or directory (ENOENT)`);
  rmSync(dir, { recursive: true });
});

test('what is no error of the disk is left as it is', () => {
  const gone = Object.assign(new Error('gone'), { code: 'ECONNREFUSED', syscall: 'connect' });
  for (const other of [new Error('a bug'), gone, 'text', undefined])
    assert.equal(diskFault(other), undefined);
});
