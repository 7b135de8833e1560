// Every kind of caller on both links: a world whose runners do nothing, so that a test can act as
// the run, the operator or a peer, and call a route locally or over that caller's socket.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { commonRoutes } from '../../src/platform/common-routes.ts';
import { runDirName, socketPathFor } from '../../src/platform/daemon.ts';
import { RawReply } from '../../src/platform/dispatch.ts';
import { makeCallId } from '../../src/wire/call-id.ts';
import type { Caller, KeyCaller, RunCaller } from '../../src/wire/caller.ts';
import { CONTRACTS } from '../../src/wire/contracts.ts';
import { DAEMONS, type DaemonName, RUN_DAEMONS } from '../../src/wire/daemons.ts';
import { Fault, type FaultBody } from '../../src/wire/errors.ts';
import type { CallId, RunId, TaskId } from '../../src/wire/primitives.ts';
import type { CallerKind, Route, RouteTable } from '../../src/wire/route.ts';
import { type CallAnswer, tooldRoutes } from '../../src/wire/toold.ts';
import { type InProcessWorld, startWorld, type WorldOptions } from './in-process.ts';
import { eventually, freshDir } from './runtime.ts';

export const TABLES = Object.fromEntries(
  DAEMONS.map((name): [DaemonName, RouteTable] => [name, { ...CONTRACTS[name], ...commonRoutes }]),
) as Record<DaemonName, RouteTable>;
export const CALLER_KINDS: readonly CallerKind[] = ['operator', 'run', 'key:models', ...DAEMONS];

export type LiveRun = {
  id: RunId;
  taskId: TaskId;
  fence: number;
  caller: RunCaller;
  callId(step: number, index?: number): CallId;
};
export type IdleWorld = InProcessWorld & {
  /** A run that stays, for tests that need any run. */
  someRun: LiveRun;
  startRun(goal?: string): Promise<LiveRun>;
  /** An API key, as a client sends it and as a handler sees it. */
  apiKey: { secret: string; caller: KeyCaller };
  /** A directory that tasks may work in. */
  workspace: string;
  /** Ends every task but that of `someRun`, which is started again if it was ended. */
  tidyUp(): Promise<void>;
};

const manifest = (name: string) => `apiVersion: agentd/v1
kind: Agent
metadata: { name: ${name}, description: Does as the test says. }
spec:
  replicas: 50
  tools: { allow: [test.tools, task.delegate] }
`;

/** Starts all daemons in this process; runners keep their run alive and do nothing. */
export async function startIdleWorld(options: WorldOptions = {}): Promise<IdleWorld> {
  const dir = freshDir();
  const runner = join(dir, 'idle.mjs');
  const workspace = join(realpathSync(dir), 'workspace');
  mkdirSync(workspace);
  writeFileSync(runner, "process.stdin.on('end', () => process.exit()).resume();\n");
  const world = await startWorld({
    agents: { worker: manifest('worker'), helper: manifest('helper') },
    ...options,
    agentd: { runs_live_max: 64, ...options.agentd },
    sandboxd: { runner, workspace_roots: [workspace], ...options.sandboxd },
    toold: { test_tools: true, ...options.toold },
  });
  const startRun = (goal = 'Hold still') => startLiveRun(world, goal);
  const stop = async (): Promise<void> => {
    await world.stop();
    rmSync(dir, { recursive: true, force: true });
  };
  const quiet: IdleWorld = {
    ...world,
    stop,
    startRun,
    workspace,
    apiKey: await createApiKey(world),
    someRun: await startRun(),
    async tidyUp() {
      const { tasks } = await world.agentd.listTasks({ query: { limit: 200 } });
      for (const { id, ended_at } of tasks)
        if (ended_at === null && id !== quiet.someRun.taskId)
          await world.agentd.cancelTask({ params: { id }, body: {} });
      const { run } = await world.agentd.getRun({ params: { id: quiet.someRun.id } });
      if (run.fence !== quiet.someRun.fence || run.status !== 'live')
        quiet.someRun = await startRun();
    },
  };
  return quiet;
}

async function createApiKey({ hosted, modeld }: InProcessWorld): Promise<IdleWorld['apiKey']> {
  const { key } = await modeld.createKey({ body: { name: 'tester' } });
  return { secret: key.secret, caller: hosted.get('modeld')!.verifyKey!(key.secret) };
}

async function startLiveRun(world: InProcessWorld, goal: string): Promise<LiveRun> {
  const { task } = await world.agentd.createTask({ body: { goal, agent: 'worker' } });
  const run = await eventually('a live run', async () => {
    const { runs } = await world.agentd.listRuns({ query: { task_id: task.id } });
    const live = runs.find(({ status }) => status === 'live');
    const isOpen = (name: DaemonName) => existsSync(runSocketOf(world, name, live!));
    const isUp = live !== undefined && RUN_DAEMONS.every(isOpen);
    return isUp ? live : undefined;
  });
  const caller: RunCaller = {
    kind: 'run',
    principal: `agent:${run.agent}`,
    runId: run.id,
    fence: run.fence,
    mode: 'live',
    agent: run.agent,
    taskId: task.id,
  };
  const callId = (step: number, index = 0) => makeCallId(run.id, 't', step, index);
  return { id: run.id, taskId: task.id, fence: run.fence, caller, callId };
}

