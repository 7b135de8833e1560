// Test helper: hosts approvald as in a runtime, between an in-memory agentd and auditd-ai, with
// clients for toold and for several people. The next host can reuse the state directory, as after a
// restart.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ManualClock, manualClock } from '../../../platform/clock.ts';
import { hostDaemon, type RunningDaemon } from '../../../platform/daemon.ts';
import { type Handlers, makeDispatch } from '../../../platform/dispatch.ts';
import { deriveId } from '../../../platform/ids.ts';
import { hashJson } from '../../../platform/json.ts';
import { localLink, makeClient } from '../../../platform/link.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { makeHostOptions } from '../../../platform/testing/host-options.ts';
import type { BundleContent } from '../../../policy/bundle.ts';
import { sealBundle, writeBundle } from '../../../policy/bundle-file.ts';
import { agentdRoutes } from '../../../wire/agentd.ts';
import type { Redeemed } from '../../../wire/approvald/statement.ts';
import { type ApprovalView, type AskApproval, approvaldRoutes } from '../../../wire/approvald.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { Caller } from '../../../wire/caller.ts';
import type { DaemonName } from '../../../wire/daemons.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { type MailNotice, maildRoutes } from '../../../wire/maild.ts';
import type { CallId, RunId, TaskId } from '../../../wire/primitives.ts';
import type { RouteTable } from '../../../wire/route.ts';
import { approvaldConfig } from '../config.ts';
import { approvald } from '../daemon.ts';
import { writePersonKey } from './person-key.ts';
import { type ApprovaldTestClient, makeReviewer, type Reviewer } from './reviewer.ts';

type WaitNotification = {
  approval_id: string;
  call_id: string;
  decision: string;
  outcome: string;
  by: string;
};

export type ApprovaldWorld = {
  dir: string;
  clock: ManualClock;
  events: NewEvent[];
  /** Notifications that agentd accepted, each call once it waits. */
  notifications: WaitNotification[];
  /** Calls that wait at agentd; earlier notifications are not accepted. */
  waits: Set<string>;
  endedRuns: Set<string>;
  /** Mails that maild took, with the person who they are for. */
  mails: MailNotice[];
  /** Called before agentd or auditd-ai responds; may throw. */
  beforeCall(name: string): void;
  remove(): void;
};

let version = 0;

/** Publishes a policy as agentd does at start: without one, every decision is denied. */
export function publishPolicy(world: ApprovaldWorld, content: Partial<BundleContent> = {}): void {
  const whole = { site: [], people: null, protected: [], agents: {}, ...content };
  const madeAt = '2026-06-29T18:00:00Z';
  const file = join(world.dir, 'state', 'policy', 'bundle.json');
  writeBundle(file, sealBundle(whole, { version: ++version, madeAt }));
}

