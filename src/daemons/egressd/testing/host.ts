// Test helper: hosts egressd as in a runtime, beside an in-memory auditd-ai. The next host can
// reuse the state directory, as after a restart.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../../../../test/support/runtime.ts';
import { type Clock, systemClock } from '../../../platform/clock.ts';
import { defineDaemon, hostDaemon, type RunningDaemon } from '../../../platform/daemon.ts';
import { makeDispatch } from '../../../platform/dispatch.ts';
import { deriveId } from '../../../platform/ids.ts';
import { type Client, localLink, makeClient } from '../../../platform/link.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { openOutbox } from '../../../platform/outbox.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { makeHostOptions } from '../../../platform/testing/host-options.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { Caller } from '../../../wire/caller.ts';
import type { DaemonName } from '../../../wire/daemons.ts';
import { type EgressRule, egressdRoutes, type PutEgressBody } from '../../../wire/egressd.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import { type Dial, makeDial } from '../adapters/dial.ts';
import type { Resolve } from '../adapters/resolve.ts';
import { egressdConfig } from '../config.ts';
import { assemble, egressd, makeConfiguredResolve } from '../daemon.ts';
import { MIGRATIONS } from '../store.ts';

export type EgressdTestClient = Client<typeof egressdRoutes>;
export type RecordingAudit = { events: NewEvent[]; beforeAppend(): void };

export type EgressdTestHost = {
  toold: EgressdTestClient;
  operator: EgressdTestClient;
  audit: RecordingAudit;
  dir: string;
  /** Opens a run's egress, or changes it. */
  open(name: string, allow: EgressRule[], more?: Partial<PutEgressBody>): Promise<EgressdTestRun>;
  /** Resolves to the events of a kind once the condition is true and no more arrive. */
  eventsOf(kind: NewEvent['event'], condition?: EventCondition): Promise<NewEvent[]>;
  /** Stops egressd; with `keep`, the directory stays for the next host. */
  stop(options?: { keep: boolean }): Promise<void>;
};
export type EgressdTestRun = { id: RunId; socket: string; cut: number };
type EventCondition = (events: NewEvent[]) => boolean;

function fakeAudit(audit: RecordingAudit): RunningDaemon {
  const { append } = auditRoutes;
  const known = new Set<string>();
  const dispatch = makeDispatch({
    routes: { append },
    handlers: {
      async append({ body }) {
        audit.beforeAppend();
        for (const event of body.events) {
          const key = `${event.source_store} ${event.source_seq}`;
          if (!known.has(key)) audit.events.push(event);
          known.add(key);
        }
        return { size: audit.events.length, accepted: body.events.length };
      },
    },
    log: silentLog,
    metrics: makeMetrics('auditd-ai'),
  });
  const nothing = async () => {};
  return { name: 'auditd-ai', dispatch, begin: nothing, drain: nothing, stop: nothing };
}

export const runIdOf = (name: string): RunId => deriveId<RunId>('run', name);

export function opening(name: string, allow: EgressRule[]): PutEgressBody {
  const task_id = deriveId<TaskId>('task', name);
  return {
    fence: 1,
    agent: 'coder',
    task_id,
    root_task_id: task_id,
    labels: [],
    allow,
    granted: [],
    bytes_max: 1_000_000_000,
  };
}

export async function startHost(
  options: {
    config?: object;
    resolve?: Resolve;
    dial?: Dial;
    clock?: Clock;
    dir?: string;
    audit?: RecordingAudit;
    failpoint?: (name: string) => void;
  } = {},
): Promise<EgressdTestHost> {
  const dir = options.dir ?? mkdtempSync(join(tmpdir(), 'egressd-'));
  for (const name of ['state', 'run']) mkdirSync(join(dir, name), { recursive: true, mode: 0o700 });
  const audit = options.audit ?? { events: [], beforeAppend: () => {} };
  const here = new Map<DaemonName, RunningDaemon>([['auditd-ai', fakeAudit(audit)]]);
  const clock = options.clock ?? systemClock();
  const hosted = await hostDaemon(
    withNetwork(options),
    makeHostOptions({
      dir,
      clock,
      here,
      config: { egressd: egressdConfig.parse(options.config ?? {}) },
      failpoint: options.failpoint,
    }),
  ).catch((error: unknown) => {
    // The caller did not get the directory, so it cannot remove it.
    if (options.dir === undefined) rmSync(dir, { recursive: true, force: true });
    throw error;
  });
  await hosted.begin();
  const as = (caller: Caller) =>
    makeClient(
      egressdRoutes,
      localLink(() => hosted.dispatch, caller),
    );
  const toold = as({ kind: 'daemon', principal: 'service:toold', daemon: 'toold' });
  return {
    toold,
    audit,
    dir,
    operator: as({ kind: 'operator', principal: 'person:alice' }),
    async open(name, allow, more) {
      const id = runIdOf(name);
      const body = { ...opening(name, allow), ...more };
      return { id, ...(await toold.putEgress({ params: { id }, body })) };
    },
    eventsOf: (kind, condition) => settledEvents(audit, kind, condition),
    async stop({ keep } = { keep: false }) {
      await hosted.drain();
      await hosted.stop();
      if (!keep) rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** The same daemon with a test's name resolution and connections. */
function withNetwork({ resolve, dial }: { resolve?: Resolve; dial?: Dial }) {
  return defineDaemon({
    ...egressd,
    async start(context) {
      const peer = context.peer('auditd-ai', auditRoutes);
      const append = (events: NewEvent[]) => peer.append({ body: { events } });
      const file = join(context.stateDir, 'egressd.sqlite');
      const db = openSqlite({ file, migrations: MIGRATIONS });
      const { clock, log } = context;
      const outbox = await openOutbox({ db, source: 'egressd', clock, append, log });
      const network = {
        resolve: resolve ?? makeConfiguredResolve(context.config),
        dial: dial ?? makeDial({ timeoutMs: context.config.connect_timeout_ms }),
      };
      return assemble({ context, db, outbox, ...network });
    },
  });
}

/** Events that no request waits for follow shortly after, and no extra ones may follow them. */
async function settledEvents(
  audit: RecordingAudit,
  kind: NewEvent['event'],
  condition: EventCondition = () => true,
): Promise<NewEvent[]> {
  const found = () => audit.events.filter(({ event }) => event === kind);
  const isThere = async () => (condition(found()) ? true : undefined);
  await eventually(`${kind} in the audit log`, isThere);
  for (let seen = -1; seen !== audit.events.length; ) {
    seen = audit.events.length;
    await new Promise((resolve) => setTimeout(resolve, 60));
  }
  return found();
}
