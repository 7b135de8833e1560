// Retention: ended task trees are pruned by age, by the runtime itself or by a person; holds, rules
// and live tasks keep them; every id of what was pruned says when and why, and the log still holds.
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { socketPathFor } from '../../src/platform/daemon.ts';
import { makeClient, socketLink } from '../../src/platform/link.ts';
import { agentdRoutes, type PruneReport, type StartPrune } from '../../src/wire/agentd.ts';
import { findKind, passEnded, prune } from '../support/prune.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  doTask,
  refusedWith,
  type ScriptedWorld,
  startScriptedWorld,
} from '../support/scripted-world.ts';

const DAY_MS = 86_400_000;

const reasonsOf = (report: PruneReport, name = 'tasks') =>
  findKind(report, name).kept.map(({ reason }) => reason);

describe('retention of tasks', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ retention: { tasks: { age: '30d' } } });
    world.model.on(
      'Ask a colleague',
      says(call('task.delegate', { agent: 'coder', goal: 'Do a part' })),
      finishes('all done'),
    );
    world.model.on('Do a part', says(call('test.echo', { text: 'hello' })), finishes('part done'));
  });
  after(() => world.stop());

  const pruneAll = (more: StartPrune = {}) =>
    prune(world, { older_than_s: 0, kinds: ['tasks'], ...more });

  it('the runtime prunes what is old enough by itself, and every route says so', async () => {
    const task = await doTask(world, 'Ask a colleague', { agent: 'planner' });
    const { tree } = await world.agentd.getTree({ params: { id: task.id } });
    const child = tree.children[0]!.task;
    const { runs } = await world.agentd.listRuns({ query: { task_id: child.id } });
    const { calls } = await world.toold.listCalls({ query: { run_id: runs[0]!.id } });
    const models = await world.modeld.listCalls({ query: { task_id: child.id } });
    const { total } = await world.modeld.usage({ query: {} });
    assert.ok(calls.length >= 2 && models.calls.length >= 2 && tree.waits.length > 0);
    const since = (await allEvents(world)).length;

    world.clock.advance(31 * DAY_MS);
    await eventually('the task to be pruned', async () => {
      const { prune: report } = await world.agentd.getPrune({ query: {} });
      return report?.status === 'completed' && findKind(report, 'tasks').pruned > 0
        ? report
        : undefined;
    });

    const params = { id: task.id };
    const of = { query: { task_id: child.id } };
    const gone: Record<string, () => Promise<unknown>> = {
      getTask: () => world.agentd.getTask({ params }),
      getTree: () => world.agentd.getTree({ params: { id: child.id } }),
      cancelTask: () => world.agentd.cancelTask({ params, body: {} }),
      retryTask: () => world.agentd.retryTask({ params }),
      replayTask: () => world.agentd.replayTask({ params }),
      assignTask: () => world.agentd.assignTask({ params, body: { agent: 'coder' } }),
      keepTask: () => world.agentd.keepTask({ params, body: { kept: true } }),
      createAfter: () => world.agentd.createTask({ body: { goal: 'x', after: [task.id] } }),
      createBelow: () => world.agentd.createTask({ body: { goal: 'x', parent_task_id: task.id } }),
      getRun: () => world.agentd.getRun({ params: { id: runs[0]!.id } }),
      getWait: () => world.agentd.getWait({ params: { id: tree.waits[0]!.id } }),
      answerWait: () =>
        world.agentd.answerWait({ params: { id: tree.waits[0]!.id }, body: { answer: 'x' } }),
      listTasks: () => world.agentd.listTasks({ query: { parent_task_id: task.id } }),
      listRuns: () => world.agentd.listRuns(of),
      listWaits: () => world.agentd.listWaits(of),
      listMessages: () => world.agentd.listMessages(of),
      listArtifacts: () => world.agentd.listArtifacts(of),
      getToolCall: () => world.toold.getCall({ params: { id: calls[0]!.call_id } }),
      listToolCalls: () => world.toold.listCalls(of),
      getModelCall: () => world.modeld.getCall({ params: { id: models.calls[0]!.call_id } }),
      listModelCalls: () => world.modeld.listCalls(of),
      startPrune: () => world.agentd.startPrune({ body: { root_task_ids: [task.id] } }),
    };
    for (const [name, look] of Object.entries(gone)) {
      const fault = await refusedWith('pruned', look()).catch((cause: unknown) => {
        throw new Error(name, { cause });
      });
      assert.match(fault.message, /pruned on 2026-04-01/, name);
      assert.equal(fault.http, 410);
    }
    assert.match(
      (await refusedWith('pruned', gone.getTask!())).message,
      /retention\.tasks keeps ended tasks for 30 days/,
    );
    // Control: an id that never was is not pruned.
    const nobody = { id: `task_${'0'.repeat(26)}` as never };
    await refusedWith('not_found', world.agentd.getTask({ params: nobody }));

    const events = (await allEvents(world)).slice(since);
    const event = events.find((one) => one.event === 'data.pruned');
    assert.equal(event?.root_task_id, task.id);
    assert.equal(event.policy, 'base:retention');
    assert.deepEqual([event.data?.tasks, event.data?.runs], [2, 2]);
    assert.deepEqual((await world.modeld.usage({ query: {} })).total, total, 'usage stays');
    await eventually('journal = log', () => assertReconciled(world));
  });

  it('a held tree stays until it is released; both are recorded', async () => {
    const task = await doTask(world, 'Ask a colleague', { agent: 'planner' });
    const params = { id: task.id };
    const { task: kept } = await world.agentd.keepTask({
      params,
      body: { kept: true, reason: 'a court asked' },
    });
    assert.equal(kept.kept?.reason, 'a court asked');
    assert.deepEqual(reasonsOf(await pruneAll()), ['held']);
    assert.equal((await world.agentd.getTask({ params })).task.status, 'completed');
    await world.agentd.keepTask({ params, body: { kept: false } });
    assert.equal(findKind(await pruneAll(), 'tasks').pruned, 1);
    await refusedWith('pruned', world.agentd.getTask({ params }));
    const events = await allEvents(world);
    const kinds = events.filter((e) => e.root_task_id === task.id).map((e) => e.event);
    for (const kind of ['task.kept', 'task.released', 'data.pruned'])
      assert.equal(kinds.filter((one) => one === kind).length, 1, kind);
  });

  it('a dry run changes nothing and counts the same', async () => {
    const task = await doTask(world, 'Do a part', { agent: 'coder' });
    const dry = await pruneAll({ dry_run: true });
    assert.equal(dry.dry_run, true);
    assert.equal(findKind(dry, 'tasks').pruned, 1);
    assert.ok(findKind(dry, 'tasks').bytes > 0);
    assert.equal((await world.agentd.getTask({ params: { id: task.id } })).task.id, task.id);
    assert.equal(findKind(await pruneAll(), 'tasks').pruned, 1);
  });

  it('what a live task retries, waits for or continues stays', async () => {
    world.model.on('Never end', { hang: true });
    const task = await doTask(world, 'Do a part', { agent: 'coder' });
    const live = await create(world, 'Never end', { agent: 'coder', context_id: task.context_id });
    assert.deepEqual(reasonsOf(await pruneAll()), ['used']);
    await world.agentd.cancelTask({ params: { id: live.id }, body: {} });
    assert.equal(findKind(await pruneAll(), 'tasks').pruned, 2, 'control: after its end both go');
  });

  it('an artifact and its bytes go by their own age, and may outlive their task', async () => {
    const objects = () =>
      globSync('sha256/**/*', { cwd: join(world.stateDir, 'objects') }).filter((path) =>
        /[0-9a-f]{64}$/.test(path),
      );
    world.model.on(
      'Write it down',
      says(call('artifact.put', { name: 'a.txt', text: 'the same bytes' })),
      finishes('written'),
    );
    const before = objects().length;
    const [first, second] = [
      await doTask(world, 'Write it down', { agent: 'coder' }),
      await doTask(world, 'Write it down', { agent: 'coder' }),
    ];
    const artifactOf = async (id: string) =>
      (await world.agentd.listArtifacts({ query: { task_id: id as never } })).artifacts[0]!;
    const [one, other] = [await artifactOf(first.id), await artifactOf(second.id)];
    assert.equal(objects().length, before + 1, 'the bytes are stored once');
    await pruneAll({ root_task_ids: [first.id, second.id] });
    const read = (id: string) =>
      world.agentd.getArtifact({ params: { id: id as never }, query: {} });
    assert.equal((await read(one.id)).text, 'the same bytes', 'it outlives its task');

    const later = world.clock.nowMs();
    world.clock.advance(1_000);
    const third = await world.agentd.putArtifact({ body: { name: 'b', text: 'the same bytes' } });
    const olderThanMs = world.clock.nowMs() - later;
    const pruneArtifacts = (more: StartPrune) => prune(world, { kinds: ['artifacts'], ...more });
    const report = await pruneArtifacts({ older_than_s: olderThanMs / 1_000 });
    assert.equal(findKind(report, 'artifacts').pruned, 2);
    for (const { id } of [one, other])
      assert.match((await refusedWith('pruned', read(id))).message, /pruned artifacts older than/);
    await refusedWith(
      'pruned',
      world.agentd.createTask({
        body: { goal: 'x', inputs: [{ kind: 'artifact_ref', id: one.id }] },
      }),
    );
    assert.equal((await read(third.artifact.id)).text, 'the same bytes', 'its bytes are needed');
    await pruneArtifacts({ older_than_s: 0 });
    await refusedWith('pruned', read(third.artifact.id));
    assert.equal(objects().length, before, 'no artifact needs them');
    await eventually('journal = log', () => assertReconciled(world));
  });

  it('model contexts go earlier; the task, its calls and their usage stay', async () => {
    const task = await doTask(world, 'Do a part', { agent: 'coder' });
    const params = { id: task.id };
    assert.equal((await world.agentd.replayTask({ params })).replay.same, true);
    const of = { query: { task_id: task.id } };
    const { calls } = await world.modeld.listCalls(of);
    const pruneContexts = (more: StartPrune) =>
      prune(world, { root_task_ids: [task.id], kinds: ['model_contexts'], ...more });
    const dry = findKind(await pruneContexts({ dry_run: true }), 'model_contexts');
    assert.ok(dry.pruned === 1 && dry.bytes > 0);
    assert.equal((await world.agentd.replayTask({ params })).replay.same, true, 'nothing is gone');
    const done = findKind(await pruneContexts({}), 'model_contexts');
    assert.deepEqual([done.pruned, done.bytes], [1, dry.bytes]);
    const { task: now } = await world.agentd.getTask({ params });
    assert.match(now.pruned?.model_contexts ?? '', /^2026-/);
    assert.deepEqual((await world.modeld.listCalls(of)).calls.length, calls.length);
    await refusedWith('pruned', world.agentd.replayTask({ params }));
    const events = (await allEvents(world)).filter(
      (e) => e.event === 'data.pruned' && e.root_task_id === task.id,
    );
    assert.deepEqual(
      events.map(({ status }) => status),
      ['model_contexts'],
    );
    const again = findKind(
      await prune(world, { kinds: ['model_contexts'], older_than_s: 0 }),
      'model_contexts',
    );
    assert.ok(again.kept.length === 0);
    await pruneAll();
    await refusedWith('pruned', world.agentd.getTask({ params }));
    await eventually('journal = log', () => assertReconciled(world));
  });

  it('only the named tree goes', async () => {
    const [one, other] = [
      await doTask(world, 'Do a part', { agent: 'coder' }),
      await doTask(world, 'Do a part', { agent: 'coder' }),
    ];
    await prune(world, { root_task_ids: [one.id], kinds: ['tasks'] });
    await refusedWith('pruned', world.agentd.getTask({ params: { id: one.id } }));
    await world.agentd.getTask({ params: { id: other.id } });
    await pruneAll();
  });

  it('nothing is removed while a backup is made, and its end lets the pass go on', async () => {
    const task = await doTask(world, 'Do a part', { agent: 'coder' });
    const { id } = (await world.agentd.startBackup({})).backup;
    const { prune: started } = await world.agentd.startPrune({
      body: { older_than_s: 0, kinds: ['tasks'] },
    });
    world.clock.advance(1);
    const dry = await pruneAll({ dry_run: true });
    assert.equal(findKind(dry, 'tasks').pruned, 1, 'what would be pruned can be asked meanwhile');
    await new Promise((resolve) => setTimeout(resolve, 300));
    const query = { started_at: started.started_at };
    const { prune: waiting, backups } = await world.agentd.getPrune({ query });
    assert.deepEqual([waiting?.status, backups], ['running', [id]]);
    assert.equal((await world.agentd.getTask({ params: { id: task.id } })).task.id, task.id);
    await world.agentd.endBackup({
      params: { id },
      body: { status: 'failed', manifest_sha256: null, events: null, size_bytes: null },
    });
    const report = await passEnded(world, started.started_at);
    assert.equal(findKind(report, 'tasks').pruned, 1);
    await refusedWith('pruned', world.agentd.getTask({ params: { id: task.id } }));
  });

  it('tasks run and prunes do not meet: everything ends, and journal = log', async () => {
    const done = Promise.all(
      Array.from({ length: 6 }, () => doTask(world, 'Ask a colleague', { agent: 'planner' })),
    );
    let isDone = false;
    void done.finally(() => {
      isDone = true;
    });
    while (!isDone) await pruneAll();
    for (const task of await done.catch(() => []))
      assert.equal(task.status, 'completed', JSON.stringify(task));
    await pruneAll();
    await eventually('journal = log', () => assertReconciled(world));
  });
});

