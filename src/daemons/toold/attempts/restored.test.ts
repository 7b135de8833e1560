// Calls of a run that was open in a restored backup: what may have happened since is asked, never
// repeated, and everything else goes on.
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import * as z from 'zod';
import type { CallId } from '../../../wire/primitives.ts';
import type { AdmitToolRunBody } from '../../../wire/toold.ts';
import {
  decideAsPerson,
  effectsIn,
  eventsOf,
  hostToold,
  makeWorld,
  publishPolicy,
  type TooldTestHost,
  type TooldWorld,
} from '../testing/host.ts';
import { type Tool, tool } from '../tools/tool.ts';
import { type BoxReach, mayRepeat } from './restored.ts';
import { DID_NOT_HAPPEN, HAPPENED, NOTHING_HAPPENED } from './unknown-outcome.ts';

const BACKUP = 'backup_1';
const RESTORED: AdmitToolRunBody['restored'] = {
  backup: BACKUP,
  taken_at: '2026-06-29T12:00:00.000Z',
  changed: false,
};

describe('a call of a restored run', () => {
  let world: TooldWorld;
  let host: TooldTestHost;
  beforeEach(async () => {
    world = makeWorld();
    host = await hostToold(world);
  });
  afterEach(async () => {
    await host.stop();
    world.remove();
  });

  const openQuestion = () => {
    const waits = [...world.agentd.waits.values()].filter(
      ({ status, kind }) => status === 'open' && kind === 'question',
    );
    assert.equal(waits.length, 1, 'one question is open');
    return waits[0]!;
  };
  const answer = (text: string) =>
    world.agentd.endWait(openQuestion().id, {
      status: 'ended',
      outcome: 'answered',
      answer: { answer: text },
      answered_by: 'person:ann',
    });
  const count = { tool: 'test.count_effect', arguments: { key: 'a' } } as const;

  it('is asked about, and made once when it did not happen', async () => {
    const run = await host.admit('r', { restored: RESTORED });
    const first = await run.ask(1, count.tool, count.arguments);
    assert.equal(first.status, 'waiting');
    assert.deepEqual(effectsIn(world), []);
    const { question, choices } = openQuestion();
    assert.match(question!, /after the backup of 2026-06-29T12:00:00.000Z/);
    assert.match(question!, /test\.count_effect .*"key":"a"/);
    assert.deepEqual(choices, [HAPPENED, DID_NOT_HAPPEN, NOTHING_HAPPENED]);
    assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'waiting');
    answer(DID_NOT_HAPPEN);
    assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'completed');
    assert.deepEqual(effectsIn(world), ['a']);
    assert.deepEqual(await eventsOf(world, run.callId(1)), [
      `.unsure.${BACKUP}`,
      '.attempted.1',
      '.ended',
    ]);
    const next = await run.ask(2, count.tool, { key: 'b' });
    assert.equal(next.status, 'waiting', 'the next one is asked about, too');
  });

  it('is not made when it happened, or when it is not known', async () => {
    const run = await host.admit('r', { restored: RESTORED });
    await run.ask(1, count.tool, count.arguments);
    answer(HAPPENED);
    const known = await run.ask(1, count.tool, count.arguments);
    assert.deepEqual(
      [known.status, known.result],
      ['completed', { happened: true, confirmed_by: 'person:ann' }],
    );
    await run.ask(2, count.tool, { key: 'b' });
    answer('perhaps');
    const unclear = await run.ask(2, count.tool, { key: 'b' });
    assert.deepEqual([unclear.status, unclear.error?.code], ['failed', 'outcome_unknown']);
    assert.deepEqual(effectsIn(world), []);
  });

  it('is no longer asked about once a person has said that nothing happened', async () => {
    const run = await host.admit('r', { restored: RESTORED });
    await run.ask(1, count.tool, count.arguments);
    answer(NOTHING_HAPPENED);
    assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'completed');
    assert.equal((await run.ask(2, count.tool, { key: 'b' })).status, 'completed');
    assert.deepEqual(effectsIn(world), ['a', 'b']);
    const lifted = world.audit.events.filter(({ event }) => event === 'restore.lifted');
    assert.deepEqual(
      lifted.map(({ principal, data }) => [principal, data]),
      [['person:ann', { backup: BACKUP }]],
    );
    const other = await host.admit('other', { restored: RESTORED });
    assert.equal((await other.ask(1, count.tool, { key: 'c' })).status, 'waiting', 'other trees');
    const later = await host.admit('r', { fence: 2, restored: { ...RESTORED!, backup: 'b_2' } });
    assert.equal((await later.ask(3, count.tool, { key: 'd' })).status, 'waiting', 'other backup');
  });

  it('is made at once when it only reads, is idempotent, or its run was not restored', async () => {
    const run = await host.admit('r', { restored: RESTORED });
    assert.equal((await run.ask(1, 'test.echo', { text: 'x' })).status, 'completed');
    const put = await run.ask(2, 'artifact.put', { name: 'n', text: 't' });
    assert.equal(put.status, 'completed');
    const fresh = await host.admit('fresh');
    assert.equal((await fresh.ask(1, count.tool, count.arguments)).status, 'completed');
    assert.equal(world.agentd.waits.size, 0);
  });

  it('is denied without a question where policy denies it', async () => {
    publishPolicy(world.dir, { coder: { tools: { allow: ['task.delegate'] } }, version: 2 });
    await host.stop();
    host = await hostToold(world);
    const run = await host.admit('r', { restored: RESTORED });
    assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'denied');
    assert.equal(world.agentd.waits.size, 0);
  });

  describe('that needs approval', () => {
    beforeEach(async () => {
      const approvals = { required: [count.tool] };
      const coder = { tools: { allow: ['test.tools'] }, approvals };
      publishPolicy(world.dir, { coder, version: 2 });
      await host.stop();
      host = await hostToold(world);
    });
    const decide = (callId: CallId, decision: 'approved' | 'rejected') => {
      decideAsPerson(world, callId, { decision });
      const wait = [...world.agentd.waits.values()].find((one) => one.call_id === callId)!;
      world.agentd.endWait(wait.id, { answer: { decision } });
    };

    it('is asked about after it was approved, and made once', async () => {
      let run = await host.admit('r');
      assert.equal((await run.ask(1, count.tool, count.arguments)).wait?.kind, 'approval');
      run = await host.admit('r', { fence: 2, restored: RESTORED });
      decide(run.callId(1), 'approved');
      const asked = await run.ask(1, count.tool, count.arguments);
      assert.equal(asked.wait?.kind, 'question');
      assert.deepEqual(effectsIn(world), []);
      answer(DID_NOT_HAPPEN);
      assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'completed');
      assert.deepEqual(effectsIn(world), ['a']);
      assert.deepEqual(await eventsOf(world, run.callId(1)), [
        '.waiting.0',
        `.unsure.${BACKUP}`,
        '.attempted.1',
        '.ended',
      ]);
    });

    it('is denied without a question when it was rejected', async () => {
      let run = await host.admit('r');
      await run.ask(1, count.tool, count.arguments);
      run = await host.admit('r', { fence: 2, restored: RESTORED });
      decide(run.callId(1), 'rejected');
      assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'denied');
      assert.equal(world.agentd.waits.size, 1);
    });

    it('is asked about before approval is requested, when it is new', async () => {
      const run = await host.admit('r', { restored: RESTORED });
      const asked = await run.ask(1, count.tool, count.arguments);
      assert.equal(asked.wait?.kind, 'question');
      answer(DID_NOT_HAPPEN);
      const waiting = await run.ask(1, count.tool, count.arguments);
      assert.equal(waiting.wait?.kind, 'approval');
      world.approvald.decide(run.callId(1), { decision: 'rejected' });
      const wait = [...world.agentd.waits.values()].find(({ kind }) => kind === 'approval')!;
      world.agentd.endWait(wait.id, { answer: { decision: 'rejected' } });
      assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'denied');
      assert.deepEqual(effectsIn(world), []);
    });
  });

  it('keeps its question over a crash, and its answer over a retry', async () => {
    let run = await host.admit('r', { restored: RESTORED });
    await run.ask(1, count.tool, count.arguments);
    await host.stop();
    host = await hostToold(world);
    run = await host.admit('r', { fence: 2, restored: RESTORED });
    assert.equal((await run.ask(1, count.tool, count.arguments)).status, 'waiting');
    assert.equal(world.agentd.waits.size, 1);
    answer(DID_NOT_HAPPEN);
    const dead = new Error('agentd is gone');
    world.agentd.state.gate = () => {
      throw dead;
    };
    await assert.rejects(run.ask(1, count.tool, count.arguments));
    world.agentd.state.gate = () => {};
    const done = await run.ask(1, count.tool, count.arguments);
    assert.equal(done.status, 'completed');
    assert.deepEqual(effectsIn(world), ['a']);
    assert.equal(world.agentd.waits.size, 1, 'one question, not two');
  });
});

