// The rows of memoryd's routes: for each, a request that succeeds and specific ones it must refuse.
import assert from 'node:assert/strict';
import { deriveId } from '../../src/platform/ids.ts';
import type {
  MemorySnapshot,
  MemoryView,
  NewMemory,
  RecalledMemory,
} from '../../src/wire/memoryd/records.ts';
import { memorydRoutes } from '../../src/wire/memoryd.ts';
import type { CallId } from '../../src/wire/primitives.ts';
import type { Route } from '../../src/wire/route.ts';
import { callSocket, type IdleWorld, socketOf, type TestRequest } from '../support/callers.ts';
import { AGENTD_ROWS } from './memoryd-agentd-rows.ts';
import { makeApprovaldRows } from './memoryd-approvald-rows.ts';
import { type Bad, rows, withBody } from './row.ts';

let made = 0;

const newMemory = (more: Partial<NewMemory> = {}): NewMemory => ({
  class: 'semantic',
  scope: 'project:wire',
  text: `Fact ${made++} about herons.`,
  ...more,
});

async function post<T>(world: IdleWorld, route: Route, body: object): Promise<T> {
  const headers = { authorization: `Bearer ${world.operatorKey}`, 'agentd-person': 'tester' };
  const path = socketOf(world, 'memoryd', 'operator', world.someRun)!;
  const outcome = await callSocket(path, route, { body }, { headers });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return outcome.value as T;
}

type One = { memory: MemoryView };
const remembered = async (world: IdleWorld, more?: Partial<NewMemory>): Promise<MemoryView> =>
  (await post<One>(world, memorydRoutes.remember, newMemory(more))).memory;
const proposed = async (world: IdleWorld): Promise<MemoryView> =>
  (await post<One>(world, memorydRoutes.proposeMemory, newMemory())).memory;
const bothProposed = async (world: IdleWorld): Promise<TestRequest> => ({
  body: { ids: [(await proposed(world)).id, (await proposed(world)).id] },
});
type Decided = { decided: { memory: MemoryView | null }[] };
const statusesOf = ({ decided }: Decided) => decided.map(({ memory }) => memory?.status);
const taken = async (world: IdleWorld): Promise<MemorySnapshot> => {
  const body = { scope: 'project:wire' };
  const route = memorydRoutes.takeMemorySnapshot;
  return (await post<{ snapshot: MemorySnapshot }>(world, route, body)).snapshot;
};

const unknownAmongIds: Bad = [
  'an unknown memory',
  (g) => withBody(g, { ids: [`memory_${'0'.repeat(26)}`] }),
  'not_found',
];
/** The run for which toold calls: it reads and writes its agent's own memory. */
const runOf = ({ someRun }: IdleWorld) => ({
  run_id: someRun.id,
  call_id: deriveId<CallId>('call', 'memory', made++),
  agent: 'worker',
  task_id: someRun.taskId,
  root_task_id: someRun.taskId,
  labels: [],
});
const OWN = { scope: 'agent:worker' };
const elsewhere: Bad = [
  'the memory of another agent',
  (g) => withBody(g, { memories: [newMemory({ scope: 'agent:helper' })] }),
  'denied',
];
const ofItsOwn = async (world: IdleWorld, more: object = {}): Promise<TestRequest> => ({
  body: { run: runOf(world), ids: [(await remembered(world, OWN)).id], ...more },
});

