// egressd as a value: the one file that knows all its parts.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type DaemonContext, type DaemonHandle, defineDaemon } from '../../platform/daemon.ts';
import { type Outbox, openOutbox } from '../../platform/outbox.ts';
import type { Database } from '../../platform/sql/database.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import {
  authorityOf,
  type Ip,
  type ParseOutcome,
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
import { makeGate } from './connector.ts';
import { makeFetches } from './fetch.ts';
import { openProxy, sweepSockets } from './proxy/server.ts';
import { makeService } from './service.ts';
import { MIGRATIONS, makeStore } from './store.ts';

const AUDIT_WAIT_MS = 2_000;
const SAVE_EVERY_MS = 1_000;
const LOOK_FOR_HALT_EVERY_MS = 250;

export type EgressdDeps = {
  floor: DaemonContext<EgressdConfig>;
  db: Database;
  outbox: Outbox;
  resolve: Resolve;
  dial: Dial;
};

export async function assemble(parts: EgressdDeps): Promise<DaemonHandle<typeof egressdRoutes>> {
  const { floor, db, outbox, resolve, dial } = parts;
  const { clock, config, log, metrics, newId, failpoint } = floor;
  const store = makeStore(db, outbox);
  const lost = await store.closeLost();
  if (lost > 0) log.warn('connections ended with the process before this one', { lost });
  const halt = join(floor.stateDir, 'HALT');
  const isHalted = () => existsSync(halt);
  const gate = makeGate({
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
    ownAddresses: makeOwnAddresses(() => clock.nowMs()),
    allowPrivate: allowPrivateOf(config),
    limits: { perRunMax: config.connections_per_run_max, totalMax: config.connections_max },
  });
  const limits = {
    headTimeoutMs: config.head_timeout_ms,
    idleTimeoutMs: config.idle_timeout_ms,
    clientsMax: config.connections_per_run_max,
  };
  const runtimeDir = join(floor.runtimeDir, 'egressd');
  const service = makeService({
    store,
    gate,
    clock,
    newId,
    log,
    fetches: makeFetches({ gate, store, clock, ca: caOf(config), failpoint }),
    openProxy: (socketPath, run) => openProxy({ socketPath, run, gate, limits, log }),
    sweep: (isLive) => sweepSockets(runtimeDir, isLive),
    runtimeDir,
  });

  const timers = [
    setInterval(() => {
      service.saveUsage().catch((error: unknown) => log.warn('usage was not saved', { error }));
    }, SAVE_EVERY_MS),
    setInterval(() => {
      if (isHalted()) service.cutEverything('halt');
    }, LOOK_FOR_HALT_EVERY_MS),
  ];
  for (const timer of timers) timer.unref();

  return {
    handlers: makeHandlers(service),
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

function inConfig<T>(key: string, text: string, read: ParseOutcome<T>): T {
  if ('value' in read) return read.value;
  throw fault('bad_config', `egressd.${key}: ${text}: ${read.problem}`);
}

function allowPrivateOf({ allow_private: list }: EgressdConfig): Set<string> {
  const all = list.map((text) => inConfig('allow_private', text, parseAuthority(text)));
  return new Set(all.map(authorityOf));
}

function hostsOf({ hosts }: EgressdConfig): Map<string, Ip> {
  const all = Object.entries(hosts).map(([name, text]): [string, Ip] => {
    const ip = parseIp(text);
    const read = ip === undefined ? { problem: 'it is not an address' } : { value: ip };
    return [inConfig('hosts', name, parseHost(name)).name, inConfig('hosts', text, read)];
  });
  return new Map(all);
}

function caOf({ tls_ca_file: file }: EgressdConfig): string | undefined {
  if (file === undefined) return undefined;
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    throw fault('bad_config', `egressd.tls_ca_file: ${file} cannot be read`, { cause });
  }
}

export function resolveOf(config: EgressdConfig): Resolve {
  const { dns_servers: servers, dns_timeout_ms: timeoutMs } = config;
  return makeResolve({ hosts: hostsOf(config), servers, timeoutMs });
}

async function start(
  floor: DaemonContext<EgressdConfig>,
): Promise<DaemonHandle<typeof egressdRoutes>> {
  const { clock, config, log, stateDir } = floor;
  const resolve = resolveOf(config);
  const audit = floor.peer('auditd-ai', auditRoutes);
  const append = (events: NewEvent[]) => audit.append({ body: { events } });
  const db = openSqlite({ file: join(stateDir, 'egressd.sqlite'), migrations: MIGRATIONS, log });
  const outbox = await openOutbox({ db, source: 'egressd', clock, append, log });
  const dial = makeDial({ timeoutMs: config.connect_timeout_ms });
  return assemble({ floor, db, outbox, resolve, dial });
}

export const egressd = defineDaemon({
  name: 'egressd',
  routes: egressdRoutes,
  config: egressdConfig,
  start,
});
