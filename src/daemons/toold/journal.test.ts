// The journal's guarantee, under crashes at every point and random interleavings: each effect
// happens once or a person is asked, and the journal and the audit log agree one to one.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import fc from 'fast-check';
import { isFault } from '../../platform/daemon.ts';
import { deriveId } from '../../platform/ids.ts';
import { makeCallId } from '../../wire/call-id.ts';
import { fault } from '../../wire/errors.ts';
import type { RunId } from '../../wire/primitives.ts';
import type { CallAnswer, ToolCallView } from '../../wire/toold.ts';
import { DID_NOT_HAPPEN, HAPPENED } from './attempts/unknown-outcome.ts';
import { type Life, live } from './testing/crash.ts';
import { admission, makeWorld, runCaller, type TooldWorld } from './testing/host.ts';

const runId = deriveId<RunId>('run', 'journal');
const CALLS = [
  { tool: 'test.count_effect', arguments: { key: 'a' } },
  { tool: 'test.count_effect', arguments: { key: 'b' } },
  { tool: 'artifact.put', arguments: { name: 'n', text: 't' } },
  { tool: 'task.delegate', arguments: { agent: 'researcher', goal: 'g' } },
  { tool: 'person.ask', arguments: { question: 'q' } },
  { tool: 'no.such', arguments: {} },
  { tool: 'test.echo', arguments: { text: 'e' } },
  { tool: 'test.count_effect', arguments: { key: 'c', delay_ms: 4 } },
].map((call, i) => ({ ...call, call_id: makeCallId(runId, 't', i) }));
const NEVER = Number.POSITIVE_INFINITY;
/** Far more ticks than any life needs. */
const TICKS_MAX = 20_000;
const ENDED = ['completed', 'failed', 'canceled', 'denied'];

let world: TooldWorld;
let effects: string[];
let violations: string[];
let fence: number;

function reset(): void {
  world = makeWorld();
  effects = [];
  violations = [];
  fence = 0;
}

function onEffect(key: string): void {
  const call = CALLS.find((call) => 'key' in call.arguments && call.arguments.key === key)!;
  const attempts = world.audit.events.filter(
    (event) => event.call_id === call.call_id && event.event === 'tool.call.attempted',
  );
  if (attempts.length === 0) violations.push(`${key} was done before its attempt was in the log`);
  if (effects.includes(key)) violations.push(`${key} was done twice`);
  effects.push(key);
}

type PlannedCall = { call: number; ticks: number };
type LifeResult = { answers: (CallAnswer | undefined)[]; died: string | undefined };
/**
 * Starts the next activation while calls are in progress, with or without a dismissal first.
 */
type Turnover = { ticks: number; dismiss: boolean };

const tick = () => new Promise((resolve) => setImmediate(resolve));
async function waitTicks(ticks: number): Promise<void> {
  for (let i = 0; i < ticks; i++) await tick();
}

/** Advances the clock until it is done. */
async function advanceUntil<T>(work: Promise<T>): Promise<T> {
  let done = false;
  const mark = () => {
    done = true;
  };
  work.then(mark, mark);
  for (let ticks = 0; !done; ticks++) {
    assert.ok(ticks < TICKS_MAX, 'it never ends');
    await tick();
    world.clock.advance(1);
  }
  return work;
}

/**
 * One activation of the run that makes these calls, all at once. A dead or stale one is refused.
 */
async function activate(life: Life, planned: PlannedCall[]): Promise<(CallAnswer | undefined)[]> {
  const body = admission(runId, { fence: ++fence });
  const own = fence;
  const refused = (error: unknown): undefined => {
    const old = isFault(error, 'stale_fence') || isFault(error, 'canceled');
    if (life.died() === undefined && !(old && own < fence)) throw error;
  };
  const agentd = life.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
  await agentd.admitRun({ params: { id: runId }, body }).catch(refused);
  const client = life.as(runCaller(runId, body));
  const ask = async ({ call, ticks }: PlannedCall) => {
    await waitTicks(ticks);
    return client.call({ body: CALLS[call]! }).catch(refused);
  };
  return Promise.all(planned.map(ask));
}

/** Runs one life of the process. */
async function liveOnce(
  deathAt: number | string,
  planned: PlannedCall[],
  turnover?: Turnover,
): Promise<LifeResult> {
  const life = await live(world, { deathAt, onEffect });
  const first = activate(life, planned);
  const second = turnover === undefined ? undefined : startNext(life, planned, turnover);
  const [answers, later] = await advanceUntil(Promise.all([first, second]));
  // The process may also die after the last response.
  if (life.died() === undefined)
    await life.drained().catch((error: unknown) => {
      if (life.died() === undefined) throw error;
    });
  const died = life.died();
  await life.kill();
  return { answers: later ?? answers, died };
}

