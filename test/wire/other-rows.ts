// The routes of toold, modeld and auditd-ai, and those every daemon has.
import assert from 'node:assert/strict';
import { socketPathOf } from '../../src/platform/daemon.ts';
import { derivedId } from '../../src/platform/ids.ts';
import type { CallerKind } from '../../src/wire/route.ts';
import { tooldRoutes } from '../../src/wire/toold.ts';
import type { RunId, TaskId } from '../../src/wire/words.ts';
import { askSocket, type LiveRun, type Quiet, runSocketOf } from '../support/callers.ts';
import { type Good, rows, withBody } from './row.ts';

let made = 0;
const nothing = async (): Promise<Good> => ({});

export const floorRows = rows({
  health: {
    good: nothing,
    check: (answer: { status: string }) => assert.equal(answer.status, 'ok'),
  },
  metrics: {
    good: nothing,
    check: (answer: string) => assert.match(answer, /^# TYPE agentd_requests_total counter$/m),
  },
});

const echo = (run: LiveRun) => ({
  call_id: run.callId(100 + made++),
  tool: 'test.echo',
  arguments: { text: 'hello' },
});

async function madeCall(world: Quiet) {
  const path = runSocketOf(world, 'toold', world.someRun);
  const body = echo(world.someRun);
  const asked = await askSocket(path, tooldRoutes.call, { body });
  assert.ok(asked.ok, JSON.stringify(asked));
  return body.call_id;
}

const freshRun = () => derivedId<RunId>('run', 'wire', made++);
const common = () => {
  const task_id = derivedId<TaskId>('task', 'wire', made++);
  return { fence: 1, mode: 'live', agent: 'worker', task_id, root_task_id: task_id, labels: [] };
};
const forTools = () => ({
  ...common(),
  tools: ['test.echo'],
  grant_expires_at: null,
  workspace: null,
  max_calls: 9,
});
const forModels = () => ({
  ...{ ...common(), model: 'default', max_steps: 9, max_tokens: null, max_cost_microusd: null },
});

export const tooldRows = rows({
  listTools: {
    cites: '[R287]',
    good: async (world) => ({ run: world.someRun }),
    check: (answer: { tools: { name: string }[] }) =>
      assert.ok(answer.tools.some(({ name }) => name === 'task.finish')),
  },
  call: {
    cites: '[R288]',
    good: async (world) => ({ run: world.someRun, body: echo(world.someRun) }),
    check: (answer: { status: string; result: { text: string } }) => {
      assert.equal(answer.status, 'completed');
      assert.equal(answer.result.text, 'hello');
    },
    bad: [
      ['a call of another shape', (g) => withBody(g, { call_id: 'call_1' }), 'bad_request'],
      [
        'a call of another run',
        (g) => withBody(g, { call_id: `call_${'0'.repeat(26)}` }),
        'bad_request',
      ],
      ['arguments that are a list', (g) => withBody(g, { arguments: [1] }), 'bad_request'],
    ],
  },
  getCall: {
    cites: '[R289]',
    good: async (world) => ({ run: world.someRun, params: { id: await madeCall(world) } }),
  },
  listCalls: {
    good: async (world) => ({ query: { run_id: world.someRun.id } }),
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  checkArguments: {
    good: async () => ({ params: { name: 'test.echo' }, body: { arguments: { text: 1 } } }),
    check: (answer: { problem: string }) => assert.match(answer.problem, /^text: /),
    bad: [['arguments that are a list', (g) => withBody(g, { arguments: [1] }), 'bad_request']],
  },
  suspendTool: {
    good: async () => ({ params: { name: 'test.count_effect' }, body: { reason: 'looks odd' } }),
    check: (answer: { tool: { suspended: { reason: string } } }) =>
      assert.equal(answer.tool.suspended.reason, 'looks odd'),
    bad: [
      ['no reason', (g) => withBody(g, { reason: '' }), 'bad_request'],
      ['what every run needs', (g) => ({ ...g, params: { name: 'task.finish' } }), 'bad_request'],
    ],
  },
  resumeTool: {
    good: async (world) => {
      const params = { name: 'test.count_effect' };
      await world.toold.suspendTool({ params, body: { reason: 'x' } });
      return { params };
    },
    check: (answer: { tool: { suspended?: object } }) =>
      assert.equal(answer.tool.suspended, undefined),
    bad: [['one that is not suspended', () => ({ params: { name: 'test.echo' } }), 'conflict']],
  },
  admitRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: forTools() }),
  },
  dismissRun: {
    unknownId: 'fine',
    good: async (world) => {
      const id = freshRun();
      const body = forTools();
      const path = socketPathOf(world.runtimeDir, 'toold', 'peer-agentd');
      assert.ok((await askSocket(path, tooldRoutes.admitRun, { params: { id }, body })).ok);
      return { params: { id }, query: { fence: '1' } };
    },
    check: (answer: { dismissed: boolean }) => assert.equal(answer.dismissed, true),
  },
  markRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: { labels: ['outside'] } }),
    check: (answer: { labels: string[] }) => assert.deepEqual(answer.labels, [], 'not live here'),
    bad: [['no label', (g) => withBody(g, { labels: [] }), 'bad_request']],
  },
});

