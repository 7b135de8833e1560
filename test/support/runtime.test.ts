// The test runtime leaves nothing behind when its start is refused.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { startRuntime } from './runtime.ts';

test('a runtime that does not start leaves no directory', async () => {
  const before = process.env.TMPDIR;
  const dir = mkdtempSync(join(tmpdir(), 'u-'));
  process.env.TMPDIR = dir;
  try {
    await assert.rejects(startRuntime({ config: 'nobody: {}\n' }), { code: 'bad_config' });
    assert.deepEqual(readdirSync(dir), []);
  } finally {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    rmSync(dir, { recursive: true });
  }
});
