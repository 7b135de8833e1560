// Threads in the store: turns and who was told are counted per thread, renewed by people, and gone
// with the last tree; the next move has one owner at each moment.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  DATABASES,
  delegate,
  done,
  faultCode,
  makeCall,
  makeSubtask,
  type StoreWorld,
  world,
} from './testing.ts';

const LATER_MS = Date.parse('2027-01-01T00:00:00Z');
const LIMITS = { turnsMax: 3, repeatsMax: 0, costMicrousdMax: 0 };
const EXCHANGE = { limits: LIMITS, questionExpiresMs: LATER_MS };

/** A planner and its coder, who both run. */
async function startPair(here: StoreWorld) {
  const root = await here.task();
  const [planner] = await here.claim();
  const subtask = makeSubtask(root, `task_${'1'.repeat(26)}`);
  const { task: child } = await delegate(here.store, makeCall(planner!.run), subtask);
  const [coder] = await here.claim();
  assert.equal(coder!.task.id, child.id);
  let texts = 0;
  const send = (run: NonNullable<typeof planner>['run'], waits = false, more: object = {}) => {
    const [from, to] = run === planner!.run ? ['planner', 'coder'] : ['coder', 'planner'];
    return here.store.sendFromRun(
      makeCall(run),
      {
        type: 'TaskProgress',
        contextId: root.context_id,
        taskId: run.task_id,
        from: `agent:${from}`,
        to: `agent:${to}`,
        inReplyTo: null,
        labels: ['agent'],
        parts: [{ kind: 'text', text: `text ${texts}` }],
        text: `text ${texts++}`,
        delivered: false,
        ...more,
      },
      waits ? { expiresMs: LATER_MS } : undefined,
      EXCHANGE,
    );
  };
  const moveNow = async () => (await here.store.thread(root.context_id)).next_move;
  return { root, child, planner: planner!.run, coder: coder!.run, send, moveNow };
}

