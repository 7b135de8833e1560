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
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { ASKED } from '../../src/policy/asked.ts';
import type { Action } from '../../src/policy/request.ts';
import { agentdRoutes, type TaskView } from '../../src/wire/agentd.ts';
import { approvaldRoutes } from '../../src/wire/approvald.ts';
import type { DaemonName } from '../../src/wire/daemons.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import type { ToolCallView } from '../../src/wire/toold.ts';
import { findKind, passEnded } from '../support/prune.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, ROOT, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  manifestOf,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

/** The principal of each answer: the rules are about these names. */
const NAMES = { allow: 'free', ask: 'careful', deny: 'barred' } as const;
type Answer = keyof typeof NAMES;
const ANSWERS = Object.keys(NAMES) as Answer[];

const SPEC = `{ replicas: 4,
  tools: { allow: [test.tools, file.read, file.write_workspace, http.fetch, task.delegate] },
  network: { mode: restricted, allow: ["docs.example.com:PORT"] }, team: { talkTo: [helper] } }`;

/** An action of agents: the tool that asks it, its arguments, and what the rules are about. */
type ToolScenario = { tool: string; args: object; resource: string; needsFile?: string };
/** Performs the action as this principal and asserts what came of it. */
type OtherScenario = { resource: string } & Partial<
  Record<Answer, (scene: Scene, rule: string) => Promise<void>>
>;
type Scene = { world: ScriptedWorld; as(name: string): Person; deniedBy: DenialQuery };
type Person = ReturnType<typeof personOf>;
type DenialQuery = (action: Action, principal: string) => Promise<AuditEvent>;

const TOOLS: Partial<Record<Action, ToolScenario>> = {
  'tool.call': { tool: 'test.echo', args: { text: 'x' }, resource: 'Tool::"test.echo"' },
  'file.read': {
    tool: 'file.read',
    args: { path: 'in/a.txt' },
    resource: 'Path::"/workspace/in"',
    needsFile: 'in/a.txt',
  },
  'file.write': {
    tool: 'file.write',
    args: { path: 'out/a.txt', text: 'x' },
    resource: 'Path::"/workspace/out"',
  },
  'file.delete': {
    tool: 'file.delete',
    args: { path: 'old/a.txt' },
    resource: 'Path::"/workspace/old"',
    needsFile: 'old/a.txt',
  },
  'net.connect': {
    tool: 'http.fetch',
    args: { url: 'http://docs.example.com:PORT/' },
    resource: 'Host::"docs.example.com"',
  },
  'task.delegate': {
    tool: 'task.delegate',
    args: { agent: 'helper', goal: 'Help', wait: false },
    resource: 'Agent::"helper"',
  },
  'message.send': {
    tool: 'message.send',
    args: { to: 'helper', text: 'hello' },
    resource: 'Agent::"helper"',
  },
};

const DAY_MS = 86_400_000;
const APP = 'project:app';
const fact = { class: 'semantic', scope: APP, text: 'Herons eat fish.' } as const;

