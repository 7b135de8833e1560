// Tests that a run's connections and denials cannot flood the log.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { makeConnectionRateLimit } from './connection-rate.ts';
import { makeDenials } from './denials.ts';
import { makeRefusal } from './rules/refusal.ts';

const HOUR_S = 3_600;

it('allows bursts of connections, then a steady rate', () => {
  const clock = manualClock(0);
  const pace = makeConnectionRateLimit(clock);
  let opened = 0;
  const openAll = () => {
    while (pace.tryAcquire() === 0) opened++;
  };
  openAll();
  assert.equal(opened, 256);
  assert.ok(pace.tryAcquire() <= 16, 'the next follows shortly');
  clock.advance(1_000);
  openAll();
  assert.equal(opened, 256 + 64);
  for (let s = 0; s < 5 * HOUR_S; s++) {
    clock.advance(1_000);
    openAll();
  }
  assert.ok(opened < 256 + 10_000 + 2 * 5 * HOUR_S + 10, `${opened} in five hours`);
  assert.ok(pace.tryAcquire() > 400);
});

it('does not slow a program that opens many for some minutes', () => {
  const clock = manualClock(0);
  const pace = makeConnectionRateLimit(clock);
  for (let s = 0; s < 180; s++) {
    for (let i = 0; i < 50; i++) assert.equal(pace.tryAcquire(), 0);
    clock.advance(1_000);
  }
});

it('denials are logged one by one, those of a run that never stops a few per minute', () => {
  const clock = manualClock(0);
  let [events, counted] = [0, 0];
  const denials = makeDenials({
    clock,
    report(_, repeats) {
      events++;
      counted += 1 + repeats;
    },
  });
  let denied = 0;
  const ask = (host: string) => {
    denied++;
    denials.record(makeRefusal('host', { host, port: 443 }));
  };
  for (let i = 0; i < 15; i++) ask(`few${i}.test`);
  assert.equal(events, 15, 'the first ones at once');
  for (let s = 0; s < HOUR_S; s++) {
    for (let i = 0; i < 100; i++) ask(`host${(denied * 7) % 1_000}.test`);
    clock.advance(1_000);
  }
  denials.flush();
  assert.equal(counted, denied, 'all are counted');
  assert.ok(events < 10_000, `${events} events for ${denied} refusals`);
});