async function startNext(life: Life, planned: PlannedCall[], { ticks, dismiss }: Turnover) {
  await waitTicks(ticks);
  const agentd = life.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
  if (dismiss) {
    // From here on agentd itself refuses the old activation, as does toold.
    const dismissed = agentd.dismissRun({ params: { id: runId }, query: { fence: fence++ } });
    await dismissed.catch((error: unknown) => {
      if (life.died() === undefined) throw error;
    });
  }
  return activate(life, planned);
}

/** Answers questions truthfully, and ends children. */
function endWaits(): void {
  for (const wait of world.agentd.waits.values()) {
    if (wait.status === 'ended') continue;
    const call = CALLS.find((call) => call.call_id === wait.call_id)!;
    const key = 'key' in call.arguments ? call.arguments.key : undefined;
    const truth = effects.includes(key ?? '') ? HAPPENED : DID_NOT_HAPPEN;
    const answer = key === undefined ? 'fine' : truth;
    world.agentd.endWait(wait.id, { answer: { answer }, answered_by: 'person:alice' });
  }
}

/** Runs lives without crashes until every call has ended. */
async function endAll(): Promise<(CallAnswer | undefined)[]> {
  const planned = CALLS.map((_, call) => ({ call, ticks: 0 }));
  for (let i = 0; i < 4; i++) {
    endWaits();
    const { answers } = await liveOnce(NEVER, planned);
    if (answers.every((answer) => ENDED.includes(answer?.status ?? ''))) return answers;
  }
  throw new Error('some call never ended');
}

async function journal(): Promise<ToolCallView[]> {
  const life = await live(world, { deathAt: NEVER, onEffect });
  const operator = life.as({ kind: 'operator', principal: 'person:alice' });
  const { calls } = await operator.listCalls({ query: { limit: 1_000 } });
  await life.kill();
  return calls;
}

function assertReconciled(calls: ToolCallView[]): void {
  const ids = world.audit.events.map((event) => event.id);
  assert.equal(new Set(ids).size, ids.length, 'an event is in the log twice');
  for (const call of calls) {
    const own = ids.filter((id) => id.startsWith(call.call_id)).sort();
    const waits = own.filter((id) => id.includes('.waiting.'));
    const expected = Array.from({ length: call.attempts }, (_, i) => `.attempted.${i + 1}`);
    expected.push(call.status === 'denied' ? '.denied' : '.ended');
    assert.deepEqual(
      own.filter((id) => !waits.includes(id)),
      expected.map((what) => call.call_id + what).sort(),
    );
    assert.equal(waits.includes(`${call.call_id}.waiting.${call.attempts}`), call.wait_id !== null);
    const ended = world.audit.events.find((event) => event.id === `${call.call_id}.ended`);
    if (ended !== undefined) assert.equal(ended.status, call.status);
  }
  const known = new Set(calls.map((call) => call.call_id as string));
  for (const event of world.audit.events) assert.ok(known.has(event.call_id ?? ''), event.id);
}

async function assertKept(): Promise<void> {
  const answers = await endAll();
  assert.deepEqual(violations, []);
  assert.deepEqual([...effects].sort(), ['a', 'b', 'c']);
  const status = answers.map((answer) => answer?.status);
  assert.deepEqual(status, [...Array(5).fill('completed'), 'denied', 'completed', 'completed']);
  const done = world.agentd.done.filter((line) => !line.startsWith('ask'));
  assert.equal(new Set(done).size, done.length);
  assertReconciled(await journal());
}

const FAILPOINTS = ['before-intent', 'after-intent', 'after-attempt-durable', 'after-effect'];

describe('after a crash', () => {
  beforeEach(reset);
  afterEach(() => world.remove());

  for (const call of [0, 2, 7]) {
    const { tool } = CALLS[call]!;
    it(`at any point of ${tool} (${call}), it was done once or a person is asked`, async () => {
      const places: string[] = [];
      for (let points = 0; ; points++) {
        const { died } = await liveOnce(points, [{ call, ticks: 0 }]);
        if (died === undefined) break;
        places.push(died);
        await assertKept();
        world.remove();
        reset();
      }
      for (const name of [...FAILPOINTS, 'after-outcome'])
        assert.ok(places.includes(`toold.${name}`));
      assert.ok(places.includes('after write') && places.includes('before write'));
    });
  }

  it('and many more, with calls that overlap, nothing is lost or repeated', async () => {
    const planned = fc.array(fc.record({ call: fc.nat(CALLS.length - 1), ticks: fc.nat(6) }), {
      minLength: 1,
      maxLength: 12,
    });
    const turnover = fc.option(fc.record({ ticks: fc.nat(20), dismiss: fc.boolean() }), {
      nil: undefined,
    });
    const life = fc.record({ points: fc.nat(120), planned, turnover, answered: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(life, { minLength: 1, maxLength: 4 }), async (lives) => {
        world.remove();
        reset();
        for (const { points, planned, turnover, answered } of lives) {
          await liveOnce(points, planned, turnover);
          assert.deepEqual(violations, []);
          if (answered) endWaits();
        }
        await assertKept();
      }),
      { numRuns: 120 },
    );
  });
});

