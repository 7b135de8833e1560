// Test helper: a runtime's sockets with scripted responses. Contracts, dispatch and sockets are the
// real ones, so an invalid request is rejected as a daemon would.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { authenticateByKey } from '../../../platform/authenticate.ts';
import { commonRoutes } from '../../../platform/common-routes.ts';
import { socketPathFor } from '../../../platform/daemon.ts';
import { type HandlerContext, type Handlers, makeDispatch } from '../../../platform/dispatch.ts';
import { type HttpListener, makeHttpListener } from '../../../platform/http-server.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import type { RuntimeInfo } from '../../../platform/state-dir.ts';
import { CONTRACTS } from '../../../wire/contracts.ts';
import { DAEMONS, type DaemonName } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import type { RouteTable } from '../../../wire/route.ts';
import type { RouteTables } from '../routes.ts';

const routesFor = (daemon: DaemonName): RouteTable => ({ ...CONTRACTS[daemon], ...commonRoutes });

export type RouteScript = {
  [D in DaemonName]?: Partial<Handlers<RouteTables[D]>>;
};
export type SeenRequest = {
  daemon: DaemonName;
  route: string;
  params: unknown;
  query: unknown;
  body: unknown;
  principal: string;
  idempotencyKey: string | undefined;
};

export type FakeRuntime = {
  stateDir: string;
  info: RuntimeInfo;
  seen: SeenRequest[];
  /** Replaces the scripted responses. */
  script(script: RouteScript): void;
  stop(): Promise<void>;
};

const KEY = 'the-key-of-the-fake-runtime';

/** Makes a state directory without a runtime, removed at exit. */
export function makeStateDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'actl-'));
  process.on('exit', () => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

export async function startFake(
  script: RouteScript = {},
  stateDir: string = makeStateDir(),
): Promise<FakeRuntime> {
  const runtimeDir = mkdtempSync(join(tmpdir(), 'actl-r-'));
  const listeners: HttpListener[] = [];
  const seen: SeenRequest[] = [];
  let now = script;
  for (const daemon of DAEMONS) {
    const dispatch = makeDispatch({
      routes: routesFor(daemon),
      handlers: scriptedHandlers(daemon, () => now, seen),
      log: silentLog,
      metrics: makeMetrics(daemon),
    });
    const listener = makeHttpListener({ dispatch, log: silentLog });
    await listener.listenUnix(
      socketPathFor(runtimeDir, daemon, 'operator'),
      authenticateByKey(KEY),
    );
    listeners.push(listener);
  }
  const info: RuntimeInfo = {
    pid: process.pid,
    uid: process.getuid?.() ?? 0,
    mode: 'embedded',
    runtime_dir: runtimeDir,
    started_at: new Date().toISOString(),
    port: null,
    rehearsal: true,
    version: '0.0.0-fake',
  };
  writeFileSync(join(stateDir, 'operator.key'), `${KEY}\n`, { mode: 0o600 });
  writeFileSync(join(stateDir, 'runtime.json'), JSON.stringify(info));
  return {
    stateDir,
    info,
    seen,
    script: (next) => {
      now = next;
    },
    async stop() {
      await Promise.all(listeners.map((face) => face.closeAll()));
      for (const dir of [runtimeDir, stateDir]) rmSync(dir, { recursive: true, force: true });
    },
  };
}

function scriptedHandlers(daemon: DaemonName, script: () => RouteScript, seen: SeenRequest[]) {
  const handlers: Record<string, unknown> = {};
  for (const route of Object.keys(routesFor(daemon))) {
    handlers[route] = async (context: HandlerContext) => {
      const { params, query, body, caller, idempotencyKey } = context;
      const { principal } = caller;
      seen.push({ daemon, route, params, query, body, principal, idempotencyKey });
      const own = (script()[daemon] ?? {}) as Record<
        string,
        (c: HandlerContext) => Promise<unknown>
      >;
      if (own[route] !== undefined) return own[route](context);
      if (route === 'health') return health(daemon);
      throw fault('unavailable', `${daemon} ${route} is not in the script of this test`);
    };
  }
  return handlers as Handlers<RouteTable>;
}

const health = (daemon: DaemonName) => ({
  daemon,
  version: '0.0.0-fake',
  pid: process.pid,
  status: 'ok' as const,
  in_flight: 0,
});