const reasonOf = (sent: object) => (sent as { refused?: { reason: string } }).refused?.reason;

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`threads on ${name}`, () => {
    it('counts turns, tells a run once, asks a person then, and goes on with the answer', async () => {
      const here = await world(open);
      const { store, events } = here;
      const { root, planner, coder, send } = await startPair(here);
      const turns = async () => (await store.thread(root.context_id)).turns;
      // The delegation was unlimited, and is turn 1.
      assert.equal(await turns(), 1);
      await send(planner);
      assert.equal(await turns(), 1, 'the same turn goes on');
      await send(coder);
      await send(planner);
      assert.equal(await turns(), 3);
      const first = await send(coder);
      assert.deepEqual([reasonOf(first), first.wait], ['turns', null]);
      const second = await send(coder);
      assert.equal(second.wait?.kind, 'question');
      assert.match(second.wait?.question ?? '', /May agent:coder and agent:planner go on\?/);
      assert.equal(await turns(), 3, 'refused ones do not count');
      await store.answerWait(second.wait!.id, 'go on', 'person:alice');
      assert.equal(await turns(), 0);
      assert.ok('message' in (await send(coder)));
      const limited = events.filter(({ event }) => event === 'thread.limited');
      assert.deepEqual(
        limited.map(({ data }) => data?.asks_person),
        [false, true],
      );
      await store.close();
    });

    it('after a person ended it no agent answers another, until a person writes', async () => {
      const here = await world(open);
      const { store } = here;
      const { root, planner, coder, send } = await startPair(here);
      await send(coder);
      await send(planner);
      await send(coder);
      const { wait } = await send(coder);
      await store.answerWait(wait!.id, 'stop', 'person:alice');
      assert.equal((await store.thread(root.context_id)).stopped_by, 'person:alice');
      for (const sent of [await send(coder), await send(coder)])
        assert.deepEqual([reasonOf(sent), sent.wait], ['stopped', null], 'nobody is asked again');
      await here.task({ contextId: root.context_id });
      assert.equal((await store.thread(root.context_id)).stopped_by, null);
      assert.ok('message' in (await send(coder)), 'control');
      await store.close();
    });

    it('nobody waits for one without an open task, nor two for each other', async () => {
      const here = await world(open);
      const { store } = here;
      const { planner, coder, send } = await startPair(here);
      const asked = await send(planner, true);
      assert.ok('message' in asked);
      const other = { inReplyTo: `msg_${'9'.repeat(26)}` };
      await assert.rejects(send(coder, true, other), faultCode('conflict'));
      const right = { inReplyTo: asked.message.id };
      assert.ok('message' in (await send(coder, true, right)), 'control: the reply it waits for');
      assert.equal((await store.wait(asked.wait!.id)).outcome, 'answered');
      await store.finish(makeCall(coder), { ...done('x'), by: 'agent:coder' });
      await assert.rejects(send(planner, true), faultCode('conflict'));
      await store.close();
    });

    it('the end of the last task that could reply ends the waits for it', async () => {
      const here = await world(open);
      const { store } = here;
      const { planner, coder, send } = await startPair(here);
      const { wait } = await send(coder, true);
      await store.finish(makeCall(planner), done('x'));
      const ended = await store.wait(wait!.id);
      assert.deepEqual([ended.status, ended.outcome], ['ended', 'failed']);
      assert.equal((await store.task(coder.task_id)).status, 'working', 'it goes on');
      await store.close();
    });

    it('the next move has one owner: who works, is asked, is to reply, or has the result', async () => {
      const here = await world(open);
      const { store } = here;
      const { planner, coder, send, moveNow, child } = await startPair(here);
      assert.equal((await moveNow()).owner, 'agent:planner');
      const asking = makeCall(planner);
      const { wait } = await store.sendFromRun(
        asking,
        {
          type: 'TaskProgress',
          contextId: child.context_id,
          taskId: planner.task_id,
          from: 'agent:planner',
          to: 'agent:coder',
          inReplyTo: null,
          labels: ['agent'],
          parts: [{ kind: 'text', text: 'Well?' }],
          text: 'Well?',
          delivered: false,
        },
        { expiresMs: LATER_MS },
        EXCHANGE,
      );
      await store.park({ runId: planner.id, fence: planner.fence }, [asking.callId]);
      assert.equal((await moveNow()).owner, 'agent:coder', 'the planner waits for it');
      const question = makeCall(coder);
      const opened = { kind: 'question' as const, by: ['person'], question: 'x?' };
      const { id } = await store.openWait(question, opened);
      await store.park({ runId: coder.id, fence: coder.fence }, [question.callId]);
      const asked = await moveNow();
      assert.deepEqual([asked.owner, asked.why], ['person:alice', `is asked: ${id}`]);
      await store.answerWait(id, 'yes', 'person:alice');
      assert.equal((await moveNow()).owner, 'agent:coder');
      const [woken] = await here.claim();
      await send(woken!.run);
      assert.equal((await store.wait(wait!.id)).status, 'ended');
      const [again] = (await here.claim()).filter(({ run }) => run.id === planner.id);
      await store.finish(makeCall(again!.run), done('x'));
      const last = await moveNow();
      assert.deepEqual([last.owner, last.why], ['person:alice', 'has the result']);
      await store.close();
    });

    it('is gone with the last tree of the thread', async () => {
      const here = await world(open);
      const { store } = here;
      const { root, planner, coder } = await startPair(here);
      await store.finish(makeCall(coder), { ...done('x'), by: 'agent:coder' });
      await store.finish(makeCall(planner), done('x'));
      const second = await here.task({ contextId: root.context_id });
      await store.cancelTask(second.id, 'x', 'person:alice');
      for (const { task } of await store.dueEpisodes(10)) await store.endEpisode(task.id);
      const prune = (rootTaskId: string) =>
        store.pruneTree({
          rootTaskId,
          endedBeforeMs: LATER_MS,
          cause: 'x',
          by: 'service:agentd',
          rules: '',
        });
      assert.ok('counts' in (await prune(root.id)));
      await store.thread(root.context_id);
      assert.ok('counts' in (await prune(second.id)));
      await assert.rejects(store.thread(root.context_id), faultCode('not_found'));
      await store.close();
    });
  });
}
