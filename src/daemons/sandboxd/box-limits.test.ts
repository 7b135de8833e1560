// Tests that a manifest's resources become limits of a box and of its commands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxLimits, commandLimits } from './box-limits.ts';
import { sandboxdConfig } from './config.ts';

const config = sandboxdConfig.parse({});
const limits = (resources: object) =>
  boxLimits(config, { read: [], write: [], deny: [], resources });

test('the CPU share is for the whole box, in thousandths; unset means no limit', () => {
  assert.equal(limits({ cpu: 1.5 }).cpuMilli, 1_500);
  assert.equal(limits({ cpu: 0.0001 }).cpuMilli, 1, 'never rounded to no limit');
  assert.equal(limits({}).cpuMilli, 0);
  assert.equal(commandLimits(config, {}, limits({ cpu: 0.5 })).cpuMilli, 0, 'limited by its box');
});

test("memory and processes are the lower of the manifest's and the site's limit", () => {
  const asked = limits({ memory_bytes: 2 ** 30, pids: 10 });
  assert.deepEqual([asked.memoryBytes, asked.pids], [2 ** 30, 10]);
  const much = limits({ memory_bytes: 2 ** 50, pids: 100_000 });
  assert.deepEqual([much.memoryBytes, much.pids], [config.box_memory_bytes, config.box_pids]);
});
