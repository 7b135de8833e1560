// The one way out. Every connection is decided on, its name looked up once, every address of it
// checked, the decision made durable, and only a checked address dialled. Bytes are counted here
// too, and what may no longer be is cut here.
import type net from 'node:net';
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import { authorityOf, type Ip } from '../../policy/hosts.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { Dial } from './adapters/dial.ts';
import type { Resolve } from './adapters/resolve.ts';
import * as events from './events.ts';
import { kindOf, LIFTABLE } from './rules/address.ts';
import { decide, type MatchResult, type Wanted } from './rules/match.ts';
import { type EgressRefusal, refuse, refuseAddress } from './rules/refusal.ts';
import {
  type ConnectionKind,
  type EgressRun,
  isMarked,
  type TrackedConnection,
  usedBytes,
} from './run.ts';
import type { EgressdStore } from './store.ts';

export type GateOptions = {
  store: EgressdStore;
  outbox: Outbox;
  clock: Clock;
  newId: NewId;
  log: Log;
  metrics: Metrics;
  failpoint(name: string): void;
  resolve: Resolve;
  dial: Dial;
  ownAddresses: () => ReadonlySet<string>;
  /** `host:port`, as authorityOf writes it. */
  allowPrivate: ReadonlySet<string>;
  isHalted: () => boolean;
  limits: { perRunMax: number; totalMax: number };
};

export type Reached = { connection: TrackedConnection; socket: net.Socket; isPlain: boolean };
export type ConnectOptions = { kind: ConnectionKind; callId?: string | undefined };

export type Connector = {
  /** Throws `denied` when it is not, and says so in the audit log. */
  assertAllowed(
    run: EgressRun,
    wanted: Wanted,
    asked: ConnectOptions,
  ): MatchResult & { allowed: true };
  /** Only certain requests are allowed there: a tunnel is, as long as it carries those. */
  mustBeRead(run: EgressRun, wanted: Wanted): boolean;
  reach(run: EgressRun, wanted: Wanted, asked: ConnectOptions): Promise<Reached>;
  /** The fault for a refusal that was found on the way, and its event. */
  refused(run: EgressRun, what: EgressRefusal, callId?: string): Fault;
  /** Counts bytes before they are passed on; false when they must not be. */
  spend(
    run: EgressRun,
    connection: TrackedConnection,
    bytes: { sent?: number; received?: number },
  ): boolean;
  /** The end of a connection, said once. */
  finish(run: EgressRun, connection: TrackedConnection): void;
  /** Cuts what the rules no longer allow, and says how many. */
  cutDisallowed(run: EgressRun): number;
  cutAll(run: EgressRun, status: string): number;
  /** Resolves when every end has been written down. */
  settled(): Promise<void>;
};

