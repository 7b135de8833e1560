// The words of make that stand for commands of agentctl: each prints the command, and runs it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { parse } from '../../src/clients/agentctl/parse.ts';
import { ROOT } from '../support/runtime.ts';

const make = (...words: string[]) => {
  const { status, stdout } = spawnSync('make', ['-s', 'AGENTCTL=/bin/echo', ...words], {
    cwd: ROOT,
    encoding: 'utf8',
  });
  return { status, lines: stdout.trimEnd().split('\n') };
};

for (const [words, printed] of [
  [['up'], ['up']],
  [['down'], ['down']],
  [['stop'], ['halt']],
  [
    ['stop', 'NAME=coder'],
    ['stop', 'coder'],
  ],
  [
    ['create', 'NAME=bob', 'PERSONA=tester'],
    ['agent', 'create', 'bob', '--persona', 'tester'],
  ],
  [
    ['task', 'GOAL=Do it'],
    ['task', 'create', 'Do it', '--wait'],
  ],
  [
    ['task-add', 'GOAL=Do it'],
    ['task', 'add', 'Do it'],
  ],
  [
    ['task-add', 'GOAL=Do "it"', 'OWNER=ann'],
    ['task', 'add', 'Do "it"', '--owner', 'ann'],
  ],
  [
    ['send', 'TO=coder', 'MESSAGE=Hello; id'],
    ['send', 'coder', 'Hello; id'],
  ],
  [['status'], ['status']],
  [
    ['logs', 'NAME=coder'],
    ['logs', 'coder'],
  ],
] as const)
  test(`make ${words.join(' ')} prints and runs agentctl ${printed.join(' ')}`, () => {
    const { status, lines } = make(...words);
    assert.equal(status, 0);
    assert.equal(lines[0], ['/bin/echo', ...printed.map((word) => `'${word}'`)].join(' '));
    assert.equal(lines[1], printed.join(' '), 'it ran with these words');
    assert.equal(parse([...printed]).problem, undefined, 'agentctl knows the command');
  });

test('a word without its value says which one is missing, and runs nothing', () => {
  const { status, lines } = make('task-add');
  assert.notEqual(status, 0);
  assert.deepEqual(lines, ['make task-add: give GOAL=…']);
});
