// Parsing yields a command and arguments, or a fault that says what to type instead.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Fault } from '../../wire/errors.ts';
import { parse } from './parse.ts';
import { COMMANDS, NOT_YET, OTHER_NAMES } from './table.ts';

const good = (line: string) => {
  const { parsed, problem } = parse(line.split(' '));
  assert.equal(problem, undefined, String(problem));
  return parsed;
};
const bad = (line: string): Fault => {
  const { problem } = parse(line.split(' '));
  assert.ok(problem instanceof Fault, `'${line}' was taken`);
  assert.equal(problem.code, 'bad_usage');
  return problem;
};

test('noun-verb aliases run the same command as the old names', async () => {
  for (const [old, alias] of [
    ['list', 'agent list'],
    ['questions --all', 'question list --all'],
    [`answer wait_${'0'.repeat(26)} yes`, `question answer wait_${'0'.repeat(26)} yes`],
    [`ask approval_${'0'.repeat(26)} why`, `approval ask approval_${'0'.repeat(26)} why`],
  ] as const) {
    const [first, second] = [good(old), good(alias)];
    assert.equal(await second.command?.load(), await first.command?.load(), alias);
    assert.deepEqual(second.args.positionals, first.args.positionals);
  }
});

test("global options may stand before, between and after a command's arguments", () => {
  for (const line of [
    '--json --state /s task list',
    'task --json list --state=/s',
    'task list --state /s --json',
  ]) {
    const parsed = good(line);
    assert.deepEqual(parsed.command?.path, ['task', 'list']);
    assert.equal(parsed.state, '/s');
    assert.equal(parsed.json, true);
  }
});

test('values of each kind are read, and rejected when they are of another', () => {
  const { args } = good(
    'task create go --max-steps 5 --max-cost 0.50 --max-time 1h30m --priority -3 --agent=a --wait',
  );
  assert.deepEqual(args.positionals, ['go']);
  assert.equal(args.number('max-steps'), 5);
  assert.equal(args.number('max-cost'), 500_000);
  assert.equal(args.number('max-time'), 5_400);
  assert.equal(args.number('priority'), -3);
  assert.equal(args.text('agent'), 'a');
  assert.equal(args.flag('wait'), true);
  assert.match(bad('task create go --max-steps 0').message, /--max-steps 0 is not a whole number/);
  assert.match(bad('task create go --max-cost much').message, /amount of money/);
  assert.match(bad('task create go --max-time 5x').message, /duration/);
  assert.match(bad('task create go --max-steps').message, /needs a value: N/);
  assert.match(bad('task create go --wait=yes').message, /takes no value/);
  assert.match(bad('task create go --agent a --agent b').message, /twice/);
  assert.equal(good('task list --limit 1000').args.number('limit'), 1_000);
  assert.match(bad('task list --limit 1001').message, /--limit 1001 is above the maximum of 1000/);
});

test('a repeatable option keeps its order', () => {
  const [first, second] = [`task_${'1'.repeat(26)}`, `task_${'2'.repeat(26)}`];
  const { args } = good(`task create go --after ${first} --after=${second}`);
  assert.deepEqual(args.list('after'), [first, second]);
});

test('an invalid id or choice is reported in command-line terms', () => {
  const messageFor = (line: string) => {
    const { problem } = parse(line.split(' '));
    return problem instanceof Fault ? `${problem.message} | ${problem.hint}` : problem;
  };
  const notAnId =
    "'foo' is not an approval id: expected approval_ followed by 26 letters and digits, or the first of them";
  assert.equal(messageFor('approve foo'), `${notAnId} | Look it up: agentctl approvals`);
  assert.match(String(messageFor('run coder --task foo')), /^'foo' is not a task id/);
  assert.equal(messageFor('run coder --task 01m7'), undefined, 'the beginning of one');
  const other = `approval_${'0'.repeat(26)}`;
  assert.match(String(messageFor(`task show ${other}`)), /is the id of an approval, not a task/);
  assert.match(String(messageFor('status --state=')), /^--state is empty/);
  assert.match(String(messageFor('task create go --context foo')), /^'foo' is not a thread id/);
  assert.match(String(messageFor('taks list')), /unknown command 'taks'; did you mean 'task'\?/);
  assert.equal(messageFor(`approve approval_${'0'.repeat(26)}`), undefined);
  assert.equal(messageFor(`artifact get artifact://artifact_${'0'.repeat(26)}`), undefined);
  assert.match(
    String(messageFor('task list --status foo')),
    /^--status foo is not one of: submitted, /,
  );
  assert.equal(messageFor('task list --status failed'), undefined);
  assert.match(String(messageFor('model add x --key k')), /did you mean --key-file\?/);
  assert.match(
    String(messageFor('task create look around')),
    / \| Put the GOAL in quotes: agentctl task create "GOAL"$/,
  );
});

