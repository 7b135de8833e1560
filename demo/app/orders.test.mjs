// Tests the order lookup: it finds the right order without reading every order.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { makeFinder } from './orders.mjs';

let reads = 0;
const orders = Array.from({ length: 5_000 }, (_, i) => {
  const number = `A${String(i).padStart(7, '0')}`;
  return {
    get id() {
      reads++;
      return number;
    },
  };
});

test('finds an order by its number', () => {
  assert.equal(makeFinder(orders)('A0004711')?.id, 'A0004711');
  assert.equal(makeFinder(orders)('B0000001'), undefined);
});

test('reads a few orders per request, not all of them', () => {
  const find = makeFinder(orders);
  reads = 0;
  find('A0004999');
  assert.ok(reads <= 10, `one request read ${reads} of ${orders.length} orders`);
});
