// Runs the whole daemon for tests: real store, adapters and dispatch; agentd and auditd-ai are fake
// handlers behind the real route tables.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../../platform/clock.ts';
import type { DaemonContext, RunSockets } from '../../../platform/daemon.ts';
import { type Dispatch, type Handlers, makeDispatch } from '../../../platform/dispatch.ts';
import { makeIdMaker } from '../../../platform/ids.ts';
import { type Client, localLink, makeClient } from '../../../platform/link.ts';
import { type Log, silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { retentionConfig } from '../../../platform/retention-config.ts';
import { publishPolicy } from '../../../policy/testing/publish.ts';
import { agentdRoutes } from '../../../wire/agentd.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { Caller, RunCaller } from '../../../wire/caller.ts';
import { Fault, type FaultCode, fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { type AdmitModelRunBody, modeldRoutes } from '../../../wire/modeld.ts';
import type { RunId, TaskId } from '../../../wire/primitives.ts';
import type { RouteTable } from '../../../wire/route.ts';
import { type ModeldConfig, modeldConfig } from '../config.ts';
import { modeld } from '../daemon.ts';

export const OPERATOR: Caller = { kind: 'operator', principal: 'person:alice' };
const AGENTD: Caller = { kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' };
const MODELD: Caller = { kind: 'daemon', principal: 'service:modeld', daemon: 'modeld' };

export type Artifact = {
  text: string | null;
  labels: ('person' | 'secret' | 'outside')[];
  /** Awaited before the artifact is returned. */
  onRead?: () => Promise<unknown>;
};
type ModeldClient = Client<typeof modeldRoutes>;

export type Modeld = {
  dispatch: Dispatch;
  /** Calls as an operator. */
  operator: ModeldClient;
  agentd: ModeldClient;
  as(caller: Caller): ModeldClient;
  events: NewEvent[];
  artifacts: Map<string, Artifact>;
  failpoints: string[];
  logLines: string[];
  stateDir: string;
  /** Returns all log lines and events as text, to search for leaks. */
  allOutput(): string;
  drain(): Promise<void>;
  stop(): Promise<void>;
};

export type ModeldOptions = {
  config?: Record<string, unknown>;
  stateDir?: string;
  clock?: Clock;
  /** Events that the audit log has from before. */
  audited?: readonly NewEvent[];
  /** Throws to simulate an audit log that cannot list its events. */
  own?: () => void;
  /** Throws to simulate an audit log that accepts nothing. */
  audit?: (events: NewEvent[]) => Promise<void>;
  failpoint?: (name: string) => void;
  /** By default every agent may use every model. */
  policy?: { agents?: object; site?: string };
};

const OWN_PAGE = 2;

const ANY_MODEL = {
  agents: { coder: {}, other: {} },
  site: 'permit (principal is Agent, action == Action::"model.use", resource is Model);',
};

const stateDirs: string[] = [];
process.once('exit', () => {
  for (const dir of stateDirs) rmSync(dir, { recursive: true, force: true });
});

/** Removed when this process ends, because some tests leave a daemon as a crash would. */
export function freshStateDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'modeld-test-'));
  stateDirs.push(dir);
  return dir;
}

function dispatchOf<T extends RouteTable>(table: T, handlers: Partial<Handlers<T>>): Dispatch {
  const all: Record<string, unknown> = {};
  for (const name of Object.keys(table))
    all[name] =
      handlers[name] ??
      (() => {
        throw fault('unavailable', `the test has no ${name}`);
      });
  return makeDispatch({
    routes: table,
    handlers: all as Handlers<T>,
    log: silentLog,
    metrics: makeMetrics('test'),
  });
}

