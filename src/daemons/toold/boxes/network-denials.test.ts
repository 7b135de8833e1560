// A command's result lists only the connections that were denied while it ran.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import type { EgressDenial } from '../../../wire/egressd.ts';
import { fault } from '../../../wire/errors.ts';
import type { RunId } from '../../../wire/primitives.ts';
import { newDenials, withDenials } from './network-denials.ts';

const denial = (host: string, count: number, more: Partial<EgressDenial> = {}): EgressDenial => ({
  host,
  port: 443,
  method: null,
  path: null,
  reason: 'host',
  askable: true,
  count,
  message: `${host} is not listed`,
  hint: 'Ask for it.',
  last_at: '2026-01-01T00:00:00.000Z',
  ...more,
});
const hosts = (before: EgressDenial[], after: EgressDenial[]) =>
  newDenials(before, after).map(({ host, port }) => `${host}:${port}`);

test('new or repeated denials are listed, each target once, up to five', () => {
  const old = denial('old.org', 3);
  assert.deepEqual(hosts([], []), []);
  assert.deepEqual(hosts([old], [old]), []);
  assert.deepEqual(hosts([old], [{ ...old, count: 4 }]), ['old.org:443']);
  assert.deepEqual(hosts([old], [denial('new.org', 1), old]), ['new.org:443']);
  const twice = [denial('a.org', 1, { path: '/x' }), denial('a.org', 1, { path: '/y' })];
  assert.deepEqual(hosts([], [...twice, denial('a.org', 1, { port: 80 })]), [
    'a.org:443',
    'a.org:80',
  ]);
  const many = Array.from({ length: 9 }, (_, i) => denial(`h${i}.org`, 1));
  assert.equal(newDenials([], many).length, 5);
  assert.deepEqual(newDenials([], [denial('a.org', 1)]), [
    { code: 'host', host: 'a.org', port: 443, reason: 'a.org is not listed', hint: 'Ask for it.' },
  ]);
});

test('the command succeeds while egressd is down, and a failure of the command stays one', async () => {
  const id = deriveId<RunId>('run', 'denials');
  const away = { getEgress: () => Promise.reject(fault('unavailable', 'away')) };
  assert.deepEqual(await withDenials(away, id, async () => 7), { done: 7, denied: [] });
  const failing = withDenials(away, id, () => Promise.reject(fault('denied', 'no')));
  await assert.rejects(failing, { code: 'denied' });
});
