// The decisions as tables: each check alone, their order, the breaker, and a person's confirmation.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { readConfirmation } from './attempts/unknown-outcome.ts';
import {
  type CheckInput,
  countCall,
  countOutcome,
  decide,
  newProgress,
  OWN_CHECKS,
  QUESTIONS,
  uncountCall,
} from './rules.ts';

const limits = { repeatsMax: 3, staleCallsMax: 4 };

function checkInput(more: Partial<CheckInput> = {}): CheckInput {
  return {
    run: { runId: 'run_1', agent: 'coder', taskId: 'task_1' },
    request: { tool: 'artifact.get', agent: undefined, taskId: undefined },
    grant: { tools: new Set(['artifact.get', 'task.finish']), expiresAtMs: null, callsMax: 100 },
    toolIsKnown: true,
    suspension: undefined,
    argumentsProblem: undefined,
    callsOfToolMax: undefined,
    nowMs: 1_000,
    key: 'artifact.get a',
    progress: newProgress(),
    limits,
    ...more,
  };
}
const request = (more: Partial<CheckInput['request']>) => ({ ...checkInput().request, ...more });
const grant = (more: Partial<CheckInput['grant']>) => ({ ...checkInput().grant, ...more });

const table: { what: string; given: Partial<CheckInput>; rule: string; code?: string }[] = [
  { what: 'a plain call', given: {}, rule: 'toold:granted' },
  {
    what: 'of a tool that is suspended',
    given: { suspension: 'for all agents: it printed nonsense' },
    rule: 'toold:suspended',
    code: 'suspended',
  },
  {
    what: 'its own names claimed',
    given: { request: request({ agent: 'agent:coder', taskId: 'task_1' }) },
    rule: 'toold:granted',
  },
  {
    what: 'another agent claimed',
    given: { request: request({ agent: 'deployer' }) },
    rule: 'toold:caller',
    code: 'wrong_agent',
  },
  {
    what: 'another task claimed',
    given: { request: request({ taskId: 'task_2' }) },
    rule: 'toold:task',
    code: 'wrong_task',
  },
  {
    what: 'a tool that is not there',
    given: { request: request({ tool: 'shell.run' }), toolIsKnown: false },
    rule: 'toold:known',
    code: 'unknown_tool',
  },
  {
    what: 'a tool that is not granted',
    given: { request: request({ tool: 'task.delegate' }) },
    rule: 'toold:granted',
    code: 'not_granted',
  },
  {
    what: 'a grant that ends now',
    given: { grant: grant({ expiresAtMs: 1_000 }) },
    rule: 'toold:expiry',
    code: 'grant_expired',
  },
  {
    what: 'a grant that ends later',
    given: { grant: grant({ expiresAtMs: 1_001 }) },
    rule: 'toold:granted',
  },
  {
    what: 'arguments that do not fit',
    given: { argumentsProblem: 'id: must be a string' },
    rule: 'toold:arguments',
    code: 'bad_arguments',
  },
  {
    what: 'no call left',
    given: { grant: grant({ callsMax: 2 }), progress: { ...newProgress(), calls: 2 } },
    rule: 'toold:quota',
    code: 'limit',
  },
  {
    what: 'the last call left',
    given: { grant: grant({ callsMax: 2 }), progress: { ...newProgress(), calls: 1 } },
    rule: 'toold:granted',
  },
];

