// The runtime's version is the package's; a failed shutdown step does not stop the others.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { runAllSteps, VERSION } from './options.ts';

test("the version is the package's", () => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  assert.equal(VERSION, (JSON.parse(text) as { version: string }).version);
});

test('a failed shutdown step stops no other, and its error is thrown', async () => {
  const done: string[] = [];
  const first = new Error('the disk is full');
  const steps = [
    async () => void done.push('drained'),
    async () => Promise.reject(first),
    () => {
      throw new Error('another');
    },
    () => void done.push('sockets removed'),
  ];
  await assert.rejects(runAllSteps(steps), first);
  assert.deepEqual(done, ['drained', 'sockets removed']);
  await runAllSteps(steps.filter((_, i) => i % 3 === 0));
});
