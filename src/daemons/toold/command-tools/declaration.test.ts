// Errors in a declaration are found before the tool exists, with their line.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { readYaml } from '../../../platform/yaml-file.ts';
import { fakeHost, RESTART } from '../testing/declared-tools.ts';
import { Declaration } from './declaration.ts';

describe('a declaration', () => {
  const wrong: Record<string, { text: string; line: number | null; says: RegExp; hint?: RegExp }> =
    {
      'an unknown key': {
        text: `${RESTART}timout_s: 3\n`,
        line: 11,
        says: /unknown key timout_s/,
        hint: /timeout_s/,
      },
      'the old and the new name of one key': {
        text: `${RESTART}output_labels: [secret]\nbrings: [secret]\n`,
        line: 12,
        says: /old name of output_labels/,
      },
      'an unknown input': {
        text: RESTART.replace("'{service}'", "'{servce}'"),
        line: 6,
        says: /\{servce\} is not among the inputs; did you mean service/,
      },
      'a program that is an input': {
        text: RESTART.replace('/usr/bin/restart', "'{service}'"),
        line: 6,
        says: /the program itself must be fixed/,
      },
      'an input that may be absent, used as if it were there': {
        text: RESTART.replace('{ if: tag, add: [--tag, ', '--tag, ').replace(
          "'{tag}'] }",
          "'{tag}'",
        ),
        line: 6,
        says: /may be absent/,
      },
      'an input that is not used': {
        text: `${RESTART}  more: { type: boolean }\n`,
        line: 11,
        says: /is not used in argv/,
      },
      'a string of any form': {
        text: RESTART.replace(", pattern: '[a-z-]+'", ''),
        line: 8,
        says: /pattern or an enum/,
      },
      'a pattern that is none': {
        text: RESTART.replace('[a-z-]+', '('),
        line: 8,
        says: /not a regular expression/,
      },
      'a number that could be an option': {
        text: RESTART.replace("'--count={count}'", "'{count}'").replace('min: 1', 'min: -1'),
        line: 9,
        says: /taken for an option/,
      },
      'paths for a box': {
        text: `${RESTART}read: [/etc]\n`,
        line: null,
        says: /a box has its own/,
      },
      'a program found by PATH on the host': {
        text: `${RESTART.replace('/usr/bin/restart', 'restart')}place: host\n`,
        line: 6,
        says: /absolute path/,
      },
      'a shell string for argv': {
        text: RESTART.replace(/argv: .*\n/, 'argv: restart {service} {count} {tag}\n'),
        line: 6,
        says: /argv/,
      },
      'what every sandbox has of its own': {
        text: `${RESTART}place: host\nread: [/usr, /tmp/app]\n`,
        line: 12,
        says: /\/tmp\/app: a sandbox has its own tmp/,
      },
      'a program where every sandbox has its own': {
        text: `${RESTART.replace('/usr/bin/restart', '/tmp/restart')}place: host\n`,
        line: 6,
        says: /\/tmp\/restart: a sandbox has its own/,
      },
      "this machine's own network": {
        text: `${RESTART}network: host\n`,
        line: 11,
        says: /no sandbox gets this machine's own network/,
      },
      'a host that is none': {
        text: `${RESTART}network: [good.test, '*.test']\n`,
        line: 11,
        says: /\*\.test names no host/,
      },
      'hosts from a level without egress': {
        text: `${RESTART}level: L1\nnetwork: [api.test]\n`,
        line: 12,
        says: /level L2 only/,
      },
      'a level that is not given': { text: `${RESTART}level: L3\n`, line: 11, says: /level/ },
    };
  for (const [name, { text, line, says, hint }] of Object.entries(wrong)) {
    it(`is refused for ${name}, with its line`, () => {
      const result = readYaml(text, 'x.yaml', Declaration);
      assert.ok(!result.ok);
      const [first] = result.problems;
      assert.match(result.problems.map(({ message }) => message).join('\n'), says);
      if (line !== null) assert.equal(first!.line, line);
      if (hint !== undefined) assert.match(first!.hint, hint);
    });
  }
});

it('the example in the docs is valid', () => {
  const page = readFileSync(new URL('../../../../docs/command-tools.md', import.meta.url), 'utf8');
  const [, example = ''] = /```yaml\n([\s\S]*?)```/.exec(page) ?? [];
  const tool = fakeHost().make(example);
  assert.deepEqual([tool.name, tool.approval], ['staging.deploy', 'required']);
  assert.deepEqual(tool.input.parse({ branch: 'fix/slow' }), { branch: 'fix/slow', replicas: 2 });
});