describe('the checks', () => {
  for (const { what, given, rule, code } of table) {
    it(`${what}: ${code ?? 'allowed'}`, () => {
      const decision = decide(checkInput(given), { again: false });
      assert.equal(decision.rule, rule);
      assert.equal(decision.allowed ? undefined : decision.error.code, code);
      if (!decision.allowed) assert.ok(decision.error.hint.length > 10 && !decision.error.retry);
    });
  }

  it('run in the order of the list: the first that objects decides', () => {
    const call = { callId: 'call_1', key: 'shell.run x' };
    const wrongs: Partial<CheckInput> = {
      request: { tool: 'shell.run', agent: 'x', taskId: 'task_9' },
      toolIsKnown: false,
      suspension: 'for all agents: it printed nonsense',
      grant: grant({ expiresAtMs: 0, callsMax: 0 }),
      callsOfToolMax: 0,
      progress: { ...newProgress(), recent: [call, call] },
      key: 'shell.run x',
      argumentsProblem: 'all wrong',
    };
    const order: string[] = [];
    const rights: Partial<CheckInput>[] = [
      { request: { tool: 'shell.run', agent: undefined, taskId: 'task_9' } },
      { request: { tool: 'shell.run', agent: undefined, taskId: undefined } },
      { toolIsKnown: true },
      { grant: grant({ tools: new Set(['shell.run']), expiresAtMs: 0, callsMax: 0 }) },
      { suspension: undefined },
      { grant: grant({ tools: new Set(['shell.run']), expiresAtMs: null, callsMax: 0 }) },
      { grant: grant({ tools: new Set(['shell.run']), expiresAtMs: null, callsMax: 9 }) },
      { callsOfToolMax: undefined },
      { progress: newProgress() },
    ];
    let now = checkInput(wrongs);
    for (const right of [{}, ...rights]) {
      now = { ...now, ...right };
      order.push(decide(now, { again: false }).rule);
    }
    assert.deepEqual(
      order,
      OWN_CHECKS.map((check) => `toold:${check.name}`),
    );
    const asks = OWN_CHECKS.map(({ question }) => QUESTIONS.indexOf(question));
    assert.deepEqual(
      asks,
      asks.toSorted((a, b) => a - b),
      'the checks run in order',
    );
  });

  it('a repeated call is exempt from quota and breaker, but not from the grant', () => {
    const progress = { ...newProgress(), calls: 500, sinceNew: 500, keys: new Set(['k']) };
    const spent = checkInput({ progress, key: 'k' });
    assert.equal(decide(spent, { again: false }).allowed, false);
    assert.equal(decide(spent, { again: true }).allowed, true);
    const expired = checkInput({ grant: grant({ expiresAtMs: 1 }) });
    assert.equal(decide(expired, { again: true }).rule, 'toold:expiry');
  });
});

/** Plays calls and returns the index of the first that the breaker denies. */
function play(calls: { key: string; outcome: string }[]): number {
  const progress = newProgress();
  return calls.findIndex(({ key, outcome }, i) => {
    const decision = decide(checkInput({ key, progress }), { again: false });
    countCall(progress, { callId: `call_${i}`, key });
    countOutcome(progress, key, outcome);
    return !decision.allowed && decision.error.code === 'breaker';
  });
}
const same = (n: number, key = 'a', outcome = '1') =>
  Array.from({ length: n }, () => ({ key, outcome }));

describe('the breaker', () => {
  it('denies the call that would be the third equal one in a row', () => {
    assert.equal(play(same(2)), -1);
    assert.equal(play(same(3)), 2);
    assert.equal(play([...same(2), ...same(1, 'b'), ...same(2)]), -1);
  });

  it('counts equal calls even when their results differ', () => {
    assert.equal(play([{ key: 'a', outcome: '1' }, { key: 'a', outcome: '2' }, ...same(1)]), 2);
  });

  it('denies a known call after four that made no progress', () => {
    const round = [...same(1, 'a'), ...same(1, 'b')];
    // Two are new, four are not, the seventh is denied.
    assert.equal(play([...round, ...round, ...round, ...round]), 6);
  });

  it('allows a call that was never made, however long there was no progress', () => {
    const round = [...same(1, 'a'), ...same(1, 'b')];
    assert.equal(play([...round, ...round, ...round, ...same(1, 'task.finish')]), -1);
  });

  it('a new result of a known call is progress', () => {
    const poll = (outcome: string) => [...same(1, 'a', outcome), ...same(1, 'b')];
    assert.equal(play(['1', '2', '3', '4', '5', '6', '7'].flatMap(poll)), -1);
  });

  it('a call that could not be recorded does not count', () => {
    const progress = newProgress();
    for (let i = 0; i < 10; i++) {
      assert.ok(decide(checkInput({ key: 'a', progress }), { again: false }).allowed);
      countCall(progress, { callId: 'call_1', key: 'a' });
      uncountCall(progress, 'call_1');
    }
    assert.equal(progress.calls, 0);
  });

  it('never denies a run whose calls are all different, and always one that repeats', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.string(), { maxLength: 50 }), fc.nat(20), (keys, at) => {
        const calls = keys.map((key) => ({ key, outcome: '1' }));
        assert.equal(play(calls), -1);
        const begin = Math.min(at, calls.length);
        const stuck = [...calls.slice(0, begin), ...same(limits.repeatsMax, 'stuck key')];
        assert.equal(play(stuck), stuck.length - 1);
      }),
    );
  });
});

describe("a person's answer about an unknown outcome", () => {
  const meanings: [string | undefined, ReturnType<typeof readConfirmation>][] = [
    ['it happened', 'happened'],
    [' It happened. ', 'happened'],
    ['yes', 'happened'],
    ['it did not happen', 'not'],
    ['No', 'not'],
    ['maybe', 'unclear'],
    ['not sure it did not happen', 'unclear'],
    ['', 'unclear'],
    [undefined, 'unclear'],
  ];
  for (const [answer, meaning] of meanings)
    it(`${JSON.stringify(answer)} is ${meaning}`, () =>
      assert.equal(readConfirmation(answer), meaning));
});
