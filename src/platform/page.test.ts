// Cursors are read back unchanged, anything else is refused; the last page has no cursor.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFault } from './daemon.ts';
import { cutPage, readIdCursor, readNumberCursor } from './page.ts';

const ID = `task_${'0'.repeat(26)}`;
const refused = (read: () => unknown) =>
  assert.throws(read, (error: unknown) => isFault(error, 'bad_request'));

test('a cursor is read back, and none is none', () => {
  assert.equal(readNumberCursor('42'), 42);
  assert.equal(readIdCursor(ID), ID);
  assert.equal(readIdCursor(ID, 'task'), ID);
  assert.equal(readNumberCursor(undefined), undefined);
  assert.equal(readIdCursor(undefined, 'task'), undefined);
});

test('a cursor that no page returned is refused', () => {
  for (const text of ['', '-1', '1.5', '1e3', ' 1', '9'.repeat(16), ID])
    refused(() => readNumberCursor(text));
  for (const text of ['', '1', `${ID}0`, `${ID}'`, ID.toUpperCase()])
    refused(() => readIdCursor(text));
  refused(() => readIdCursor(ID, 'permit'));
});

test('a page has the cursor of its last row when more follow', () => {
  const found = [5, 4, 3];
  assert.deepEqual(cutPage(found, 2, Number), { rows: [5, 4], cursor: '4' });
  assert.deepEqual(cutPage(found, 3, Number), { rows: found, cursor: null });
  assert.deepEqual(cutPage([], 3, Number), { rows: [], cursor: null });
});