export type TestRequest = {
  params?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
};
export type CallerOutcome =
  | { ok: true; status: number; value: unknown; headers: Record<string, unknown> }
  | { ok: false; status: number; code: string | undefined; body: unknown };

export function callerOf(kind: Exclude<CallerKind, 'key:models'>, run: LiveRun): Caller {
  if (kind === 'run') return run.caller;
  if (kind === 'operator') return { kind: 'operator', principal: 'person:tester' };
  return { kind: 'daemon', principal: `service:${kind}`, daemon: kind };
}

/** The socket of one activation of a run. */
export function runSocketOf(
  { runtimeDir }: { runtimeDir: string },
  daemon: DaemonName,
  { id, fence }: { id: string; fence: number },
  mode: 'live' | 'replay' = 'live',
): string {
  return socketPathFor(runtimeDir, daemon, runDirName({ runId: id, fence }, mode));
}

/** The socket of this caller at this daemon, or undefined if the daemon has none for it. */
export function socketOf(
  world: InProcessWorld,
  daemon: DaemonName,
  kind: CallerKind,
  run: LiveRun,
): string | undefined {
  const isWithKey = kind === 'operator' || kind === 'key:models';
  const path =
    kind === 'run'
      ? runSocketOf(world, daemon, run)
      : socketPathFor(world.runtimeDir, daemon, isWithKey ? 'operator' : `peer-${kind}`);
  return existsSync(path) ? path : undefined;
}

export function pathOf(route: Route, { params = {}, query = {} }: TestRequest): string {
  const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(params[name])),
  );
  const search = new URLSearchParams(
    Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]),
  ).toString();
  return search === '' ? path : `${path}?${search}`;
}

export type CallerOptions = { headers?: Record<string, string>; key?: string };

/** Calls a route through dispatch, as a peer in the same process. */
export async function callLocal(
  world: InProcessWorld,
  daemon: DaemonName,
  route: Route,
  ask: TestRequest,
  caller: Caller,
  { key }: CallerOptions = {},
): Promise<CallerOutcome> {
  const { dispatch } = world.hosted.get(daemon)!;
  const [path, search = ''] = pathOf(route, ask).split('?');
  try {
    const reply = await dispatch.run({
      method: route.method,
      path: path!,
      query: Object.fromEntries(new URLSearchParams(search)),
      body: ask.body === undefined ? undefined : JSON.parse(JSON.stringify(ask.body)),
      caller,
      idempotencyKey: key,
    });
    if (!(reply instanceof RawReply)) return { ok: true, status: 200, value: reply, headers: {} };
    const { status, headers } = reply;
    return { ok: true, status, value: parsed(await textOf(reply), headers), headers };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return { ok: false, status: error.http, code: error.code, body: error.toBody() };
  }
}

async function textOf({ body }: RawReply): Promise<string> {
  if (typeof body === 'string') return body;
  if (body instanceof Uint8Array) return Buffer.from(body).toString('utf8');
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(Buffer.from(piece));
  return Buffer.concat(pieces).toString('utf8');
}

function parsed(text: string, headers: Record<string, unknown>): unknown {
  return String(headers['content-type']).startsWith('application/json') ? JSON.parse(text) : text;
}

/** Calls a route over a Unix socket. `text` is sent verbatim instead of `body`. */
export function callSocket(
  socketPath: string,
  route: Route,
  ask: TestRequest & { text?: string | Buffer },
  { headers = {}, key }: CallerOptions = {},
): Promise<CallerOutcome> {
  const body = ask.text ?? (ask.body === undefined ? undefined : JSON.stringify(ask.body));
  return new Promise((resolve, reject) => {
    const request = http.request({
      socketPath,
      method: route.method,
      path: pathOf(route, ask),
      agent: false,
      headers: {
        ...(body === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...(route.upgrades === undefined ? {} : { connection: 'upgrade', upgrade: route.upgrades }),
        ...headers,
      },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const status = response.statusCode ?? 0;
        const value = parsed(Buffer.concat(chunks).toString('utf8'), response.headers);
        if (status < 400) resolve({ ok: true, status, value, headers: response.headers });
        else {
          const { error } = value as { error?: Partial<FaultBody> };
          resolve({ ok: false, status, code: error?.code, body: error });
        }
      });
    });
    request.end(body);
  });
}

/** Makes a tool call as a run, over its socket, and asserts that toold accepted it. */
export async function callTool(
  world: { runtimeDir: string },
  run: LiveRun,
  body: { call_id: string; tool: string; arguments: object },
): Promise<CallAnswer> {
  const outcome = await callSocket(runSocketOf(world, 'toold', run), tooldRoutes.call, { body });
  assert.ok(outcome.ok, JSON.stringify(outcome));
  return outcome.value as CallAnswer;
}
