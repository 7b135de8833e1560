// Opens every egress connection: matches the rules, resolves the name once, checks every address,
// makes the decision durable, and dials only a checked address. It also counts bytes, and aborts
// connections that are no longer allowed.
import type net from 'node:net';
import type { Clock } from '../../platform/clock.ts';
import type { NewId } from '../../platform/ids.ts';
import type { Log } from '../../platform/log.ts';
import type { Metrics } from '../../platform/metrics.ts';
import type { Outbox } from '../../platform/outbox.ts';
import { formatAuthority, type Host, type Ip } from '../../policy/hosts.ts';
import { type Fault, fault } from '../../wire/errors.ts';
import type { Dial } from './adapters/dial.ts';
import type { Resolve } from './adapters/resolve.ts';
import * as events from './events.ts';
import { classifyAddress, LIFTABLE } from './rules/address.ts';
import { isOpenAfterResponse } from './rules/first-responder.ts';
import { type Destination, type MatchResult, matchRules } from './rules/match.ts';
import { type EgressRefusal, makeAddressRefusal, makeRefusal } from './rules/refusal.ts';
import {
  type ConnectionKind,
  countUsedBytes,
  type EgressRun,
  isMarked,
  type TrackedConnection,
} from './run.ts';
import type { EgressdStore } from './store.ts';

export type ConnectorOptions = {
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
  /** `host:port`, as formatted by authorityOf. */
  allowPrivate: ReadonlySet<string>;
  /** True for hosts that only serve packages, by the operator's word. */
  isMirror: (host: Host) => boolean;
  isHalted: () => boolean;
  limits: { perRunMax: number; totalMax: number };
};

export type EgressLink = {
  connection: TrackedConnection;
  socket: net.Socket;
  isPlain: boolean;
};
export type ConnectOptions = { kind: ConnectionKind; callId?: string | undefined };

export type Connector = {
  /** Throws `denied`, and audits the denial, when the rules do not allow it. */
  assertAllowed(
    run: EgressRun,
    dest: Destination,
    via: ConnectOptions,
  ): MatchResult & { allowed: true };
  /** True when the rules allow only certain HTTP requests there, so a tunnel must carry those. */
  requiresHttp(run: EgressRun, dest: Destination): boolean;
  connect(run: EgressRun, dest: Destination, via: ConnectOptions): Promise<EgressLink>;
  /** Audits a denial and returns its fault. */
  denialFault(run: EgressRun, what: EgressRefusal, callId?: string): Fault;
  /** Counts bytes before they are forwarded; returns false when the budget is used up. */
  spend(
    run: EgressRun,
    connection: TrackedConnection,
    bytes: { sent?: number; received?: number },
  ): boolean;
  /** The fault for the client of a connection that was aborted. */
  cutFault(run: EgressRun, connection: TrackedConnection): Fault;
  /** Records the end of a connection, once. */
  finish(run: EgressRun, connection: TrackedConnection): void;
  /** Aborts connections that the rules no longer allow; returns their number. */
  abortDisallowed(run: EgressRun): number;
  abortAll(run: EgressRun, status: string): number;
  waitForWrites(): Promise<void>;
};

