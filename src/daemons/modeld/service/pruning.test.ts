// Pruning contexts and calls: parts that other calls use stay, all others go, and ids say so.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { systemClock } from '../../../platform/clock.ts';
import { sha256Hex } from '../../../platform/json.ts';
import type { PruneBody } from '../../../wire/prune.ts';
import { readHashes, readLastSeq } from '../store/calls.ts';
import { findPrunedCall, findPrunedRun } from '../store/prune.ts';
import { intent, openJournal, outcome } from '../testing/journal.ts';
import { makePruning } from './pruning.ts';

type World = Awaited<ReturnType<typeof openWorld>>;

async function openWorld() {
  const opened = await openJournal();
  const { db, journal } = opened;
  const pruning = makePruning({ db, journal, clock: systemClock(), failpoint: () => undefined });
  let made = 0;
  const part = (text: string) => {
    const body = JSON.stringify(text);
    return { hash: sha256Hex(body), body, labels: 1, source: 's' };
  };
  return {
    ...opened,
    pruning,
    /** Records a call with these messages; without a response it is left running. */
    async call(runId: string | null, messages: string[], response: string | null) {
      const parts = [...messages.map(part), part('params')];
      const n = ++made;
      const tail = runId?.slice(-20) ?? String(n).padStart(20, '0');
      const { seq } = await journal.intent(
        intent(n, {
          callId: `call_${String(n).padStart(6, '0')}${tail}`,
          runId,
          taskId: runId?.replace('run_', 'task_') ?? null,
          agent: runId === null ? '' : 'coder',
          context: messages.map((text) => part(text).hash).join(''),
          params: part('params').hash,
          parts,
        }),
      );
      if (response === null) return seq;
      await journal.outcome({ ...outcome(seq), response: part(response) });
      await db.write((sql) =>
        sql.run(
          `INSERT INTO runs (run_id, fence, admitted, body) VALUES (?, 1, 0, '')
           ON CONFLICT DO NOTHING`,
          runId ?? 'run_people',
        ),
      );
      return seq;
    },
    async bodies(): Promise<string[]> {
      const rows = await db.read((sql) => sql.all<{ body: string }>('SELECT body FROM parts'));
      return rows.map(({ body }) => JSON.parse(body) as string).sort();
    },
  };
}

const runName = (n: number): string => `run_${String(n).padStart(26, '0')}`;
const treeOf = (...runs: number[]): PruneBody =>
  ({
    root_task_id: runName(runs[0]!).replace('run_', 'task_'),
    task_ids: runs.map((n) => runName(n).replace('run_', 'task_')),
    run_ids: runs.map(runName),
  }) as PruneBody;

