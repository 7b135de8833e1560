// Completion offers what the command table allows next.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expect, readTyped } from './completion.ts';

const words = (before: string[], partial = '') =>
  expect(before, partial).fixed.map(([word]) => word);

test('the words of commands', () => {
  assert.ok(words([]).includes('task'));
  assert.ok(words([]).includes('up'));
  assert.deepEqual(words(['artifact']), ['list', 'get']);
  assert.deepEqual(words(['completion']), ['bash', 'zsh', 'fish']);
  assert.deepEqual(words(['--json', '--state', '/s', 'artifact']), ['list', 'get']);
  assert.deepEqual(words(['nonsense']), []);
});

test('options of the command and of all', () => {
  const options = words(['task', 'create'], '--');
  for (const name of ['--agent', '--after', '--wait', '--json']) assert.ok(options.includes(name));
  assert.ok(!words(['down'], '--').includes('--agent'));
});

test('values of options and words that only the runtime knows', () => {
  assert.equal(expect(['task', 'create', '--agent'], '').live, 'agent');
  assert.equal(expect(['task', 'show'], '').live, 'task');
  assert.equal(expect(['answer'], '').live, 'question');
  assert.equal(expect(['answer', 'wait_1'], '').live, undefined);
  assert.equal(expect(['--state', '/s', 'pause'], '').state, '/s');
  assert.ok(words(['task', 'list', '--status'], '').includes('waiting'));
});

test('an option and its value in one word, as each shell gives them', () => {
  const both = { before: ['task', 'list', '--status'], partial: 'c' };
  assert.deepEqual(readTyped(['task', 'list', '--status', 'c']), { ...both, lead: '' });
  assert.deepEqual(readTyped(['task', 'list', '--status', '=', 'c']), { ...both, lead: '' });
  assert.deepEqual(readTyped(['task', 'list', '--status=c']), { ...both, lead: '--status=' });
  assert.deepEqual(readTyped(['list', '--status', '=']).partial, '');
  assert.deepEqual(readTyped(['--state=/s', 'pause', '']), {
    before: ['--state', '/s', 'pause'],
    partial: '',
    lead: '',
  });
  assert.deepEqual(readTyped([]), { before: [], partial: '', lead: '' });
});
