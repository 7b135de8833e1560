// Completion offers what the command table allows next.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expect, readTyped } from './completion.ts';

const offers = (before: string[], partial = '') =>
  expect(before, partial).fixed.map(([word]) => word);

test('command names', () => {
  assert.ok(offers([]).includes('task'));
  assert.ok(offers([]).includes('up'));
  assert.deepEqual(offers(['artifact']), ['list', 'get']);
  assert.deepEqual(offers(['completion']), ['bash', 'zsh', 'fish']);
  assert.deepEqual(offers(['--json', '--state', '/s', 'artifact']), ['list', 'get']);
  assert.deepEqual(offers(['nonsense']), []);
  assert.deepEqual(offers(['backup']), ['list', 'verify', 'prune']);
  assert.equal(expect(['backup'], '').live, 'directory');
  assert.equal(expect(['backup', 'list'], '').live, 'directory');
  assert.deepEqual(offers(['backup', '/b']), []);
});

test("the command's options and the global ones", () => {
  const options = offers(['task', 'create'], '--');
  for (const name of ['--agent', '--after', '--wait', '--json']) assert.ok(options.includes(name));
  assert.ok(!offers(['down'], '--').includes('--agent'));
});

test('option values, and arguments that only the runtime knows', () => {
  assert.equal(expect(['task', 'create', '--agent'], '').live, 'agent');
  assert.equal(expect(['task', 'show'], '').live, 'task');
  assert.equal(expect(['answer'], '').live, 'question');
  assert.equal(expect(['answer', 'wait_1'], '').live, undefined);
  assert.equal(expect(['--state', '/s', 'pause'], '').state, '/s');
  assert.ok(offers(['task', 'list', '--status'], '').includes('waiting'));
});

test('an option and its value in one argument, as each shell splits them', () => {
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