export function makeConnector(options: ConnectorOptions): Connector {
  const { store, outbox, clock, newId, log, metrics } = options;
  const writing = new Set<Promise<unknown>>();
  let open = 0;
  metrics.gauge('egress_connections', () => open);

  /** Callers do not wait for these writes; stop does. */
  const write = (work: Promise<unknown>): void => {
    const kept = work
      .catch((error: unknown) => log.warn('writing an egress event failed', { error }))
      .finally(() => writing.delete(kept));
    writing.add(kept);
  };

  const denialFault: Connector['denialFault'] = (run, what, callId) => {
    metrics.count('egress_denied', { reason: what.reason });
    run.denials.record(what, callId);
    return toDenialFault(what);
  };

  const toDeniedTarget = (run: EgressRun, dest: Destination) => ({
    host: dest.host.name,
    port: dest.port,
    isMarked: isMarked(run),
    responder: run.responder,
    ...(dest.how === 'http' ? { method: dest.method, path: dest.path } : {}),
  });

  /** Every request of a tool was decided by toold, which knows the run's marks. */
  const matchRun = (run: EgressRun, dest: Destination, kind: ConnectionKind): MatchResult => {
    const match = matchRules(run.rules, dest, clock.nowMs());
    if (!match.allowed || match.isChosen || kind === 'fetch') return match;
    const { responder } = run;
    const isOpen = isOpenAfterResponse({ responder, isMirror: options.isMirror }, dest);
    return isOpen ? match : { allowed: false, reason: 'outside' };
  };

  const assertAllowed: Connector['assertAllowed'] = (run, dest, { kind, callId }) => {
    if (run.isEnded) throw fault('stale_fence', `${run.runId} has no egress session`);
    if (options.isHalted()) throw fault('halted', 'everything is halted');
    const match = matchRun(run, dest, kind);
    if (!match.allowed)
      throw denialFault(run, makeRefusal(match.reason, toDeniedTarget(run, dest)), callId);
    if (countUsedBytes(run) >= run.body.bytes_max)
      throw denialFault(run, makeRefusal('budget', toDeniedTarget(run, dest)), callId);
    return match;
  };

  const assertAddresses = (
    run: EgressRun,
    dest: Destination,
    via: ConnectOptions,
    all: readonly Ip[],
  ): void => {
    const own = options.ownAddresses();
    const isLifted = options.allowPrivate.has(formatAuthority(dest));
    for (const ip of all) {
      const kind = classifyAddress(ip, own);
      if (kind === 'public' || (isLifted && LIFTABLE.has(kind))) continue;
      throw denialFault(run, makeAddressRefusal(toDeniedTarget(run, dest), kind), via.callId);
    }
  };

  const assertRate = ({ rateLimit }: EgressRun): void => {
    const retryAfterMs = rateLimit.tryAcquire();
    if (retryAfterMs > 0)
      throw fault('overloaded', 'this run opens connections too fast', { retryAfterMs });
  };

  const trackConnection = (
    run: EgressRun,
    dest: Destination,
    via: ConnectOptions,
    isPlain: boolean,
  ): TrackedConnection => {
    const { perRunMax, totalMax } = options.limits;
    if (run.connections.size >= perRunMax || open >= totalMax)
      throw fault('overloaded', `${run.connections.size} connections of this run are open`, {
        retryAfterMs: 1_000,
      });
    assertRate(run);
    const connection: TrackedConnection = {
      id: newId<string>('net'),
      kind: via.kind,
      dest,
      isPlain,
      callId: via.callId,
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

  const toConnectionInfo = (
    { id, kind, dest, callId }: TrackedConnection,
    address: string,
  ): events.ConnectionInfo => ({
    id,
    kind,
    host: dest.host.name,
    port: dest.port,
    address,
    callId,
  });

  const toConnectionEnd = (
    connection: TrackedConnection,
    status: string,
  ): events.ConnectionEnd => ({
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
    const opened = toConnectionInfo(connection, address.slice(0, 300));
    connection.address = address;
    const lost = events.closed(run, opened, toConnectionEnd(connection, 'lost'));
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
    const opened = toConnectionInfo(connection, (connection.address ?? '').slice(0, 300));
    const closed = events.closed(run, opened, toConnectionEnd(connection, connection.status));
    const used = { runId: run.runId, bytesReceived: run.usage.bytesReceived };
    write(store.closeConnection(connection.id, closed, used));
  };

  const abortConnection = (connection: TrackedConnection, status: string): void => {
    if (connection.ending.signal.aborted) return;
    connection.status = status;
    connection.ending.abort();
  };

  const cutFault: Connector['cutFault'] = (run, connection) => {
    const { dest, kind, status } = connection;
    if (status === 'budget') {
      const used = `${run.body.bytes_max} bytes`;
      return fault('budget', `this run has used up the ${used} it may send and receive`);
    }
    const match = matchRun(run, dest, kind);
    if (match.allowed || match.reason !== 'outside')
      return fault('denied', 'the connection was aborted: this run may no longer use it');
    const refusal = makeRefusal(match.reason, toDeniedTarget(run, dest));
    return toDenialFault(refusal);
  };

  const abortAll: Connector['abortAll'] = (run, status) => {
    const all = [...run.connections];
    for (const connection of all) abortConnection(connection, status);
    return all.length;
  };

  /**
   * Called before a received byte is forwarded, so that nothing in the box can act on it earlier.
   * The name is saved for a restart; without it, the run counts as having received from anyone.
   */
  const noteResponse = (run: EgressRun, from: TrackedConnection): void => {
    const { host } = from.dest;
    if (run.responder !== undefined || options.isMirror(host)) return;
    run.responder = host.name;
    write(store.saveResponder(run.runId, host.name));
    for (const connection of run.connections) {
      const { dest, kind, callId } = connection;
      const match = matchRun(run, dest, kind);
      if (match.allowed || match.reason !== 'outside') continue;
      denialFault(run, makeRefusal('outside', toDeniedTarget(run, dest)), callId);
      abortConnection(connection, 'cut');
    }
  };

  const resolveHost = async ({ host }: Destination): Promise<readonly Ip[]> =>
    host.ip === undefined ? options.resolve(host.name) : [host.ip];

  return {
    assertAllowed,
    denialFault,
    cutFault,
    finish,
    abortAll,
    requiresHttp(run, dest) {
      const match = matchRules(run.rules, dest, clock.nowMs());
      if (!match.allowed) return match.reason === 'unreadable';
      // Behind a `plain` rule the server may speak first, so there is nothing to wait for.
      return !match.plain && !matchRun(run, dest, 'tunnel').allowed;
    },
    async connect(run, dest, via) {
      const { plain } = assertAllowed(run, dest, via);
      outbox.assertAuditAccepting();
      const connection = trackConnection(run, dest, via, plain);
      const { signal } = connection.ending;
      try {
        const addresses = await resolveHost(dest);
        assertAddresses(run, dest, via, addresses);
        if (!signal.aborted) await record(run, connection, addresses);
        // Minutes may have passed: the rules may have been tightened meanwhile.
        assertAllowed(run, dest, via);
        const { socket, address } = await options.dial(addresses, dest.port, signal);
        connection.address = address;
        if (signal.aborted) socket.destroy();
        signal.throwIfAborted();
        metrics.count('egress_allowed', { kind: via.kind });
        return { connection, socket, isPlain: plain };
      } catch (error) {
        if (connection.status === 'closed') connection.status = 'failed';
        finish(run, connection);
        throw connection.status === 'cut' ? cutFault(run, connection) : error;
      }
    },
    spend(run, connection, { sent = 0, received = 0 }) {
      if (countUsedBytes(run) + sent + received > run.body.bytes_max) {
        denialFault(
          run,
          makeRefusal('budget', toDeniedTarget(run, connection.dest)),
          connection.callId,
        );
        abortAll(run, 'budget');
        return false;
      }
      if (received > 0) noteResponse(run, connection);
      run.usage.bytesSent += sent;
      run.usage.bytesReceived += received;
      connection.bytesSent += sent;
      connection.bytesReceived += received;
      return true;
    },
    abortDisallowed(run) {
      let count = 0;
      for (const connection of run.connections) {
        const match = matchRun(run, connection.dest, connection.kind);
        if (match.allowed && (match.plain || !connection.isPlain)) continue;
        abortConnection(connection, 'cut');
        count++;
      }
      if (countUsedBytes(run) > run.body.bytes_max) count += abortAll(run, 'budget');
      return count;
    },
    async waitForWrites() {
      while (writing.size > 0) await Promise.all(writing);
    },
  };
}

function toDenialFault({ reason, host, port, message, hint, askable }: EgressRefusal): Fault {
  const code = reason === 'budget' ? 'budget' : 'denied';
  return fault(code, message, { hint, details: { reason, host, port, askable } });
}
