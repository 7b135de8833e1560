// Tests that names and ids are mapped without collision, and back.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { makeNameTable } from './tool-names.ts';

test('dots are written as underscores and read back as dots', () => {
  const table = makeNameTable(['task.delegate', 'message.send'], 64);
  assert.equal(table.toWire('task.delegate'), 'task_delegate');
  assert.equal(table.toName('task_delegate'), 'task.delegate');
});

test('a tool that already has the changed name keeps it, whatever the order', () => {
  for (const names of [
    ['git.diff', 'git_diff', 'git/diff'],
    ['git_diff', 'git/diff', 'git.diff'],
  ]) {
    const table = makeNameTable(names, 64);
    assert.equal(table.toWire('git_diff'), 'git_diff');
    assert.equal(new Set(names.map(table.toWire)).size, 3);
  }
});

test('an unknown name stays unchanged', () => {
  assert.equal(makeNameTable(['a.b'], 64).toName('invented'), 'invented');
});

test('any set of names is mapped without a collision, to a form vendors accept', () => {
  const name = fc.oneof(
    fc.string({ minLength: 1, maxLength: 80, unit: 'binary' }),
    fc.string({ minLength: 1, maxLength: 8, unit: fc.constantFrom('a', '.', '_', '-', 'é') }),
  );
  fc.assert(
    fc.property(
      fc.uniqueArray(name, { maxLength: 30 }),
      fc.integer({ min: 8, max: 64 }),
      (names, max) => {
        const table = makeNameTable(names, max);
        const wires = names.map(table.toWire);
        assert.equal(new Set(wires).size, names.length);
        for (const wire of wires) assert.match(wire, new RegExp(`^[a-zA-Z0-9_-]{1,${max}}$`));
        assert.deepEqual(wires.map(table.toName), names);
        assert.deepEqual(
          makeNameTable(names, max).toWire(names[0] ?? 'x'),
          table.toWire(names[0] ?? 'x'),
        );
      },
    ),
  );
});
