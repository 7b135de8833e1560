// Presets as files: every problem with its line, variables that are texts, the first system's JSON.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { parsePreset } from './preset-file.ts';
import { findTaskCycle, sortTasks } from './task-order.ts';
import { fillIn, listVariableNames } from './variables.ts';

const preset = (body: string) => `apiVersion: agentd/v1
kind: Preset
metadata: { name: x, description: X. }
${body}`;
const TEAM = 'agents: [{ name: ann, persona: coder }]\n';
const read = (text: string) => parsePreset(text, 'x.yaml');
const problemsOf = (text: string): string[] => {
  const result = read(text);
  assert.ok(!result.ok, 'it has problems');
  return result.problems.map(({ line, message }) => `${line}: ${message.replace(/^[\w.]+: /, '')}`);
};

describe('a preset file', () => {
  it('those that ship are sound', () => {
    const dir = join(import.meta.dirname, '../../../../presets');
    const files = readdirSync(dir).filter((name) => name.endsWith('.yaml'));
    assert.equal(files.length, 4);
    for (const name of files) {
      const result = parsePreset(readFileSync(join(dir, name), 'utf8'), name);
      assert.ok(result.ok, JSON.stringify(result));
      assert.equal(`${result.preset.metadata.name}.yaml`, name);
    }
  });

  it('[K108] names unknown agents, tasks, variables and keys with their line', () => {
    assert.deepEqual(
      problemsOf(
        preset(`${TEAM}tasks:
  - { id: a, goal: 'Do \${WHAT}', agent: anna }
  - { id: b, goal: 'Then', agent: ann, after: [c] }
mail: [{ to: eve, subject: S, body: B }]
`),
      ),
      [
        '6: agent anna is not among the agents of this preset',
        '6: variable WHAT is not declared',
        '7: there is no task c in this preset',
        '8: eve is not among the agents of this preset',
      ],
    );
    assert.match(
      problemsOf(preset(`${TEAM}task: []\ntasks: [{ id: a, goal: G }]\n`))[0]!,
      /^5: .*task/,
    );
    assert.match(problemsOf(preset(`${TEAM}tasks: []\n`))[0]!, /^5: /);
    assert.match(
      problemsOf(preset(`${TEAM}tasks: [{ id: a, goal: G }, { id: a, goal: H }]\n`))[0]!,
      /a is declared twice/,
    );
    assert.ok(read(preset(`${TEAM}tasks: [{ id: a, goal: G }]\n`)).ok, 'the control');
  });

  it('[K108] reports a cycle as a path, at the line of one of its tasks', () => {
    const [problem] = problemsOf(
      preset(`${TEAM}tasks:
  - { id: a, goal: G }
  - { id: b, goal: G, after: [a, d] }
  - { id: c, goal: G, after: [b] }
  - { id: d, goal: G, after: [c] }
`),
    );
    assert.equal(problem, '7: tasks wait for each other: b → d → c → b');
    assert.equal(findTaskCycle([{ id: 'a' }, { id: 'b', after: ['a'] }]), undefined);
  });

  it('orders tasks after those they wait for, and else as they are written', () => {
    const tasks = [{ id: 'c', after: ['b'] }, { id: 'a' }, { id: 'b', after: ['a'] }, { id: 'd' }];
    assert.deepEqual(
      sortTasks(tasks).map(({ id }) => id),
      ['a', 'b', 'c', 'd'],
    );
  });

  it('refuses a default that is no choice or does not match, and a broken pattern', () => {
    const variables = (text: string) =>
      preset(`variables:\n  V: ${text}\n${TEAM}tasks: [{ id: a, goal: G }]\n`);
    assert.match(
      problemsOf(variables('{ choice: [x, y], default: z }'))[0]!,
      /^5: V is 'z', which is not a choice/,
    );
    assert.match(
      problemsOf(variables("{ pattern: '[a-z]+', default: '1' }"))[0]!,
      /^5: .*does not match/,
    );
    assert.match(problemsOf(variables("{ pattern: '[' }"))[0]!, /^5: pattern of V is no regular/);
    assert.ok(read(variables("{ pattern: '[a-z]+', default: ab }")).ok);
  });

  it('[K107] variables are put in once and never evaluated', () => {
    const values = new Map([
      ['A', '${B} $(id) `id` {{agent}}'],
      ['B', 'secret'],
    ]);
    assert.equal(fillIn('x ${A} y', values), 'x ${B} $(id) `id` {{agent}} y');
    assert.equal(fillIn('$${A} ${C}', values), '${A} ${C}');
    assert.deepEqual(listVariableNames('${A} $${B} ${A} ${C}'), ['A', 'C']);
  });

  it("[K106] [K107] takes the first system's JSON, with its kinds of variables", () => {
    const theirs = {
      name: 'bug-triage',
      description: 'Triage',
      agents: [
        { name: 'mia', persona: 'manager' },
        { name: 'qa', persona: 'qa', instructions: 'Look at ${REPO}.' },
      ],
      tasks: [
        {
          id: 'triage',
          subject: 'Triage ${REPO}',
          owner: 'mia',
          description: 'On ${BRANCH:-main}',
        },
        { id: 'test', subject: 'Test', owner: 'qa', blocked_by: ['triage'] },
      ],
      mail: [{ to: 'all', subject: 'Start', body: 'Go ${REPO}' }],
    };
    const result = read(JSON.stringify(theirs, null, 2));
    assert.ok(result.ok, JSON.stringify(result));
    const { agents, tasks, mail, variables } = result.preset;
    assert.deepEqual(variables, { REPO: {}, BRANCH: { default: 'main' } });
    assert.deepEqual(
      agents.map(({ persona }) => persona),
      ['planner', 'tester'],
    );
    assert.equal(tasks[0]!.goal, 'Triage ${REPO}\n\nOn ${BRANCH}');
    assert.deepEqual(tasks[1]!.after, ['triage']);
    assert.deepEqual(
      mail?.map(({ to }) => to),
      ['mia', 'qa'],
    );
    const broken = { ...theirs, tasks: [{ ...theirs.tasks[1], owner: 'eve' }] };
    const problems = problemsOf(JSON.stringify(broken, null, 2));
    assert.match(problems.join('\n'), /\d+: agent eve is not among/);
    assert.match(problems.join('\n'), /\d+: there is no task triage/);
  });
});
