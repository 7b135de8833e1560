// Tests that a run's connections and denials cannot flood the log.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { manualClock } from '../../platform/clock.ts';
import { makeConnectionRateLimit } from './connection-rate.ts';
import { makeDenials } from './denials.ts';
import { makeRefusal } from './rules/refusal.ts';

const HOUR_S = 3_600;

it('connections come in bursts, and for long only slowly', () => {
  const clock = manualClock(0);
  const pace = makeConnectionRateLimit(clock);
  let opened = 0;
  const openAll = () => {
    while (pace.tryAcquire() === 0) opened++;
  };
  openAll();
  assert.equal(opened, 256);
  assert.ok(pace.tryAcquire() <= 16, 'the next is soon');
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

it('a program that opens many for some minutes is not held back', () => {
  const clock = manualClock(0);
  const pace = makeConnectionRateLimit(clock);
  for (let s = 0; s < 180; s++) {
    for (let i = 0; i < 50; i++) assert.equal(pace.tryAcquire(), 0);
    clock.advance(1_000);
  }
});

it('refusals are told one by one, and those of a run that never stops a few a minute', () => {
  const clock = manualClock(0);
  let [events, told] = [0, 0];
  const denials = makeDenials({
    clock,
    report(_, repeats) {
      events++;
      told += 1 + repeats;
    },
  });
  let asked = 0;
  const ask = (host: string) => {
    asked++;
    denials.record(makeRefusal('host', { host, port: 443 }));
  };
  for (let i = 0; i < 15; i++) ask(`few${i}.test`);
  assert.equal(events, 15, 'the first ones at once');
  for (let s = 0; s < HOUR_S; s++) {
    for (let i = 0; i < 100; i++) ask(`host${(asked * 7) % 1_000}.test`);
    clock.advance(1_000);
  }
  denials.flush();
  assert.equal(told, asked, 'none is forgotten');
  assert.ok(events < 10_000, `${events} events for ${asked} refusals`);
});