export function makeWorld(): ApprovaldWorld {
  const dir = mkdtempSync(join(tmpdir(), 'approvald-'));
  for (const name of ['state', 'run', 'state/policy']) mkdirSync(join(dir, name), { mode: 0o700 });
  const world: ApprovaldWorld = {
    dir,
    clock: manualClock(Date.parse('2026-06-29T18:00:00Z')),
    events: [],
    notifications: [],
    waits: new Set(),
    endedRuns: new Set(),
    mails: [],
    beforeCall: () => {},
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
  publishPolicy(world);
  for (const name of ['alice', 'bob']) writePersonKey(join(dir, 'state'), name);
  return world;
}

function fakeDaemon<T extends RouteTable>(
  name: DaemonName,
  routes: T,
  handlers: Handlers<T>,
): RunningDaemon {
  const dispatch = makeDispatch({ routes, handlers, log: silentLog, metrics: makeMetrics(name) });
  const nothing = async () => {};
  return { name, dispatch, begin: nothing, drain: nothing, stop: nothing };
}

function fakeAgentd(world: ApprovaldWorld): RunningDaemon {
  const { approvalEnded, getRun, getTask } = agentdRoutes;
  return fakeDaemon(
    'agentd',
    { approvalEnded, getRun, getTask },
    {
      async getTask({ params }) {
        throw fault('not_found', `task ${params.id} not found`);
      },
      async approvalEnded({ params, body }) {
        world.beforeCall('agentd');
        if (!world.waits.has(body.call_id)) return { ended: false };
        const { call_id, decision, outcome, by } = body;
        world.notifications.push({ approval_id: params.id, call_id, decision, outcome, by });
        return { ended: true };
      },
      async getRun({ params }) {
        world.beforeCall('agentd');
        const status = world.endedRuns.has(params.id) ? ('ended' as const) : ('parked' as const);
        return {
          run: {
            id: params.id,
            task_id: deriveId<TaskId>('task', 'x'),
            agent: 'deployer',
            fence: 1,
            status,
            outcome: null,
            activations: 1,
            crashes: 0,
            persona_sha256: null,
            lease_until: null,
            created_at: '2026-06-29T18:00:00Z',
            ended_at: null,
          },
        };
      },
    },
  );
}

function fakeAudit(world: ApprovaldWorld): RunningDaemon {
  const { append } = auditRoutes;
  return fakeDaemon(
    'auditd-ai',
    { append },
    {
      async append({ body }) {
        world.beforeCall('audit');
        world.events.push(...body.events);
        return { size: world.events.length, accepted: body.events.length };
      },
    },
  );
}

function fakeMaild(world: ApprovaldWorld): RunningDaemon {
  const { deliverNotices } = maildRoutes;
  return fakeDaemon(
    'maild',
    { deliverNotices },
    {
      async deliverNotices({ body }) {
        world.beforeCall('maild');
        world.mails.push(...body.notices);
        return { delivered: body.notices.length };
      },
    },
  );
}

export type ApprovaldTestHost = {
  hosted: RunningDaemon;
  toold: ApprovaldTestClient;
  maild: ApprovaldTestClient;
  /** People with their own key. */
  alice: Reviewer;
  bob: Reviewer;
  /** Two names for the holder of the operator's key. */
  operator: Reviewer;
  shared: Reviewer;
  as(caller: Caller): ApprovaldTestClient;
  ask(more?: Partial<AskApproval>): Promise<RequestedApproval>;
  stop(): Promise<void>;
};
/** A request as toold sees it, and how it redeems it. */
export type RequestedApproval = {
  body: AskApproval;
  approval: ApprovalView;
  status: 'pending' | 'granted' | 'ended';
  redeem(more?: object): Promise<Redeemed>;
};

let made = 0;

export function makeRequest(more: Partial<AskApproval> = {}): AskApproval {
  const args = more.arguments ?? { commit: 'abc123', target: 'production' };
  return {
    call_id: deriveId<CallId>('call', 'test', made++),
    run_id: deriveId<RunId>('run', 'one'),
    agent: 'deployer',
    task_id: deriveId<TaskId>('task', 'leaf'),
    root_task_id: deriveId<TaskId>('task', 'root'),
    action: 'deploy.run',
    class: 'production.change',
    risk: 'high',
    reversibility: 'externally-reversible',
    repo: '/srv/repo',
    summary: 'Deploy commit abc123 to production',
    arguments: args,
    arguments_hash: hashJson(args),
    diff: '-slow\n+fast\n',
    rollback: 'deploy the commit before',
    labels: [],
    rules: ['base:production'],
    reason: 'production is changed only with a person',
    each_call: false,
    ...more,
  };
}

export async function hostApprovald(
  world: ApprovaldWorld,
  config: object = {},
): Promise<ApprovaldTestHost> {
  const { clock } = world;
  const here = new Map<DaemonName, RunningDaemon>([
    ['agentd', fakeAgentd(world)],
    ['auditd-ai', fakeAudit(world)],
    ['maild', fakeMaild(world)],
  ]);
  const host = await hostDaemon(
    approvald,
    makeHostOptions({
      dir: world.dir,
      clock,
      here,
      config: { approvald: approvaldConfig.parse(config) },
    }),
  );
  await host.begin();
  const as = (caller: Caller): ApprovaldTestClient =>
    makeClient(
      approvaldRoutes,
      localLink(() => host.dispatch, caller),
    );
  const person = (name: string) =>
    makeReviewer(as({ kind: 'operator', principal: `person:${name}`, key: `people/${name}` }));
  const toold = as({ kind: 'daemon', principal: 'service:toold', daemon: 'toold' });
  return {
    hosted: host,
    toold,
    maild: as({ kind: 'daemon', principal: 'service:maild', daemon: 'maild' }),
    as,
    alice: person('alice'),
    bob: person('bob'),
    operator: makeReviewer(as({ kind: 'operator', principal: 'person:operator' })),
    shared: makeReviewer(as({ kind: 'operator', principal: 'person:oscar' })),
    async ask(more) {
      const body = makeRequest(more);
      const { approval, status } = await toold.askApproval({ body });
      const { call_id, run_id, arguments_hash, labels } = body;
      const redeem = (other: object = {}) =>
        toold.redeemApproval({
          params: { id: approval.id },
          body: { call_id, run_id, arguments_hash, labels, ...other },
        });
      return { body, approval, status, redeem };
    },
    async stop() {
      await host.drain();
      await host.stop();
    },
  };
}

export const isCode = (code: string, pattern?: RegExp) => (error: unknown) =>
  error instanceof Fault &&
  error.code === code &&
  (pattern === undefined || pattern.test(error.message));

export const unavailableFault = () => fault('unavailable', 'service down');

/** Lets due timers, relays and loops run. */
export async function settle(): Promise<void> {
  for (let i = 0; i < 60; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Advances the clock in small steps until the condition is true. */
export async function advanceUntil(
  world: ApprovaldWorld,
  condition: () => boolean,
  stepMs = 200,
): Promise<void> {
  for (let i = 0; i < 200; i++) {
    await settle();
    if (condition()) return;
    world.clock.advance(stepMs);
  }
  throw new Error('the condition never became true');
}

export const listEventKinds = (world: ApprovaldWorld): string[] =>
  world.events.map(({ event, status }) => `${event}${status === undefined ? '' : ` ${status}`}`);
