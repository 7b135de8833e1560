// Every action of the policy, through the daemon that asks it: allowed, asked and approved, denied.
// An answer that nothing asks for must be refused by the check of rule files. A new action fails
// here until it has its scenarios.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { writePersonKey } from '../../src/daemons/approvald/testing/person-key.ts';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { startHttp, type WirePosition } from '../../src/daemons/egressd/testing/wires.ts';
import { ASKED } from '../../src/policy/asked.ts';
import type { Action } from '../../src/policy/request.ts';
import type { TaskView } from '../../src/wire/agentd.ts';
import type { ToolCallView } from '../../src/wire/toold.ts';
import {
  ANSWERS,
  type Answer,
  approvalOf,
  type DenialQuery,
  NAMES,
  OTHERS,
  personOf,
  TOOLS,
  type ToolScenario,
} from '../support/policy-scenarios.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, ROOT, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  manifestOf,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const SPEC = `{ replicas: 4,
  tools: { allow: [test.tools, file.read, file.write_workspace, http.fetch, task.delegate] },
  network: { mode: restricted, allow: ["docs.example.com:PORT"] }, team: { talkTo: [helper] } }`;

/** Actions whose scenarios need a runtime of its own, by file: a test for each answer. */
const ELSEWHERE: Partial<Record<Action, string>> = { 'workspace.apply': 'apply-rules.test.ts' };

const isDone = (action: Action, answer: Answer): boolean =>
  action in TOOLS || OTHERS[action]?.[answer] !== undefined;

/** The rule for this answer; nothing for `allow`, which the built-in rules or manifests permit. */
function ruleFor(action: Action, answer: Answer): string {
  const type = action in TOOLS || action === 'model.use' ? 'Agent' : 'Person';
  const { resource = '' } = TOOLS[action] ?? OTHERS[action] ?? {};
  const name = action === 'model.use' ? 'mute' : NAMES[answer];
  const about = resource === '' ? '' : `${/^(Path|Scope)/.test(resource) ? ' in' : ' =='} `;
  const effect = { allow: 'permit', ask: '@ask("careful") forbid', deny: 'forbid' }[answer];
  return `${effect} (principal == ${type}::"${name}", action == Action::"${action}", resource${about}${resource});`;
}

const RULES = (Object.keys(ASKED) as Action[]).flatMap((action) =>
  ANSWERS.filter((answer) => answer !== 'allow' && isDone(action, answer)).map((answer) => ({
    key: `${action} ${answer}`,
    text: ruleFor(action, answer),
  })),
);
const ruleId = (action: Action, answer: Answer): string =>
  `site:10-actions.cedar:${RULES.findIndex(({ key }) => key === `${action} ${answer}`) + 1}`;

describe('[R142] every action of the policy', { timeout: 180_000 }, () => {
  let world: ScriptedWorld;
  let site: WirePosition;
  const withPort = (text: string): string => text.replace('PORT', String(site.port));
  before(async () => {
    site = await startHttp((_, response) => response.end('a page'));
    const host = 'docs.example.com';
    const names = [...Object.values(NAMES), 'helper', 'mute'];
    world = await startScriptedWorld({
      agents: Object.fromEntries(names.map((name) => [name, manifestOf(name, withPort(SPEC))])),
      policies: { '10-actions': RULES.map(({ text }) => text).join('\n') },
      egressd: { hosts: { [host]: '127.0.0.1' }, allow_private: [`${host}:${site.port}`] },
    });
    for (const name of Object.values(NAMES)) writePersonKey(world.stateDir, name);
    world.model.on('Think', finishes('thought'));
    world.model.on('Help', finishes('helped'));
  });
  after(async () => {
    await world.stop();
    await site.close();
  });

  const as = (name: string) => personOf(world, name);
  const deniedBy: DenialQuery = (action, principal) =>
    eventually('the denial in the log', async () =>
      (await allEvents(world)).find(
        (one) =>
          one.event === 'policy.denied' && one.status === action && one.principal === principal,
      ),
    );

  const callOf = async ({ id }: TaskView, { tool }: ToolScenario, agent: string) => {
    const { tree } = await world.agentd.getTree({ params: { id } });
    const tasks = [tree, ...tree.children].map(({ task }) => task);
    const own = tasks.find(({ assigned_to }) => assigned_to === agent);
    const { calls } = await world.toold.listCalls({ query: { task_id: own!.id } });
    return calls.find((one: ToolCallView) => one.tool === tool)!;
  };
  const eventOf = (id: string) =>
    eventually(`${id} in the log`, async () =>
      (await allEvents(world)).find((one) => one.id === id),
    );

  /** Files that a scenario needs are written by another agent of the same task. */
  const start = async (scenario: ToolScenario, agent: string): Promise<TaskView> => {
    const { tool, args, needsFile } = scenario;
    const goal = `Use ${tool} as ${agent}`;
    const given = JSON.parse(withPort(JSON.stringify(args))) as Record<string, unknown>;
    world.model.on(goal, says(call(tool, given)), finishes('done'));
    if (needsFile === undefined) return create(world, goal, { agent });
    const above = `Prepare ${needsFile} for ${agent}`;
    const write = call('file.write', { path: needsFile, text: 'here' });
    const delegate = call('task.delegate', { agent, goal });
    world.model.on(above, says(write), says(delegate), finishes('done'));
    return create(world, above, { agent: 'helper' });
  };

  const useTool: Record<Answer, (action: Action, scenario: ToolScenario) => Promise<void>> = {
    async allow(_action, scenario) {
      const task = await start(scenario, NAMES.allow);
      await taskEnded(world, task.id);
      const found = await callOf(task, scenario, NAMES.allow);
      const event = await eventOf(`${found.call_id}.attempted.1`);
      assert.equal(event.data?.answer, 'allow');
      assert.equal(found.status, 'completed', JSON.stringify(found));
    },
    async ask(action, scenario) {
      const task = await start(scenario, NAMES.ask);
      const approval = await approvalOf(world, task);
      const found = await callOf(task, scenario, NAMES.ask);
      assert.deepEqual([found.ended_at, found.attempts], [null, 0], 'nothing is done before');
      const asked = await eventOf(`${approval.id}.requested.${found.call_id}`);
      assert.equal(asked.policy, ruleId(action, 'ask'));
      const params = { id: approval.id };
      await makeReviewer(world.approvald).approve({ params, body: { for: 'once' } });
      await taskEnded(world, task.id);
      const done = await callOf(task, scenario, NAMES.ask);
      assert.equal(done.status, 'completed', JSON.stringify(done));
    },
    async deny(action, scenario) {
      const task = await start(scenario, NAMES.deny);
      await taskEnded(world, task.id);
      const found = await callOf(task, scenario, NAMES.deny);
      assert.deepEqual([found.status, found.attempts], ['denied', 0]);
      const event = await eventOf(`${found.call_id}.denied`);
      assert.equal(event.policy, ruleId(action, 'deny'));
    },
  };

  it('each has scenarios, and the schema has no other', () => {
    const actions = Object.keys(ASKED).sort();
    assert.deepEqual(Object.keys({ ...TOOLS, ...OTHERS, ...ELSEWHERE }).sort(), actions);
    for (const [action, file] of Object.entries(ELSEWHERE)) {
      const text = readFileSync(join(import.meta.dirname, file), 'utf8');
      for (const answer of ANSWERS) assert.ok(text.includes(`'${action} ${answer}`), answer);
    }
    const schema = readFileSync(join(ROOT, 'src', 'policy', 'schema.cedarschema'), 'utf8');
    const declared = schema.matchAll(/^action (.*) appliesTo/gm).flatMap(([, names]) => {
      return names!.matchAll(/"([^"]+)"/g).map(([, name]) => name!);
    });
    assert.deepEqual([...declared].sort(), actions);
  });

  for (const action of Object.keys(ASKED) as Action[])
    for (const answer of action in ELSEWHERE ? [] : ANSWERS) {
      const check = async () => {
        const files = [{ name: 'x.cedar', text: ruleFor(action, answer) }];
        return (await world.agentd.checkPolicy({ body: { files } })).check.problems;
      };
      if (!isDone(action, answer))
        it(`${action} ${answer}: nothing asks this, so the check refuses the rule`, async () => {
          const says = /decides nothing: nothing (asks this yet|waits for a person there)$/;
          assert.match((await check()).map(({ message }) => message).join(), says);
        });
      else
        it(`${action} ${answer}`, async () => {
          assert.deepEqual(await check(), []);
          const tool = TOOLS[action];
          if (tool !== undefined) return useTool[answer](action, tool);
          await OTHERS[action]![answer]!({ world, as, deniedBy }, ruleId(action, answer));
        });
    }
});
