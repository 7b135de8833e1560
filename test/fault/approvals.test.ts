// SIGKILL of approvald, and of those it works with, at each point of an approval in turn. After
// each: the call was asked for, approved and done exactly once, and never without a person.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { makeReviewer } from '../../src/daemons/approvald/testing/reviewer.ts';
import { allEvents } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  writableFile,
} from '../support/runtime.ts';

const FAILPOINTS = [
  'approvald.before-ask',
  'approvald.after-ask',
  'approvald.before-answer',
  'approvald.after-answer',
  'approvald.before-redeem',
  'approvald.after-redeem',
  'agentd.before-park',
  'agentd.after-park',
  'toold.after-intent',
  'toold.after-approval-asked',
];
const coder = `apiVersion: agentd/v1
kind: Agent
metadata: { name: coder, description: Counts when it may. }
spec:
  tools: { allow: [test.tools] }
  approvals: { required: [test.count_effect] }
`;

describe('killed at every failpoint of an approval, in split mode', () => {
  const base = freshDir();
  const effectFile = writableFile(join(base, 'effects'));
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  let n = 0;
  before(async () => {
    runtime = await startRuntime({
      base,
      mode: 'split',
      faults: true,
      agents: { coder },
      config: `agentd: { crashes_max: 100000 }\ntoold: { test_tools: true, test_effect_file: ${effectFile} }\n`,
    });
  });
  after(() => runtime.remove());

  const effects = (key: string): string[] =>
    existsSync(effectFile)
      ? readFileSync(effectFile, 'utf8')
          .split('\n')
          .filter((line) => line.startsWith(`${key}-`))
          .sort()
      : [];

  /** Acts as a person: decides every pending approval, and retries when the call fails. */
  const decideAll = async (): Promise<void> => {
    const { approvals } = await runtime.approvald.listApprovals({ query: { status: 'pending' } });
    for (const { id } of approvals)
      await makeReviewer(runtime.approvald).approve({ params: { id }, body: { for: 'once' } });
    const query = { status: 'open', kind: 'question' } as const;
    const { waits } = await runtime.agentd.listWaits({ query });
    for (const wait of waits) {
      const { call } = await runtime.toold.getCall({ params: { id: wait.call_id! } });
      const key = String(call.arguments.key);
      const happened = existsSync(effectFile) && readFileSync(effectFile, 'utf8').includes(key);
      const answer = wait.choices[happened ? 0 : 1]!;
      await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer } });
    }
  };

  for (const failpoint of FAILPOINTS)
    it(failpoint, async () => {
      const key = `k${n++}`;
      writeFileSync(crashFile, failpoint);
      const goal = `count the effect 2 times with key ${key}`;
      const once = { idempotencyKey: `task-${key}` };
      const { task } = await eventually('a task to be taken', () =>
        runtime.agentd.createTask({ body: { goal, agent: 'coder' } }, once),
      );
      const ended = await eventually(
        'it to end',
        async () => {
          await decideAll().catch(() => {});
          const now = (await runtime.agentd.getTask({ params: { id: task.id } })).task;
          return now.ended_at === null ? undefined : now;
        },
        60_000,
      );
      assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
      assert.equal(ended.status, 'completed', JSON.stringify(ended));
      assert.deepEqual(effects(key), [`${key}-1`, `${key}-2`]);
    });

  it('every effect has a person’s approval in the log before its start', async () => {
    const all = await eventually('the log to be whole', async () => {
      const events = await allEvents(runtime);
      const done = events.filter(({ event }) => event === 'approval.redeemed');
      return done.length >= 2 * FAILPOINTS.length ? events : undefined;
    });
    assert.equal(new Set(all.map(({ id }) => id)).size, all.length, 'no event twice');
    const begun = all.filter(
      ({ event, tool }) => event === 'tool.call.attempted' && tool === 'test.count_effect',
    );
    assert.ok(begun.length >= 2 * FAILPOINTS.length);
    for (const { call_id, seq } of begun) {
      const redeemed = all.find(
        (logged) =>
          logged.event === 'approval.redeemed' && logged.call_id === call_id && logged.allowed,
      );
      assert.ok(redeemed !== undefined && redeemed.seq < seq, `${call_id} was approved first`);
      assert.match(String(redeemed.data?.by), /^person:/);
    }
  });
});
