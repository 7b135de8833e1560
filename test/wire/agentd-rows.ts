// The rows of agentd's routes: for each, a request that succeeds and specific ones it must refuse.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { callSocket, type IdleWorld, type LiveRun, runSocketOf } from '../support/callers.ts';
import { eventually } from '../support/runtime.ts';
import { agentdCallRows, text } from './agentd-call-rows.ts';
import { backupRows } from './backup-rows.ts';
import { makeChangeRows } from './change-rows.ts';
import { erasureRows } from './erasure-rows.ts';
import { incomingMailRows, outgoingMailRows } from './incoming-mail-rows.ts';
import { personaRows } from './persona-rows.ts';
import { policyRows } from './policy-routes.ts';
import { retentionRows } from './retention-rows.ts';
import { type Good, rows, withBody } from './row.ts';

const UNKNOWN = '0'.repeat(26);
const manifest = (name: string) =>
  `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: ${name}, description: New. }\nspec: {}\n`;
let made = 0;

async function newTask(world: IdleWorld, more: object = {}): Promise<TaskId> {
  const body = { goal: 'Hold still', agent: 'worker', ...more };
  return (await world.agentd.createTask({ body })).task.id;
}

/** Never starts, because its dependency never ends by itself. */
const blockedTask = async (world: IdleWorld) => newTask(world, { after: [world.someRun.taskId] });

async function endedTask(world: IdleWorld): Promise<TaskId> {
  const id = await blockedTask(world);
  await world.agentd.cancelTask({ params: { id }, body: {} });
  return id;
}

async function newAgent(world: IdleWorld): Promise<string> {
  const name = `agent-${made++}`;
  await world.agentd.putAgent({ params: { name }, body: { manifest_yaml: manifest(name) } });
  return name;
}

