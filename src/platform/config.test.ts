// Configuration: sections with defaults, drop-ins in order, and invalid files with line and hint.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import * as z from 'zod';
import type { Fault } from '../wire/errors.ts';
import { loadConfig } from './config.ts';

const sections = {
  agentd: z.strictObject({
    runs_live_max: z.int().min(1).max(1_000).default(16),
    limits: z.strictObject({ max_steps: z.int().default(50) }).prefault({}),
    names: z.array(z.string()).default([]),
  }),
  toold: z.strictObject({ test_tools: z.boolean().default(false) }),
};

const dir = mkdtempSync(join(tmpdir(), 'agentd-c-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;

function written(main: string | undefined, dropIns: Record<string, string> = {}): string {
  const file = join(dir, String(made++), 'agentd.yaml');
  mkdirSync(join(file, '..'));
  if (main !== undefined) writeFileSync(file, main);
  if (Object.keys(dropIns).length > 0) mkdirSync(`${file}.d`);
  for (const [name, text] of Object.entries(dropIns)) writeFileSync(join(`${file}.d`, name), text);
  return file;
}

function refusal(file: string): Fault {
  try {
    loadConfig(file, sections);
  } catch (error) {
    assert.equal((error as Fault).code, 'bad_config');
    return error as Fault;
  }
  return assert.fail('the configuration was accepted');
}

describe('config', () => {
  it('has a default for everything, with and without a file', () => {
    const defaults = {
      agentd: { runs_live_max: 16, limits: { max_steps: 50 }, names: [] },
      toold: { test_tools: false },
    };
    assert.deepEqual(loadConfig(written(undefined), sections), defaults);
    assert.deepEqual(loadConfig(written(''), sections), defaults);
    assert.deepEqual(loadConfig(written('agentd: {}\n'), sections), defaults);
  });

  it('lists several problems in order, each with its line and hint', () => {
    const file = written('toold: { test_tool: true }\nagentd:\n  runs_live_max: lots\nfrob: 1\n');
    const { message, hint } = refusal(file);
    assert.deepEqual(message.split('\n'), [
      `${file}:1: unknown key toold.test_tool. Did you mean test_tools?`,
      `${file}:3: agentd.runs_live_max: must be a number, not text`,
      `${file}:4: unknown key frob. Known keys here: agentd, toold.`,
    ]);
    assert.equal(hint, 'Correct each of them.');
    const one = refusal(written('agentd: { run_live_max: 1 }\n'));
    assert.match(one.message, /:1: unknown key agentd\.run_live_max$/);
    assert.equal(one.hint, 'Did you mean runs_live_max?');
  });

  it('refuses a missing file that was given explicitly', () => {
    const file = written(undefined);
    assert.throws(
      () => loadConfig(file, sections, { mustExist: true }),
      (error: Fault) => {
        assert.equal(error.code, 'bad_config');
        assert.ok(error.message.includes(file));
        assert.match(error.hint, /--config/);
        return true;
      },
    );
  });

  it('reads drop-ins in order of name; the later wins, member by member; lists are replaced', () => {
    const file = written(
      'agentd: { runs_live_max: 1, limits: { max_steps: 1 }, names: [a, b] }\n',
      {
        '20-b.yaml': 'agentd: { runs_live_max: 20, names: [c] }\n',
        '10-a.yaml': 'agentd: { runs_live_max: 10 }\ntoold: { test_tools: true }\n',
        'readme.txt': 'this: is: not: read',
      },
    );
    assert.deepEqual(loadConfig(file, sections), {
      agentd: { runs_live_max: 20, limits: { max_steps: 1 }, names: ['c'] },
      toold: { test_tools: true },
    });
  });

  it('names file, line and the nearest key for an unknown one, in sections and below', () => {
    const section = refusal(written('toold: {}\nagentdd:\n  runs_live_max: 1\n'));
    assert.match(section.message, /agentd\.yaml:2: unknown key agentdd/);
    assert.match(section.hint, /Did you mean agentd\?/);
    const inner = refusal(written('agentd:\n  limits:\n    max_step: 1\n'));
    assert.match(inner.message, /agentd\.yaml:3: unknown key agentd\.limits\.max_step/);
    assert.match(inner.hint, /max_steps/);
  });

  it('names the drop-in and not the main file when the drop-in is wrong', () => {
    const error = refusal(
      written('agentd: {}\n', { '9.yaml': '\nagentd: { runs_live_max: 0 }\n' }),
    );
    assert.match(error.message, /agentd\.yaml\.d\/9\.yaml:2: agentd\.runs_live_max/);
  });

  it('refuses wrong types, values past their limits, and YAML that cannot be read', () => {
    for (const text of [
      'agentd: { runs_live_max: many }\n',
      'agentd: { runs_live_max: 1.5 }\n',
      'agentd: { runs_live_max: 1001 }\n',
      'agentd: [1]\n',
      'agentd: null\n',
      '- agentd\n',
      'just words\n',
      'agentd: {\n',
      'agentd: {}\nagentd: {}\n',
      'toold: { test_tools: "yes" }\n',
    ])
      assert.ok(refusal(written(text)).message.includes('agentd.yaml'), text);
  });

  it('reports all problems at once', () => {
    const error = refusal(written('agentd:\n  a: 1\n  runs_live_max: x\ntoold:\n  b: 2\n'));
    assert.equal(error.message.split('\n').length, 3);
  });
});