const said = (text: string) => [{ role: 'user', parts: [{ type: 'text', text }] }];

async function modelCall(world: Quiet) {
  return world.modeld.generate({ body: { model: 'default', messages: said('hello') as never } });
}

export const modeldRows = rows({
  generate: {
    cites: '[R290]',
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: said('hello'), purpose: 'a test' },
    }),
    check: (answer: { rehearsal: boolean; message: { role: string } }) => {
      assert.equal(answer.rehearsal, true);
      assert.equal(answer.message.role, 'assistant');
    },
    bad: [
      ['neither messages nor a reference', () => ({ body: { model: 'default' } }), 'bad_request'],
      [
        'a part of no kind',
        (g) => withBody(g, { messages: [{ role: 'user', parts: [{ type: 'smoke' }] }] }),
        'bad_request',
      ],
    ],
  },
  embed: {
    cites: '[R291]',
    good: async (world) => ({ run: world.someRun, body: { model: 'embed', input: ['a', 'b'] } }),
    check: (answer: { embeddings: unknown[] }) => assert.equal(answer.embeddings.length, 2),
    bad: [['an empty text', (g) => withBody(g, { input: [''] }), 'bad_request']],
  },
  listModels: { cites: '[R292]', good: async (world) => ({ run: world.someRun }) },
  usage: { cites: '[R293]', good: async () => ({ query: { since: '2026-01-01T00:00:00Z' } }) },
  listBudgets: { good: nothing },
  setBudget: {
    good: async () => ({ body: { subject: 'agent', name: `a${made++}`, tokens_limit: 1_000 } }),
    check: (answer: { budget: { tokens_limit: number } }) =>
      assert.equal(answer.budget.tokens_limit, 1_000),
    bad: [
      ['no name for an agent', () => ({ body: { subject: 'agent' } }), 'bad_request'],
      ['a name for the site', () => ({ body: { subject: 'site', name: 'x' } }), 'bad_request'],
    ],
  },
  testModel: {
    good: async () => ({ body: { name: 'default' } }),
    check: (answer: { ok: boolean }) => assert.equal(answer.ok, true),
  },
  listCalls: {
    good: async (world) => {
      await modelCall(world);
      return { query: { limit: '3' } };
    },
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  getCall: { good: async (world) => ({ params: { id: (await modelCall(world)).call_id } }) },
  forgetPart: {
    unknownId: 'fine',
    good: async (world) => {
      const body = { model: 'default', messages: said(`forget me ${made++}`) as never };
      const { call_id } = await world.modeld.generate({ body });
      const { call } = await world.modeld.getCall({ params: { id: call_id } });
      return { params: { hash: call.context.at(-1)! } };
    },
    check: (answer: { forgotten: boolean }) => assert.equal(answer.forgotten, true),
  },
  openaiChat: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (answer: { object: string }) => assert.equal(answer.object, 'chat.completion'),
    bad: [
      ['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request'],
      ['a message of no role', (g) => withBody(g, { messages: [{}] }), 'provider_refused'],
    ],
  },
  openaiModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (answer: { object: string }) => assert.equal(answer.object, 'list'),
  },
  anthropicMessages: {
    vendor: true,
    good: async (world) => ({
      run: world.someRun,
      body: { model: 'default', max_tokens: 50, messages: [{ role: 'user', content: 'hello' }] },
    }),
    check: (answer: { type: string }) => assert.equal(answer.type, 'message'),
    bad: [['no messages', (g) => withBody(g, { messages: undefined }), 'bad_request']],
  },
  anthropicModels: {
    good: async (world) => ({ run: world.someRun }),
    check: (answer: { has_more: boolean }) => assert.equal(answer.has_more, false),
  },
  admitRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: forModels() }),
  },
  dismissRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, query: { fence: '1' } }),
  },
  markRun: {
    unknownId: 'fine',
    good: async () => ({ params: { id: freshRun() }, body: { labels: ['outside'] } }),
    check: (answer: { labels: string[] }) => assert.deepEqual(answer.labels, ['outside']),
    bad: [['no label', (g) => withBody(g, { labels: [] }), 'bad_request']],
  },
  // Last: from then on the names of models mean the provider, and nobody answers there.
  addProvider: {
    unknownId: 'fine',
    good: async () => ({
      params: { name: `p${made++}` },
      body: { dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', key: 'k', models: ['m'] },
    }),
    check: (answer: { provider: { has_key: boolean } }) =>
      assert.equal(answer.provider.has_key, true),
    bad: [
      ['a base that is no address', (g) => withBody(g, { base_url: 'ftp://x' }), 'bad_request'],
    ],
  },
});