describe('rules about retention', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({
      retention: { tasks: { age: '30d' } },
      policies: {
        '10-keep': `
@why("the coder's work is evidence")
forbid (principal, action == Action::"data.delete", resource in Scope::"tasks:coder");
@ask("research is looked at first")
forbid (principal, action == Action::"data.delete", resource in Scope::"tasks:researcher");
@why("what the planner does is not kept for more than two days")
forbid (principal == Service::"agentd", action == Action::"data.retain", resource in Scope::"tasks:planner")
when { context has age_days && context.age_days > 2 };
@why("mallory holds nothing")
forbid (principal == Person::"mallory", action == Action::"data.retain", resource);
`,
      },
    });
    world.model.on('Do it', finishes('done'));
  });
  after(() => world.stop());

  const show = (id: string) => world.agentd.getTask({ params: { id: id as never } });

  it('forbid keeps, ask waits for a person, and data.retain prunes early [R317]', async () => {
    const [planned, coded, researched] = [
      await doTask(world, 'Do it', { agent: 'planner' }),
      await doTask(world, 'Do it', { agent: 'coder' }),
      await doTask(world, 'Do it', { agent: 'researcher' }),
    ];
    const passEnded = (count: number) =>
      eventually('the pass', async () => {
        const { prune: report } = await world.agentd.getPrune({ query: {} });
        return report?.status === 'completed' && findKind(report, 'tasks').pruned === count
          ? report
          : undefined;
      });
    world.clock.advance(DAY_MS);
    await passEnded(0);
    await show(planned.id);
    world.clock.advance(3 * DAY_MS);
    await passEnded(1);
    const fault = await refusedWith('pruned', show(planned.id));
    assert.match(fault.message, /not kept for more than two days \(site:10-keep\.cedar:3\)/);
    await show(coded.id);

    world.clock.advance(60 * DAY_MS);
    const report = await eventually('what is kept', async () => {
      const { prune: now } = await world.agentd.getPrune({ query: {} });
      return now?.status === 'completed' && reasonsOf(now).length === 2 ? now : undefined;
    });
    const kept = Object.fromEntries(
      findKind(report, 'tasks').kept.map(({ reason, examples }) => [reason, examples[0]]),
    );
    assert.deepEqual(kept.policy, {
      id: coded.id,
      detail: "the coder's work is evidence",
      rules: ['site:10-keep.cedar:1'],
    });
    assert.equal(kept.needs_approval?.id, researched.id);
    const approved = await prune(world, { kinds: ['tasks'], approve: true });
    assert.equal(findKind(approved, 'tasks').pruned, 1);
    await refusedWith('pruned', show(researched.id));
    await show(coded.id);
    const event = (await allEvents(world)).find(
      (e) => e.event === 'data.pruned' && e.root_task_id === researched.id,
    );
    assert.equal(event?.principal, 'person:tester');
    assert.equal(event.policy, 'site:10-keep.cedar:2');
  });

  it('who may hold a task is a rule too', async () => {
    const task = await doTask(world, 'Do it', { agent: 'coder' });
    const params = { id: task.id };
    const body = { kept: true };
    const headers = { authorization: `Bearer ${world.operatorKey}`, 'agentd-person': 'mallory' };
    const socketPath = socketPathFor(world.runtimeDir, 'agentd', 'operator');
    const mallory = makeClient(agentdRoutes, socketLink({ socketPath, headers }));
    const fault = await refusedWith('denied', mallory.keepTask({ params, body }));
    assert.match(fault.message, /mallory holds nothing/);
    await world.agentd.keepTask({ params, body });
  });
});