describe('contexts', () => {
  test('a part goes with the last call that used it', async () => {
    const world = await openWorld();
    const { pruning, call, bodies } = world;
    await call(runName(1), ['persona', 'goal 1'], 'answer 1');
    await call(runName(1), ['persona', 'goal 1', 'answer 1', 'result'], 'answer 2');
    await call(runName(2), ['persona', 'goal 2'], 'answer 3');
    const first = await pruning.pruneContexts(treeOf(1));
    assert.deepEqual([first.rows, first.left], [2, 0]);
    assert.deepEqual(await bodies(), ['answer 3', 'goal 2', 'params', 'persona']);
    assert.deepEqual(await pruning.pruneContexts(treeOf(1)), { rows: 2, bytes: 0, left: 0 });
    await pruning.pruneContexts(treeOf(2));
    assert.deepEqual(await bodies(), []);
    assert.deepEqual(await pruning.contextSizes(), []);
    await world.close();
  });

  test('parts of a call in progress, and of calls after it, stay', async () => {
    const world = await openWorld();
    const { pruning, call, bodies } = world;
    await call(runName(1), ['persona', 'goal 1'], 'answer 1');
    await call(runName(2), ['persona', 'goal 2'], null);
    await call(runName(3), ['persona', 'goal 1'], 'answer 3');
    assert.equal((await pruning.pruneContexts(treeOf(1))).left, 0);
    assert.deepEqual(await bodies(), ['answer 3', 'goal 1', 'goal 2', 'params', 'persona']);
    const blocked = await pruning.pruneContexts(treeOf(3));
    assert.equal(blocked.left, 1, 'not counted yet, because an earlier call still runs');
    await world.close();
  });

  test('nothing is pruned while too many calls are not counted', async () => {
    const world = await openWorld();
    const { pruning, call, db, bodies } = world;
    await call(runName(1), ['goal'], 'answer');
    const running = await call(runName(2), ['goal 2'], null);
    // Ten thousand and two calls, of which the first still runs.
    await db.write((sql) =>
      sql.run(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= 10000)
         INSERT INTO model_calls SELECT seq + i, call_id || i, attempt, 'completed', NULL, fence,
           principal, agent, task_id, root_task_id, via, model, provider, upstream_model,
           rehearsal, purpose, request_hash, context, params, reserved_tokens, reserved_cost,
           charged_tokens, created_ms, ended_ms, stop_reason, NULL, error, tries, input_tokens,
           output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost
         FROM model_calls, n WHERE seq = ?`,
        running,
      ),
    );
    assert.equal((await pruning.pruneContexts(treeOf(1))).left, 1);
    assert.ok((await bodies()).includes('answer'));
    await db.write((sql) =>
      sql.run("UPDATE model_calls SET status = 'completed' WHERE seq = ?", running),
    );
    for (let left = 1; left > 0; ) ({ left } = await pruning.pruneContexts(treeOf(1)));
    assert.deepEqual(await bodies(), ['goal 2', 'params']);
    await world.close();
  });

  test('a forgotten part stays forgotten', async () => {
    const world = await openWorld();
    const { pruning, call, db, bodies } = world;
    await call(runName(1), ['secret'], 'answer');
    const hash = sha256Hex(JSON.stringify('secret'));
    await db.write((sql) => sql.run('UPDATE parts SET body = NULL WHERE hash = ?', hash));
    await pruning.pruneContexts(treeOf(1));
    await call(runName(2), ['secret'], 'answer');
    assert.ok(!(await bodies()).includes('secret'));
    await world.close();
  });

  test('sizes are counted per agent', async () => {
    const world = await openWorld();
    await world.call(runName(1), ['12345678'], 'abcd');
    assert.deepEqual(
      (await world.pruning.contextSizes()).map((size) => ({ ...size })),
      [{ agent: 'coder', parts: 3, bytes: 10 + 6 + '"params"'.length }],
    );
    await world.close();
  });
});

describe('calls', () => {
  test('leave a tombstone for the call, the run and the task', async () => {
    const world = await openWorld();
    const { pruning, call, db } = world;
    await call(runName(1), ['goal'], 'answer');
    await pruning.pruneTree(treeOf(1));
    const [task_id] = treeOf(1).task_ids;
    await db.read(async (sql) => {
      assert.deepEqual(await sql.all('SELECT * FROM model_calls'), []);
      const callId = `call_000001${runName(1).slice(-20)}`;
      for (const found of [
        await findPrunedCall(sql, callId),
        await findPrunedRun(sql, { runId: runName(1) }),
        await findPrunedRun(sql, { taskId: task_id }),
      ])
        assert.equal(found?.code, 'pruned');
      assert.equal(await findPrunedCall(sql, `call_${'0'.repeat(26)}`), undefined);
    });
    assert.equal(await pruning.expireTombstones(Date.now() + 1_000), 1);
    assert.equal(await db.read((sql) => findPrunedRun(sql, { runId: runName(1) })), undefined);
    await world.close();
  });

  test('of people go by their own age', async () => {
    const world = await openWorld();
    const { pruning, call, bodies, db } = world;
    await call(null, ['question'], 'answer');
    assert.equal((await pruning.prunePeoplesCalls({ beforeMs: 1, limit: 10 })).rows, 0);
    assert.equal((await pruning.prunePeoplesCalls({ beforeMs: 2, limit: 10 })).rows, 1);
    assert.deepEqual(await bodies(), []);
    const callId = `call_000001${'1'.padStart(20, '0')}`;
    assert.equal((await db.read((sql) => findPrunedCall(sql, callId)))?.code, 'pruned');
    await world.close();
  });

  test('numbers of pruned calls are not used again', async () => {
    const world = await openWorld();
    await world.call(runName(1), ['goal'], 'answer');
    await world.pruning.pruneTree(treeOf(1));
    assert.equal(await world.db.read(readLastSeq), 1);
    await world.close();
  });
});

test('property: every kept call has its parts, and no part is without a call', async () => {
  for (let seed = 1; seed <= 8; seed++) await checkParts(seed);
});

async function checkParts(seed: number): Promise<void> {
  const world = await openWorld();
  let state = seed * 7_919;
  const choose = (n: number): number => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * n);
  };
  const contexts = new Map<number, string[]>();
  for (let i = 0; i < 40; i++) {
    const run = choose(5) + 1;
    const context = contexts.get(run) ?? [`persona ${choose(2)}`];
    // Now and then a run drops the middle of its context, and later takes some of it up again.
    if (choose(6) === 0) context.splice(1, 2);
    context.push(`text ${choose(12)}`);
    contexts.set(run, context);
    await world.call(runName(run), [...context], `answer ${choose(12)}`);
    if (choose(8) === 0) {
      const pruned = choose(5) + 1;
      await (choose(2) === 0
        ? world.pruning.pruneContexts(treeOf(pruned))
        : world.pruning.pruneTree(treeOf(pruned)));
      contexts.delete(pruned);
      await world.db.write((sql) =>
        sql.run('DELETE FROM model_calls WHERE run_id = ?', runName(pruned)),
      );
    }
  }
  await assertParts(world, seed);
  for (let run = 1; run <= 5; run++) await world.pruning.pruneTree(treeOf(run));
  assert.deepEqual(await world.bodies(), [], `seed ${seed}`);
  await world.close();
}

async function assertParts(world: World, seed: number): Promise<void> {
  await world.pruning.contextSizes();
  await world.db.read(async (sql) => {
    const used = new Set<string>();
    for (const row of await sql.all<{ context: Uint8Array; params: string; response: string }>(
      'SELECT context, params, response FROM model_calls',
    ))
      for (const hash of [...readHashes(row.context), row.params, row.response]) used.add(hash);
    const stored = (await sql.all<{ hash: string }>('SELECT hash FROM parts')).map((p) => p.hash);
    assert.deepEqual(stored.sort(), [...used].sort(), `seed ${seed}`);
    const [kept] = await sql.all<{ n: number }>('SELECT SUM(parts) AS n FROM context_sizes');
    assert.equal(kept?.n, stored.length, `seed ${seed}`);
  });
}
