// `did you mean` suggests near names, and nothing for others.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { findNearest } from './did-you-mean.ts';

it('nearest: a word that is close, and nothing for one that is not', () => {
  const known = ['max_steps', 'max_tokens', 'description'];
  assert.equal(findNearest('max_stpes', known), 'max_steps');
  assert.equal(findNearest('Description', known), 'description');
  assert.equal(findNearest('zzz', known), undefined);
  assert.equal(findNearest('x', []), undefined);
});

it('two letters swapped are still recognised', () => {
  assert.equal(findNearest('modle', ['linuxUser', 'model', 'memory']), 'model');
  assert.equal(findNearest('zzzzz', ['linuxUser', 'model', 'memory']), undefined);
});

it('nearest finds one letter too many, too few, another or none', () => {
  for (const typed of ['status', 'statu', 'statusx', 'ststus'])
    assert.equal(findNearest(typed, ['list', 'status', 'down']), 'status');
  assert.equal(findNearest('zzz', ['list', 'status']), undefined);
});

it('nearest does not lengthen a short word into one that has little to do with it', () => {
  assert.equal(findNearest('taks', ['task', 'tool', 'ask']), 'task');
  assert.equal(findNearest('xy', ['ask']), undefined);
});
