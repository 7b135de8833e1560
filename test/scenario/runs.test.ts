// Runs: a runner that hangs or dies is replaced under a higher fence, the old fence is refused
// everywhere, and of several runs of one task one wins.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { MIGRATIONS } from '../../src/daemons/agentd/store/schema.ts';
import { findTask } from '../../src/daemons/agentd/store/task-rows.ts';
import { queueRun } from '../../src/daemons/agentd/store/tasks.ts';
import { openSqlite } from '../../src/platform/sql/sqlite.ts';
import { agentdRoutes } from '../../src/wire/agentd.ts';
import { modeldRoutes } from '../../src/wire/modeld.ts';
import { tooldRoutes } from '../../src/wire/toold.ts';
import { callLocal, type IdleWorld, startIdleWorld } from '../support/callers.ts';
import { eventually, pauses, taskEnded } from '../support/runtime.ts';
import { call, finishes, says } from '../support/scripted-model.ts';
import {
  create,
  openWait,
  reaches,
  runnerPids,
  type ScriptedWorld,
  startScriptedWorld,
  taskNow,
} from '../support/scripted-world.ts';

describe('runs', () => {
  let world: ScriptedWorld;
  before(async () => {
    world = await startScriptedWorld({ agentd: { crashes_max: 2 } });
  });
  after(() => world.stop());

  const onlyRunner = async () => (await runnerPids(world.stateDir, 1))[0]!;
  const runsOf = async (taskId: string) =>
    (await world.agentd.listRuns({ query: { task_id: taskId as never } })).runs;
  const eventsOf = async (taskId: string) =>
    (await world.audit.task({ params: { task_id: taskId }, query: { limit: 500 } })).events;

  it('[R128] [R131] [R132] [C147] [K96] a runner whose lease expires is replaced, and the run continues under a higher fence', async () => {
    let isHung = false;
    world.model.on('Fall asleep', ({ step }) => {
      if (step === 0) return says(call('test.echo', { text: 'remember me' }));
      return isHung ? finishes('woke up') : { hang: true };
    });
    const task = await create(world, 'Fall asleep', { agent: 'coder' });
    await eventually('the second step', async () =>
      world.model.scenesFor('Fall asleep').length === 2 ? true : undefined,
    );
    const pid = await onlyRunner();
    process.kill(pid, 'SIGSTOP');
    isHung = true;
    world.clock.advance(61_000);
    await eventually('the hung process to end', async () =>
      existsSync(`/proc/${pid}`) ? undefined : true,
    );
    const ended = await eventually('the end', async () => {
      world.clock.advance(500);
      const now = await taskNow(world, task.id);
      return now.ended_at === null ? undefined : now;
    });
    assert.equal(ended.result, 'woke up');
    const [run] = await runsOf(task.id);
    assert.equal(run?.fence, 2);
    assert.equal(run?.crashes, 1);
    const { calls } = await world.toold.listCalls({ query: { task_id: task.id } });
    assert.equal(
      calls.filter(({ tool }) => tool === 'test.echo').length,
      1,
      'the effect is not repeated',
    );
    const events = await eventually('the events', async () => {
      const found = await eventsOf(task.id);
      const has = (kind: string) => found.some(({ event }) => event === kind);
      return has('task.ended') && has('run.ended') ? found : undefined;
    });
    const kinds = events.map(({ event }) => event);
    for (const kind of ['run.started', 'run.crashed', 'run.restarted', 'run.ended'] as const)
      assert.equal(kinds.filter((known) => known === kind).length, 1, kind);
    assert.match(
      String(events.find(({ event }) => event === 'run.crashed')?.data?.detail),
      /lease expired/,
    );
  });

  it('[K61] only crashes in a row count: after a wait, the count begins anew', async () => {
    let isCalm = false;
    world.model.on('Stumble', ({ step }) => {
      if (step === 0) return isCalm ? says(call('timer.wait', { after_s: 30 })) : { hang: true };
      return isCalm ? { hang: true } : finishes('done');
    });
    const task = await create(world, 'Stumble', { agent: 'coder' });
    const dieOnce = async (crashes: number) => {
      process.kill(await onlyRunner(), 'SIGKILL');
      await eventually('the crash', async () => {
        const [run] = await runsOf(task.id);
        return run?.crashes === crashes ? true : undefined;
      });
    };
    const starts = async (count: number) =>
      eventually(`start ${count}`, async () => {
        const [run] = await runsOf(task.id);
        if (run?.status === 'queued') world.clock.advance(5_000);
        return world.model.scenesFor('Stumble').length >= count ? true : undefined;
      });
    await starts(1);
    await dieOnce(1);
    await starts(2);
    isCalm = true;
    await dieOnce(2);
    await starts(3);
    await openWait(world, task.id, 'timer');
    await reaches(world, task.id, 'waiting');
    world.clock.advance(31_000);
    await starts(4);
    await dieOnce(1);
    await world.agentd.cancelTask({ params: { id: task.id }, body: {} });
  });

  it('[K61] [R131] a run whose runner keeps dying fails with the cause', async () => {
    world.model.on('Die', { hang: true });
    const task = await create(world, 'Die', { agent: 'coder' });
    for (let death = 1; death <= 3; death++) {
      await eventually(`life ${death}`, async () => {
        const { runs } = await world.agentd.listRuns({ query: { task_id: task.id } });
        // Only during the backoff: the lease of a starting runner uses the same clock.
        if (runs.some(({ status }) => status === 'queued')) world.clock.advance(5_000);
        return world.model.scenesFor('Die').length === death ? true : undefined;
      });
      process.kill(await onlyRunner(), 'SIGKILL');
    }
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.status, 'failed');
    assert.equal(ended.error?.code, 'internal');
    assert.match(ended.error?.message ?? '', /crashed 3 times: killed by SIGKILL/);
    assert.match(ended.error?.hint ?? '', /agentctl task retry/);
    // It stays ended: no fourth runner starts, whatever time passes.
    world.clock.advance(3_600_000);
    await pauses(500);
    assert.equal(world.model.scenesFor('Die').length, 3);
    const [run] = await runsOf(task.id);
    assert.deepEqual([run?.status, run?.outcome, run?.crashes], ['ended', 'failed', 2]);
    const crashed = (await eventsOf(task.id)).filter(({ event }) => event === 'run.crashed');
    assert.equal(crashed.length, 3);
  });

  it('of several runs of one task one wins, and the others are ended', async () => {
    let count = 0;
    world.model.on('Race', () => (count++ === 0 ? { hang: true } : finishes('the second won')));
    const task = await create(world, 'Race', { agent: 'coder' });
    const first = await eventually('the first', async () => world.model.scenesFor('Race')[0]);
    const db = openSqlite({ file: join(world.stateDir, 'agentd.sqlite'), migrations: MIGRATIONS });
    const newId = world.options.newId;
    await db.write(async (sql) => {
      const tx = {
        sql,
        newId,
        nowMs: world.clock.nowMs(),
        endedRuns: [],
        event: async () => 0,
        haltAfter: () => {},
      };
      await queueRun(tx, await findTask(tx, task.id));
    });
    await db.close();
    await create(world, 'Anything, so that somebody looks', { agent: 'researcher' });
    const ended = await taskEnded(world, task.id);
    assert.equal(ended.result, 'the second won');
    await first.left;
    const runs = await runsOf(task.id);
    assert.deepEqual(runs.map(({ outcome }) => outcome).sort(), ['completed', 'lost']);
    await runnerPids(world.stateDir, 0);
    const ends = await eventually('its end in the log', async () => {
      const found = (await eventsOf(task.id)).filter(({ event }) => event === 'task.ended');
      return found.length > 0 ? found : undefined;
    });
    assert.equal(ends.length, 1);
  });
});

