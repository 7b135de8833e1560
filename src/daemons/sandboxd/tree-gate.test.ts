// The gate of a task tree: a change below its layer waits for commands, and commands for it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { makeTreeGate } from './tree-gate.ts';

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('a hold waits for what is inside, and nothing enters meanwhile', async () => {
  const gate = makeTreeGate(manualClock(0));
  const done: string[] = [];
  const first = await gate.enter('t');
  const second = await gate.enter('t');
  assert.equal(gate.isEmpty('t'), false);
  const holding = gate.hold('t').then((leave) => {
    done.push('held');
    return leave;
  });
  const late = gate.enter('t').then((leave) => {
    done.push('entered');
    return leave;
  });
  first();
  await turn();
  assert.deepEqual(done, []);
  (await gate.enter('other'))();
  second();
  const release = await holding;
  await turn();
  assert.deepEqual(done, ['held'], 'it waits until the hold ends');
  release();
  (await late)();
  assert.deepEqual(done, ['held', 'entered']);
  assert.equal(gate.isEmpty('t'), true);
});

test('a hold gives up when a command stays, and lets others in again', async () => {
  const clock = manualClock(0);
  const gate = makeTreeGate(clock);
  const leave = await gate.enter('t');
  const holding = assert.rejects(gate.hold('t', 500), {
    code: 'overloaded',
    message: /a command of the task is running/,
  });
  await turn();
  clock.advance(500);
  await holding;
  (await gate.enter('t'))();
  leave();
  (await gate.hold('t'))();
});

test('holds of one tree come one after the other', async () => {
  const gate = makeTreeGate(manualClock(0));
  const first = await gate.hold('t');
  let hasSecond = false;
  const second = gate.hold('t').then((leave) => {
    hasSecond = true;
    return leave;
  });
  await turn();
  assert.equal(hasSecond, false);
  first();
  (await second)();
});

test('what is barred waits for the end of the bar, or fails; a hold is possible', async () => {
  const clock = manualClock(0);
  const gate = makeTreeGate(clock);
  gate.bar('t');
  gate.bar('t');
  const waiting = gate.enter('t');
  const release = await gate.hold('t');
  release();
  await turn();
  assert.equal(gate.isEmpty('t'), true);
  gate.lift('t');
  const leave = await waiting;
  leave();
  (await gate.enter('other'))();
  gate.bar('t');
  const late = gate.enter('t');
  await turn();
  clock.advance(10_000);
  await assert.rejects(late, { code: 'overloaded', message: /not finished/ });
});
