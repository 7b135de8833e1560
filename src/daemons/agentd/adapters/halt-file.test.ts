// The file HALT: being there is what counts.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { followHaltFile } from './halt-file.ts';

test('halts by being there, with its text as the reason, readable or not', (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'halt-'));
  const file = join(dir, 'HALT');
  const halt = followHaltFile(file, () => {});
  t.after(() => {
    halt.stop();
    rmSync(dir, { recursive: true });
  });
  assert.equal(halt.present(), undefined);
  halt.set('a person said so');
  assert.equal(halt.present(), 'a person said so');
  halt.lift();
  assert.equal(halt.present(), undefined);
  writeFileSync(file, '');
  assert.equal(halt.present(), 'the file HALT is there');
  rmSync(file);
  mkdirSync(file);
  assert.equal(halt.present(), 'the file HALT is there', 'what cannot be read halts too');
});