describe('a stale activation', () => {
  let world: IdleWorld;
  before(async () => {
    world = await startIdleWorld();
  });
  after(() => world.stop());

  it('[R90] is refused with stale_fence by toold, modeld and agentd, and changes nothing', async () => {
    const { someRun: run } = world;
    await eventually('a new activation', async () => {
      world.clock.advance(61_000);
      const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
      return now.fence > run.fence && now.status === 'live' ? true : undefined;
    });
    const old = run.caller;
    const echo = { call_id: run.callId(0), tool: 'test.echo', arguments: { text: 'too late' } };
    const message = {
      model: 'default',
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    };
    const outcomes = await Promise.all([
      callLocal(world, 'toold', tooldRoutes.call, { body: echo }, old),
      callLocal(world, 'toold', tooldRoutes.listTools, {}, old),
      callLocal(world, 'modeld', modeldRoutes.generate, { body: message }, old),
      callLocal(world, 'agentd', agentdRoutes.runBeat, {}, old),
      callLocal(world, 'agentd', agentdRoutes.runBriefing, {}, old),
      callLocal(world, 'agentd', agentdRoutes.runInbox, { body: { step: 0 } }, old),
      callLocal(
        world,
        'agentd',
        agentdRoutes.runPark,
        { body: { call_ids: [run.callId(0)] } },
        old,
      ),
    ]);
    assert.deepEqual(
      outcomes.map((outcome) => (outcome.ok ? 'done' : outcome.code)),
      outcomes.map(() => 'stale_fence'),
    );
    const { calls } = await world.toold.listCalls({ query: { run_id: run.id } });
    assert.deepEqual(calls, []);
    assert.deepEqual((await world.modeld.listCalls({ query: { run_id: run.id } })).calls, []);
  });

  it('[R90] toold’s requests for it are refused too, except repeats of completed ones', async () => {
    const run = await world.startRun('Put once');
    const service = { kind: 'daemon', principal: 'service:toold', daemon: 'toold' } as const;
    const body = {
      run_id: run.id,
      fence: run.fence,
      call_id: run.callId(0),
      artifact: { name: 'a.txt', text: 'once' },
    };
    const put = () => callLocal(world, 'agentd', agentdRoutes.toolPutArtifact, { body }, service);
    const first = await put();
    assert.ok(first.ok);
    await eventually('a new activation', async () => {
      world.clock.advance(61_000);
      const { run: now } = await world.agentd.getRun({ params: { id: run.id } });
      return now.fence > run.fence && now.status === 'live' ? true : undefined;
    });
    const again = await put();
    assert.deepEqual(again.ok && again.value, first.ok && first.value, 'returned from the record');
    const other = { ...body, call_id: run.callId(1) };
    const late = await callLocal(
      world,
      'agentd',
      agentdRoutes.toolPutArtifact,
      { body: other },
      service,
    );
    assert.equal(late.ok ? 'done' : late.code, 'stale_fence');
  });
});
