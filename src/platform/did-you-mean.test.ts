// `did you mean` suggests near names, and nothing for others.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { findNearest } from './did-you-mean.ts';

it('finds a close name, and nothing for one that is not', () => {
  const known = ['max_steps', 'max_tokens', 'description'];
  assert.equal(findNearest('max_stpes', known), 'max_steps');
  assert.equal(findNearest('Description', known), 'description');
  assert.equal(findNearest('zzz', known), undefined);
  assert.equal(findNearest('x', []), undefined);
});

it('finds a name with two letters swapped', () => {
  assert.equal(findNearest('modle', ['linuxUser', 'model', 'memory']), 'model');
  assert.equal(findNearest('zzzzz', ['linuxUser', 'model', 'memory']), undefined);
});

it('finds a name with one letter added, missing or changed', () => {
  for (const typed of ['status', 'statu', 'statusx', 'ststus'])
    assert.equal(findNearest(typed, ['list', 'status', 'down']), 'status');
  assert.equal(findNearest('zzz', ['list', 'status']), undefined);
});

it('does not extend a short name to an unrelated one', () => {
  assert.equal(findNearest('taks', ['task', 'tool', 'ask']), 'task');
  assert.equal(findNearest('xy', ['ask']), undefined);
});