export const ROWS = rows({
  runRecall: {
    good: async (world) => {
      await remembered(world, OWN);
      return { body: { run: runOf(world), query: 'herons' } };
    },
    check: ({ memories }: { memories: RecalledMemory[] }) =>
      assert.ok(memories.length > 0 && memories.every(({ scope }) => scope === OWN.scope)),
    bad: [['the scope of a team', (g) => withBody(g, { scope: 'team' }), 'denied']],
  },
  runRemember: {
    good: async (world) => ({
      body: { run: runOf(world), memories: [newMemory(OWN)], propose: false },
    }),
    check: ({ memories }: { memories: MemoryView[] }) =>
      assert.deepEqual([memories[0]?.by, memories[0]?.labels], ['agent:worker', ['agent']]),
    bad: [elsewhere],
  },
  runMemories: {
    good: (world) => ofItsOwn(world),
    check: ({ memories }: { memories: MemoryView[] }) =>
      assert.equal(memories[0]?.scope, OWN.scope),
    bad: [unknownAmongIds],
  },
  runForget: {
    good: (world) => ofItsOwn(world, { approved: true }),
    check: ({ memories }: { memories: MemoryView[] }) =>
      assert.equal(memories[0]?.status, 'forgotten'),
    bad: [unknownAmongIds],
  },
  remember: {
    cites: '[R280] [R72]',
    good: async () => ({ body: newMemory() }),
    check: ({ memories }: { memories: MemoryView[] }, good) => {
      const { text, scope } = good.body as NewMemory;
      assert.deepEqual(
        memories.map((one) => [one.text, one.scope, one.status, one.by]),
        [[text, scope, 'active', 'person:tester']],
      );
    },
    bad: [
      ['a scope with ..', (g) => withBody(g, { scope: 'project:a/../b' }), 'bad_request'],
      ['a class of its own', (g) => withBody(g, { class: 'audit' }), 'bad_request'],
      ['the memory of a person', (g) => withBody(g, { scope: 'person:tester' }), 'denied'],
      [
        'a memory that ends before it begins',
        (g) =>
          withBody(g, { valid_from: '2026-01-02T00:00:00Z', valid_to: '2026-01-01T00:00:00Z' }),
        'bad_request',
      ],
      [
        'one that replaces an unknown one',
        (g) => withBody(g, { supersedes: [`memory_${'0'.repeat(26)}`] }),
        'not_found',
      ],
      ['an empty batch', () => ({ body: { memories: [] } }), 'bad_request'],
    ],
  },
  recall: {
    cites: '[R281] [R73]',
    good: async (world) => {
      await remembered(world);
      return { body: { scope: 'project:wire', query: 'herons', limit: 3 } };
    },
    check: ({ memories }: { memories: RecalledMemory[] }) => {
      assert.ok(memories.length > 0 && memories.length <= 3);
      assert.match(memories[0]!.text, /herons/);
    },
    bad: [
      ['a scope and scopes', (g) => withBody(g, { scopes: ['team'] }), 'bad_request'],
      ['the memory of a person', (g) => withBody(g, { scope: 'person:ann' }), 'denied'],
      ['too many', (g) => withBody(g, { limit: 101 }), 'bad_request'],
    ],
  },
  getMemory: {
    cites: '[R286]',
    good: async (world) => ({ params: { id: (await remembered(world)).id } }),
    check: ({ memory }: { memory: MemoryView }, good) =>
      assert.equal(memory.id, (good.params as { id: string }).id),
  },
  proposeMemory: {
    cites: '[R284] [R80]',
    good: async () => ({ body: newMemory() }),
    check: ({ memory }: { memory: MemoryView }) => assert.equal(memory.status, 'proposed'),
    bad: [['the memory of a person', (g) => withBody(g, { scope: 'person:ann' }), 'denied']],
  },
  approveMemory: {
    cites: '[R285] [R81]',
    good: async (world) => ({ params: { id: (await proposed(world)).id } }),
    check: ({ memory }: { memory: MemoryView }) => assert.equal(memory.status, 'active'),
  },
  rejectMemory: {
    good: async (world) => ({ params: { id: (await proposed(world)).id } }),
    check: ({ memory }: { memory: MemoryView }) => assert.equal(memory.status, 'rejected'),
  },
  approveMemories: {
    good: (world) => bothProposed(world),
    check: (answer: Decided) => assert.deepEqual(statusesOf(answer), ['active', 'active']),
    bad: [['no memory', (g) => withBody(g, { ids: [] }), 'bad_request']],
  },
  rejectMemories: {
    good: (world) => bothProposed(world),
    check: (answer: Decided) => assert.deepEqual(statusesOf(answer), ['rejected', 'rejected']),
    bad: [['no memory', (g) => withBody(g, { ids: [] }), 'bad_request']],
  },
  editMemory: {
    good: async (world) => ({
      params: { id: (await remembered(world)).id },
      body: { text: 'Edited.', version: 1, vouch: true },
    }),
    check: ({ memory }: { memory: MemoryView }) => assert.equal(memory.text, 'Edited.'),
    bad: [
      ['an older version', (g) => withBody(g, { version: 7 }), 'conflict'],
      ['another scope', (g) => withBody(g, { scope: 'team' }), 'bad_request'],
    ],
  },
  forget: {
    cites: '[R282] [R74]',
    good: async (world) => ({ body: { ids: [(await remembered(world)).id] } }),
    check: ({ memories }: { memories: MemoryView[] }) =>
      assert.deepEqual([memories[0]?.status, memories[0]?.text], ['forgotten', null]),
    bad: [unknownAmongIds],
  },
  expire: {
    cites: '[R283] [R75]',
    good: async (world) => ({ body: { ids: [(await remembered(world)).id] } }),
    check: ({ memories }: { memories: MemoryView[] }) =>
      assert.equal(memories[0]?.status, 'expired'),
    bad: [unknownAmongIds, ['no time', (g) => withBody(g, { at: 'later' }), 'bad_request']],
  },
  merge: {
    cites: '[R76]',
    good: async (world) => {
      const ids = [(await remembered(world)).id, (await remembered(world)).id];
      return { body: { ids, text: 'Both facts.', class: 'semantic', scope: 'team' } };
    },
    check: ({ memory }: { memory: MemoryView }) =>
      assert.deepEqual([memory.links.length, memory.scope], [2, 'team']),
    bad: [unknownAmongIds],
  },
  summarize: {
    cites: '[R77]',
    good: async (world) => ({ body: { ids: [(await remembered(world)).id], text: 'In short.' } }),
    check: ({ memory }: { memory: MemoryView }) =>
      assert.equal(memory.links[0]?.kind, 'summarizes'),
    bad: [unknownAmongIds],
  },
  takeMemorySnapshot: {
    cites: '[R78]',
    good: async () => ({ body: { scope: 'project:wire', name: 'before' } }),
    check: ({ snapshot }: { snapshot: MemorySnapshot }) =>
      assert.deepEqual([snapshot.scope, snapshot.name], ['project:wire', 'before']),
    bad: [['the memory of a person', (g) => withBody(g, { scope: 'person:ann' }), 'denied']],
  },
  listMemorySnapshots: {
    good: async (world) => {
      await taken(world);
      return { query: { limit: '1' } };
    },
    check: ({ snapshots }: { snapshots: unknown[] }) => assert.equal(snapshots.length, 1),
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  rollBackMemory: {
    cites: '[R79]',
    good: async (world) => ({ body: { snapshot_id: (await taken(world)).id } }),
    check: ({ changed }: { changed: number }) => assert.equal(changed, 0),
    bad: [
      [
        'an unknown snapshot',
        (g) => withBody(g, { snapshot_id: `memsnap_${'0'.repeat(26)}` }),
        'not_found',
      ],
    ],
  },
  listMemories: {
    good: async (world) => {
      await remembered(world);
      return { query: { limit: '1', scope: 'project:wire' } };
    },
    check: ({ memories }: { memories: unknown[] }) => assert.equal(memories.length, 1),
    bad: [['an invalid cursor', (g) => ({ ...g, query: { cursor: 'garbage' } }), 'bad_request']],
  },
  memoryHistory: {
    good: async (world) => ({ params: { id: (await remembered(world)).id } }),
    check: ({ versions }: { versions: unknown[] }) => assert.equal(versions.length, 1),
  },
  rebuildMemory: {
    good: async (world) => {
      await remembered(world);
      return {};
    },
    check: (response: { applied: number; problems: unknown[] }) => {
      assert.ok(response.applied > 0);
      assert.deepEqual(response.problems, []);
    },
  },
  ...AGENTD_ROWS,
  ...makeApprovaldRows(proposed),
});
