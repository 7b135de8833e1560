// The test runner leaves nothing behind, also when it is cut off: what tests made is below its own
// directory, and what they started may end in order.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, watch } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeTree, projectRoot } from './fixture.ts';

/** Makes a directory and a program that says how it was ended, and does not end by itself. */
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
  test(`cut off by ${signal}, nothing stays`, { timeout: 60_000 }, async (t) => {
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
    assert.ok(existsSync(join(place, 'sign')), 'what was started could end in order');
  });
