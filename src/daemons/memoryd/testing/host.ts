// Test helper: hosts memoryd as in a runtime, with an in-memory auditd-ai, and clients of several
// people. The next host can reuse the state directory, as after a restart.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ManualClock, manualClock } from '../../../platform/clock.ts';
import { hostDaemon, type RunningDaemon } from '../../../platform/daemon.ts';
import { makeDispatch } from '../../../platform/dispatch.ts';
import { type Client, localLink, makeClient } from '../../../platform/link.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { makeHostOptions } from '../../../platform/testing/host-options.ts';
import { publishPolicy } from '../../../policy/testing/publish.ts';
import { auditRoutes } from '../../../wire/auditd-ai.ts';
import type { Caller } from '../../../wire/caller.ts';
import { erasureRoutes, type ForgottenMemory } from '../../../wire/copies.ts';
import type { DaemonName } from '../../../wire/daemons.ts';
import { fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { MemoryView, NewMemory } from '../../../wire/memoryd/records.ts';
import { memorydRoutes } from '../../../wire/memoryd.ts';
import { memorydConfig } from '../config.ts';
import { memoryd } from '../daemon.ts';
import { type FakeProposals, fakeProposals } from './approvald.ts';
import { type FakeModel, fakeModeld, makeFakeModel } from './modeld.ts';

export type MemoryWorld = {
  dir: string;
  stateDir: string;
  clock: ManualClock;
  events: NewEvent[];
  failpoint: (name: string) => void;
  /** The orders that agentd got. */
  erasures: ForgottenMemory[];
  /** While true, agentd does not answer. */
  isAgentdAway: boolean;
  /** While true, auditd-ai answers no questions. */
  isAuditAway: boolean;
  /** Makes vectors, if a test configures it. */
  model: FakeModel;
  publish(site?: string, agents?: object): void;
  remove(): void;
};

/** Small, so that tests have several pages. */
const FORGOTTEN_PAGE = 2;

const AGENTS = { coder: { memory: { read: ['project:app'], write: ['project:app/coder'] } } };

export function makeWorld(): MemoryWorld {
  const dir = mkdtempSync(join(tmpdir(), 'memoryd-'));
  for (const name of ['state', 'run']) mkdirSync(join(dir, name), { mode: 0o700 });
  const stateDir = join(dir, 'state');
  let version = 0;
  const world: MemoryWorld = {
    dir,
    stateDir,
    clock: manualClock(Date.parse('2026-06-29T18:00:00Z')),
    events: [],
    failpoint: () => {},
    erasures: [],
    isAgentdAway: false,
    isAuditAway: false,
    model: makeFakeModel(),
    publish: (site = '', agents = AGENTS) =>
      publishPolicy(stateDir, { version: ++version, agents, site }),
    remove: () => rmSync(dir, { recursive: true, force: true }),
  };
  world.publish();
  return world;
}

function fakeAudit(world: MemoryWorld): RunningDaemon {
  const { append, forgotten } = auditRoutes;
  const nothing = async () => {};
  const dispatch = makeDispatch({
    routes: { append, forgotten },
    handlers: {
      async append({ body }) {
        const { source_store: store } = body.events[0]!;
        const last = world.events.findLast((one) => one.source_store === store)?.source_seq ?? 0;
        world.events.push(...body.events.filter(({ source_seq }) => source_seq > last));
        return { size: world.events.length, accepted: body.events.length };
      },
      async forgotten({ query }) {
        if (world.isAuditAway) throw fault('unavailable', 'auditd-ai is away');
        const { before = world.events.length } = query;
        const seqs = world.events
          .flatMap(({ event }, seq) => (event === 'memory.forgotten' && seq < before ? [seq] : []))
          .reverse();
        const page = seqs.slice(0, FORGOTTEN_PAGE);
        return {
          events: page.map((seq) => ({ seq, id: world.events[seq]!.id })),
          next: seqs.length > page.length ? page.at(-1)! : null,
        };
      },
    },
    log: silentLog,
    metrics: makeMetrics('auditd-ai'),
  });
  return { name: 'auditd-ai', dispatch, begin: nothing, drain: nothing, stop: nothing };
}

function fakeAgentd(world: MemoryWorld): RunningDaemon {
  const nothing = async () => {};
  const assertHere = (): void => {
    if (world.isAgentdAway) throw fault('unavailable', 'agentd is away');
  };
  const dispatch = makeDispatch({
    routes: erasureRoutes,
    handlers: {
      async startErasure({ body }) {
        assertHere();
        world.erasures.push(...body.forgotten);
        return { accepted: body.forgotten.length };
      },
      async getErasure({ params }) {
        assertHere();
        const isKnown = world.erasures.some(({ memory_id }) => memory_id === params.id);
        return {
          erasure: isKnown ? { status: 'running' as const, copies: {}, done_at: null } : null,
        };
      },
    },
    log: silentLog,
    metrics: makeMetrics('agentd'),
  });
  return { name: 'agentd', dispatch, begin: nothing, drain: nothing, stop: nothing };
}

export type MemoryClient = Client<typeof memorydRoutes>;
export type MemoryHost = {
  hosted: RunningDaemon;
  approvald: FakeProposals;
  /** People with their own key. */
  alice: MemoryClient;
  bob: MemoryClient;
  /** Holds the operator's key. */
  operator: MemoryClient;
  as(caller: Caller): MemoryClient;
  remember(text: string, more?: Partial<NewMemory>): Promise<MemoryView>;
  stop(): Promise<void>;
};

export async function hostMemoryd(world: MemoryWorld, config: object = {}): Promise<MemoryHost> {
  const approvald = fakeProposals(world.stateDir, () => hosted);
  const here = new Map<DaemonName, RunningDaemon>([
    ['auditd-ai', fakeAudit(world)],
    ['approvald', approvald.daemon],
    ['agentd', fakeAgentd(world)],
    ['modeld', fakeModeld(world.model)],
  ]);
  const hosted: RunningDaemon = await hostDaemon(
    memoryd,
    makeHostOptions({
      dir: world.dir,
      clock: world.clock,
      here,
      config: { memoryd: memorydConfig.parse(config) },
      failpoint: (name) => world.failpoint(name),
    }),
  );
  await hosted.begin();
  const as = (caller: Caller): MemoryClient =>
    makeClient(
      memorydRoutes,
      localLink(() => hosted.dispatch, caller),
    );
  const person = (name: string) =>
    as({ kind: 'operator', principal: `person:${name}`, key: `people/${name}` });
  const alice = person('alice');
  let stopped: Promise<void> | undefined;
  return {
    hosted,
    approvald,
    alice,
    bob: person('bob'),
    operator: as({ kind: 'operator', principal: 'person:operator' }),
    as,
    async remember(text, more = {}) {
      const body = { class: 'semantic' as const, scope: 'project:app', text, ...more };
      const { memories } = await alice.remember({ body });
      return memories[0]!;
    },
    stop: () => (stopped ??= hosted.drain().then(() => hosted.stop())),
  };
}
