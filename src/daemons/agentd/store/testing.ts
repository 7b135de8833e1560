// Test support for the store's tests, which run on SQLite and on PostgreSQL (PGlite).
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { PGlite } from '@electric-sql/pglite';
import { manualClock } from '../../../platform/clock.ts';
import { makeIdMaker } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { openPostgres, type PostgresClient } from '../../../platform/sql/postgres.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { readManifest } from '../manifests/read-manifest.ts';
import { openStore } from './open-store.ts';
import type { TaskRow } from './rows.ts';
import { MIGRATIONS } from './schema.ts';
import type { AgentdStore, RunCall } from './store.ts';
import type { NewTask } from './tasks.ts';
import type { EndedRun } from './tx.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-store-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** Shared and emptied before each test, because starting PGlite is slow. */
const pglite = PGlite.create();
async function freshPostgres(): Promise<Database> {
  const client = (await pglite) as unknown as PostgresClient;
  await client.exec('DROP SCHEMA public CASCADE; CREATE SCHEMA public');
  const shared: PostgresClient = {
    query: client.query.bind(client),
    exec: client.exec.bind(client),
    transaction: client.transaction.bind(client),
    close: async () => {},
  };
  return openPostgres(shared, MIGRATIONS);
}
after(async () => (await pglite).close());

let files = 0;
export const DATABASES: Record<string, () => Promise<Database>> = {
  SQLite: async () => openSqlite({ file: join(dir, `${files++}.sqlite`), migrations: MIGRATIONS }),
  PostgreSQL: freshPostgres,
};

const NO_LIMITS = { turnsMax: 0, repeatsMax: 0, costMicrousdMax: 0 };

/** Asserts that the thread has a turn left. */
export async function delegate(
  store: AgentdStore,
  call: RunCall,
  task: NewTask,
  wait?: { expiresMs?: number },
) {
  const bounds = { childrenMax: 10, limits: NO_LIMITS };
  const made = await store.delegate(call, task, wait, bounds);
  assert.ok('task' in made);
  return made;
}

export type StoreWorld = {
  store: AgentdStore;
  events: NewEvent[];
  ended: EndedRun[];
  advance(ms: number): void;
  task(more?: Partial<NewTask>): Promise<TaskRow>;
  claim(slots?: number): ReturnType<AgentdStore['claimRuns']>;
};

function declareAgent(name: string, more = ''): { spec: never; file: string } {
  const read = readManifest(
    `apiVersion: agentd/v1\nkind: Agent\nmetadata: { name: ${name} }\nspec: { tools: { allow: [task.delegate] }${more} }\n`,
    `${name}.yaml`,
  );
  assert.ok(read.ok);
  return { spec: read.agent as never, file: `${name}.yaml` };
}

/** A root task for the planner, with these members set. */
export const makeTask = (more: Partial<NewTask> & Pick<NewTask, 'id' | 'contextId'>): NewTask => ({
  parent: undefined,
  goal: 'do it',
  createdBy: 'person:alice',
  agent: 'planner',
  priority: 0,
  inputs: [],
  limits: {},
  delegation: undefined,
  after: [],
  deadlineMs: null,
  retryOf: null,
  labels: ['person'],
  ...more,
});

/** A subtask that the planner delegates to the coder. */
export const makeSubtask = (parent: TaskRow, id: string): NewTask =>
  makeTask({
    id,
    parent,
    contextId: parent.context_id,
    createdBy: 'agent:planner',
    agent: 'coder',
    labels: ['agent'],
  });

export async function world(open: () => Promise<Database>): Promise<StoreWorld> {
  const clock = manualClock(Date.parse('2026-01-01T00:00:00Z'));
  const newId = makeIdMaker(clock);
  const events: NewEvent[] = [];
  const ended: EndedRun[] = [];
  const store = await openStore({
    db: await open(),
    clock,
    newId,
    log: silentLog,
    append: async (batch) => void events.push(...batch),
    onCommitted: ({ endedRuns }) => void ended.push(...endedRuns),
  });
  await store.applyAgents({
    agents: [
      declareAgent('planner', ', replicas: 1'),
      declareAgent('coder', ', replicas: 2'),
      declareAgent('tester', ', replicas: 1'),
    ],
  });
  const task = (more: Partial<NewTask> = {}) =>
    store.createTask(makeTask({ id: newId('task'), contextId: newId('ctx'), ...more }), undefined);
  return {
    store,
    events,
    ended,
    advance: (ms) => clock.advance(ms),
    task,
    claim: (slots = 10) => store.claimRuns({ slots, leaseMs: 60_000, maxTimeS: () => 3_600 }),
  };
}

let calls = 0;
export const makeCall = (run: { id: string; fence: number }): RunCall => ({
  runId: run.id,
  fence: run.fence,
  callId: `call_${String(calls++).padStart(26, '0')}`,
  requestHash: 'h',
});
export const done = (result: string) => ({
  status: 'completed' as const,
  reason: null,
  result,
  by: 'agent:planner',
});
export const faultCode = (code: string) => (error: unknown) =>
  (error as { code?: string }).code === code;