export async function startModeld(options: ModeldOptions = {}): Promise<Modeld> {
  const stateDir = options.stateDir ?? freshStateDir();
  const clock = options.clock ?? systemClock();
  publishPolicy(stateDir, { ...ANY_MODEL, ...options.policy });
  const events: NewEvent[] = [...(options.audited ?? [])];
  const artifacts = new Map<string, Artifact>();
  const failpoints: string[] = [];
  const logLines: string[] = [];
  const audit = dispatchOf(auditRoutes, {
    append: async ({ body }) => {
      await options.audit?.(body.events);
      events.push(...body.events);
      return { size: events.length, accepted: body.events.length };
    },
    own: async ({ params, query }) => {
      options.own?.();
      const found = events
        .map((event, seq) => ({ ...event, seq }))
        .filter((event) => event.source_store === params.store && event.source_seq > query.after);
      return { events: found.slice(0, OWN_PAGE) };
    },
  });
  const agentd = dispatchOf(agentdRoutes, { getArtifact: artifactHandler(artifacts) });
  const context: DaemonContext<ModeldConfig> = {
    retention: retentionConfig.parse({}),
    name: 'modeld',
    version: 'test',
    mode: 'split',
    stateDir,
    runtimeDir: stateDir,
    config: modeldConfig.parse(options.config ?? {}),
    clock,
    random: randomBytes,
    newId: makeIdMaker(clock),
    log: lineLog(logLines),
    metrics: makeMetrics('modeld'),
    runSockets: fakeSockets(),
    peer: (name, table) =>
      makeClient(
        table,
        localLink(() => (name === 'agentd' ? agentd : audit), MODELD),
      ),
    failpoint(name) {
      failpoints.push(name);
      options.failpoint?.(name);
    },
  };
  const running = await modeld.start(context);
  const dispatch = makeDispatch({
    routes: modeldRoutes,
    handlers: running.handlers,
    log: context.log,
    metrics: context.metrics,
  });
  await running.begin?.();
  const as = (caller: Caller) =>
    makeClient(
      modeldRoutes,
      localLink(() => dispatch, caller),
    );
  return {
    dispatch,
    operator: as(OPERATOR),
    agentd: as(AGENTD),
    as,
    events,
    artifacts,
    failpoints,
    logLines,
    stateDir,
    allOutput: () => [...logLines, JSON.stringify(events)].join('\n'),
    drain: async () => running.drain?.(),
    async stop() {
      await running.drain?.();
      await running.stop();
      if (options.stateDir === undefined) rmSync(stateDir, { recursive: true, force: true });
    },
  };
}

function lineLog(lines: string[]): Log {
  const plain = (_name: string, value: unknown): unknown =>
    value instanceof Error ? `${value.message} ${value.stack}` : value;
  const say = (message: string, fields?: Record<string, unknown>) => {
    lines.push(`${message} ${JSON.stringify(fields ?? {}, plain)}`);
  };
  const log: Log = { debug: say, info: say, warn: say, error: say, with: () => log };
  return log;
}

function fakeSockets(): RunSockets {
  return {
    open: async (caller) => `/run/test/${caller.runId}/modeld.sock`,
    close: async () => {},
    sweep: () => {},
  };
}

function artifactHandler(
  artifacts: Map<string, Artifact>,
): Handlers<typeof agentdRoutes>['getArtifact'] {
  return async ({ params }) => {
    const found = artifacts.get(params.id);
    if (found === undefined) throw fault('not_found', `artifact ${params.id} not found`);
    await found.onRead?.();
    return {
      artifact: {
        id: params.id,
        ref: `artifact://${params.id}`,
        name: 'input',
        mime_type: 'text/plain',
        size_bytes: 1,
        object_hash: '0'.repeat(64),
        created_by: 'person:alice',
        task_id: null,
        context_id: null,
        labels: found.labels,
        created_at: '2026-01-01T00:00:00Z',
      },
      text: found.text,
      base64: null,
    };
  };
}

/** Resolves when the condition is true; throws after 10 s. */
export async function until(isTrue: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const end = performance.now() + 10_000;
  while (!(await isTrue())) {
    if (performance.now() > end) throw new Error(`timed out waiting for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

/** Resolves to the fault, which must have this code. */
export async function rejects(work: Promise<unknown>, code: FaultCode): Promise<Fault> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.code, code, error.message);
    return error;
  }
  assert.fail(`it should have been refused with ${code}`);
}

const id = (kind: string, n: number): string => `${kind}_${String(n).padStart(26, '0')}`;
export const runId = (n: number) => id('run', n) as RunId;
export const taskId = (n: number) => id('task', n) as TaskId;

export function runCaller(n: number, fence: number, mode: 'live' | 'replay' = 'live'): RunCaller {
  return {
    kind: 'run',
    principal: 'agent:coder',
    runId: runId(n),
    fence,
    mode,
    agent: 'coder',
    taskId: taskId(n),
  };
}

export function admission(n: number, more: Partial<AdmitModelRunBody> = {}): AdmitModelRunBody {
  return {
    fence: 1,
    mode: 'live',
    agent: 'coder',
    task_id: taskId(n),
    root_task_id: taskId(n),
    model: 'coder-large',
    labels: [],
    max_steps: 100,
    max_tokens: null,
    max_cost_microusd: null,
    ...more,
  };
}

export function userMessage(
  text: string,
  labels?: ('person' | 'secret' | 'personal' | 'outside')[],
) {
  return {
    role: 'user' as const,
    parts: [{ type: 'text' as const, text }],
    ...(labels === undefined ? {} : { labels }),
  };
}
