// Test helper: toold hosted as in a runtime, between a fake agentd and a fake auditd-ai, with
// clients for each kind of caller. The next host can reuse a state directory, as after a restart.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Clock, type ManualClock, manualClock } from '../../../platform/clock.ts';
import { hostDaemon, type RunningDaemon } from '../../../platform/daemon.ts';
import { deriveId } from '../../../platform/ids.ts';
import { type Client, localLink, makeClient } from '../../../platform/link.ts';
import { makeHostOptions } from '../../../platform/testing/host-options.ts';
import { publishPolicy as publish } from '../../../policy/testing/publish.ts';
import { makeCallId } from '../../../wire/call-id.ts';
import type { Caller, RunCaller } from '../../../wire/caller.ts';
import type { DaemonName } from '../../../wire/daemons.ts';
import { Fault } from '../../../wire/errors.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import {
  type AdmitToolRunBody,
  type CallAnswer,
  type CallRequest,
  tooldRoutes,
} from '../../../wire/toold.ts';
import { tooldConfig } from '../config.ts';
import { toold } from '../daemon.ts';
import { type FakeApprovald, fakeApprovald } from './approvald.ts';
import { asHosted, type FakeAgentd, type FakeAudit, fakeAgentd, fakeAudit } from './peers.ts';
import { type FakeSandboxd, fakeEgressd } from './sandboxd.ts';

export type TooldClient = Client<typeof tooldRoutes>;

export const ALL_TOOLS = [
  'task.delegate',
  'task.finish',
  'message.send',
  'artifact.put',
  'artifact.get',
  'person.ask',
  'timer.wait',
  'package.request',
  'test.count_effect',
  'test.echo',
];

export function admission(runId: RunId, more: Partial<AdmitToolRunBody> = {}): AdmitToolRunBody {
  const task_id = deriveId<TaskId>('task', runId);
  return {
    fence: 1,
    mode: 'live',
    agent: 'coder',
    task_id,
    root_task_id: task_id,
    tools: ALL_TOOLS,
    grant_expires_at: null,
    labels: [],
    workspace: null,
    workspace_mode: null,
    max_calls: 1_000,
    restored: null,
    ...more,
  };
}

export function runCaller(runId: RunId, body: AdmitToolRunBody): RunCaller {
  const { fence, mode, agent, task_id } = body;
  return { kind: 'run', principal: `agent:${agent}`, runId, fence, mode, agent, taskId: task_id };
}

export type TooldWorld = {
  dir: string;
  clock: ManualClock;
  agentd: FakeAgentd;
  audit: FakeAudit;
  approvald: FakeApprovald;
  effectFile: string;
  /** Registers a watcher to close before the directory is removed. */
  onRemove(close: () => void): void;
  remove(): void;
};

/** The agent `coder`, with a manifest that allows the test tools. */
export const CODER = { tools: { allow: ['task.delegate', 'package.request', 'test.tools'] } };

/** Publishes a policy as agentd does. */
export function publishPolicy(
  dir: string,
  { coder = CODER as object, ...more }: { coder?: object; version?: number; site?: string } = {},
): void {
  publish(join(dir, 'state'), { agents: { coder }, ...more });
}

