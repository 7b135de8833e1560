// Daemons as values: what every daemon is given (the floor), what it gives back, and how one is
// hosted in a process. Start order: config → store → peers → handlers → sockets. Stop: no new work,
// drain, close.
import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import * as z from 'zod';
import type { RunCaller } from '../wire/caller.ts';
import { callersOf, DAEMON_TABLE, DAEMONS, type DaemonName } from '../wire/daemons.ts';
import { Fault, fault } from '../wire/errors.ts';
import { type CallerKind, type RouteTable, route, routes } from '../wire/route.ts';
import { alwaysCaller, operatorByKey } from './authenticate.ts';
import type { Clock } from './clock.ts';
import {
  type Dispatch,
  type HandlerContext,
  type Handlers,
  makeDispatch,
  RawAnswer,
} from './dispatch.ts';
import {
  type DialectErrors,
  type HttpListener,
  makeHttpFace,
  RUN_SOCKET_LIMITS,
} from './http-server.ts';
import type { NewId, Random } from './ids.ts';
import { type Client, type Link, localLink, makeClient, socketLink } from './link.ts';
import type { Log } from './log.ts';
import { type Metrics, makeMetrics } from './metrics.ts';
import { makeKeyedMutex } from './mutex.ts';
import { peopleIn } from './person-keys.ts';
import { ownDir } from './state-dir.ts';

/**
 * Sockets of live runs: one directory per run, made and removed by the daemon. What is asked for
 * one run is done in the order it was asked, so that a close never takes a newer socket away.
 */
export type RunSockets = {
  /** Gives the socket's path. A higher fence replaces the socket of a lower one. */
  open(caller: RunCaller): Promise<string>;
  /** Takes away what is there up to this fence, whoever opened it; never what is above. */
  close(runId: string, fence: number, mode?: 'live' | 'replay'): Promise<void>;
  /** What a process before this one left. Only while no runner lives: one sees its directory. */
  sweep(): void;
};

export type DaemonContext<C = unknown> = {
  name: DaemonName;
  version: string;
  mode: 'embedded' | 'split';
  stateDir: string;
  runtimeDir: string;
  config: C;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  metrics: Metrics;
  runSockets: RunSockets;
  /** A typed client of a peer; a peer that is not in the table cannot be had. */
  peer<T extends RouteTable>(name: DaemonName, table: T): Client<T>;
  /** A named step of a job. Fault tests kill the process here; otherwise it does nothing. */
  failpoint(name: string): void;
};

export type DaemonHandle<T extends RouteTable> = {
  handlers: Handlers<T>;
  dialectErrors?: DialectErrors;
  /** After every daemon of this process is reachable: take up work that was left. */
  begin?(): Promise<void>;
  /** No new work; finish or give back what is in hand. */
  drain?(): Promise<void>;
  stop(): Promise<void>;
};

type Daemon<N extends DaemonName, T extends RouteTable, S extends z.ZodType> = {
  name: N;
  routes: T;
  config: S;
  start(floor: DaemonContext<z.output<S>>): Promise<DaemonHandle<T>>;
};

/** A daemon without the types of its configuration and handlers, so that one list holds all. */
export type AnyDaemon<N extends DaemonName = DaemonName> = {
  name: N;
  routes: RouteTable;
  start(floor: DaemonContext): Promise<DaemonHandle<RouteTable>>;
};

/**
 * Checks the types of one daemon against each other and returns it as both. Erasing them is safe:
 * hostDaemon passes the section that `config` has checked, and dispatch calls each handler only
 * with what its route has checked.
 */
export function defineDaemon<N extends DaemonName, T extends RouteTable, S extends z.ZodType>(
  value: Daemon<N, T, S>,
): Daemon<N, T, S> & AnyDaemon<N> {
  return value as Daemon<N, T, S> & AnyDaemon<N>;
}

export type RunningDaemon = {
  name: DaemonName;
  dispatch: Dispatch;
  /** A request that another listener of this process took, from a caller it knows. */
  answer?: HttpListener['answer'];
  begin(): Promise<void>;
  drain(): Promise<void>;
  stop(): Promise<void>;
};

export type HostOptions = {
  version: string;
  mode: 'embedded' | 'split';
  stateDir: string;
  runtimeDir: string;
  operatorKey: string;
  config: Record<string, unknown>;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  failpoint?: (name: string) => void;
  /** Daemons in this process, filled as they start. */
  here: Map<DaemonName, RunningDaemon>;
};

