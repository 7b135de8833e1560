// The store on SQLite and on PostgreSQL (PGlite): the same transactions, the same outcomes.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import {
  DATABASES,
  delegate,
  done,
  faultCode,
  makeCall,
  makeSubtask,
  makeTask,
  world,
} from './testing.ts';

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`agentd's store on ${name}`, () => {
    it('takes a task from ready to completed under a lease with a fence', async () => {
      const { store, task, claim, events } = await world(open);
      const { id } = await task();
      const [first] = await claim();
      assert.equal(first?.task.id, id);
      assert.equal(first.run.fence, 1);
      assert.equal((await store.task(id)).status, 'working');
      assert.deepEqual(await claim(), []);
      await store.finish(makeCall(first.run), done('42'));
      const ended = await store.task(id);
      assert.equal(ended.status, 'completed');
      assert.equal(ended.result, '42');
      assert.equal((await store.runRow(first.run.id)).outcome, 'completed');
      assert.ok(await store.outbox.drain(20_000));
      const kinds = events.filter((event) => event.task_id === id).map((event) => event.event);
      assert.deepEqual(kinds, [
        'task.created',
        'task.started',
        'run.started',
        'run.ended',
        'task.ended',
      ]);
      await store.close();
    });

    it('a subtask has the workspace of its root, in the same mode; old rows are live', async () => {
      const { store, task } = await world(open);
      const root = await task({ workspace: '/srv/w', workspaceMode: 'layer' });
      const part = await task({ parent: root });
      const piece = await task({ parent: part, workspace: '/srv/x', workspaceMode: 'live' });
      for (const { id } of [root, part, piece]) {
        const { workspace, workspace_mode } = await store.task(id);
        assert.deepEqual([workspace, workspace_mode], ['/srv/w', 'layer']);
      }
      assert.equal((await store.task((await task()).id)).workspace_mode, null);
      const old = await task({ workspace: '/srv/w' });
      assert.equal(old.workspace_mode, null);
      assert.equal((await store.task(old.id)).workspace_mode, 'live');
      await store.close();
    });

    it('claims by priority, up to the number of replicas', async () => {
      const { store, task, claim } = await world(open);
      await task({ agent: 'coder' });
      const high = await task({ agent: 'coder', priority: 5 });
      await task({ agent: 'coder' });
      const claims = await claim();
      assert.equal(claims.length, 2);
      assert.equal(claims[0]!.task.id, high.id);
      await store.close();
    });

    it('claims in one order across agents, and passes over agents without a free replica', async () => {
      const { store, task, claim, advance } = await world(open);
      const busy = await task({ agent: 'planner' });
      assert.equal((await claim())[0]!.task.id, busy.id);
      await task({ agent: 'planner', priority: 9 });
      const delayed = await task({ agent: 'tester', priority: 9 });
      const crash = { detail: 'x', counts: true, crashesMax: 3 };
      const [crashed] = await claim();
      await store.endActivation({ runId: crashed!.run.id, fence: 1 }, crash);
      const older = await task({ agent: 'coder' });
      const newer = await task({ agent: 'tester' });
      const high = await task({ agent: 'coder', priority: 5 });
      assert.deepEqual(
        (await claim(2)).map(({ task }) => task.id),
        [high.id, older.id],
      );
      assert.deepEqual(
        (await claim()).map(({ task }) => task.id),
        [newer.id],
      );
      await store.cancelTask(newer.id, 'x', 'person:alice');
      advance(3_600_000);
      assert.deepEqual(
        (await claim()).map(({ task }) => task.id),
        [delayed.id],
      );
      await store.close();
    });

    it('parks for a child, holds no lease, and wakes with a higher fence', async () => {
      const { store, task, claim } = await world(open);
      const parent = await task();
      const [claimed] = await claim();
      const call = makeCall(claimed!.run);
      const child = makeSubtask(parent, `task_${'1'.repeat(26)}`);
      const made = await delegate(store, call, child, {});
      assert.equal(
        (await delegate(store, call, { ...child, id: `task_${'2'.repeat(26)}` }, {})).task.id,
        made.task.id,
        'the same call delegates once',
      );
      assert.equal(await store.park({ runId: claimed!.run.id, fence: 1 }, [call.callId]), true);
      assert.equal((await store.task(parent.id)).status, 'waiting');
      const [childClaim] = await claim();
      assert.equal(childClaim!.task.id, made.task.id);
      await store.finish(makeCall(childClaim!.run), { ...done('part done'), by: 'agent:coder' });
      const [woken] = await claim();
      assert.equal(woken!.run.id, claimed!.run.id);
      assert.equal(woken!.run.fence, 2);
      const wait = await store.wait(made.wait!.id);
      assert.equal(wait.outcome, 'completed');
      assert.equal(wait.answer?.result, 'part done');
      await assert.rejects(
        store.finish(makeCall(claimed!.run), done('late')),
        faultCode('stale_fence'),
      );
      await store.close();
    });

    it('does not park when every wait has already ended', async () => {
      const { store, task, claim, advance } = await world(open);
      await task();
      const [claimed] = await claim();
      const call = makeCall(claimed!.run);
      await store.openWait(call, {
        kind: 'timer',
        by: ['service:agentd'],
        dueMs: Date.parse('2026-01-01T00:00:01Z'),
      });
      advance(2_000);
      await store.processDue();
      assert.equal(await store.park({ runId: claimed!.run.id, fence: 1 }, [call.callId]), false);
      await store.close();
    });

    it('answers a question once and only with one of its choices', async () => {
      const { store, task, claim } = await world(open);
      await task();
      const [claimed] = await claim();
      const wait = await store.openWait(makeCall(claimed!.run), {
        kind: 'question',
        by: ['person'],
        question: 'which?',
        choices: ['a', 'b'],
      });
      await assert.rejects(
        store.answerWait(wait.id, 'c', 'person:alice'),
        faultCode('bad_request'),
      );
      await store.answerWait(wait.id, 'b', 'person:alice');
      await assert.rejects(store.answerWait(wait.id, 'a', 'person:bob'), faultCode('conflict'));
      assert.deepEqual((await store.wait(wait.id)).answer, { text: 'b' });
      await store.close();
    });

    it('blocks after a task, frees on completion, rejects down the chain on failure', async () => {
      const { store, task, claim } = await world(open);
      const a = await task();
      const b = await task({ after: [a.id] });
      const c = await task({ after: [b.id] });
      assert.equal((await store.task(b.id)).status, 'blocked');
      await store.finish(makeCall((await claim())[0]!.run), done('a'));
      assert.equal((await store.task(b.id)).status, 'ready');
      await store.cancelTask(b.id, 'not wanted', 'person:alice');
      const rejected = await store.task(c.id);
      assert.equal(rejected.status, 'rejected');
      assert.match(rejected.reason ?? '', new RegExp(b.id));
      await assert.rejects(task({ after: [c.id] }), faultCode('conflict'));
      await store.close();
    });

    it('refuses a child that depends on its own ancestor', async () => {
      const { store, task } = await world(open);
      const root = await task();
      const child = await task({ parent: root });
      await assert.rejects(task({ parent: child, after: [root.id] }), faultCode('cycle'));
      const later = await task({ after: [child.id] });
      await assert.rejects(
        task({ parent: child, after: [later.id] }),
        faultCode('cycle'),
        'also through other tasks',
      );
      await task({ parent: child, after: [(await task()).id] });
      await store.close();
    });

    it('cancels the whole tree and reports which processes to stop', async () => {
      const { store, task, claim, ended } = await world(open);
      const root = await task();
      const [claimed] = await claim();
      const child = await task({ parent: root, agent: 'coder' });
      const [childClaim] = await claim();
      await store.cancelTask(root.id, 'stop', 'person:alice');
      assert.equal((await store.task(child.id)).status, 'canceled');
      assert.deepEqual(
        new Set(ended.map((run) => run.runId)),
        new Set([claimed!.run.id, childClaim!.run.id]),
      );
      await assert.rejects(store.cancelTask(root.id, 'again', 'person:alice'), faultCode('ended'));
      await store.close();
    });

    it('[K60] requeues a crashed run with growing backoff, and finally fails the task', async () => {
      const { store, task, claim, advance } = await world(open);
      const { id } = await task();
      for (let crash = 1; crash <= 3; crash++) {
        const [claimed] = await claim();
        assert.equal(claimed!.run.fence, crash);
        await store.endActivation(
          { runId: claimed!.run.id, fence: crash },
          { detail: 'boom', crashesMax: 2, counts: true },
        );
        assert.deepEqual(await claim(), [], 'not before the backoff ends');
        advance(1_000);
      }
      const failed = await store.task(id);
      assert.equal(failed.status, 'failed');
      assert.match(failed.error?.message ?? '', /boom/);
      await store.close();
    });

    it('lets several runs of one task live and the first result win', async () => {
      const { store, task, claim, ended } = await world(open);
      const { id } = await task({ agent: 'coder' });
      await store.addRun(id);
      const claims = await claim();
      assert.equal(claims.length, 2);
      await store.finish(makeCall(claims[1]!.run), done('second was faster'));
      assert.equal((await store.runRow(claims[0]!.run.id)).outcome, 'lost');
      assert.equal((await store.runRow(claims[1]!.run.id)).outcome, 'completed');
      assert.deepEqual(
        ended.map((run) => run.runId),
        [claims[0]!.run.id],
      );
      await store.close();
    });

    it('numbers messages per pair and returns the same ones to a repeated step', async () => {
      const { store, task, claim } = await world(open);
      const root = await task();
      const [claimed] = await claim();
      const send = (text: string) =>
        store.send(
          {
            type: 'TaskProgress',
            contextId: root.context_id,
            taskId: root.id,
            from: 'person:alice',
            to: 'agent:planner',
            inReplyTo: null,
            labels: ['person'],
            parts: [{ kind: 'text', text }],
            text,
            delivered: false,
          },
          undefined,
        );
      const sentFirst = await send('one');
      const sentSecond = await send('two');
      assert.deepEqual([sentFirst.pair_seq, sentSecond.pair_seq].map(Number), [1, 2]);
      const key = { runId: claimed!.run.id, fence: 1 };
      const first = await store.inbox(key, 0);
      await send('three');
      assert.deepEqual(
        (await store.inbox(key, 0)).map((m) => m.id),
        first.map((m) => m.id),
      );
      assert.equal(first.length, 2);
      assert.equal((await store.inbox(key, 1)).length, 1);
      await store.close();
    });

    it('returns the same task for the same idempotency key and refuses a different request', async () => {
      const { store } = await world(open);
      const request = (id: string) =>
        makeTask({ id: `task_${id.repeat(26)}`, contextId: `ctx_${'0'.repeat(26)}` });
      const once = { scope: 's', key: 'k', requestHash: 'h1' };
      const a = await store.createTask(request('a'), once);
      const b = await store.createTask(request('b'), once);
      assert.equal(a.id, b.id);
      await assert.rejects(
        store.createTask(request('c'), { ...once, requestHash: 'h2' }),
        faultCode('idempotency_mismatch'),
      );
      await store.close();
    });

    it('halts: live runs are requeued, nothing is claimed until it is lifted', async () => {
      const { store, task, claim, ended } = await world(open);
      await task();
      const [claimed] = await claim();
      assert.equal(await store.setHalt('enough', 'person:alice'), 1);
      assert.deepEqual(
        ended.map((run) => run.runId),
        [claimed!.run.id],
      );
      assert.deepEqual(await claim(), []);
      await store.liftHalt('person:alice');
      assert.equal((await claim())[0]!.run.fence, 2);
      await store.close();
    });

    it('ends a task whose time limit is reached and returns the next due time', async () => {
      const { store, task, claim, advance } = await world(open);
      const { id } = await task({ deadlineMs: Date.parse('2026-01-01T00:10:00Z') });
      await claim();
      assert.equal(await store.nextDueMs(), Date.parse('2026-01-01T00:01:00Z'), 'the lease');
      advance(11 * 60_000);
      const due = await store.processDue();
      assert.equal((await store.task(id)).error?.code, 'limit');
      assert.deepEqual(due, []);
      await store.close();
    });

    it('refuses work for missing or paused agents, and requeues the runs of a stopped one', async () => {
      const { store, task, claim, ended } = await world(open);
      await assert.rejects(task({ agent: 'nobody' }), faultCode('not_found'));
      await store.setAgentStatus('tester', 'paused', 'person:alice');
      await assert.rejects(task({ agent: 'tester' }), faultCode('agent_paused'));
      await task();
      const [claimed] = await claim();
      await store.setAgentStatus('planner', 'stopped', 'person:alice');
      assert.deepEqual(
        ended.map((run) => run.runId),
        [claimed!.run.id],
      );
      assert.deepEqual(await claim(), []);
      await store.setAgentStatus('planner', 'active', 'person:alice');
      assert.equal((await claim()).length, 1);
      await store.close();
    });

    it('requeues live runs after a restart without counting a crash', async () => {
      const { store, task, claim } = await world(open);
      await task();
      await claim();
      assert.equal(await store.recoverRuns(), 1);
      const [again] = await claim();
      assert.equal(again!.run.fence, 2);
      assert.equal(again!.run.crashes, 0);
      await store.close();
    });

    it('lists by keyset, newest first, and builds the tree', async () => {
      const { store, task } = await world(open);
      const root = await task();
      for (let i = 0; i < 4; i++) await task({ parent: root, agent: 'coder' });
      const first = await store.tasks({ root_task_id: root.id }, { limit: 3 });
      const rest = await store.tasks(
        { root_task_id: root.id },
        { limit: 3, cursor: first.cursor! },
      );
      assert.equal(first.rows.length + rest.rows.length, 5);
      assert.equal(rest.cursor, null);
      assert.equal((await store.tree(root.id)).children.length, 4);
      assert.deepEqual((await store.counts()).tasks, { ready: 5 });
      await store.close();
    });

    it('lists by any columns together', async () => {
      const { store, task, claim } = await world(open);
      const root = await task();
      const child = await task({ parent: root, contextId: root.context_id, agent: 'coder' });
      await task({ agent: 'coder' });
      await claim(1);
      const list = async (filter: Record<string, string>) =>
        (await store.tasks(filter, { limit: 10 })).rows.map(({ id }) => id);
      const coder = { assigned_to: 'coder' };
      assert.equal((await list(coder)).length, 2);
      assert.deepEqual(await list({ ...coder, status: 'working' }), []);
      assert.deepEqual(await list({ assigned_to: 'planner', status: 'working' }), [root.id]);
      assert.deepEqual(await list({ ...coder, context_id: root.context_id }), [child.id]);
      assert.deepEqual(
        await list({ ...coder, root_task_id: root.id, status: 'ready', parent_task_id: root.id }),
        [child.id],
      );
      assert.deepEqual(await list({ status: 'working', root_task_id: child.id }), []);
      await store.close();
    });
  });
}
