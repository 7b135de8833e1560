// The scenarios of policy actions: for agents a tool and its arguments, for others what the
// principal does and what must come of it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import type { Action } from '../../src/policy/request.ts';
import { agentdRoutes, type TaskView } from '../../src/wire/agentd.ts';
import { approvaldRoutes } from '../../src/wire/approvald.ts';
import type { DaemonName } from '../../src/wire/daemons.ts';
import type { AuditEvent } from '../../src/wire/events.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import { findKind, passEnded } from './prune.ts';
import { allEvents } from './reconcile.ts';
import { eventually, taskEnded } from './runtime.ts';
import { call, finishes, says } from './scripted-model.ts';
import { create, doTask, refusedWith, type ScriptedWorld } from './scripted-world.ts';

/** The principal of each answer: the rules are about these names. */
export const NAMES = { allow: 'free', ask: 'careful', deny: 'barred' } as const;
export type Answer = keyof typeof NAMES;
export const ANSWERS = Object.keys(NAMES) as Answer[];

/** An action of agents: the tool that asks it, its arguments, and what the rules are about. */
export type ToolScenario = { tool: string; args: object; resource: string; needsFile?: string };
/** Performs the action as this principal and asserts what came of it. */
type OtherScenario = { resource: string } & Partial<
  Record<Answer, (scene: Scene, rule: string) => Promise<void>>
>;
type Scene = { world: ScriptedWorld; as(name: string): Person; deniedBy: DenialQuery };
type Person = ReturnType<typeof personOf>;
export type DenialQuery = (action: Action, principal: string) => Promise<AuditEvent>;

export const TOOLS: Partial<Record<Action, ToolScenario>> = {
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

export const OTHERS: Partial<Record<Action, OtherScenario>> = {
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

export function personOf(world: ScriptedWorld, name: string) {
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

export const approvalOf = (world: ScriptedWorld, task: TaskView) =>
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