const everyone: CallerKind[] = ['operator', ...DAEMONS];
export const commonRoutes = routes({
  health: route({
    method: 'GET',
    path: '/healthz',
    callers: everyone,
    output: z.object({
      daemon: z.string(),
      version: z.string(),
      pid: z.int(),
      status: z.enum(['ok', 'stopping']),
      in_flight: z.int(),
    }),
  }),
  metrics: route({ method: 'GET', path: '/metrics', callers: ['operator'], output: z.unknown() }),
});

export function socketPathOf(runtimeDir: string, daemonName: DaemonName, caller: string): string {
  return join(runtimeDir, daemonName, caller, `${daemonName}.sock`);
}

/**
 * The directory of a run's socket at a daemon. One for each activation: it is what its process
 * sees, so that one that lives on never sees the sockets of those after it.
 */
export function runDirName(
  { runId, fence }: { runId: string; fence: number },
  mode: 'live' | 'replay' = 'live',
): string {
  return `${runId}.${fence}${mode === 'live' ? '' : 'r'}`;
}

export async function hostDaemon(value: AnyDaemon, options: HostOptions): Promise<RunningDaemon> {
  const { name } = value;
  const log = options.log.with({ daemon: name });
  const metrics = makeMetrics(name);
  const links = new Map<DaemonName, Link>();
  let stopping = false;
  let face: HttpListener | undefined;

  const linkTo = (peer: DaemonName): Link => {
    if (!DAEMON_TABLE[name].calls.includes(peer))
      throw new Error(`${name} may not call ${peer}: the table of daemons has no such link`);
    const caller = { kind: 'daemon', principal: `service:${name}`, daemon: name } as const;
    const made =
      links.get(peer) ??
      (options.here.has(peer) || isHereLater(peer)
        ? localLink(() => hostedOrFault(options.here, peer), caller)
        : socketLink({ socketPath: socketPathOf(options.runtimeDir, peer, `peer-${name}`) }));
    links.set(peer, made);
    return made;
  };
  const isHereLater = (peer: DaemonName) =>
    options.mode === 'embedded' && DAEMON_TABLE[peer].ownProcess !== true;

  const floor: DaemonContext = {
    name,
    version: options.version,
    mode: options.mode,
    stateDir: options.stateDir,
    runtimeDir: options.runtimeDir,
    config: options.config[name],
    clock: options.clock,
    random: options.random,
    newId: options.newId,
    log,
    metrics,
    failpoint: options.failpoint ?? (() => {}),
    runSockets: makeRunSockets({ dir: join(options.runtimeDir, name), name, face: () => face }),
    peer: (peer, table) => makeClient(table, linkTo(peer)),
  };
  const running = await value.start(floor);
  const table = { ...value.routes, ...commonRoutes };
  const handlers = {
    ...running.handlers,
    ...floorHandlers(
      floor,
      () => stopping,
      () => dispatch,
    ),
  };
  const dispatch: Dispatch = makeDispatch({
    routes: table,
    handlers: refuseWhen(() => stopping, handlers),
    log,
    metrics,
  });
  face = makeHttpFace({
    dispatch,
    log,
    ...(running.dialectErrors === undefined ? {} : { dialectErrors: running.dialectErrors }),
  });
  await openSockets(face, name, options);

  const hosted: RunningDaemon = {
    name,
    dispatch,
    answer: face.answer,
    begin: async () => running.begin?.(),
    async drain() {
      stopping = true;
      await running.drain?.();
    },
    async stop() {
      stopping = true;
      await face?.closeAll();
      await running.stop();
      for (const link of links.values()) link.close();
    },
  };
  options.here.set(name, hosted);
  log.info('started', { pid: process.pid });
  return hosted;
}

function hostedOrFault(here: Map<DaemonName, RunningDaemon>, peer: DaemonName): Dispatch {
  const hosted = here.get(peer);
  if (hosted === undefined) throw fault('unavailable', `${peer} has not started yet`);
  return hosted.dispatch;
}

/** The operator's socket, and one for every daemon that may call and lives in another process. */
async function openSockets(
  face: HttpListener,
  name: DaemonName,
  options: HostOptions,
): Promise<void> {
  ownDir(join(options.runtimeDir, name));
  await face.listenUnix(
    socketPathOf(options.runtimeDir, name, 'operator'),
    operatorByKey(options.operatorKey, peopleIn(join(options.stateDir, 'people'))),
  );
  for (const peer of callersOf(name)) {
    const caller = { kind: 'daemon', principal: `service:${peer}`, daemon: peer } as const;
    await face.listenUnix(
      socketPathOf(options.runtimeDir, name, `peer-${peer}`),
      alwaysCaller(caller),
    );
  }
}

