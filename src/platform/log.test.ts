// A log that cannot be written does not end the process.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

test('a process whose log is on a full disk keeps running', () => {
  const full = openSync('/dev/full', 'w');
  const code = `import { makeLog, stderrSink } from ${JSON.stringify(join(import.meta.dirname, 'log.ts'))};
    const log = makeLog(stderrSink);
    log.info('one');
    log.info('two');
    setTimeout(() => console.log('alive'), 10);`;
  const done = spawnSync(process.execPath, ['--input-type=module-typescript', '-e', code], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', full],
  });
  closeSync(full);
  assert.equal(done.stdout, 'alive\n');
  assert.equal(done.status, 0);
});
