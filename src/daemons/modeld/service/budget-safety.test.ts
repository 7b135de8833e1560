// Property test: no interleaving or crash overspends, leaks a reservation or hides what was billed.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../platform/clock.ts';
import { makeIdMaker } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import { makeMetrics } from '../../../platform/metrics.ts';
import { openOutbox } from '../../../platform/outbox.ts';
import { type DeferredSyncDatabase, deferSync } from '../../../platform/sql/deferred-sync.ts';
import { openSqlite } from '../../../platform/sql/sqlite.ts';
import type { PolicyDecision } from '../../../policy/request.ts';
import { makeCallId } from '../../../wire/call-id.ts';
import { Fault, fault } from '../../../wire/errors.ts';
import type { NewEvent } from '../../../wire/events.ts';
import type { BudgetView } from '../../../wire/modeld.ts';
import { modeldConfig } from '../config.ts';
import { openKeys } from '../store/keys.ts';
import { MIGRATIONS } from '../store/tables.ts';
import { type Bill, FakeUpstream, type PlayedPart, turns } from '../testing/fake-upstream.ts';
import {
  admission,
  freshStateDir,
  OPERATOR,
  runCaller,
  runId,
  userMessage,
} from '../testing/harness.ts';
import { makeLossyDisk } from '../testing/lossy-disk.ts';
import { openService } from './service.ts';

const RUNS = 4;
const BEHAVIOURS = [
  'answers',
  'answers without usage',
  'refuses for free',
  'breaks after billing',
  'breaks, then answers',
  'streams',
  'cuts its stream',
  'hangs',
] as const;

const callerWithin = (turns: number) =>
  fc.record({
    /** 0 is the operator. */
    who: fc.nat({ max: RUNS }),
    wanted: fc.integer({ min: 1, max: 400 }),
    text: fc.integer({ min: 0, max: 80 }),
    starts: fc.nat({ max: turns }),
    /** Its caller disconnects after this many ticks. */
    leaves: fc.option(fc.nat({ max: 20 }), { freq: 3 }),
    isNamed: fc.boolean(),
    part: fc.record({
      behaviour: fc.constantFrom(...BEHAVIOURS),
      turns: fc.nat({ max: 6 }),
      share: fc.integer({ min: 0, max: 100 }).map((percent) => percent / 100),
    }),
  });
const crowd = fc.array(callerWithin(12), { minLength: 50, maxLength: 200 });
const few = fc.array(callerWithin(30), { minLength: 1, maxLength: 8 });
type Callers = typeof crowd extends fc.Arbitrary<infer T> ? T : never;
type Caller = Callers[number];

const epoch = fc.record({
  callers: fc.oneof(crowd, few),
  /** The tick in which the process dies, alone or with the machine; undefined: an orderly stop. */
  dies: fc.option(fc.record({ turn: fc.nat({ max: 25 }), withPower: fc.boolean() }), {
    nil: undefined,
  }),
  /** From this tick on, and for how many, no transaction commits. */
  full: fc.record({ from: fc.nat({ max: 30 }), turns: fc.nat({ max: 4 }) }),
});
type Death = { turn: number; withPower: boolean };
type Full = { from: number; turns: number };
const limits = fc.record({
  site: fc.integer({ min: 2_000, max: 60_000 }),
  dayCost: fc.integer({ min: 4_000, max: 200_000 }),
  agent: fc.integer({ min: 1_000, max: 40_000 }),
  task: fc.integer({ min: 500, max: 15_000 }),
});

type Mortal = DeferredSyncDatabase & { die(): Promise<void>; isFull: boolean };

/** A database whose process can die: from then on nothing is written and no promise resolves. */
function mortal(inner: DeferredSyncDatabase): Mortal {
  let isDead = false;
  const never = () => new Promise<never>(() => {});
  const db: Mortal = {
    isFull: false,
    write: async (work) => {
      if (isDead) return never();
      try {
        const value = await inner.write(async (sql) => {
          if (isDead) throw fault('stopping', 'dead');
          return work(sql);
        });
        return isDead ? never() : value;
      } catch (error) {
        if (isDead) return never();
        throw error;
      }
    },
    commit: async (work) => {
      if (isDead) return never();
      const committed = await inner.commit((sql) => {
        if (isDead) throw fault('stopping', 'dead');
        const done = work(sql);
        if (db.isFull) throw fault('storage_full', 'no room');
        return done;
      });
      const { value, durable } = committed;
      const syncNow = () => (isDead ? never() : committed.syncNow());
      return isDead ? never() : { value, durable, syncNow };
    },
    read: (work) => (isDead ? never() : inner.read(work)),
    close: () => inner.close(),
    async die() {
      isDead = true;
      await inner.close();
    },
  };
  return db;
}

const ALLOWED: PolicyDecision = { answer: 'allow', rules: [], reason: '', version: 1 };

type Audited = NewEvent[];
type Site = { tokens: number; dayCost: number; agent: number };