function makeRunSockets(options: {
  dir: string;
  name: DaemonName;
  face: () => HttpListener | undefined;
}): RunSockets {
  const open = new Map<string, { fence: number; close(): Promise<void> }>();
  const inTurn = makeKeyedMutex();
  const keyOf = (runId: string, mode: 'live' | 'replay') => (mode === 'live' ? runId : `${runId}r`);
  const openNow = async (key: string, caller: RunCaller): Promise<string> => {
    const face = options.face();
    if (face === undefined) throw fault('unavailable', `${options.name} is still starting`);
    const found = open.get(key);
    if (found !== undefined && found.fence > caller.fence)
      throw fault('stale_fence', `${caller.runId} has a newer activation`);
    open.delete(key);
    await found?.close();
    const dir = join(options.dir, runDirName(caller, caller.mode));
    const path = join(dir, `${options.name}.sock`);
    const handle = await face.listenUnix(path, alwaysCaller(caller), RUN_SOCKET_LIMITS);
    // The box has its own user; nobody else can come here, for the directory above is 0700.
    chmodSync(dir, 0o755);
    chmodSync(path, 0o666);
    const close = async (): Promise<void> => {
      await handle.close();
      rmSync(dir, { recursive: true, force: true });
    };
    open.set(key, { fence: caller.fence, close });
    return path;
  };
  const closeNow = async (key: string, fence: number): Promise<void> => {
    const found = open.get(key);
    if (found !== undefined && found.fence > fence) return;
    open.delete(key);
    await found?.close();
  };
  /** Also those that a process before this one had open, or that were made and never used. */
  const removeUpTo = (runId: string, fence: number): void => {
    for (const name of existsSync(options.dir) ? readdirSync(options.dir) : []) {
      const [of, number = ''] = name.split('.');
      if (of === runId && /^\d+$/.test(number) && Number(number) <= fence)
        rmSync(join(options.dir, name), { recursive: true, force: true });
    }
  };
  return {
    open(caller) {
      const key = keyOf(caller.runId, caller.mode);
      return inTurn(key, async () => {
        const path = await openNow(key, caller);
        if (caller.mode === 'live') removeUpTo(caller.runId, caller.fence - 1);
        return path;
      });
    },
    close(runId, fence, mode = 'live') {
      const key = keyOf(runId, mode);
      return inTurn(key, async () => {
        await closeNow(key, fence);
        if (mode === 'live') removeUpTo(runId, fence);
      });
    },
    sweep() {
      for (const name of readdirSync(options.dir))
        if (name.startsWith('run_')) rmSync(join(options.dir, name), { recursive: true });
    },
  };
}

function floorHandlers(
  floor: DaemonContext,
  stopping: () => boolean,
  dispatch: () => Dispatch,
): Handlers<typeof commonRoutes> {
  return {
    health: async () => ({
      daemon: floor.name,
      version: floor.version,
      pid: process.pid,
      status: stopping() ? 'stopping' : 'ok',
      in_flight: dispatch().inFlight(),
    }),
    metrics: async () =>
      new RawAnswer({
        status: 200,
        headers: { 'content-type': 'text/plain; version=0.0.4' },
        body: floor.metrics.text(),
      }),
  };
}

/** While stopping, only health still answers; peers and clients are told to come back. */
function refuseWhen<T extends RouteTable>(
  stopping: () => boolean,
  handlers: Handlers<T>,
): Handlers<T> {
  const guarded: Record<string, unknown> = {};
  for (const [name, handler] of Object.entries(handlers)) {
    const inner = handler as (context: HandlerContext) => Promise<unknown>;
    guarded[name] = (context: HandlerContext) => {
      if (stopping() && name !== 'health' && context.caller.kind !== 'daemon') {
        throw fault('stopping', 'the runtime is stopping', { retryAfterMs: 1_000 });
      }
      return inner(context);
    };
  }
  return guarded as Handlers<T>;
}

export function isFault(error: unknown, code?: Fault['code']): error is Fault {
  return error instanceof Fault && (code === undefined || error.code === code);
}
