// The words of make that stand for commands of agentctl: each prints the command, and runs it.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, test } from 'node:test';
import { parse } from '../../src/clients/agentctl/parse.ts';
import { ROOT } from '../support/runtime.ts';

const make = (...words: string[]) => makeWith({}, ...words);
const makeWith = (env: NodeJS.ProcessEnv, ...words: string[]) => {
  const { status, stdout } = spawnSync('make', ['-s', 'AGENTCTL=/bin/echo', ...words], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  return { status, lines: stdout.trimEnd().split('\n') };
};

const WORDS: readonly (readonly [words: readonly string[], printed: readonly string[]])[] = [
  [['up'], ['up']],
  [['down'], ['down']],
  [['restart'], ['restart']],
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
    ['create', 'NAME=bob', "INSTRUCTIONS=Don't guess", 'MODEL=small'],
    [
      'agent',
      'create',
      'bob',
      '--persona',
      'coder',
      '--instructions',
      "Don't guess",
      '--model',
      'small',
    ],
  ],
  [['list'], ['list']],
  [['shell'], ['box', 'run', '--', 'bash']],
  [
    ['shell', 'NAME=coder'],
    ['box', 'run', '--agent', 'coder', '--', 'bash'],
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
  [
    ['send', 'TO=ann', 'MESSAGE=Hello', 'SUBJECT=At noon'],
    ['send', 'ann', 'Hello', '--subject', 'At noon'],
  ],
  [['status'], ['status']],
  [['health'], ['doctor']],
  [['logs'], ['audit', 'tail', '--follow']],
  [
    ['logs', 'NAME=coder'],
    ['logs', 'coder', '--follow'],
  ],
];

describe('[K12] [K14] [K18] [K21] [K23] [K24] [K25] [K29] [K31] words of make', () => {
  for (const [words, printed] of WORDS)
    it(`make ${words.join(' ')} prints and runs agentctl ${printed.join(' ')}`, () => {
      const { status, lines } = make(...words);
      assert.equal(status, 0);
      const quoted = printed.map((word) => `'${word}'`).join(' ');
      assert.equal(lines[0], `/bin/echo ${quoted}`);
      assert.equal(lines[1], printed.join(' '), 'it ran with these words');
      assert.equal(parse([...printed]).problem, undefined, 'agentctl knows the command');
    });

  it('fail as the command fails', () => {
    assert.notEqual(make('AGENTCTL=/bin/false', 'health').status, 0);
  });
});

test('[K12] make build sets up what it needs and builds', () => {
  const { status, lines } = make('--dry-run', 'build');
  assert.equal(status, 0);
  assert.deepEqual(lines, ['tools/setup.sh --for cli', 'build/node tools/build.ts --verbose']);
});

test('[K38] make help lists every word in its group', () => {
  const { status, lines } = make('help');
  assert.equal(status, 0);
  const phony = readFileSync(join(ROOT, 'Makefile'), 'utf8').match(/^\.PHONY: ((?:.*\\\n)*.*)$/m);
  const known = phony![1]!.split(/[\s\\]+/);
  const listed = lines.flatMap((line) => /^ {2}make ([a-z-]+) +\S/.exec(line)?.[1] ?? []);
  assert.deepEqual(listed.sort(), known.sort());
  const groups = lines.filter((line) => /^\S/.test(line));
  assert.deepEqual(
    groups.map((group) => group.replace(/:.*/, '')),
    ['Try, test and build', 'Words of agentctl', 'Clean up'],
  );
  const at = (text: string) => lines.findIndex((line) => line.startsWith(text));
  assert.ok(at('Try') < at('  make test '), 'each below its group');
  assert.ok(at('Words') < at('  make up ') && at('  make up ') < at('Clean'));
});

test('a word without its value says which one is missing, and runs nothing', () => {
  const { status, lines } = make('task-add');
  assert.notEqual(status, 0);
  assert.deepEqual(lines, ['make task-add: give GOAL=…']);
});

test('a NAME that the shell exports is nobody: make stop halts every agent', () => {
  assert.equal(makeWith({ NAME: 'coder' }, 'stop').lines[1], 'halt');
  // Control: the same on the command line.
  assert.equal(makeWith({ NAME: 'coder' }, 'stop', 'NAME=bob').lines[1], 'stop bob');
});