const REACH: BoxReach = {
  write: ['/workspace', '/home/coder', '/tmp'],
  workspace: '/workspace',
  home: '/home/coder',
  network: { mode: 'none', allow: [], granted: [] },
};
const NETWORK: BoxReach = { ...REACH, network: { mode: 'open', allow: [], granted: [] } as never };
const RUN = {
  restored: { backup: BACKUP, takenAt: '', changed: false },
  workspace: null,
  isLayered: false,
};

function makeTool(more: Partial<Tool>): Tool {
  return tool({
    name: 'x.y',
    description: 'x',
    risk: 'low',
    level: 'L0',
    reversibility: 'reversible',
    idempotent: false,
    input: z.strictObject({}),
    output: z.object({}),
    perform: async () => ({ result: {} }),
    ...more,
  } as never);
}
const writes = (path: string) => () => [{ action: 'file.write' as const, path }];

describe('which calls may repeat something', () => {
  const command = { box: 'write' } as const;
  const edit = (path: string) => ({ ...command, touchesAll: true as const, touches: writes(path) });
  const cases: [string, Partial<Tool>, Partial<typeof RUN>, BoxReach, boolean][] = [
    ['one that only reads', { reversibility: 'read-only' }, {}, REACH, false],
    ['an idempotent one', { reversibility: 'irreversible', idempotent: true }, {}, REACH, false],
    [
      'one that is idempotent by a record of another daemon',
      { reversibility: 'externally-reversible', idempotent: true, recall: async () => undefined },
      {},
      REACH,
      true,
    ],
    ['an irreversible one', { reversibility: 'irreversible' }, {}, REACH, true],
    [
      'one that only reads with these arguments',
      { reversibility: 'irreversible', assessReversibility: () => 'read-only' },
      {},
      REACH,
      false,
    ],
    ['a declared command on the host', {}, {}, REACH, true],
    ['a command in the box', command, {}, REACH, false],
    ['a command in a box with network', command, {}, NETWORK, true],
    [
      'a command in a box with a path of the host',
      command,
      {},
      { ...REACH, write: [...REACH.write, '/srv'] },
      true,
    ],
    ['an edit in the workspace', edit('/workspace/a'), {}, NETWORK, false],
    ['an edit on the host', edit('/srv/a'), {}, REACH, true],
    [
      'an edit in a directory of the host',
      edit('/workspace/a'),
      { workspace: '/srv/w' as never },
      REACH,
      true,
    ],
    [
      'an edit in a layer over a directory of the host',
      edit('/workspace/a'),
      { workspace: '/srv/w' as never, isLayered: true },
      REACH,
      false,
    ],
    [
      'an edit of files newer than the record',
      edit('/workspace/a'),
      { restored: { ...RUN.restored, changed: true } },
      REACH,
      true,
    ],
  ];
  for (const [what, spec, run, reach, expected] of cases)
    it(`${what}: ${expected ? 'is asked about' : 'goes on'}`, () => {
      const call = { tool: makeTool(spec), input: {}, run: { ...RUN, ...run }, reach };
      assert.equal(mayRepeat(call), expected);
      assert.equal(mayRepeat({ ...call, run: { ...call.run, restored: null } }), false);
    });
});
