// Defines what a daemon is: the context it gets, the handle it returns, and how a process hosts it.
// Start order: config → store → peers → handlers → sockets. Stop: no new work, drain, close.
import { chmodSync, existsSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type * as z from 'zod';
import type { RunCaller } from '../wire/caller.ts';
import { DAEMON_TABLE, type DaemonName, findCallers } from '../wire/daemons.ts';
import { Fault, fault } from '../wire/errors.ts';
import type { RouteTable } from '../wire/route.ts';
import { authenticateAs, authenticateByKey, type VerifyKey } from './authenticate.ts';
import type { Clock } from './clock.ts';
import { commonRoutes, makeCommonHandlers } from './common-routes.ts';
import { type Dispatch, type Handlers, makeDispatch } from './dispatch.ts';
import type { IdSource } from './find-ids.ts';
import {
  type DialectErrors,
  type HttpListener,
  makeHttpListener,
  RUN_SOCKET_LIMITS,
} from './http-server.ts';
import type { NewId, Random } from './ids.ts';
import { type Client, type Link, localLink, makeClient, socketLink } from './link.ts';
import type { Log } from './log.ts';
import { type Metrics, makeMetrics } from './metrics.ts';
import { makeKeyedMutex } from './mutex.ts';
import { openPersonKeys } from './person-keys.ts';
import { addProcessGauges } from './process-metrics.ts';
import { refuseWhileStopping } from './refuse-while-stopping.ts';
import { makeReloader, type Reload } from './reload-config.ts';
import { type RetentionConfig, retentionConfig } from './retention-config.ts';
import { makeSnapshots, type SnapshotSource } from './snapshots.ts';
import { type Reclaimable, startReclaiming } from './sql/reclaim.ts';
import { makePrivateDir } from './state-dir.ts';

/**
 * Sockets of live runs, in one directory per run. Calls for the same run are executed in order, so
 * that a close never removes a newer socket.
 */
export type RunSockets = {
  /** Resolves to the socket's path. A higher fence replaces the socket of a lower one. */
  open(caller: RunCaller): Promise<string>;
  /** Removes the run's sockets up to this fence, also those of an earlier process. */
  close(runId: string, fence: number, mode?: 'live' | 'replay'): Promise<void>;
  /** Removes the sockets of an earlier process. Only while no runner lives: it uses its socket. */
  sweep(): void;
};

/** The number of restarts since `agentctl up`, and the reason of the last one. */
export type RestartInfo = { restarts: number; after: string };

export type DaemonContext<C = unknown> = {
  name: DaemonName;
  version: string;
  mode: 'embedded' | 'split';
  restart?: RestartInfo | undefined;
  stateDir: string;
  runtimeDir: string;
  config: C;
  /** The section `retention`, which several daemons apply. */
  retention: RetentionConfig;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  metrics: Metrics;
  runSockets: RunSockets;
  /** Returns a typed client of a peer. Throws unless the table of daemons has this link. */
  peer<T extends RouteTable>(name: DaemonName, table: T): Client<T>;
  /** Marks a named step. Fault tests kill the process here; otherwise it does nothing. */
  failpoint(name: string): void;
};

export type DaemonHandle<T extends RouteTable> = {
  handlers: Handlers<T>;
  dialectErrors?: DialectErrors;
  /** Verifies API keys, if the daemon has routes for them. */
  verifyKey?: VerifyKey;
  /** Its database, if it has one: backups copy it, and it shrinks, while the daemon works. */
  database?: SnapshotSource & Partial<Reclaimable>;
  /** The ids that people may shorten. */
  ids?: IdSource;
  /** The keys of its section that it can take while it runs. */
  reload?: Reload<never>;
  /** Resumes unfinished work. Called when every daemon of this process is reachable. */
  begin?(): Promise<void>;
  /** Accepts no new work, and ends or requeues the work in progress. */
  drain?(): Promise<void>;
  stop(): Promise<void>;
};

type Daemon<N extends DaemonName, T extends RouteTable, S extends z.ZodType> = {
  name: N;
  routes: T;
  config: S;
  start(context: DaemonContext<z.output<S>>): Promise<DaemonHandle<T>>;
};

/** A daemon without the types of its configuration and handlers, so that one list fits all. */
export type AnyDaemon<N extends DaemonName = DaemonName> = {
  name: N;
  routes: RouteTable;
  start(context: DaemonContext): Promise<DaemonHandle<RouteTable>>;
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
  /** Handles a request that another listener of this process has received. */
  handle?: HttpListener['handle'];
  verifyKey?: VerifyKey | undefined;
  begin(): Promise<void>;
  drain(): Promise<void>;
  stop(): Promise<void>;
};

export type HostOptions = {
  version: string;
  mode: 'embedded' | 'split';
  restart?: RestartInfo;
  stateDir: string;
  runtimeDir: string;
  operatorKey: string;
  config: Record<string, unknown>;
  /** Reads the configuration again. */
  loadConfig?: () => Record<string, unknown>;
  clock: Clock;
  random: Random;
  newId: NewId;
  log: Log;
  failpoint?: (name: string) => void;
  /** The daemons of this process; each is added when it has started. */
  here: Map<DaemonName, RunningDaemon>;
};

export function socketPathFor(runtimeDir: string, daemonName: DaemonName, caller: string): string {
  return join(runtimeDir, daemonName, caller, `${daemonName}.sock`);
}

/**
 * Names the directory of a run's socket. Each activation has its own, mounted into its box, so that
 * an old process never sees the sockets of later activations.
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
  addProcessGauges(metrics);
  const links = new Map<DaemonName, Link>();
  let stopping = false;
  let listener: HttpListener | undefined;

  const linkTo = (peer: DaemonName): Link => {
    if (!DAEMON_TABLE[name].calls.includes(peer))
      throw new Error(`${name} may not call ${peer}: the table of daemons has no such link`);
    const caller = { kind: 'daemon', principal: `service:${name}`, daemon: name } as const;
    // A peer of this process may start later.
    const isLocal =
      options.here.has(peer) ||
      (options.mode === 'embedded' && DAEMON_TABLE[peer].ownProcess !== true);
    const link =
      links.get(peer) ??
      (isLocal
        ? localLink(() => findDispatch(options.here, peer), caller)
        : socketLink({ socketPath: socketPathFor(options.runtimeDir, peer, `peer-${name}`) }));
    links.set(peer, link);
    return link;
  };

  const context: DaemonContext = {
    name,
    version: options.version,
    mode: options.mode,
    restart: options.restart,
    stateDir: options.stateDir,
    runtimeDir: options.runtimeDir,
    config: options.config[name],
    retention:
      (options.config.retention as RetentionConfig | undefined) ?? retentionConfig.parse({}),
    clock: options.clock,
    random: options.random,
    newId: options.newId,
    log,
    metrics,
    failpoint: options.failpoint ?? (() => {}),
    runSockets: makeRunSockets({
      dir: join(options.runtimeDir, name),
      name,
      listener: () => listener,
    }),
    peer: (peer, table) => makeClient(table, linkTo(peer)),
  };
  const handle = await value.start(context);
  const snapshots = makeSnapshots({ ...context, source: handle.database });
  const { database } = handle;
  const stopReclaiming = isReclaimable(database) ? startReclaiming(database, log) : undefined;
  const table = { ...value.routes, ...commonRoutes };
  const handlers = {
    ...handle.handlers,
    ...makeCommonHandlers(context, {
      snapshots,
      ids: handle.ids,
      reload: makeReloader({
        name,
        running: options.config,
        shared: name === 'agentd' ? ['runtime', 'retention'] : [],
        read: options.loadConfig ?? (() => options.config),
        reload: handle.reload,
      }),
      isStopping: () => stopping,
      dispatch: () => dispatch,
    }),
  };
  const dispatch: Dispatch = makeDispatch({
    routes: table,
    handlers: refuseWhileStopping(() => stopping, handlers),
    log,
    metrics,
  });
  listener = makeHttpListener({
    dispatch,
    log,
    ...(handle.dialectErrors === undefined ? {} : { dialectErrors: handle.dialectErrors }),
  });
  await openSockets(listener, name, { ...options, verifyKey: handle.verifyKey });

  const running: RunningDaemon = {
    name,
    dispatch,
    handle: listener.handle,
    verifyKey: handle.verifyKey,
    begin: async () => handle.begin?.(),
    async drain() {
      stopping = true;
      await handle.drain?.();
    },
    async stop() {
      stopping = true;
      await stopReclaiming?.();
      await snapshots.stop();
      await listener?.closeAll();
      await handle.stop();
      for (const link of links.values()) link.close();
    },
  };
  options.here.set(name, running);
  log.info('started', { pid: process.pid });
  return running;
}

const isReclaimable = (database: Partial<Reclaimable> | undefined): database is Reclaimable =>
  database?.reclaim !== undefined;

function findDispatch(here: Map<DaemonName, RunningDaemon>, peer: DaemonName): Dispatch {
  const daemon = here.get(peer);
  if (daemon === undefined) throw fault('unavailable', `${peer} has not started yet`);
  return daemon.dispatch;
}

/** Opens the operator's socket, and one for every daemon that may call this one. */
async function openSockets(
  listener: HttpListener,
  name: DaemonName,
  options: HostOptions & { verifyKey: VerifyKey | undefined },
): Promise<void> {
  const people = openPersonKeys(join(options.stateDir, 'people'));
  makePrivateDir(join(options.runtimeDir, name));
  await listener.listenUnix(
    socketPathFor(options.runtimeDir, name, 'operator'),
    authenticateByKey(options.operatorKey, people, options.verifyKey),
  );
  for (const peer of findCallers(name)) {
    const caller = { kind: 'daemon', principal: `service:${peer}`, daemon: peer } as const;
    await listener.listenUnix(
      socketPathFor(options.runtimeDir, name, `peer-${peer}`),
      authenticateAs(caller),
    );
  }
}

function makeRunSockets(options: {
  dir: string;
  name: DaemonName;
  listener: () => HttpListener | undefined;
}): RunSockets {
  const open = new Map<string, { fence: number; close(): Promise<void> }>();
  const withLock = makeKeyedMutex();
  const socketKey = (runId: string, mode: 'live' | 'replay') =>
    mode === 'live' ? runId : `${runId}r`;
  const openNow = async (key: string, caller: RunCaller): Promise<string> => {
    const listener = options.listener();
    if (listener === undefined) throw fault('unavailable', `${options.name} is still starting`);
    const found = open.get(key);
    if (found !== undefined && found.fence > caller.fence)
      throw fault('stale_fence', `${caller.runId} has a newer activation`);
    open.delete(key);
    await found?.close();
    const dir = join(options.dir, runDirName(caller, caller.mode));
    const path = join(dir, `${options.name}.sock`);
    const socket = await listener.listenUnix(path, authenticateAs(caller), RUN_SOCKET_LIMITS);
    // The box runs as its own user. Other users are kept out by the directory above, mode 0700.
    chmodSync(dir, 0o755);
    chmodSync(path, 0o666);
    const close = async (): Promise<void> => {
      await socket.close();
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
  /** Also removes directories of an earlier process, and those that were never used. */
  const removeUpTo = (runId: string, fence: number): void => {
    for (const name of existsSync(options.dir) ? readdirSync(options.dir) : []) {
      const [dirRun, dirFence = ''] = name.split('.');
      if (dirRun === runId && /^\d+$/.test(dirFence) && Number(dirFence) <= fence)
        rmSync(join(options.dir, name), { recursive: true, force: true });
    }
  };
  return {
    open(caller) {
      const key = socketKey(caller.runId, caller.mode);
      return withLock(key, async () => {
        const path = await openNow(key, caller);
        if (caller.mode === 'live') removeUpTo(caller.runId, caller.fence - 1);
        return path;
      });
    },
    close(runId, fence, mode = 'live') {
      const key = socketKey(runId, mode);
      return withLock(key, async () => {
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

export function isFault(error: unknown, code?: Fault['code']): error is Fault {
  return error instanceof Fault && (code === undefined || error.code === code);
}
