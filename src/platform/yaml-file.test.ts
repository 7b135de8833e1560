// YAML files written by people: every problem has its line and a hint; hostile files do no harm.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import * as z from 'zod';
import type { FileProblem } from '../wire/primitives.ts';
import { readYaml } from './yaml-file.ts';

const schema = z.strictObject({
  name: z.string(),
  limits: z.strictObject({ max_steps: z.int().min(1).optional(), max_time_s: z.int() }).optional(),
  tools: z.array(z.strictObject({ allow: z.string() })).optional(),
  by_name: z.record(z.string(), z.strictObject({ size: z.int() })).optional(),
});

function readProblems(text: string): FileProblem[] {
  const result = readYaml(text, 'x.yaml', schema);
  assert.equal(result.ok, false, 'it is refused');
  for (const problem of (result as { problems: FileProblem[] }).problems) {
    assert.equal(problem.file, 'x.yaml');
    assert.ok(problem.message.length > 3 && problem.hint.length > 3);
  }
  return (result as { problems: FileProblem[] }).problems;
}

describe('yaml-file', () => {
  it("returns the value of a valid file, and the schema's defaults for an empty one", () => {
    const text = '# hello\nname: a\nlimits: { max_time_s: 3 }\n';
    assert.deepEqual(readYaml(text, 'x', schema), {
      ok: true,
      value: { name: 'a', limits: { max_time_s: 3 } },
    });
    assert.deepEqual(readYaml('', 'x', z.strictObject({})), { ok: true, value: {} });
    assert.deepEqual(readYaml('# only words\n', 'x', z.strictObject({})), { ok: true, value: {} });
  });

  it('names the line of an unknown key and the nearest known one', () => {
    const [one] = readProblems('name: a\nlimits:\n  max_time_s: 1\n  max_step: 2\n');
    assert.equal(one!.line, 4);
    assert.match(one!.message, /unknown key limits\.max_step/);
    assert.match(one!.hint, /Did you mean max_steps\?/);
    const [inList] = readProblems('name: a\ntools:\n  - allow: x\n  - alow: y\n    allow: z\n');
    assert.equal(inList!.line, 4);
    assert.match(inList!.hint, /allow/);
    const [inRecord] = readProblems('name: a\nby_name:\n  big: { size: 1, sise: 2 }\n');
    assert.equal(inRecord!.line, 3);
    assert.match(inRecord!.hint, /size/);
  });

  it('lists the known keys when none is near', () => {
    const [one] = readProblems('name: a\nqqqqqqqqqqq: 1\n');
    assert.match(one!.hint, /Known keys here: name, limits, tools, by_name/);
  });

  it('names the line of a wrong type and of a missing key', () => {
    const problems = readProblems('limits:\n  max_steps: many\n  max_time_s: 1\n');
    assert.deepEqual(
      problems.map(({ line, message }) => [line, message.split(':')[0]]),
      [
        [1, 'name'],
        [2, 'limits.max_steps'],
      ],
    );
  });

  it('names the line of invalid YAML and of a duplicate key', () => {
    assert.equal(readProblems('name: a\nlimits: }\n')[0]!.line, 2);
    assert.equal(readProblems('name: a\nname: b\n')[0]!.line, 2);
    assert.equal(readProblems('name: [a\n')[0]!.line! >= 1, true);
    assert.equal(readProblems('name: "a\n')[0]!.line! >= 1, true);
    readProblems('name: a\n---\nname: b\n');
  });

  it('refuses aliases, which can make a small file huge', () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]'];
    for (const [to, from] of ['ba', 'cb', 'dc', 'ed', 'fe', 'gf', 'hg', 'ih'])
      bomb.push(`${to}: &${to} [${Array.from({ length: 9 }, () => `*${from}`).join(',')}]`);
    const began = performance.now();
    const [one] = readProblems(bomb.join('\n'));
    assert.ok(performance.now() - began < 20_000);
    assert.match(one!.hint, /aliases/);
    readProblems('name: &n a\nlimits: *n\n');
  });

  it('refuses nesting that would exhaust the stack', () => {
    for (const text of ['['.repeat(50_000), '{a: '.repeat(50_000), `${'- '.repeat(50_000)}a`])
      readProblems(`name: ${text}`);
    readProblems(Array.from({ length: 3_000 }, (_, i) => `${' '.repeat(i)}a:`).join('\n'));
  });

  it('does not let a file reach into the prototype', () => {
    readProblems('name: a\n__proto__: { polluted: true }\n');
    readProblems('name: a\nconstructor: 1\n');
    readProblems('name: a\nlimits: { max_time_s: { toString: 1, valueOf: 1 } }\n');
    assert.equal(({} as { polluted?: boolean }).polluted, undefined);
  });

  it('never throws, whatever the file contains', () => {
    const pieces = fc.constantFrom(
      'name: a',
      '\n',
      '  ',
      '- ',
      '[',
      ']',
      '{',
      '}',
      ':',
      '&a ',
      '*a',
      '!!js ',
      '|',
      '>',
      '"',
      '\t',
      '---',
      '...',
      '%YAML 1.9',
      '? ',
      '<<: ',
      '\u0000',
      '\ufeff',
      'limits:',
      '#',
      ',',
      "'",
      '💥',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(pieces).map((all) => all.join('')),
        ),
        (text) => {
          const result = readYaml(text, 'x', schema);
          if (!result.ok) assert.ok(result.problems.length > 0);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
