// Assembles egressd from its parts.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeEraseRecords } from '../../platform/copies/erase-records.ts';
import { makeSeal } from '../../platform/copies/seal.ts';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { type Outbox, openOutbox } from '../../platform/outbox.ts';
import { openSqlite, type SqliteDatabase } from '../../platform/sql/sqlite.ts';
import {
  formatAuthority,
  type Host,
  type Ip,
  matchesHost,
  type ParseOutcome,
  parseAllowedHost,
  parseAuthority,
  parseHost,
  parseIp,
} from '../../policy/hosts.ts';
import { auditRoutes } from '../../wire/auditd-ai.ts';
import { egressdRoutes } from '../../wire/egressd.ts';
import { fault } from '../../wire/errors.ts';
import type { NewEvent } from '../../wire/events.ts';
import { type Dial, makeDial } from './adapters/dial.ts';
import { makeOwnAddresses, makeResolve, type Resolve } from './adapters/resolve.ts';
import { makeHandlers } from './api.ts';
import { type EgressdConfig, egressdConfig } from './config.ts';
import { makeConnector } from './connector.ts';
import { COPY_PLACES } from './copy-places.ts';
import { makeFetches } from './fetch.ts';
import { openProxy, removeStaleDirs } from './proxy/server.ts';
import { makeService } from './service.ts';
import { MIGRATIONS, makeStore } from './store.ts';

const AUDIT_WAIT_MS = 2_000;
const USAGE_SAVE_INTERVAL_MS = 1_000;
const HALT_POLL_INTERVAL_MS = 250;

export type EgressdDeps = {
  context: DaemonContext<EgressdConfig>;
  db: SqliteDatabase;
  outbox: Outbox;
  resolve: Resolve;
  dial: Dial;
};

export async function assemble(deps: EgressdDeps): Promise<DaemonHandle<typeof egressdRoutes>> {
  const { context, db, outbox, resolve, dial } = deps;
  const { clock, config, log, metrics, newId, failpoint } = context;
  const store = makeStore(db, outbox);
  const lost = await store.closeLostConnections();
  if (lost > 0) log.warn('recorded connections lost in a crash as closed', { lost });
  const halt = join(context.stateDir, 'HALT');
  const isHalted = () => existsSync(halt);
  const connector = makeConnector({
    store,
    outbox,
    clock,
    newId,
    log,
    metrics,
    failpoint,
    resolve,
    dial,
    isHalted,
    isMirror: makeIsMirror(config),
    ownAddresses: makeOwnAddresses(() => clock.nowMs()),
    allowPrivate: parseAllowPrivate(config),
    limits: { perRunMax: config.connections_per_run_max, totalMax: config.connections_max },
  });
  const limits = {
    headTimeoutMs: config.head_timeout_ms,
    idleTimeoutMs: config.idle_timeout_ms,
    clientsMax: config.connections_per_run_max,
  };
  const runtimeDir = join(context.runtimeDir, 'egressd');
  const service = makeService({
    store,
    connector,
    clock,
    newId,
    log,
    fetches: makeFetches({ connector, store, clock, ca: readCa(config), failpoint }),
    openProxy: (socketPath, run) => openProxy({ socketPath, run, connector, limits, log }),
    sweep: (isLive) => removeStaleDirs(runtimeDir, isLive),
    runtimeDir,
  });

  const timers = [
    setInterval(() => {
      service.saveUsage().catch((error: unknown) => log.warn('saving usage failed', { error }));
    }, USAGE_SAVE_INTERVAL_MS),
    setInterval(() => {
      if (isHalted()) service.abortAllRuns('halt');
    }, HALT_POLL_INTERVAL_MS),
  ];
  for (const timer of timers) timer.unref();

  return {
    handlers: makeHandlers(
      service,
      store,
      makeEraseRecords({ db, places: COPY_PLACES, seal: makeSeal({ db, log }) }),
    ),
    begin: () => service.reopen(),
    async stop() {
      for (const timer of timers) clearInterval(timer);
      await service.stop();
      await outbox.drain(AUDIT_WAIT_MS);
      outbox.stop();
      await db.close();
    },
  };
}

function requireValid<T>(key: string, text: string, read: ParseOutcome<T>): T {
  if ('value' in read) return read.value;
  throw fault('bad_config', `egressd.${key}: ${text}: ${read.problem}`);
}

function parseAllowPrivate({ allow_private: allowPrivate }: EgressdConfig): Set<string> {
  const entries = allowPrivate.map((text) =>
    requireValid('allow_private', text, parseAuthority(text)),
  );
  return new Set(entries.map(formatAuthority));
}

function makeIsMirror({ mirrors }: EgressdConfig): (host: Host) => boolean {
  const patterns = mirrors.map((text) => requireValid('mirrors', text, parseAllowedHost(text)));
  return (host) => patterns.some((pattern) => matchesHost(pattern, host));
}

function parseHosts({ hosts }: EgressdConfig): Map<string, Ip> {
  const entries = Object.entries(hosts).map(([name, text]): [string, Ip] => {
    const ip = parseIp(text);
    const read = ip === undefined ? { problem: 'not an IP address' } : { value: ip };
    return [requireValid('hosts', name, parseHost(name)).name, requireValid('hosts', text, read)];
  });
  return new Map(entries);
}

function readCa({ tls_ca_file: file }: EgressdConfig): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw fault('bad_config', `egressd.tls_ca_file: ${file} cannot be read`, { cause });
  }
}

export function makeConfiguredResolve(config: EgressdConfig): Resolve {
  const { dns_servers: servers, dns_timeout_ms: timeoutMs } = config;
  return makeResolve({ hosts: parseHosts(config), servers, timeoutMs });
}

async function start(
  context: DaemonContext<EgressdConfig>,
): Promise<DaemonHandle<typeof egressdRoutes>> {
  const { clock, config, log, stateDir } = context;
  const resolve = makeConfiguredResolve(config);
  const audit = context.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const db = openSqlite({ file: join(stateDir, 'egressd.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({ db, source: 'egressd', clock, append, log });
  const dial = makeDial({ timeoutMs: config.connect_timeout_ms });
  return { ...(await assemble({ context, db, outbox, resolve, dial })), database: db };
}

export const egressd = defineDaemon({
  name: 'egressd',
  routes: egressdRoutes,
  config: egressdConfig,
  start,
});