const OTHERS: Partial<Record<Action, OtherScenario>> = {
  'model.use': {
    resource: 'Model::"default"',
    async allow({ world }) {
      const task = await doTask(world, 'Think', { agent: NAMES.allow });
      assert.equal(task.status, 'completed', JSON.stringify(task.error));
    },
    async deny({ world }, rule) {
      const task = await doTask(world, 'Think in vain', { agent: 'mute' });
      assert.equal(task.status, 'failed');
      assert.deepEqual(world.model.scenesFor('Think in vain'), []);
      const refused = await eventually('the refusal in the log', async () =>
        (await allEvents(world)).find(
          ({ event, task_id }) => event === 'model.call.refused' && task_id === task.id,
        ),
      );
      assert.equal(refused.policy, rule);
    },
  },
  'memory.read': {
    resource: `Scope::"${APP}"`,
    async allow({ as }) {
      const { memoryd } = as(NAMES.allow);
      await memoryd.remember({ body: fact });
      const { memories } = await memoryd.recall({ body: { scope: APP, query: 'herons' } });
      assert.equal(memories[0]?.text, fact.text);
    },
    async deny({ as, deniedBy }, rule) {
      await as(NAMES.allow).memoryd.remember({ body: fact });
      const { memoryd } = as(NAMES.deny);
      await refusedWith('denied', memoryd.recall({ body: { scope: APP, query: 'herons' } }));
      assert.deepEqual(await memoryd.recall({ body: { query: 'herons' } }), { memories: [] });
      const event = await deniedBy('memory.read', `person:${NAMES.deny}`);
      assert.deepEqual([event.policy, event.data?.scope], [rule, APP]);
    },
  },
  'memory.write': {
    resource: `Scope::"${APP}"`,
    async allow({ as }) {
      const { memories } = await as(NAMES.allow).memoryd.remember({ body: fact });
      assert.equal(memories[0]?.status, 'active');
    },
    async ask({ as }) {
      const text = 'Storks eat frogs.';
      const { memories } = await as(NAMES.ask).memoryd.remember({ body: { ...fact, text } });
      assert.equal(memories[0]?.status, 'proposed');
      const { memoryd } = as(NAMES.allow);
      assert.deepEqual(await memoryd.recall({ body: { query: 'storks' } }), { memories: [] });
    },
    async deny({ as, deniedBy }, rule) {
      await refusedWith('denied', as(NAMES.deny).memoryd.remember({ body: fact }));
      const event = await deniedBy('memory.write', `person:${NAMES.deny}`);
      assert.deepEqual([event.policy, event.data?.scope], [rule, APP]);
    },
  },
  'approval.decide': {
    resource: '',
    async allow({ world, as }) {
      const { params, task } = await pendingApproval(world);
      const { approval } = await as(NAMES.allow).approvald.approve({ params, body: {} });
      assert.equal(approval.status, 'approved');
      assert.equal((await taskEnded(world, task.id)).status, 'completed');
    },
    async ask({ world, as }, rule) {
      const { params, task } = await pendingApproval(world);
      const { approval } = await as(NAMES.ask).approvald.approve({ params, body: {} });
      assert.deepEqual([approval.status, approval.answers[0]?.rule], ['pending', rule]);
      await as(NAMES.allow).approvald.approve({ params, body: {} });
      assert.equal((await taskEnded(world, task.id)).status, 'completed');
    },
    async deny({ world, as, deniedBy }, rule) {
      const { params, task } = await pendingApproval(world);
      const barred = as(NAMES.deny);
      await refusedWith('denied', barred.approvald.approve({ params, body: {} }));
      const event = await deniedBy('approval.decide', `person:${NAMES.deny}`);
      assert.deepEqual([event.policy, event.data?.approval_id], [rule, params.id]);
      const { approval } = await world.approvald.getApproval({ params });
      assert.equal(approval.status, 'pending');
      await as(NAMES.allow).approvald.reject({ params, body: { reason: 'enough' } });
      await taskEnded(world, task.id);
    },
  },
  'data.retain': {
    resource: 'Scope::"tasks"',
    async allow({ world, as }) {
      const { params } = await endedTask(world);
      await as(NAMES.allow).agentd.keepTask({ params, body: { kept: true } });
      const { task } = await world.agentd.getTask({ params });
      assert.equal(task.kept?.by, `person:${NAMES.allow}`);
    },
    async deny({ world, as, deniedBy }, rule) {
      const { params } = await endedTask(world);
      const keep = as(NAMES.deny).agentd.keepTask({ params, body: { kept: true } });
      await refusedWith('denied', keep);
      const event = await deniedBy('data.retain', `person:${NAMES.deny}`);
      assert.deepEqual([event.policy, event.task_id], [rule, params.id]);
      assert.equal((await world.agentd.getTask({ params })).task.kept, undefined);
    },
  },
  'data.delete': {
    resource: 'Scope::"tasks"',
    async allow({ world, as }) {
      const { params } = await endedTask(world);
      assert.equal((await pruneAs(as(NAMES.allow), params.id)).pruned, 1);
      await refusedWith('pruned', world.agentd.getTask({ params }));
    },
    async ask({ world, as }, rule) {
      const { params } = await endedTask(world);
      const { pruned, kept } = await pruneAs(as(NAMES.ask), params.id);
      assert.deepEqual([pruned, kept[0]?.reason], [0, 'needs_approval']);
      assert.deepEqual(kept[0]?.examples[0]?.rules, [rule]);
      await world.agentd.getTask({ params });
      assert.equal((await pruneAs(as(NAMES.ask), params.id, { approve: true })).pruned, 1);
    },
    async deny({ world, as, deniedBy }, rule) {
      const { params } = await endedTask(world);
      const { pruned, kept } = await pruneAs(as(NAMES.deny), params.id, { approve: true });
      assert.deepEqual([pruned, kept[0]?.reason], [0, 'policy']);
      const event = await deniedBy('data.delete', `person:${NAMES.deny}`);
      assert.deepEqual([event.policy, event.data?.kept], [rule, 1]);
      await world.agentd.getTask({ params });
    },
  },
};

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

function personOf(world: ScriptedWorld, name: string) {
  const key = readFileSync(join(world.stateDir, 'people', `${name}.key`), 'utf8').split(
    '\n',
    1,
  )[0]!;
  const headers = { authorization: `Bearer ${key}` };
  const link = (daemon: DaemonName) =>
    socketLink({ socketPath: socketPathFor(world.runtimeDir, daemon, 'operator'), headers });
  return {
    agentd: makeClient(agentdRoutes, link('agentd')),
    approvald: makeReviewer(makeClient(approvaldRoutes, link('approvald'))),
    memoryd: makeClient(memorydRoutes, link('memoryd')),
  };
}

/** A call of the agent `careful` that waits for a person. */
async function pendingApproval(world: ScriptedWorld) {
  const goal = `Wait for a person ${Math.random()}`;
  world.model.on(goal, says(call('test.echo', { text: 'x' })), finishes('done'));
  const task = await create(world, goal, { agent: NAMES.ask });
  return { task, params: { id: (await approvalOf(world, task)).id } };
}

const approvalOf = (world: ScriptedWorld, task: TaskView) =>
  eventually('the approval', async () => {
    const query = { status: 'pending' as const };
    const { approvals } = await world.approvald.listApprovals({ query });
    return approvals.find(({ root_task_id }) => root_task_id === task.id);
  });

async function endedTask(world: ScriptedWorld) {
  const task = await doTask(world, 'Think', { agent: 'helper' });
  world.clock.advance(2 * DAY_MS);
  return { params: { id: task.id } };
}

async function pruneAs({ agentd }: Person, id: TaskView['id'], more = {}) {
  const body = { root_task_ids: [id], kinds: ['tasks' as const], ...more };
  const { prune } = await agentd.startPrune({ body });
  return findKind(await passEnded({ agentd } as never, prune.started_at), 'tasks');
}

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
