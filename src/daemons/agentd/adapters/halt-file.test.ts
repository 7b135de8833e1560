// The file HALT halts by existing.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { pollHaltFile } from './halt-file.ts';

test('halts by existing, with its text as the reason, readable or not', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'halt-'));
  const file = join(dir, 'HALT');
  const halt = pollHaltFile(file, () => {});
  t.after(() => {
    halt.stop();
    rmSync(dir, { recursive: true });
  });
  assert.equal(halt.readReason(), undefined);
  halt.set('maintenance');
  assert.equal(halt.readReason(), 'maintenance');
  halt.lift();
  assert.equal(halt.readReason(), undefined);
  writeFileSync(file, '');
  assert.equal(halt.readReason(), 'the file HALT exists');
  rmSync(file);
  mkdirSync(file);
  assert.equal(halt.readReason(), 'the file HALT exists', 'an unreadable file halts too');
});
