// Property test: whatever people and callers do, in any order, a redeem succeeds only for exactly
// what a person saw and approved, for the requester, once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { deriveId } from '../../platform/ids.ts';
import { hashJson } from '../../platform/json.ts';
import { verifyJson } from '../../platform/signed-json.ts';
import type { ApprovalView, AskApproval } from '../../wire/approvald.ts';
import { Fault } from '../../wire/errors.ts';
import type { CallId, RunId } from '../../wire/primitives.ts';
import { type ApprovaldTestHost, hostApprovald, makeRequest, makeWorld } from './testing/host.ts';

type Act =
  | { do: 'ask'; call: number; run: number; args: number; marked: boolean }
  | { do: 'approve'; who: 'alice' | 'bob'; nth: number; edit: number | null }
  | { do: 'reject' | 'info' | 'escalate'; who: 'alice' | 'bob'; nth: number }
  | { do: 'redeem'; nth: number; call: number; run: number; args: number; marked: boolean }
  | { do: 'pass'; ms: number };

const who = fc.constantFrom('alice' as const, 'bob' as const);
const small = fc.nat(1);
const nth = fc.constantFrom(0, 0, 0, 1, 2);
const run = fc.constantFrom(0, 0, 0, 1);
const marked = fc.constantFrom(false, false, false, true);
const asks = fc.record({
  do: fc.constant('ask' as const),
  call: fc.nat(2),
  run,
  args: small,
  marked,
});
const approves = fc.record({
  do: fc.constant('approve' as const),
  who,
  nth,
  edit: fc.option(small, { freq: 2 }),
});
const redeems = fc.record({
  do: fc.constant('redeem' as const),
  nth,
  call: fc.nat(2),
  run,
  args: small,
  marked,
});
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 4, arbitrary: asks },
  { weight: 4, arbitrary: approves },
  { weight: 8, arbitrary: redeems },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom('reject', 'info', 'escalate'), who, nth }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('pass' as const),
      ms: fc.constantFrom(1_000, 1_000, 3_600_000, 90_000_000),
    }),
  },
);

const argsOf = (n: number) => ({ n });
const callOf = (salt: string, n: number) => deriveId<CallId>('call', salt, n);
const runOf = (salt: string, n: number) => deriveId<RunId>('run', salt, n);

/** The view a person saw when they approved, by approval: the expected values. */
type Seen = { by: string; args: string; marked: boolean; atMs: number };

async function play(
  host: ApprovaldTestHost,
  world: ReturnType<typeof makeWorld>,
  acts: Act[],
  salt: string,
) {
  const approvals: string[] = [];
  const requests = new Map<string, AskApproval & { approval: string }>();
  const seen = new Map<string, Seen[]>();
  const given = new Map<string, string>();
  const { public_key_pem } = await host.toold.approvalKey({});
  const quietly = <T>(work: Promise<T>): Promise<T | undefined> =>
    work.catch((error: unknown) => {
      if (error instanceof Fault) return undefined;
      throw error;
    });

  for (const one of acts) {
    const id = 'nth' in one ? approvals[one.nth] : undefined;
    if (one.do === 'pass') world.clock.advance(one.ms);
    if (one.do === 'ask') {
      const args = argsOf(one.args);
      const body = makeRequest({
        call_id: callOf(salt, one.call),
        run_id: runOf(salt, one.run),
        diff: null,
        root_task_id: deriveId('task', salt) as never,
        labels: one.marked ? ['outside'] : [],
        arguments: args,
        arguments_hash: hashJson(args),
      });
      const now = await quietly(host.toold.askApproval({ body }));
      if (now === undefined) continue;
      if (!approvals.includes(now.approval.id)) approvals.push(now.approval.id);
      if (!requests.has(body.call_id))
        requests.set(body.call_id, { ...body, approval: now.approval.id });
    }
    if (id === undefined) continue;
    const params = { id: id as never };
    if (one.do === 'approve') {
      const edit = one.edit === null ? {} : { edited_arguments: argsOf(one.edit) };
      const before = (await host.alice.getApproval({ params })).approval;
      const done = await quietly(host[one.who].approve({ params, body: edit }));
      if (done !== undefined) recordDecision(seen, before, done.approval, one, world.clock.nowMs());
    }
    if (one.do === 'reject') await quietly(host[one.who].reject({ params, body: {} }));
    if (one.do === 'info')
      await quietly(host[one.who].requestInfo({ params, body: { question: 'why?' } }));
    if (one.do === 'escalate') await quietly(host[one.who].escalate({ params, body: {} }));
    if (one.do !== 'redeem') continue;
    const call_id = callOf(salt, one.call);
    const hash = hashJson(argsOf(one.args));
    const redeeming = {
      call_id,
      run_id: runOf(salt, one.run),
      arguments_hash: hash,
      labels: one.marked ? (['outside'] as const).slice() : [],
    };
    const answer = await quietly(host.toold.redeemApproval({ params, body: redeeming }));
    if (answer?.decision !== 'approved') continue;
    // Approved: then all of this must be true.
    const own = requests.get(call_id)!;
    assert.equal(own.approval, id, 'this call requested this approval');
    assert.equal(own.run_id, redeeming.run_id, 'in this run');
    assert.equal(own.arguments_hash, hash, 'with these arguments');
    const people = seen.get(id) ?? [];
    const last = people.at(-1);
    assert.ok(last !== undefined, 'a person approved it');
    assert.equal(last.args, hashJson(answer.arguments), 'of exactly these arguments');
    assert.equal(hashJson(answer.arguments), answer.statement?.arguments_hash);
    assert.ok(verifyJson(answer.statement, answer.signature!, public_key_pem));
    if (given.has(call_id)) assert.equal(given.get(call_id), answer.signature, 'once');
    else {
      assert.ok(world.clock.nowMs() - last.atMs < 3_600_000, 'in time');
      if (one.marked) assert.ok(last.marked, 'with the marks shown');
    }
    given.set(call_id, answer.signature!);
  }
  return given.size;
}

function recordDecision(
  seen: Map<string, Seen[]>,
  before: ApprovalView,
  after: ApprovalView,
  one: { who: string; edit: number | null },
  atMs: number,
): void {
  if (before.status !== 'pending') return;
  const args = one.edit === null ? before.arguments : argsOf(one.edit);
  const decision = {
    by: one.who,
    args: hashJson(args),
    marked: before.labels.includes('outside'),
    atMs,
  };
  seen.set(after.id, [...(seen.get(after.id) ?? []), decision]);
}

test('a redeem succeeds only for exactly what a person saw and approved', async () => {
  const world = makeWorld();
  const host = await hostApprovald(world);
  let runs = 0;
  let letThrough = 0;
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(act, { minLength: 4, maxLength: 24 }), async (acts) => {
        letThrough += await play(host, world, acts, `run ${runs++}`);
      }),
      { numRuns: 1_000 },
    );
    assert.ok(letThrough > 5, `some are redeemed (${letThrough})`);
  } finally {
    await host.stop();
    world.remove();
  }
});
