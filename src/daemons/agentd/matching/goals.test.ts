// How often the matching is right: on goals that nobody looked at while its numbers were chosen.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { readPersona } from '../personas/persona-file.ts';
import { type AgentProfile, chooseAgent } from './match-rules.ts';

type Labelled = { agent: string; goal: string };
type Goals = { agents: string[]; tune: Labelled[]; measure: Labelled[] };

const read = (...path: string[]) => readFileSync(join(import.meta.dirname, ...path), 'utf8');
const goals = parse(read('goals.yaml')) as Goals;

/** An agent with the persona of its name. */
function profileOf(agent: string): AgentProfile {
  const file = `roles/${agent}.md`;
  const persona = readPersona(read('../../../../personas', file), 'package', file);
  assert.ok(persona.ok, JSON.stringify(persona));
  const { front, body } = persona.persona;
  return {
    agent,
    role: front.role ?? agent,
    purpose: front.purpose ?? '',
    topics: front.topics ?? [],
    skills: [],
    instructions: body,
    tools: [],
    acceptedGoals: [],
    load: 0,
    accepted: 0,
    failed: 0,
    medianCostMicrousd: null,
  };
}

const profiles = goals.agents.map(profileOf);

function judge(labelled: readonly Labelled[]) {
  const judged = labelled.map(({ agent, goal }) => {
    const match = chooseAgent({ goal, needs: [], profiles });
    const [first, second] = match.candidates;
    const scores = `${first!.agent} ${first!.score}, ${second!.agent} ${second!.score}`;
    return { goal, agent, got: match.agent, scores };
  });
  return {
    wrong: judged.filter(({ got, agent }) => got !== null && got !== agent),
    undecided: judged.filter(({ got }) => got === null),
  };
}

for (const [half, labelled] of [
  ['tune', goals.tune],
  ['measure', goals.measure],
] as const)
  test(`of the goals named ${half}, at most 5 % go to a wrong agent, and 30 % to a person`, (t) => {
    assert.ok(labelled.length >= 30);
    const { wrong, undecided } = judge(labelled);
    const show = (found: readonly object[]) => found.map((one) => JSON.stringify(one)).join('\n');
    t.diagnostic(
      `${half}: ${wrong.length} wrong, ${undecided.length} undecided of ${labelled.length}`,
    );
    assert.ok(wrong.length <= 0.05 * labelled.length, `wrong:\n${show(wrong)}`);
    assert.ok(undecided.length <= 0.3 * labelled.length, `undecided:\n${show(undecided)}`);
  });
