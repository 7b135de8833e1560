// Creates a state directory with many ended tasks, through agentd's own store and a real auditd-ai,
// so that rows, indexes and events equal those of real tasks.
import { join } from 'node:path';
import { readManifest } from '../src/daemons/agentd/manifests/read-manifest.ts';
import { openStore } from '../src/daemons/agentd/store/open-store.ts';
import { MIGRATIONS } from '../src/daemons/agentd/store/schema.ts';
import type { AgentdStore } from '../src/daemons/agentd/store/store.ts';
import type { NewTask } from '../src/daemons/agentd/store/tasks.ts';
import { systemClock } from '../src/platform/clock.ts';
import { deriveId, makeIdMaker, type NewId } from '../src/platform/ids.ts';
import { type Client, makeClient, socketLink } from '../src/platform/link.ts';
import { silentLog } from '../src/platform/log.ts';
import { openSqlite } from '../src/platform/sql/sqlite.ts';
import { auditRoutes } from '../src/wire/auditd-ai.ts';
import type { NewEvent } from '../src/wire/events.ts';
import { startDaemons } from './daemons.ts';

/** Concurrent tasks: their events are interleaved in the log, as in real use. */
const AT_ONCE = 500;
const AGENTS = 10;
const GOAL =
  'Find out why the nightly report is late on Mondays, say what would mend it, and how ' +
  'sure you are of it.';
const RESULT = 'The report waits for an export that starts later on Mondays. '.repeat(6);

export type Filled = { base: string; taskIds: string[] };

const agentName = (n: number): string => `worker-${n % AGENTS}`;
const manifestOf = (name: string): string => `apiVersion: agentd/v1
kind: Agent
metadata:
  name: ${name}
spec:
  model: default
  replicas: 100
`;

function declare(name: string) {
  const read = readManifest(manifestOf(name), `${name}.yaml`);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  return { spec: read.agent, file: null };
}

function newTask(newId: NewId, n: number): NewTask {
  return {
    id: newId('task'),
    parent: undefined,
    contextId: newId('ctx'),
    goal: `${GOAL} (${n})`,
    createdBy: 'person:bench',
    agent: agentName(n),
    priority: 0,
    inputs: [],
    limits: {},
    delegation: null,
    after: [],
    deadlineMs: null,
    retryOf: null,
    labels: ['person'],
  };
}

/** Appends the events that toold would have sent for the one call of each task. */
function makeCallEvents(audit: Client<typeof auditRoutes>) {
  let seq = 0;
  return async (claims: Awaited<ReturnType<AgentdStore['claimRuns']>>): Promise<void> => {
    const events = claims.flatMap(({ run, task }): NewEvent[] => {
      const call_id = deriveId<string>('call', run.id);
      const about = {
        ts: new Date().toISOString(),
        source: 'toold',
        source_store: 'bench',
        principal: `agent:${run.agent}`,
        agent: run.agent,
        task_id: task.id,
        root_task_id: task.root_task_id,
        run_id: run.id,
        call_id,
        tool: 'task.finish',
      };
      return [
        {
          id: `${call_id}.attempted.1`,
          event: 'tool.call.attempted',
          source_seq: ++seq,
          ...about,
        },
        {
          id: `${call_id}.ended`,
          event: 'tool.call.ended',
          source_seq: ++seq,
          ...about,
          status: 'completed',
        },
      ];
    });
    await audit.append({ body: { events } });
  };
}

async function doTasks(
  store: AgentdStore,
  tasks: readonly NewTask[],
  sayCalls: ReturnType<typeof makeCallEvents>,
): Promise<void> {
  await Promise.all(tasks.map((task) => store.createTask(task, undefined)));
  const claims = await store.claimRuns({
    slots: tasks.length,
    leaseMs: 60_000,
    maxTimeS: () => 3_600,
  });
  if (claims.length !== tasks.length)
    throw new Error(`${claims.length} of ${tasks.length} claimed`);
  await sayCalls(claims);
  await Promise.all(
    claims.map(({ run, task }) =>
      store.finish(
        {
          runId: run.id,
          fence: run.fence,
          requestHash: 'bench',
          callId: deriveId('call', run.id),
        },
        { status: 'completed', reason: null, result: RESULT, by: `agent:${task.assigned_to}` },
      ),
    ),
  );
}

export async function fillState(count: number): Promise<Filled> {
  const daemons = await startDaemons(['auditd-ai']);
  const link = (peer: string) =>
    socketLink({ socketPath: daemons.socketOf('auditd-ai', `peer-${peer}`) });
  const [forStore, forCalls] = [link('agentd'), link('toold')];
  const audit = makeClient(auditRoutes, forStore);
  const clock = systemClock();
  const newId = makeIdMaker(clock);
  const store = await openStore({
    db: openSqlite({ file: join(daemons.stateDir, 'agentd.sqlite'), migrations: MIGRATIONS }),
    clock,
    newId,
    log: silentLog,
    onCommitted: () => {},
    append: (events) => audit.append({ body: { events } }),
  });
  try {
    const agents = Array.from({ length: AGENTS }, (_, n) => declare(agentName(n)));
    await store.applyAgents({ agents });
    const sayCalls = makeCallEvents(makeClient(auditRoutes, forCalls));
    const taskIds: string[] = [];
    while (taskIds.length < count) {
      const some = Math.min(AT_ONCE, count - taskIds.length);
      const tasks = Array.from({ length: some }, (_, i) => newTask(newId, taskIds.length + i));
      await doTasks(store, tasks, sayCalls);
      taskIds.push(...tasks.map(({ id }) => id));
    }
    if (!(await store.outbox.drain(120_000))) throw new Error('events were left in the outbox');
    return { base: daemons.base, taskIds };
  } finally {
    await store.close();
    for (const one of [forStore, forCalls]) one.close();
    await daemons.stop();
  }
}
