// Test helper: toold in a process that dies. Every write, read, request, effect and failpoint is a
// point where it may die; from then on nothing it does has an effect, as after SIGKILL. What is
// durable stays.
import { join } from 'node:path';
import type { DaemonContext } from '../../../platform/daemon.ts';
import { type Dispatch, makeDispatch } from '../../../platform/dispatch.ts';
import { makeIdMaker } from '../../../platform/ids.ts';
import { type Client, localLink, makeClient } from '../../../platform/link.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { type Outbox, openOutbox } from '../../../platform/outbox.ts';
import { retentionConfig } from '../../../platform/retention-config.ts';
import type { Database } from '../../../platform/sql/database.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import { openPolicySource, type PolicySource } from '../../../policy/source.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { Caller, DaemonCaller } from '../../../wire/caller.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { RouteTable } from '../../../wire/route.ts';
import { tooldRoutes } from '../../../wire/toold.ts';
import { type TooldConfig, tooldConfig } from '../config.ts';
import { assemble } from '../daemon.ts';
import { MIGRATIONS } from '../store/schema.ts';
import type { TooldWorld } from './host.ts';

export type Life = {
  /** The point where it died, if it did. */
  died(): string | undefined;
  as(caller: Caller): Client<typeof tooldRoutes>;
  /** Dies now, if it has not yet; resolves when its files are closed. */
  kill(): Promise<void>;
  /** Resolves when the audit log has every event. */
  drained(): Promise<boolean>;
};

const self: DaemonCaller = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' };

export async function live(
  world: TooldWorld,
  /** Dies after this many points, or at the first with this name. */
  options: {
    deathAt: number | string;
    onEffect: (key: string) => void;
    /** Called before every write; may throw, as a full disk does. */
    beforeWrite?: () => void;
  },
): Promise<Life> {
  const { deathAt } = options;
  let passed = 0;
  let diedAt: string | undefined;
  let outbox: Outbox | undefined;
  const point = (name: string): void => {
    if (diedAt === undefined && (name === deathAt || passed++ === deathAt)) {
      diedAt = name;
      // A caller that waits for the log would wait forever.
      outbox?.stop();
    }
    if (diedAt !== undefined) throw new Error(`dead since ${diedAt}`);
  };
  const around = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    point(`before ${name}`);
    const value = await work();
    point(`after ${name}`);
    return value;
  };

  const file = join(world.dir, 'state', 'toold.sqlite');
  const real = openSqlite({ file, migrations: MIGRATIONS });
  const db: Database = {
    write: (work) =>
      around('write', async () => {
        options.beforeWrite?.();
        return real.write(work);
      }),
    read: (work) => around('read', () => real.read(work)),
    close: () => real.close(),
  };
  const wrap = (name: string, dispatch: Dispatch): Dispatch => ({
    ...dispatch,
    run: (request) => around(`${name} ${request.path}`, () => dispatch.run(request)),
  });
  const link = {
    agentd: localLink(() => wrap('agentd', world.agentd.dispatch), self),
    audit: localLink(() => wrap('audit', world.audit.dispatch), self),
    approvald: localLink(() => wrap('approvald', world.approvald.dispatch), self),
  };
  const audit = makeClient({ append: auditRoutes.append }, link.audit);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const appendLine = (line: string) => around('effect', async () => options.onEffect(line.trim()));

  let dispatch: Dispatch | undefined;
  try {
    outbox = await openOutbox({ db, source: 'toold', clock: world.clock, append, log: silentLog });
    const context = contextFor(world, point, <T extends RouteTable>(name: string, table: T) =>
      makeClient(table, name === 'approvald' ? link.approvald : link.agentd),
    );
    const policy = policyOf(world);
    const seal = async () => {};
    const running = await assemble({ context, db, outbox, policy, appendLine, seal });
    const common = { log: silentLog, metrics: context.metrics };
    dispatch = makeDispatch({ routes: tooldRoutes, handlers: running.handlers, ...common });
    await running.begin?.();
  } catch (error) {
    if (diedAt === undefined) throw error;
  }

  return {
    died: () => diedAt,
    as: (caller) =>
      makeClient(
        tooldRoutes,
        localLink(() => {
          point('a request');
          return dispatch!;
        }, caller),
      ),
    async kill() {
      diedAt ??= 'kill';
      outbox?.stop();
      await real.close();
    },
    async drained() {
      try {
        return (await outbox?.drain(20_000)) ?? false;
      } catch (error) {
        // The check for unsent events is a point to die at, too.
        if (diedAt === undefined) throw error;
        return false;
      }
    },
  };
}

/** Loading the policy in every life would take most of the test's time. */
const policies = new WeakMap<TooldWorld, PolicySource>();
function policyOf(world: TooldWorld): PolicySource {
  const { clock } = world;
  const file = join(world.dir, 'state', 'policy', 'bundle.json');
  const known = policies.get(world);
  if (known !== undefined) return known;
  const opened = openPolicySource({ file, log: silentLog, clock });
  policies.set(world, opened);
  world.onRemove(() => opened.close());
  return opened;
}

function contextFor(
  world: TooldWorld,
  failpoint: (name: string) => void,
  peer: <T extends RouteTable>(name: string, table: T) => Client<T>,
): DaemonContext<TooldConfig> {
  return {
    name: 'toold',
    retention: retentionConfig.parse({}),
    version: '0.0.0',
    mode: 'split',
    failpoint: failpoint,
    stateDir: world.dir,
    runtimeDir: world.dir,
    clock: world.clock,
    log: silentLog,
    metrics: makeMetrics('toold'),
    config: tooldConfig.parse({ test_tools: true }),
    random: (n) => new Uint8Array(n),
    newId: makeIdMaker(world.clock),
    runSockets: { open: async () => 'a socket', close: async () => {}, sweep: () => {} },
    peer,
  };
}