export function makeGate(options: GateOptions): Connector {
  const { store, outbox, clock, newId, log, metrics } = options;
  const writing = new Set<Promise<unknown>>();
  let open = 0;
  metrics.gauge('egress_connections', () => open);

  /** Nobody waits for these; a stop does. */
  const write = (work: Promise<unknown>): void => {
    const kept = work
      .catch((error: unknown) => log.warn('an egress event could not be written', { error }))
      .finally(() => writing.delete(kept));
    writing.add(kept);
  };

  const refused: Connector['refused'] = (run, what, callId) => {
    metrics.count('egress_denied', { reason: what.reason });
    run.denials.note(what, callId);
    const { reason, host, port, message, hint, askable } = what;
    const code = reason === 'budget' ? 'budget' : 'denied';
    return fault(code, message, { hint, details: { reason, host, port, askable } });
  };

  const whatOf = (run: EgressRun, wanted: Wanted) => ({
    host: wanted.host.name,
    port: wanted.port,
    isMarked: isMarked(run),
    ...(wanted.how === 'http' ? { method: wanted.method, path: wanted.path } : {}),
  });

  const assertAllowed: Connector['assertAllowed'] = (run, wanted, { callId }) => {
    if (run.isOver) throw fault('stale_fence', `${run.runId} has no way out any more`);
    if (options.isHalted()) throw fault('halted', 'everything is halted');
    const verdict = decide(run.rules, wanted, clock.nowMs());
    if (!verdict.allowed) throw refused(run, refuse(verdict.reason, whatOf(run, wanted)), callId);
    if (usedBytes(run) >= run.body.bytes_max)
      throw refused(run, refuse('budget', whatOf(run, wanted)), callId);
    return verdict;
  };

  const assertAddresses = (
    run: EgressRun,
    wanted: Wanted,
    asked: ConnectOptions,
    all: readonly Ip[],
  ): void => {
    const own = options.ownAddresses();
    const isLifted = options.allowPrivate.has(authorityOf(wanted));
    for (const ip of all) {
      const kind = kindOf(ip, own);
      if (kind === 'public' || (isLifted && LIFTABLE.has(kind))) continue;
      throw refused(run, refuseAddress(whatOf(run, wanted), kind), asked.callId);
    }
  };

  const assertNotTooFast = ({ openings }: EgressRun): void => {
    const retryAfterMs = openings.tryAcquire();
    if (retryAfterMs > 0)
      throw fault('overloaded', 'this run opens connections too fast', { retryAfterMs });
  };

  const begin = (
    run: EgressRun,
    wanted: Wanted,
    asked: ConnectOptions,
    isPlain: boolean,
  ): TrackedConnection => {
    const { perRunMax, totalMax } = options.limits;
    if (run.connections.size >= perRunMax || open >= totalMax)
      throw fault('overloaded', `${run.connections.size} connections of this run are open`, {
        retryAfterMs: 1_000,
      });
    assertNotTooFast(run);
    const connection: TrackedConnection = {
      id: newId<string>('net'),
      kind: asked.kind,
      wanted,
      isPlain,
      callId: asked.callId,
      address: null,
      openedMs: clock.nowMs(),
      bytesSent: 0,
      bytesReceived: 0,
      requests: 0,
      status: 'closed',
      ending: new AbortController(),
      isRecorded: false,
      isFinished: false,
    };
    run.connections.add(connection);
    open++;
    return connection;
  };

  const openedOf = (
    { id, kind, wanted, callId }: TrackedConnection,
    address: string,
  ): events.ConnectionInfo => ({
    id,
    kind,
    host: wanted.host.name,
    port: wanted.port,
    address,
    callId,
  });

  const endedOf = (connection: TrackedConnection, status: string): events.ConnectionEnd => ({
    status,
    bytesSent: connection.bytesSent,
    bytesReceived: connection.bytesReceived,
    durationMs: clock.nowMs() - connection.openedMs,
    requests: connection.requests,
  });

  const record = async (
    run: EgressRun,
    connection: TrackedConnection,
    all: readonly Ip[],
  ): Promise<void> => {
    const address = all.map(({ text }) => text).join(' ');
    const opened = openedOf(connection, address.slice(0, 300));
    connection.address = address;
    const lost = events.closed(run, opened, endedOf(connection, 'lost'));
    const seq = await store.openConnection(connection.id, events.allowed(run, opened), lost);
    connection.isRecorded = true;
    options.failpoint('egressd.after-allowed');
    await outbox.delivered(seq);
  };

  const finish: Connector['finish'] = (run, connection) => {
    if (connection.isFinished) return;
    connection.isFinished = true;
    run.connections.delete(connection);
    open--;
    if (!connection.isRecorded) return;
    const opened = openedOf(connection, (connection.address ?? '').slice(0, 300));
    const closed = events.closed(run, opened, endedOf(connection, connection.status));
    const used = { runId: run.runId, bytesReceived: run.usage.bytesReceived };
    write(store.closeConnection(connection.id, closed, used));
  };

  const cut = (connection: TrackedConnection, status: string): void => {
    if (connection.ending.signal.aborted) return;
    connection.status = status;
    connection.ending.abort();
  };

  const cutAll: Connector['cutAll'] = (run, status) => {
    const all = [...run.connections];
    for (const connection of all) cut(connection, status);
    return all.length;
  };

  const lookUp = async ({ host }: Wanted): Promise<readonly Ip[]> =>
    host.ip === undefined ? options.resolve(host.name) : [host.ip];

  return {
    assertAllowed,
    refused,
    finish,
    cutAll,
    mustBeRead(run, wanted) {
      const verdict = decide(run.rules, wanted, clock.nowMs());
      return !verdict.allowed && verdict.reason === 'unreadable';
    },
    async reach(run, wanted, asked) {
      const { plain } = assertAllowed(run, wanted, asked);
      outbox.assertAuditAccepting();
      const connection = begin(run, wanted, asked, plain);
      const { signal } = connection.ending;
      try {
        const addresses = await lookUp(wanted);
        assertAddresses(run, wanted, asked, addresses);
        if (!signal.aborted) await record(run, connection, addresses);
        // Minutes may have passed: what was tightened meanwhile holds.
        assertAllowed(run, wanted, asked);
        const { socket, address } = await options.dial(addresses, wanted.port, signal);
        connection.address = address;
        metrics.count('egress_allowed', { kind: asked.kind });
        return { connection, socket, isPlain: plain };
      } catch (error) {
        if (connection.status === 'closed') connection.status = 'failed';
        finish(run, connection);
        throw error;
      }
    },
    spend(run, connection, { sent = 0, received = 0 }) {
      if (usedBytes(run) + sent + received > run.body.bytes_max) {
        refused(run, refuse('budget', whatOf(run, connection.wanted)), connection.callId);
        cutAll(run, 'budget');
        return false;
      }
      run.usage.bytesSent += sent;
      run.usage.bytesReceived += received;
      connection.bytesSent += sent;
      connection.bytesReceived += received;
      return true;
    },
    cutDisallowed(run) {
      let count = 0;
      for (const connection of run.connections) {
        const verdict = decide(run.rules, connection.wanted, clock.nowMs());
        if (verdict.allowed && (verdict.plain || !connection.isPlain)) continue;
        cut(connection, 'cut');
        count++;
      }
      if (usedBytes(run) > run.body.bytes_max) count += cutAll(run, 'budget');
      return count;
    },
    async settled() {
      while (writing.size > 0) await Promise.all(writing);
    },
  };
}
