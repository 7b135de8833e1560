// The runs that have a way out: opened, changed, shown and ended. What goes through it is the
// proxy's and the gate's.
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
import { makePace } from './connection-rate.ts';
import type { Connector } from './connector.ts';
import { makeDenials } from './denials.ts';
import * as events from './events.ts';
import type { Fetches } from './fetch.ts';
import { type EgressRun, rulesOf, usedBytes } from './run.ts';
import type { EgressdStore, EgressUsage } from './store.ts';

export type OpenProxy = (socketPath: string, run: EgressRun) => Promise<{ close(): Promise<void> }>;

export type EgressdService = {
  put(runId: RunId, body: PutEgressBody): Promise<{ socket: string; cut: number }>;
  drop(runId: RunId, fence: number): Promise<boolean>;
  get(runId: RunId): Promise<EgressView>;
  list(): Promise<EgressSummary[]>;
  fetch(runId: RunId, body: FetchBody, signal: AbortSignal): Promise<FetchAnswer>;
  recall: Fetches['recall'];
  forget: Fetches['forget'];
  /** After a restart: the sockets of the runs that had one. */
  reopen(): Promise<void>;
  /** Cuts everything that is open, and keeps the sockets. */
  cutEverything(status: string): number;
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
  gate: Connector;
  fetches: Fetches;
  openProxy: OpenProxy;
  /** Removes the directories of runs that are not live. */
  sweep(isLive: (dirName: string) => boolean): void;
  runtimeDir: string;
  clock: Clock;
  newId: NewId;
  log: Log;
}): EgressdService {
  const { store, gate, clock, newId, log } = options;
  const held = new Map<RunId, EgressSession>();
  const saved = new Map<RunId, number>();
  /** Until then it is not known which runs have a way out, nor what they used. */
  const reopened = Promise.withResolvers<void>();
  /** Opening and ending the way out of one run never overlap. */
  const inTurn = makeKeyedMutex();

  const makeRun = (runId: RunId, body: PutEgressBody, usage: EgressUsage): EgressRun => {
    const run: EgressRun = {
      runId,
      fence: body.fence,
      agent: body.agent,
      taskId: body.task_id,
      rootTaskId: body.root_task_id,
      body,
      rules: rulesOf(body),
      usage,
      isOver: false,
      connections: new Set(),
      openings: makePace(clock),
      denials: makeDenials({
        clock,
        say(refused, repeats, callId) {
          const draft = events.denied(run, newId('net'), refused, { repeats, callId });
          store
            .addEvent(draft)
            .catch((error: unknown) => log.warn('a denial could not be recorded', { error }));
        },
      }),
    };
    return run;
  };

  const watchExpiry = (one: EgressSession): void => {
    one.expiry?.cancel();
    const nowMs = clock.nowMs();
    const ends = one.run.rules.map(({ expiresMs }) => expiresMs).filter((ms) => ms > nowMs);
    const nextMs = Math.min(...ends);
    one.expiry = Number.isFinite(nextMs)
      ? clock.at(nextMs, () => {
          gate.cutDisallowed(one.run);
          watchExpiry(one);
        })
      : undefined;
  };

  const open = async (
    runId: RunId,
    body: PutEgressBody,
    usage: EgressUsage,
  ): Promise<EgressSession> => {
    const run = makeRun(runId, body, usage);
    const dir = join(options.runtimeDir, runDirName({ runId, fence: body.fence }));
    const socket = join(dir, 'proxy.sock');
    const { close } = await options.openProxy(socket, run);
    const one: EgressSession = { run, socket, close, expiry: undefined };
    held.set(runId, one);
    watchExpiry(one);
    return one;
  };

  const end = async (one: EgressSession): Promise<number> => {
    const { run } = one;
    held.delete(run.runId);
    one.expiry?.cancel();
    run.isOver = true;
    const cut = gate.cutAll(run, 'cut');
    run.denials.flush();
    await one.close();
    return cut;
  };

  const change = (one: EgressSession, body: PutEgressBody): number => {
    one.run.body = body;
    one.run.rules = rulesOf(body);
    watchExpiry(one);
    return gate.cutDisallowed(one.run);
  };

  const of = (runId: RunId): EgressSession => {
    const one = held.get(runId);
    if (one === undefined) throw fault('not_found', `${runId} has no way out`);
    return one;
  };

  const summaryOf = ({ run, socket }: EgressSession): EgressSummary => ({
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
    const runs = [...held.values()].map(({ run }) => run);
    const changed = runs.filter((run) => saved.get(run.runId) !== usedBytes(run));
    if (changed.length === 0) return;
    const rows = changed.map(({ runId, usage }) => ({ runId, ...usage }));
    await store.saveUsage(rows);
    for (const { runId, bytesSent, bytesReceived } of rows)
      saved.set(runId, bytesSent + bytesReceived);
  };

  return {
    put: (runId, body) =>
      inTurn(runId, async () => {
        // What cannot be read is refused before it is remembered.
        rulesOf(body);
        const usage = await store.putRun(runId, body);
        const before = held.get(runId);
        if (before?.run.fence === body.fence)
          return { socket: before.socket, cut: change(before, body) };
        const used = before?.run.usage ?? usage;
        const cut = before === undefined ? 0 : await end(before);
        return { socket: (await open(runId, body, used)).socket, cut };
      }),

    drop: (runId, fence) =>
      inTurn(runId, async () => {
        const one = held.get(runId);
        if (one !== undefined && one.run.fence <= fence) {
          await saveUsage();
          saved.delete(runId);
          await end(one);
        }
        return store.dropRun(runId, fence);
      }),

    async get(runId) {
      await reopened.promise;
      const one = of(runId);
      const { body, connections, denials } = one.run;
      return {
        ...summaryOf(one),
        allow: body.allow,
        granted: body.granted,
        denials: denials.list(),
        connections: [...connections].map((c) => ({
          id: c.id,
          kind: c.kind,
          host: c.wanted.host.name,
          port: c.wanted.port,
          address: c.address,
          bytes_sent: c.bytesSent,
          bytes_received: c.bytesReceived,
          opened_at: toTimestamp(c.openedMs),
        })),
      };
    },

    async list() {
      await reopened.promise;
      return [...held.values()].map(summaryOf);
    },

    recall: options.fetches.recall,
    forget: options.fetches.forget,
    async fetch(runId, body, signal) {
      const { run } = of(runId);
      if (run.fence !== body.fence)
        throw fault('stale_fence', `${runId} is held by activation ${run.fence}`);
      return options.fetches.fetch(run, body, signal);
    },

    async reopen() {
      const live = await store.liveRuns();
      const names = new Set(live.map(({ runId, body: { fence } }) => runDirName({ runId, fence })));
      options.sweep((name) => names.has(name));
      for (const { runId, body, bytesSent, bytesReceived } of live)
        await inTurn(runId, async () => {
          if (!held.has(runId)) await open(runId, body, { bytesSent, bytesReceived });
        });
      reopened.resolve();
    },

    cutEverything: (status) =>
      [...held.values()].reduce((sum, { run }) => sum + gate.cutAll(run, status), 0),

    saveUsage,

    async stop() {
      await saveUsage();
      for (const one of [...held.values()]) await end(one);
      await gate.settled();
    },
  };
}