const event = (source: CallerKind = 'agentd') => {
  const seq = ++made;
  return {
    ...{ id: `wire-${seq}`, ts: '2026-03-01T09:00:00Z', event: 'task.created', source },
    ...{ source_store: `wire-${seq}`, source_seq: seq },
  };
};
const append = (more: object) => () => ({ body: { events: [{ ...event(), ...more }] } });

export const auditRows = rows({
  append: {
    good: async (_, as) => ({ body: { events: [event(as)] } }),
    check: (answer: { accepted: number }) => assert.equal(answer.accepted, 1),
    bad: [
      ['no events', () => ({ body: { events: [] } }), 'bad_request'],
      ['an event of no kind', append({ event: 'x.y' }), 'bad_request'],
      ['content in an event', append({ data: { a: { b: 1 } } }), 'bad_request'],
      ['an event of another daemon', append({ source: 'toold' }), 'forbidden_caller'],
    ],
  },
  own: {
    unknownId: 'fine',
    good: async () => ({ params: { store: 'wire-0' }, query: { after: '0' } }),
    check: (answer: { events: unknown[] }) => assert.deepEqual(answer.events, []),
    bad: [
      ['a number below all', (g) => ({ ...g, query: { after: '-1' } }), 'bad_request'],
      ['no number', (g) => ({ ...g, query: {} }), 'bad_request'],
    ],
  },
  events: {
    cites: '[R299]',
    good: async () => ({ query: { limit: '3', order: 'desc' } }),
    check: (answer: { events: unknown[] }) => assert.equal(answer.events.length, 3),
    bad: [['a cursor of nobody', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  task: {
    cites: '[R300]',
    unknownId: 'fine',
    good: async (world) => ({ params: { task_id: world.someRun.taskId } }),
    check: (answer: { events: unknown[] }) => assert.ok(answer.events.length > 0),
  },
  agent: {
    cites: '[R301]',
    unknownId: 'fine',
    good: async () => ({ params: { agent: 'worker' } }),
    check: (answer: { events: unknown[] }) => assert.ok(answer.events.length > 0),
  },
  tool: {
    cites: '[R302]',
    unknownId: 'fine',
    good: async (world) => {
      await madeCall(world);
      return { params: { tool: 'test.echo' } };
    },
    check: (answer: { events: unknown[] }) => assert.ok(answer.events.length > 0),
  },
  checkpoint: { good: nothing },
  prove: {
    good: async (world) => ({ params: { id: `${world.someRun.taskId}.created` } }),
    check: (answer: { index: number; size: number }) => assert.ok(answer.index < answer.size),
  },
  rotateKey: {
    good: nothing,
    check: (answer: { vkey: string; previous: string }) =>
      assert.notEqual(answer.vkey, answer.previous),
  },
});
