// Mail that goes round in circles is found by its rate and its text.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { findMailLoop } from './mail-rules.ts';

const LIMITS = { turnsMax: 40, repeatsMax: 2 };
const MINUTE_MS = 60_000;
const words = (count: number, text: (n: number) => string) =>
  Array.from({ length: count }, (_, n) => ({ text: text(n), atMs: n * 1_000 }));

it('the same text again and again within minutes is a loop, and later it is not', () => {
  const said = words(3, () => 'I am on holiday.');
  const next = (atMs: number) => ({ text: 'I am on holiday', atMs });
  assert.match(findMailLoop(said, next(MINUTE_MS), LIMITS) ?? '', /the same .* 3 times/);
  assert.equal(findMailLoop(said, next(20 * MINUTE_MS), LIMITS), undefined);
  assert.equal(findMailLoop(said.slice(1), next(MINUTE_MS), LIMITS), undefined);
  const off = { ...LIMITS, repeatsMax: 0 };
  assert.equal(findMailLoop(said, next(MINUTE_MS), off), undefined);
});

it('more than a person writes in an hour is a loop', () => {
  const said = words(40, (n) => `mail number ${n}`);
  const next = (atMs: number) => ({ text: 'one more', atMs });
  assert.match(findMailLoop(said, next(MINUTE_MS), LIMITS) ?? '', /40 mails/);
  assert.equal(findMailLoop(said.slice(1), next(MINUTE_MS), LIMITS), undefined);
  assert.equal(findMailLoop(said, next(90 * MINUTE_MS), LIMITS), undefined);
  assert.equal(findMailLoop(said, next(MINUTE_MS), { ...LIMITS, turnsMax: 0 }), undefined);
});