/** Calls person.ask, as the run would. */
async function question(world: IdleWorld, run: LiveRun) {
  const body = { call_id: run.callId(9), tool: 'person.ask', arguments: { question: 'Which?' } };
  const path = runSocketOf(world, 'toold', run);
  const { tooldRoutes } = await import('../../src/wire/toold.ts');
  const outcome = await callSocket(path, tooldRoutes.call, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return (outcome.value as { wait: { id: string } }).wait.id;
}

/** Acts as the runner of a replay: waits for its socket and reports what it found. */
function replayed(world: IdleWorld, run: LiveRun) {
  return async (): Promise<void> => {
    const path = runSocketOf(world, 'agentd', run, 'replay');
    await eventually('the socket of the replay', async () => (existsSync(path) ? true : undefined));
    const body = { calls: 0, differences: [], result: null };
    await eventually('the replay to be open', async () => {
      const outcome = await callSocket(path, agentdRoutes.runReplayed, { body });
      return outcome.ok && (outcome.value as { noted: boolean }).noted ? true : undefined;
    });
  };
}

const byId =
  (make: (world: IdleWorld) => Promise<string>) =>
  async (world: IdleWorld): Promise<Good> => ({
    params: { id: await make(world) },
  });
const byName = (make: (world: IdleWorld) => Promise<string>) => async (world: IdleWorld) => ({
  params: { name: await make(world) },
});
const nothing = async (): Promise<Good> => ({});
const tasks = rows({
  createTask: {
    cites: '[R273]',
    good: async () => ({ body: { goal: 'Do it', agent: 'worker', priority: 3, inputs: [] } }),
    check: (response: { task: { assigned_to: string } }) =>
      assert.equal(response.task.assigned_to, 'worker'),
    bad: [
      ['a goal of 64 KiB and one', (g) => withBody(g, { goal: 'x'.repeat(65_537) }), 'bad_request'],
      ['an unknown agent', (g) => withBody(g, { agent: 'nobody' }), 'not_found'],
      ['an unknown parent', (g) => withBody(g, { parent_task_id: `task_${UNKNOWN}` }), 'not_found'],
      ['an unknown dependency', (g) => withBody(g, { after: [`task_${UNKNOWN}`] }), 'not_found'],
      [
        'a time in another zone',
        (g) => withBody(g, { deadline: '2026-01-01T00:00:00+01:00' }),
        'bad_request',
      ],
      ['a word for a number', (g) => withBody(g, { limits: { max_steps: '3' } }), 'bad_request'],
      ['an unknown key below', (g) => withBody(g, { limits: { max_step: 3 } }), 'bad_request'],
    ],
  },
  createProgram: {
    good: async () => ({ body: { agent: 'worker', command: { argv: ['/usr/bin/true'] } } }),
    check: (response: { task: { status: string; program?: { argv: string[] } } }) => {
      assert.equal(response.task.status, 'working');
      assert.deepEqual(response.task.program, { argv: ['/usr/bin/true'] });
    },
    bad: [
      ['no command', (g) => withBody(g, { command: { argv: [] } }), 'bad_request'],
      ['an unknown agent', (g) => withBody(g, { agent: 'nobody' }), 'not_found'],
    ],
  },
  listTasks: {
    good: async (world) => {
      await newTask(world, { priority: 1 });
      return { query: { agent: 'worker', limit: '5' } };
    },
    check: (response: { tasks: unknown[] }) => assert.ok(response.tasks.length > 0),
    bad: [
      ['an unknown status', (g) => ({ ...g, query: { status: 'lost' } }), 'bad_request'],
      ['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request'],
    ],
  },
  getTask: { cites: '[R274]', good: byId(blockedTask) },
  getTree: { good: byId(async (world) => world.someRun.taskId) },
  cancelTask: {
    cites: '[R275]',
    good: async (world) => ({
      params: { id: await blockedTask(world) },
      body: { reason: 'Enough' },
    }),
    check: (response: { task: { status: string; reason: string } }) => {
      assert.equal(response.task.status, 'canceled');
      assert.equal(response.task.reason, 'Enough');
    },
  },
  retryTask: {
    good: byId(endedTask),
    check: (response: { task: { retry_of: string } }, good) =>
      assert.equal(response.task.retry_of, good.params!.id),
  },
  assignTask: {
    cites: '[R41]',
    good: async (world) => ({
      params: { id: await blockedTask(world) },
      body: { agent: 'helper' },
    }),
    check: (response: { task: { assigned_to: string } }) =>
      assert.equal(response.task.assigned_to, 'helper'),
    bad: [['an unknown agent', (g) => withBody(g, { agent: 'nobody' }), 'not_found']],
  },
  getBoard: {
    good: async (world) => {
      await blockedTask(world);
      return { query: { limit: '3', hours: '1' } };
    },
    check: (response: { board: { columns: { name: string; tasks: unknown[] }[] } }) => {
      const [blocked] = response.board.columns;
      assert.equal(blocked?.name, 'blocked');
      assert.ok(blocked.tasks.length > 0);
    },
    bad: [['no tasks', () => ({ query: { limit: '0' } }), 'bad_request']],
  },
  getDigest: {
    good: async () => ({ query: { since: '2026-01-01T00:00:00Z', limit: '3' } }),
    check: ({ digest }: { digest: { text: string; missing: unknown[] } }) => {
      assert.match(digest.text, /^WAITS FOR YOU: /m);
      assert.deepEqual(digest.missing, []);
    },
    bad: [['a time to come', () => ({ query: { since: '2999-01-01T00:00:00Z' } }), 'bad_request']],
  },
  mailDigest: {
    good: async () => ({ body: { since: '2026-01-01T00:00:00Z' } }),
    check: ({ mail }: { mail: { id: string } }) => assert.match(mail.id, /^digest_[0-9a-z]{26}$/),
    bad: [['a time to come', (g) => withBody(g, { since: '2999-01-01T00:00:00Z' }), 'bad_request']],
  },
  loadPreset: {
    good: async () => ({
      body: {
        file: 'x.yaml',
        text: `apiVersion: agentd/v1
kind: Preset
metadata: { name: x${made++}, description: X. }
agents: [{ name: worker }]
tasks: [{ id: a, goal: Hold still, agent: worker }]
`,
      },
    }),
    check: (response: { preset: { tasks: { status: string }[] } }) =>
      assert.equal(response.preset.tasks[0]?.status, 'ready'),
    bad: [['no preset', (g) => withBody(g, { text: 'x: 1' }), 'bad_config']],
  },
  getTaskMatch: {
    good: byId(async (world) => newTask(world, { needs: ['test.tools'] })),
    check: (response: { match: { reason: string } }) =>
      assert.equal(response.match.reason, 'named'),
  },
  getThread: {
    good: async (world) => {
      const { task } = await world.agentd.getTask({ params: { id: await blockedTask(world) } });
      return { params: { id: task.context_id } };
    },
    check: (response: { thread: { turns: number; next_move: { owner: string } } }) => {
      assert.equal(response.thread.turns, 0);
      assert.equal(response.thread.next_move.owner, 'agent:worker');
    },
  },
  updateTask: {
    good: async (world) => ({
      params: { id: await blockedTask(world) },
      body: { agent: 'helper', priority: 7 },
    }),
    check: (response: { task: { assigned_to: string; priority: number } }) => {
      assert.equal(response.task.assigned_to, 'helper');
      assert.equal(response.task.priority, 7);
    },
    bad: [
      ['an unknown agent', (g) => withBody(g, { agent: 'nobody' }), 'not_found'],
      ['an unknown dependency', (g) => withBody(g, { after: [`task_${UNKNOWN}`] }), 'not_found'],
      ['a status that only work reaches', (g) => withBody(g, { status: 'ready' }), 'bad_request'],
      ['too many tries', (g) => withBody(g, { attempts_max: 11 }), 'bad_request'],
    ],
  },
  replayTask: {
    good: async (world) => {
      const run = await world.startRun();
      await world.agentd.cancelTask({ params: { id: run.taskId }, body: {} });
      return { params: { id: run.taskId }, meanwhile: replayed(world, run) };
    },
  },
  ...makeChangeRows(blockedTask),
  listRuns: { good: async (world) => ({ query: { task_id: world.someRun.taskId } }) },
  getRun: { good: byId(async (world) => world.someRun.id) },
});

const agents = rows({
  listAgents: { cites: '[R276]', good: nothing },
  getAgent: { cites: '[R277]', good: byName(async () => 'worker') },
  putAgent: {
    unknownId: 'bad_manifest',
    good: async () => {
      const name = `agent-${made++}`;
      return { params: { name }, body: { manifest_yaml: manifest(name), create_only: true } };
    },
    bad: [
      ['a manifest that is no YAML', (g) => withBody(g, { manifest_yaml: '{' }), 'bad_manifest'],
      [
        'a manifest of another agent',
        (g) => withBody(g, { manifest_yaml: manifest('eve') }),
        'bad_manifest',
      ],
      [
        'a manifest with an unknown key',
        (g) => withBody(g, { manifest_yaml: `${manifest(String(g.params!.name))}x: 1\n` }),
        'bad_manifest',
      ],
    ],
  },
  removeAgent: {
    good: byName(newAgent),
    check: (response: { agent: { status: string } }) =>
      assert.equal(response.agent.status, 'removed'),
  },
  pauseAgent: {
    cites: '[R278]',
    good: byName(newAgent),
    check: (response: { agent: { status: string } }) =>
      assert.equal(response.agent.status, 'paused'),
  },
  resumeAgent: {
    cites: '[R279]',
    good: async (world) => {
      const name = await newAgent(world);
      await world.agentd.pauseAgent({ params: { name } });
      return { params: { name } };
    },
    check: (response: { agent: { status: string } }) =>
      assert.equal(response.agent.status, 'active'),
  },
  stopAgent: {
    good: byName(newAgent),
    check: (response: { agent: { status: string } }) =>
      assert.equal(response.agent.status, 'stopped'),
  },
});

const threads = rows({
  listWaits: { good: async () => ({ query: { status: 'open', kind: 'question' } }) },
  getWait: { good: byId(async (world) => question(world, await world.startRun())) },
  answerWait: {
    good: async (world) => ({
      params: { id: await question(world, await world.startRun()) },
      body: { answer: 'this one' },
    }),
    check: (response: { wait: { status: string } }) => assert.equal(response.wait.status, 'ended'),
  },
  sendMessage: {
    cites: '[R44]',
    good: async (world) => ({
      body: {
        type: 'TaskProgress',
        to: 'agent:worker',
        task_id: world.someRun.taskId,
        ...text('Hi'),
      },
    }),
    bad: [
      ['an unknown agent', (g) => withBody(g, { to: 'agent:nobody' }), 'not_found'],
      ['an unknown task', (g) => withBody(g, { task_id: `task_${UNKNOWN}` }), 'not_found'],
      [
        'a type that a call stands for',
        (g) => withBody(g, { type: 'ToolRequest', to: 'service:toold' }),
        'bad_request',
      ],
      ['a part of no kind', (g) => withBody(g, { parts: [{ kind: 'smoke' }] }), 'bad_request'],
      ['a principal that is none', (g) => withBody(g, { to: 'worker' }), 'bad_request'],
    ],
  },
  listMessages: { good: async (world) => ({ query: { task_id: world.someRun.taskId } }) },
  putArtifact: {
    good: async () => ({ body: { name: 'a.txt', mime_type: 'text/plain', text: 'hé' } }),
    bad: [
      ['both text and base64', (g) => withBody(g, { base64: 'aGk=' }), 'bad_request'],
      ['neither', () => ({ body: { name: 'a' } }), 'bad_request'],
      ['base64 that is none', () => ({ body: { name: 'a', base64: '!' } }), 'bad_request'],
    ],
  },
  listArtifacts: { good: async () => ({ query: { limit: '3' } }) },
  getArtifact: {
    good: byId(async (world) => {
      const body = { name: 'b.txt', text: 'kept' };
      return (await world.agentd.putArtifact({ body })).artifact.id;
    }),
    check: (response: { text: string }) => assert.equal(response.text, 'kept'),
  },
});

const runs = rows({
  runBriefing: { good: async (world) => ({ run: world.someRun }) },
  runInbox: { good: async (world) => ({ run: world.someRun, body: { step: 0 } }) },
  runBeat: { good: async (world) => ({ run: world.someRun }) },
  runPark: {
    good: async (world) => {
      const run = await world.startRun();
      await question(world, run);
      return { run, body: { call_ids: [run.callId(9)] } };
    },
    check: (response: { parked: boolean }) => assert.equal(response.parked, true),
  },
  runReplayed: {
    good: async (world) => ({
      run: world.someRun,
      body: { calls: 0, differences: [], result: null },
    }),
    check: (response: { noted: boolean }) =>
      assert.equal(response.noted, false, 'no replay was requested'),
  },
});

const site = rows({
  status: { good: nothing },
  halt: {
    good: async () => ({ body: { reason: 'A test' } }),
    check: (response: { halted: boolean }) => assert.equal(response.halted, true),
  },
  unhalt: { good: nothing },
});

export const ROWS = {
  ...backupRows,
  ...tasks,
  ...agents,
  ...threads,
  ...runs,
  ...agentdCallRows,
  ...policyRows,
  ...personaRows,
  ...incomingMailRows,
  ...outgoingMailRows,
  ...erasureRows,
  ...retentionRows,
  ...site,
};