export function makeWorld(): TooldWorld {
  const dir = mkdtempSync(join(tmpdir(), 'toold-'));
  for (const name of ['state', 'run']) mkdirSync(join(dir, name), { mode: 0o700 });
  publishPolicy(dir);
  const closing: (() => void)[] = [];
  return {
    dir,
    clock: manualClock(Date.parse('2026-06-29T18:00:00Z')),
    agentd: fakeAgentd(),
    audit: fakeAudit(),
    approvald: fakeApprovald(),
    effectFile: join(dir, 'effects'),
    onRemove: (close) => closing.push(close),
    remove() {
      for (const close of closing.splice(0)) close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** One run of the tests: its calls are numbered. */
export type TooldTestRun = {
  id: RunId;
  client: TooldClient;
  socket: string;
  callId(n: number): CallId;
  ask(n: number, tool: string, args: object, more?: object): Promise<CallAnswer>;
};

export type TooldTestHost = {
  hosted: RunningDaemon;
  as(caller: Caller): TooldClient;
  asAgentd: TooldClient;
  operator: TooldClient;
  admit(name: string, more?: Partial<AdmitToolRunBody>): Promise<TooldTestRun>;
  stop(): Promise<void>;
};

export async function hostToold(
  world: TooldWorld,
  options: {
    config?: object;
    failpoint?: (name: string) => void;
    clock?: Clock;
    sandboxd?: FakeSandboxd;
  } = {},
): Promise<TooldTestHost> {
  const here = new Map<DaemonName, RunningDaemon>([
    ['agentd', asHosted('agentd', world.agentd.dispatch)],
    ['auditd-ai', asHosted('auditd-ai', world.audit.dispatch)],
    ['approvald', asHosted('approvald', world.approvald.dispatch)],
  ]);
  const { sandboxd } = options;
  if (sandboxd !== undefined) {
    here.set('sandboxd', asHosted('sandboxd', sandboxd.dispatch));
    here.set('egressd', asHosted('egressd', fakeEgressd()));
  }
  const clock = options.clock ?? world.clock;
  const given = { test_tools: true, test_effect_file: world.effectFile, ...options.config };
  const hosted = await hostDaemon(
    toold,
    makeHostOptions({
      dir: world.dir,
      clock,
      here,
      config: { toold: tooldConfig.parse(given) },
      failpoint: options.failpoint,
    }),
  );
  await hosted.begin();
  const as = (caller: Caller) =>
    makeClient(
      tooldRoutes,
      localLink(() => hosted.dispatch, caller),
    );
  const asAgentd = as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
  return {
    hosted,
    as,
    asAgentd,
    operator: as({ kind: 'operator', principal: 'person:alice' }),
    async admit(name, more) {
      const id = deriveId<RunId>('run', name);
      const body = admission(id, more);
      const { socket } = await asAgentd.admitRun({ params: { id }, body });
      return testRun(id, socket, as(runCaller(id, body)));
    },
    async stop() {
      await hosted.drain();
      await hosted.stop();
    },
  };
}

function testRun(id: RunId, socket: string, client: TooldClient): TooldTestRun {
  const callId = (n: number) => makeCallId(id, 't', n);
  return {
    id,
    client,
    socket,
    callId,
    ask: (n, tool, args, more) =>
      client.call({
        body: { call_id: callId(n), tool, arguments: { ...args }, ...more } as CallRequest,
      }),
  };
}

/** Records a person's decision, as approvald and agentd do. */
export function decideAsPerson(
  world: TooldWorld,
  callId: CallId,
  decision: Parameters<FakeApprovald['decide']>[1],
): void {
  world.approvald.decide(callId, decision);
  const wait = [...world.agentd.waits.values()].find((entry) => entry.call_id === callId)!;
  world.agentd.endWait(wait.id, { status: 'ended', outcome: 'answered' });
}

/** Returns the lines that test.count_effect wrote. */
export function effectsIn({ effectFile }: TooldWorld): string[] {
  return existsSync(effectFile) ? readFileSync(effectFile, 'utf8').trim().split('\n') : [];
}

export const isCode = (code: string) => (error: unknown) =>
  error instanceof Fault && error.code === code;

/** Resolves when the relay has sent everything, also events that no call waits for. */
export async function allSent({ audit }: TooldWorld): Promise<void> {
  // Longer than the outbox waits: timers of one process fire in order.
  await new Promise((resolve) => setTimeout(resolve, 30));
  for (let seen = -1; seen !== audit.events.length; ) {
    seen = audit.events.length;
    for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Returns the audit events of one call, by kind. */
export async function eventsOf(world: TooldWorld, callId: string): Promise<string[]> {
  await allSent(world);
  const own = world.audit.events.filter((event) => event.call_id === callId);
  return own.map((event) => event.id.slice(callId.length));
}

/** Advances the manual clock, on which a slow tool sleeps, until the response arrives. */
export async function advanceUntil<T>({ clock }: TooldWorld, answer: Promise<T>): Promise<T> {
  let done = false;
  const mark = () => {
    done = true;
  };
  answer.then(mark, mark);
  while (!done) {
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(1_000);
  }
  return answer;
}
