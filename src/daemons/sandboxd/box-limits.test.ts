// Tests that a manifest's resources become limits of a box and of its commands.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { boxLimits, commandLimits } from './box-limits.ts';
import { sandboxdConfig } from './config.ts';

const config = sandboxdConfig.parse({});
const limits = (resources: object) =>
  boxLimits(config, { read: [], write: [], deny: [], resources });

test('a share of the processors is the whole box’s, in thousandths; none is no limit', () => {
  assert.equal(limits({ cpu: 1.5 }).cpuMilli, 1_500);
  assert.equal(limits({ cpu: 0.0001 }).cpuMilli, 1, 'never none by rounding');
  assert.equal(limits({}).cpuMilli, 0);
  assert.equal(commandLimits(config, {}, limits({ cpu: 0.5 })).cpuMilli, 0, 'its box holds it');
});

test('memory and processes are the smaller of what the manifest and the site say', () => {
  const asked = limits({ memory_bytes: 2 ** 30, pids: 10 });
  assert.deepEqual([asked.memoryBytes, asked.pids], [2 ** 30, 10]);
  const much = limits({ memory_bytes: 2 ** 50, pids: 100_000 });
  assert.deepEqual([much.memoryBytes, much.pids], [config.box_memory_bytes, config.box_pids]);
});
