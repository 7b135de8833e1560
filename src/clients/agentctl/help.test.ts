// Every --help shows how the command is typed, and what it shows is a command.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from './parse.ts';
import { EXAMPLES } from './table/examples.ts';
import { COMMANDS, NOT_YET, OTHER_NAMES } from './table.ts';

/** The words of a line as a shell passes them, up to a pipe or redirection. */
function splitWords(line: string): string[] {
  const [command = ''] = line.split(/ (?:[|<>]|&&) /);
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(
    ([, double, single, plain]) => double ?? single ?? plain ?? '',
  );
}

for (const { path, help, details = [] } of COMMANDS) {
  const name = path.join(' ');
  test(`${name} --help has an example`, () => {
    const texts = [...(EXAMPLES[name] ?? []), help, ...details];
    const own = texts.filter((text) => text.includes(`agentctl ${name}`));
    assert.ok(own.length > 0, 'add one to table/examples.ts');
  });
}

for (const [name, lines] of Object.entries(EXAMPLES))
  test(`the examples of ${name} are valid`, () => {
    assert.ok(
      COMMANDS.some(({ path }) => path.join(' ') === name),
      'there is no such command',
    );
    for (const line of lines) {
      const [program, ...words] = splitWords(line);
      assert.equal(program, 'agentctl', line);
      const { problem, parsed } = parse(words);
      assert.equal(problem, undefined, `${line}: ${String(problem)}`);
      assert.notEqual(parsed.command, undefined, line);
    }
  });

test('words of other programs lead to a command', () => {
  for (const [typed, meant] of Object.entries(OTHER_NAMES)) {
    const path = meant.split(/ (?=["A-Z-])|, /)[0]!.split(' ');
    assert.ok(
      COMMANDS.some((command) => path.every((word, i) => command.path[i] === word)),
      `${typed} leads to ${meant}`,
    );
    assert.ok(
      !COMMANDS.some((command) => command.path.join(' ') === typed),
      `${typed} is a command`,
    );
    assert.ok(!NOT_YET.includes(typed), typed);
  }
});
