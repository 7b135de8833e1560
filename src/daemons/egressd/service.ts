// Opens, changes, lists and closes the egress of runs. Traffic is handled by the proxy and the
// connector.
import { join } from 'node:path';
import type { Clock, Timer } from '../../platform/clock.ts';
import { toTimestamp } from '../../platform/clock.ts';
import { runDirName } from '../../platform/daemon.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import { makeKeyedMutex } from '../../platform/mutex.ts';
import type {
  EgressSummary,
  EgressView,
  FetchAnswer,
  FetchBody,
  PutEgressBody,
} from '../../wire/egressd.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import { makeConnectionRateLimit } from './connection-rate.ts';
import type { Connector } from './connector.ts';
import { makeDenials } from './denials.ts';
import * as events from './events.ts';
import type { Fetches } from './fetch.ts';
import { countUsedBytes, type EgressRun, parseRules } from './run.ts';
import type { EgressdStore, StoredRun } from './store.ts';

export type OpenProxy = (socketPath: string, run: EgressRun) => Promise<{ close(): Promise<void> }>;

export type EgressdService = {
  openEgress(runId: RunId, body: PutEgressBody): Promise<{ socket: string; cut: number }>;
  closeEgress(runId: RunId, fence: number): Promise<boolean>;
  getEgress(runId: RunId): Promise<EgressView>;
  listEgress(): Promise<EgressSummary[]>;
  fetch(runId: RunId, body: FetchBody, signal: AbortSignal): Promise<FetchAnswer>;
  getFetch: Fetches['getFetch'];
  forgetFetch: Fetches['forgetFetch'];
  /** Reopens the sockets of live runs after a restart. */
  reopen(): Promise<void>;
  /** Aborts all connections of all runs, and keeps the sockets. */
  abortAllRuns(status: string): number;
  saveUsage(): Promise<void>;
  stop(): Promise<void>;
};

type EgressSession = {
  run: EgressRun;
  socket: string;
  close(): Promise<void>;
  expiry: Timer | undefined;
};