describe('an unknown outcome', () => {
  const ask = [{ call: 0, ticks: 0 }];
  const dieAfterEffect = async () => {
    const { died } = await liveOnce('toold.after-effect', ask);
    assert.equal(died, 'toold.after-effect');
  };
  const answerWith = (end: object) => {
    const [wait] = world.agentd.waits.values();
    world.agentd.endWait(wait!.id, { answered_by: 'person:alice', ...end });
  };

  beforeEach(async () => {
    reset();
    await dieAfterEffect();
  });
  afterEach(() => world.remove());

  it('is recorded when toold starts, before any request', async () => {
    const [call] = await journal();
    assert.equal(call?.status, 'unknown');
    assert.equal(world.agentd.waits.size, 0);
  });

  it('becomes one question that says what was started and when', async () => {
    const first = await liveOnce(NEVER, ask);
    const again = await liveOnce(NEVER, ask);
    assert.equal(first.answers[0]?.status, 'waiting');
    assert.deepEqual(again.answers[0], first.answers[0]);
    const waits = [...world.agentd.waits.values()];
    assert.equal(waits.length, 1);
    assert.match(waits[0]!.question ?? '', /Did this happen\? .*test\.count_effect.*"key":"a"/);
    assert.match(waits[0]!.question ?? '', /started at 2026-06-29T18:00:00\.\d{3}Z/);
    assert.deepEqual(waits[0]!.choices, [HAPPENED, DID_NOT_HAPPEN]);
    const [call] = await journal();
    assert.equal(call?.status, 'unknown');
  });

  it('that a person confirms is completed and not done again', async () => {
    await liveOnce(NEVER, ask);
    answerWith({ answer: { answer: HAPPENED } });
    const { answers } = await liveOnce(NEVER, ask);
    assert.equal(answers[0]?.status, 'completed');
    assert.deepEqual(answers[0]?.result, { happened: true, confirmed_by: 'person:alice' });
    assert.deepEqual(effects, ['a']);
  });

  it('that a person denies is done again as a second attempt', async () => {
    effects = [];
    await liveOnce(NEVER, ask);
    answerWith({ answer: { answer: DID_NOT_HAPPEN } });
    const { answers } = await liveOnce(NEVER, ask);
    assert.deepEqual(answers[0]?.result, { counted: 'a' });
    assert.deepEqual(effects, ['a']);
    const [call] = await journal();
    assert.equal(call?.attempts, 2);
    assertReconciled([call!]);
  });

  const unclear = [
    { answer: { answer: 'perhaps' } },
    { outcome: 'expired' },
    { outcome: 'canceled' },
  ];
  for (const end of unclear) {
    it(`with ${JSON.stringify(end)} is a failure, and never done again`, async () => {
      await liveOnce(NEVER, ask);
      answerWith(end);
      const { answers } = await liveOnce(NEVER, ask);
      assert.equal(answers[0]?.status, 'failed');
      assert.equal(answers[0]?.error?.code, 'outcome_unknown');
      assert.deepEqual(effects, ['a']);
    });
  }
});

describe('a full disk', () => {
  let full = false;
  let life: Life;
  const beforeWrite = () => {
    if (full) throw fault('storage_full', 'the disk is full');
  };
  const body = admission(runId);
  const ask = () => life.as(runCaller(runId, body)).call({ body: CALLS[0]! });

  beforeEach(async () => {
    reset();
    full = false;
    const fill = (key: string) => {
      onEffect(key);
      full = true;
    };
    life = await live(world, { deathAt: NEVER, onEffect: fill, beforeWrite });
    const agentd = life.as({ kind: 'daemon', principal: 'service:agentd', daemon: 'agentd' });
    await agentd.admitRun({ params: { id: runId }, body });
  });
  afterEach(async () => {
    await life.kill();
    world.remove();
  });

  const untilEffect = async (answer: Promise<unknown>) => {
    let over = false;
    const mark = () => {
      over = true;
    };
    answer.then(mark, mark);
    while (effects.length === 0 && !over) await tick();
  };

  it('before the intent refuses the call, and a retry does not repeat it', async () => {
    full = true;
    for (let i = 0; i < 10; i++)
      await assert.rejects(ask(), (error) => isFault(error, 'storage_full'));
    assert.deepEqual(effects, []);
    full = false;
    const answer = ask();
    await untilEffect(answer);
    full = false;
    assert.equal((await answer).status, 'completed');
  });

  it('after the effect keeps the outcome until there is free space', async () => {
    const answer = ask();
    await untilEffect(answer);
    const joined = ask();
    await new Promise((resolve) => setTimeout(resolve, 60));
    full = false;
    assert.deepEqual((await answer).result, { counted: 'a' });
    assert.deepEqual(await joined, await answer);
    assert.deepEqual(violations, []);
  });
});
