// What the runtime says of itself is what the package says; its end is done to the end.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { endAll, VERSION } from './options.ts';

test('its version is that of the package', () => {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  assert.equal(VERSION, (JSON.parse(text) as { version: string }).version);
});

test('a step of the end that fails stops no other, and is told', async () => {
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
  await assert.rejects(endAll(steps), first);
  assert.deepEqual(done, ['drained', 'sockets removed']);
  await endAll(steps.filter((_, i) => i % 3 === 0));
});