export function makeService(options: {
  store: EgressdStore;
  connector: Connector;
  fetches: Fetches;
  openProxy: OpenProxy;
  sweep(isLive: (dirName: string) => boolean): void;
  runtimeDir: string;
  clock: Clock;
  newId: NewId;
  log: Log;
}): EgressdService {
  const { store, connector, clock, newId, log } = options;
  const sessions = new Map<RunId, EgressSession>();
  const saved = new Map<RunId, number>();
  /** Before this resolves, sessions and their usage are not known. */
  const reopened = Promise.withResolvers<void>();
  /** Opening and closing the egress of one run never overlap. */
  const withRunLock = makeKeyedMutex();

  const makeRun = ({ runId, body, usage, responder }: StoredRun): EgressRun => {
    const run: EgressRun = {
      runId,
      fence: body.fence,
      agent: body.agent,
      taskId: body.task_id,
      rootTaskId: body.root_task_id,
      body,
      rules: parseRules(body),
      usage,
      responder,
      isEnded: false,
      connections: new Set(),
      rateLimit: makeConnectionRateLimit(clock),
      denials: makeDenials({
        clock,
        report(refusal, repeats, callId) {
          const draft = events.denied(run, newId('net'), refusal, { repeats, callId });
          store
            .addEvent(draft)
            .catch((error: unknown) => log.warn('recording a denial failed', { error }));
        },
      }),
    };
    return run;
  };

  const scheduleExpiry = (session: EgressSession): void => {
    session.expiry?.cancel();
    const nowMs = clock.nowMs();
    const ends = session.run.rules.map(({ expiresMs }) => expiresMs).filter((ms) => ms > nowMs);
    const nextMs = Math.min(...ends);
    session.expiry = Number.isFinite(nextMs)
      ? clock.at(nextMs, () => {
          connector.abortDisallowed(session.run);
          scheduleExpiry(session);
        })
      : undefined;
  };

  const open = async (stored: StoredRun): Promise<EgressSession> => {
    const { runId, body } = stored;
    const run = makeRun(stored);
    const dir = join(options.runtimeDir, runDirName({ runId, fence: body.fence }));
    const socket = join(dir, 'proxy.sock');
    const { close } = await options.openProxy(socket, run);
    const session: EgressSession = { run, socket, close, expiry: undefined };
    sessions.set(runId, session);
    scheduleExpiry(session);
    return session;
  };

  const endSession = async (session: EgressSession): Promise<number> => {
    const { run } = session;
    sessions.delete(run.runId);
    session.expiry?.cancel();
    run.isEnded = true;
    const cut = connector.abortAll(run, 'cut');
    run.denials.flush();
    await session.close();
    return cut;
  };

  const changeRules = (session: EgressSession, body: PutEgressBody): number => {
    session.run.body = body;
    session.run.rules = parseRules(body);
    scheduleExpiry(session);
    return connector.abortDisallowed(session.run);
  };

  const findSession = (runId: RunId): EgressSession => {
    const session = sessions.get(runId);
    if (session === undefined) throw fault('not_found', `egress of ${runId} not found`);
    return session;
  };

  const toSummary = ({ run, socket }: EgressSession): EgressSummary => ({
    run_id: run.runId,
    fence: run.fence,
    agent: run.agent,
    task_id: run.taskId,
    socket,
    bytes_max: run.body.bytes_max,
    bytes_sent: run.usage.bytesSent,
    bytes_received: run.usage.bytesReceived,
    open: run.connections.size,
    denied: run.denials.total(),
  });

  const saveUsage = async (): Promise<void> => {
    const runs = [...sessions.values()].map(({ run }) => run);
    const changed = runs.filter((run) => saved.get(run.runId) !== countUsedBytes(run));
    if (changed.length === 0) return;
    const rows = changed.map(({ runId, usage }) => ({ runId, ...usage }));
    await store.saveUsage(rows);
    for (const { runId, bytesSent, bytesReceived } of rows)
      saved.set(runId, bytesSent + bytesReceived);
  };

  return {
    openEgress: (runId, body) =>
      withRunLock(runId, async () => {
        // Invalid rules are rejected before anything is stored.
        parseRules(body);
        const stored = await store.upsertRun(runId, body);
        const before = sessions.get(runId);
        if (before?.run.fence === body.fence)
          return { socket: before.socket, cut: changeRules(before, body) };
        const cut = before === undefined ? 0 : await endSession(before);
        // The session's account is newer than what was saved.
        const { usage, responder } = before?.run ?? stored;
        return { socket: (await open({ runId, body, usage, responder })).socket, cut };
      }),

    closeEgress: (runId, fence) =>
      withRunLock(runId, async () => {
        const session = sessions.get(runId);
        if (session !== undefined && session.run.fence <= fence) {
          await saveUsage();
          saved.delete(runId);
          await endSession(session);
        }
        return store.endRun(runId, fence);
      }),

    async getEgress(runId) {
      await reopened.promise;
      const session = findSession(runId);
      const { body, connections, denials } = session.run;
      return {
        ...toSummary(session),
        allow: body.allow,
        granted: body.granted,
        denials: denials.list(),
        connections: [...connections].map((c) => ({
          id: c.id,
          kind: c.kind,
          host: c.dest.host.name,
          port: c.dest.port,
          address: c.address,
          bytes_sent: c.bytesSent,
          bytes_received: c.bytesReceived,
          opened_at: toTimestamp(c.openedMs),
        })),
      };
    },

    async listEgress() {
      await reopened.promise;
      return [...sessions.values()].map(toSummary);
    },

    getFetch: options.fetches.getFetch,
    forgetFetch: options.fetches.forgetFetch,
    async fetch(runId, body, signal) {
      const { run } = findSession(runId);
      if (run.fence !== body.fence)
        throw fault('stale_fence', `${runId} is held by activation ${run.fence}`);
      return options.fetches.fetch(run, body, signal);
    },

    async reopen() {
      const live = await store.listLiveRuns();
      const names = new Set(live.map(({ runId, body: { fence } }) => runDirName({ runId, fence })));
      options.sweep((name) => names.has(name));
      for (const stored of live)
        await withRunLock(stored.runId, async () => {
          if (!sessions.has(stored.runId)) await open(stored);
        });
      reopened.resolve();
    },

    abortAllRuns: (status) =>
      [...sessions.values()].reduce((sum, { run }) => sum + connector.abortAll(run, status), 0),

    saveUsage,

    async stop() {
      await saveUsage();
      for (const session of [...sessions.values()]) await endSession(session);
      await connector.waitForWrites();
    },
  };
}