test('short options accept a separate or attached value, and -- ends the options', () => {
  assert.equal(good('audit tail -n 7 -f').args.number('lines'), 7);
  assert.equal(good('audit tail -n7').args.number('lines'), 7);
  const { parsed } = parse(['task', 'create', '--json', '--', '--not-an-option']);
  assert.deepEqual(parsed.args.positionals, ['--not-an-option']);
  assert.deepEqual(good('task create -').args.positionals, ['-']);
});

test('an unknown command or option gets a did-you-mean', () => {
  assert.match(bad('tsk list').message, /did you mean 'task'/);
  assert.match(bad('task lst').message, /did you mean 'task list'/);
  assert.match(bad('task list --stats').message, /did you mean --status/);
  assert.match(bad('task create go --max-step 4').message, /did you mean --max-steps/);
  assert.doesNotMatch(bad('xyzzy').message, /did you mean/);
});

test('missing and superfluous arguments are named', () => {
  assert.match(bad('task show').message, /task show needs ID/);
  assert.match(bad('task show a b').message, /does not take 'b'/);
  assert.match(bad('run coder').message, /needs --task TASK/);
  assert.equal(good('task show --help').help, true);
});

test('commands that are not in this version say so', () => {
  for (const words of NOT_YET) {
    const { message } = bad(`${words} more`);
    assert.match(message, /is not in this version/, words);
    assert.ok(!COMMANDS.some(({ path }) => path.join(' ') === words), `${words} exists`);
  }
});

test('no two commands share a name, and only backup is a prefix of others', () => {
  const names = COMMANDS.map(({ path }) => path.join(' '));
  assert.equal(new Set(names).size, names.length);
  const isPrefix = (name: string) => names.some((other) => other.startsWith(`${name} `));
  assert.deepEqual(names.filter(isPrefix), ['backup']);
});

test('of two commands with a common prefix, the longer one matches', () => {
  const read = (...words: string[]) => {
    const { parsed, problem } = parse(words);
    assert.equal(problem, undefined);
    return [parsed.command!.path.join(' '), ...parsed.args.positionals];
  };
  assert.deepEqual(read('backup', '/b'), ['backup', '/b']);
  assert.deepEqual(read('backup', '-'), ['backup', '-']);
  assert.deepEqual(read('backup', 'list', '/b'), ['backup list', '/b']);
  assert.deepEqual(read('backup', './list'), ['backup', './list']);
  assert.match(bad('backup list').message, /backup list needs DIR/);
  assert.match(bad('backup').message, /backup needs DIR/);
});

test('a fault is printed as JSON wherever --json stands', () => {
  assert.equal(parse(['--json', 'nonsense']).parsed.json, true);
  assert.equal(parse(['nonsense', '--json']).parsed.json, true);
});

test('no input makes it throw', () => {
  const token = fc.oneof(
    fc.constantFrom('task', 'create', 'list', '--json', '--state', '--', '-f', '-n', '--wait', '='),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 8 }), (tokens) => {
      const { problem } = parse(tokens);
      assert.ok(problem === undefined || problem instanceof Fault, String(problem));
    }),
  );
});

test('the names that other programs use lead to the command', () => {
  for (const [typed, use] of Object.entries(OTHER_NAMES)) {
    const { problem } = parse(typed.split(' '));
    assert.ok(problem instanceof Fault, typed);
    assert.equal(problem.hint, `Use: agentctl ${use}`);
    const words = use.split(/[ ,]/);
    assert.ok(
      COMMANDS.some(({ path }) => path.every((word, i) => words[i] === word)),
      use,
    );
  }
});
