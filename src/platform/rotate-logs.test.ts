// Rotation of logs: a writer with the file open continues, no line is lost, old files are limited.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { rotateLogs } from './rotate-logs.ts';

const made: string[] = [];
after(() => {
  for (const dir of made) rmSync(dir, { recursive: true });
});
function freshDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'agentd-logs-'));
  made.push(dir);
  return dir;
}
const LIMITS = { sizeBytesMax: 1_000, filesMax: 2 };

describe('rotating logs', () => {
  it('lets a writer continue, loses no line, and keeps a number of old files', async () => {
    const dir = freshDir();
    const fd = openSync(join(dir, 'runtime.log'), 'a');
    const kept: string[] = [];
    for (let round = 0; round < 4; round++) {
      const rotating: Promise<string[]>[] = [];
      for (let n = 0; n < 100; n++) {
        writeSync(fd, `round ${round} line ${n}\n`);
        if (n === 60) rotating.push(rotateLogs(dir, LIMITS));
        if (n % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
      }
      assert.deepEqual(await rotating[0], ['runtime.log']);
    }
    closeSync(fd);
    assert.deepEqual(readdirSync(dir).sort(), ['runtime.log', 'runtime.log.1', 'runtime.log.2']);
    for (const name of ['runtime.log.2', 'runtime.log.1', 'runtime.log'])
      kept.push(...readFileSync(join(dir, name), 'utf8').split('\n').filter(Boolean));
    const all = Array.from(
      { length: 400 },
      (_, i) => `round ${Math.floor(i / 100)} line ${i % 100}`,
    );
    assert.deepEqual(kept, all.slice(-kept.length));
    assert.ok(kept.length >= 200);
  });

  it('leaves small logs, other files and links alone', async () => {
    const dir = freshDir();
    const big = 'x'.repeat(2_000);
    writeFileSync(join(dir, 'small.log'), 'x');
    writeFileSync(join(dir, 'notes.txt'), big);
    writeFileSync(join(dir, 'target'), big);
    assert.deepEqual(await rotateLogs(dir, LIMITS), []);
    symlinkSync('target', join(dir, 'link.log'));
    writeFileSync(join(dir, 'own.log'), big);
    await assert.rejects(rotateLogs(dir, LIMITS));
    assert.equal(readFileSync(join(dir, 'own.log.1'), 'utf8'), big, 'the others are rotated');
    assert.equal(readFileSync(join(dir, 'target'), 'utf8'), big);
  });

  it('removes more than are kept, and what a crash left', async () => {
    const dir = freshDir();
    for (const name of ['a.log', 'a.log.1', 'a.log.2', 'a.log.3', 'a.log.17', 'a.log.tmp'])
      appendFileSync(join(dir, name), name);
    await rotateLogs(dir, LIMITS);
    assert.deepEqual(readdirSync(dir).sort(), ['a.log', 'a.log.1', 'a.log.2']);
    assert.equal(existsSync(join(dir, 'a.log.tmp')), false);
  });
});
