// Runs of each agent that are queued and live, and agents whose manifests are read in another way.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DATABASES, makeCall, world } from './testing.ts';

for (const [name, open] of Object.entries(DATABASES)) {
  describe(`the queue on ${name}`, () => {
    it('counts queued and live runs by agent, without those that may not start yet', async () => {
      const { store, task, claim, advance } = await world(open);
      for (const agent of ['coder', 'coder', 'coder', 'planner']) await task({ agent });
      const claims = await claim();
      await task({ agent: 'tester' });
      const counts = async () => Object.fromEntries(await store.countRunsByAgent());
      assert.deepEqual(await counts(), {
        coder: { queued: 1, live: 2 },
        planner: { queued: 0, live: 1 },
        tester: { queued: 1, live: 0 },
      });
      const { id: runId, fence } = claims.find(({ run }) => run.agent === 'planner')!.run;
      const crash = { detail: 'x', counts: true, crashesMax: 3 };
      await store.endActivation({ runId, fence }, crash);
      assert.equal((await counts()).planner, undefined);
      advance(60_000);
      assert.deepEqual((await counts()).planner, { queued: 1, live: 0 });
      await store.close();
    });

    it('knows since when the first run has waited, from when it was queued last', async () => {
      const { store, task, claim, advance } = await world(open);
      const startMs = Date.parse('2026-01-01T00:00:00Z');
      const since = async () => ((await store.queuedSinceMs()) ?? 0) - startMs;
      assert.equal(await store.queuedSinceMs(), undefined);
      await task();
      advance(1_000);
      await task({ agent: 'coder' });
      assert.equal(await since(), 0);
      const claims = await claim();
      assert.equal(await store.queuedSinceMs(), undefined);
      advance(1_000);
      const { id: runId, fence } = claims[0]!.run;
      await store.endActivation(
        { runId, fence },
        { detail: 'x', counts: false, crashesMax: 3, pauseMs: 500 },
      );
      assert.equal(await since(), 2_000);
      advance(1_000);
      const [again] = await claim();
      const wait = { kind: 'timer' as const, by: [], dueMs: startMs + 60_000 };
      const call = makeCall(again!.run);
      await store.openWait(call, wait as never);
      assert.equal(await store.park(call, [call.callId]), true);
      assert.equal(await store.queuedSinceMs(), undefined);
      advance(60_000);
      await store.processDue();
      assert.equal(await since(), 63_000);
      await store.close();
    });

    it('an unchanged manifest that this version reads in another way is stored again', async () => {
      const { store, events } = await world(open);
      const { spec } = await store.agent('coder');
      const file = 'coder.yaml';
      await store.applyAgents({ agents: [{ spec: { ...spec, replicas: 7 }, file }] });
      assert.equal((await store.agent('coder')).spec.replicas, 7);
      assert.ok(await store.outbox.drain(20_000));
      assert.ok(!events.some(({ event }) => event === 'agent.changed'), 'its manifest is the same');
      await store.close();
    });
  });
}