async function open(stateDir: string, audited: Audited, site: Site) {
  const clock = systemClock();
  const file = join(stateDir, 'modeld.sqlite');
  const { sync, losePower, comeBack } = makeLossyDisk(stateDir);
  const inner = await deferSync(openSqlite({ file, migrations: MIGRATIONS }), file, { sync });
  const db = mortal(inner);
  const append = async (batch: NewEvent[]) => {
    await turns(1);
    const last = audited.at(-1)?.source_seq ?? 0;
    audited.push(...batch.filter((event) => event.source_seq > last));
  };
  const outbox = await openOutbox({ db, source: 'modeld', clock, append, log: silentLog });
  const parts = new Map<string, PlayedPart>();
  const upstream = new FakeUpstream(
    (ask) => parts.get(JSON.stringify(ask).match(/#\d+\.\d+/)![0])!,
  );
  const service = await openService({
    seal: async () => {},
    config: modeldConfig.parse({
      providers: { played: { dialect: 'openai', base_url: 'http://127.0.0.1:1', models: ['m'] } },
      budgets: {
        site: { tokens: site.tokens },
        day: { cost_usd: site.dayCost / 1_000_000 },
        agents: { default: { tokens: site.agent } },
      },
    }),
    db,
    outbox,
    lost: audited.filter(({ source_seq }) => source_seq > outbox.opened.seq),
    keys: openKeys(stateDir),
    upstream,
    readArtifact: () => Promise.reject(new Error('none')),
    sockets: { open: async () => '/test', close: async () => {}, sweep: () => {} },
    clock,
    newId: makeIdMaker(clock, randomBytes),
    random: randomBytes,
    log: silentLog,
    metrics: makeMetrics('test'),
    recordFetches: () => Promise.reject(new Error('none')),
    policy: { warm: async () => {}, decide: async () => ALLOWED, decideAll: async () => ALLOWED },
    failpoint: () => {},
  });
  return { service, db, outbox, upstream, parts, losePower, comeBack };
}
type Open = Awaited<ReturnType<typeof open>>;

function assertWithin(views: readonly BudgetView[]): void {
  for (const view of views) {
    const name = `${view.subject} ${view.name}`;
    assert.ok(view.tokens_reserved >= 0 && view.cost_reserved_microusd >= 0, `${name} below zero`);
    const tokens = view.tokens_spent + view.tokens_reserved;
    const cost = view.cost_spent_microusd + view.cost_reserved_microusd;
    if (view.tokens_limit !== null)
      assert.ok(tokens <= view.tokens_limit, `${name}: ${tokens} of ${view.tokens_limit} tokens`);
    if (view.cost_limit_microusd !== null)
      assert.ok(
        cost <= view.cost_limit_microusd,
        `${name}: ${cost} of ${view.cost_limit_microusd}`,
      );
  }
}

const viewsOf = ({ service }: Open): BudgetView[] =>
  service.budgets.listKeys().map((key) => service.budgets.view(key));

const EXPECTED = [
  'budget',
  'provider_refused',
  'provider_malformed',
  'canceled',
  'stopping',
  'storage_full',
];

async function callOnce(opened: Open, one: Caller, name: string): Promise<void> {
  const { service, parts } = opened;
  parts.set(name, { ...one.part, name });
  await turns(one.starts);
  const left = new AbortController();
  if (one.leaves !== null) void turns(one.leaves).then(() => left.abort());
  const asCaller = one.who === 0 ? OPERATOR : runCaller(one.who, 1);
  const [life, index] = name.slice(1).split('.').map(Number);
  const call_id = makeCallId(runId(one.who), 'm', life!, index);
  try {
    const made = await service.generate(
      asCaller,
      {
        model: 'm',
        messages: [userMessage(`${name} ${'x'.repeat(one.text)}`)],
        limits: { max_output_tokens: one.wanted },
        purpose: name,
        ...(one.isNamed ? { call_id } : {}),
      },
      { controller: left, deadlineMs: 60_000 },
    );
    assert.ok('response' in made);
  } catch (error) {
    if (!(error instanceof Fault) || !EXPECTED.includes(error.code)) throw error;
  }
}

/** One lifetime of the process. Resolves to what the provider billed in it. */
async function live(
  opened: Open,
  { callers, dies, full }: { callers: Callers; dies: Death | undefined; full: Full },
  life: number,
): Promise<Bill> {
  const { service, upstream, db, outbox } = opened;
  upstream.onStep = () => assertWithin(viewsOf(opened));
  void turns(full.from).then(async () => {
    db.isFull = true;
    await turns(full.turns);
    db.isFull = false;
  });
  const calls = callers.map((one, i) => callOnce(opened, one, `#${life}.${i}`));
  if (dies !== undefined) {
    await turns(dies.turn);
    upstream.isAlive = false;
    outbox.stop();
    if (dies.withPower) opened.losePower();
    await db.die();
    if (dies.withPower) opened.comeBack();
    return upstream.bill;
  }
  await turns(40);
  await service.calls.drain(0);
  await Promise.all(calls);
  await service.calls.drain(0);
  assertWithin(viewsOf(opened));
  for (const view of viewsOf(opened)) {
    assert.equal(view.tokens_reserved, 0, `${view.subject} leaks tokens`);
    assert.equal(view.cost_reserved_microusd, 0, `${view.subject} leaks money`);
  }
  assert.equal(await outbox.drain(20_000), true);
  outbox.stop();
  await db.close();
  return upstream.bill;
}

/** The rows of calls add up to the budgets' spending. */
async function assertBooks(opened: Open, billed: Bill): Promise<void> {
  const { db } = opened;
  const rows = await db.read((sql) =>
    sql.one<{ tokens: number; cost: number; running: number }>(
      `SELECT COALESCE(SUM(charged_tokens), 0) AS tokens, COALESCE(SUM(cost), 0) AS cost,
         COALESCE(SUM(status = 'running'), 0) AS running FROM model_calls`,
    ),
  );
  const site = await db.read((sql) =>
    sql.one<{ tokens: number; cost: number }>(
      `SELECT tokens, cost FROM budget_spent WHERE subject = 'site'`,
    ),
  );
  assert.equal(rows!.running, 0);
  assert.equal(site?.tokens ?? 0, rows!.tokens);
  assert.equal(site?.cost ?? 0, rows!.cost);
  const view = opened.service.budgets.view({ subject: 'site', name: '', period: '' });
  assert.equal(view.tokens_spent, rows!.tokens);
  const byName = await db.read((sql) =>
    sql.all<{ purpose: string; tokens: number; cost: number }>(
      `SELECT purpose, SUM(charged_tokens) AS tokens, SUM(cost) AS cost FROM model_calls
       GROUP BY purpose`,
    ),
  );
  const booked = new Map(byName.map((row) => [row.purpose, row]));
  // Calls lost in a power failure are restored without their texts.
  const nameless = booked.get('') ?? { tokens: 0, cost: 0 };
  const lost = { tokens: 0, costMicrousd: 0 };
  for (const [name, bill] of billed) {
    const { tokens, cost } = booked.get(name) ?? { tokens: 0, cost: 0 };
    lost.tokens += Math.max(0, bill.tokens - tokens);
    lost.costMicrousd += Math.max(0, bill.costMicrousd - cost);
  }
  assert.ok(lost.tokens <= nameless.tokens, `${lost.tokens} tokens billed and not booked`);
  assert.ok(lost.costMicrousd <= nameless.cost, `${lost.costMicrousd} billed and not booked`);
}

/** The log names each attempt and each end once, and the journal has the same attempts. */
async function assertReconciled({ db }: Open, audited: Audited): Promise<void> {
  const ids = audited.map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length, 'an event is in the log twice');
  const rows = await db.read((sql) =>
    sql.all<{ id: string }>(
      `SELECT call_id || '.attempted.' || attempt AS id FROM model_calls ORDER BY id`,
    ),
  );
  const attempted = ids.filter((id) => id.includes('.attempted.'));
  assert.deepEqual(
    rows.map(({ id }) => id),
    attempted.toSorted(),
  );
}

async function admitAll({ service }: Open, tokens: number): Promise<void> {
  for (let n = 1; n <= RUNS; n++)
    // All runs of one tree: the first task is the root of the others.
    await service.runs.admit(
      runId(n),
      admission(n, { root_task_id: admission(1).task_id, max_tokens: tokens, max_steps: 10_000 }),
    );
}

test('no budget is overspent or leaks under any crash, failure or disconnect', async () => {
  let sends = 0;
  let refusals = 0;
  await fc.assert(
    fc.asyncProperty(
      limits,
      fc.array(epoch, { minLength: 1, maxLength: 3 }),
      async (limit, epochs) => {
        const stateDir = freshStateDir();
        const site = { tokens: limit.site, dayCost: limit.dayCost, agent: limit.agent };
        const billed: Bill = new Map();
        const audited: Audited = [];
        try {
          for (const [life, one] of epochs.entries()) {
            const opened = await open(stateDir, audited, site);
            await assertBooks(opened, billed);
            await admitAll(opened, limit.task);
            assertWithin(viewsOf(opened));
            const bill = await live(opened, one, life);
            for (const [name, line] of bill) billed.set(name, line);
            sends += bill.size;
            refusals += one.callers.length - bill.size;
          }
          const last = await open(stateDir, audited, site);
          await assertBooks(last, billed);
          assert.equal(await last.outbox.drain(20_000), true);
          await assertReconciled(last, audited);
          await admitAll(last, limit.task);
          assertWithin(viewsOf(last));
          last.outbox.stop();
          await last.db.close();
        } finally {
          rmSync(stateDir, { recursive: true, force: true });
        }
      },
    ),
    { numRuns: 25, endOnFailure: true },
  );
  // Control: the limits were reached, and calls were sent.
  assert.ok(sends > 20 && refusals > 100, `${sends} sent, ${refusals} not`);
});
