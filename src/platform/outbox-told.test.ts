// Events that the audit log is told before their transaction is committed.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { EventDraft } from '../wire/events.ts';
import type { Told } from './outbox.ts';
import type { SqliteDatabase } from './sql/sqlite.ts';
import { type Bench, idsOf, openBench } from './testing/outbox.ts';

describe('an event that is told before its transaction', () => {
  const draft = (id: string): EventDraft => ({ id, event: 'task.created' });
  /** One event is acknowledged, and the relay has ended. */
  const openQuiet = async (): Promise<Bench> => {
    const bench = await openBench();
    await bench.outbox.delivered(await bench.add('a'));
    await new Promise((resolve) => setImmediate(resolve));
    return bench;
  };

  it('is on its way before anything is committed, in its place among the others', async () => {
    const bench = await openQuiet();
    const told = await (bench.db as SqliteDatabase).writeNow((sql) => {
      const first = bench.outbox.tellFirst([draft('b')])!;
      assert.equal(bench.outbox.tellFirst([draft('no')]), undefined, 'one is on its way');
      bench.outbox.addTold(sql, first);
      return first;
    });
    const last = await bench.add('c');
    await bench.outbox.delivered(last);
    assert.deepEqual(idsOf(bench.taken), ['a', 'b', 'c']);
    assert.deepEqual([told.seq, last], [2, 3]);
    const rows = await bench.db.read((sql) => sql.all('SELECT seq FROM outbox ORDER BY seq'));
    assert.equal(rows.length, 3);
    await bench.close();
  });

  it('may be one of several, which have one row', async () => {
    const bench = await openQuiet();
    await (bench.db as SqliteDatabase).writeNow((sql) => {
      bench.outbox.addTold(sql, bench.outbox.tellFirst(['b', 'c', 'd'].map(draft))!);
    });
    await bench.outbox.delivered(await bench.add('e'));
    assert.deepEqual(
      bench.taken.map(({ id, source_seq }) => [id, source_seq]),
      [
        ['a', 1],
        ['b', 2],
        ['c', 3],
        ['d', 4],
        ['e', 5],
      ],
    );
    const rows = await bench.db.read((sql) =>
      sql.all<{ seq: number }>('SELECT seq FROM outbox ORDER BY seq'),
    );
    assert.deepEqual(
      rows.map(({ seq }) => seq),
      [1, 4, 5],
    );
    await bench.close();
  });

  it('is not, while another number is not acknowledged or was taken back', async () => {
    const bench = await openQuiet();
    bench.down.is = true;
    await bench.add('b');
    assert.equal(bench.outbox.tellFirst([draft('no')]), undefined);
    bench.down.is = false;
    assert.equal(await bench.outbox.drain(20_000), true);
    await assert.rejects(bench.add('gone', true));
    assert.equal(bench.outbox.tellFirst([draft('no')]), undefined);
    assert.deepEqual(idsOf(bench.taken), ['a', 'b']);
    await bench.close();
  });

  it('is not, among more than the relay keeps in memory', async () => {
    const bench = await openQuiet();
    const db = bench.db as SqliteDatabase;
    const ids = Array.from({ length: 4_000 }, (_, i) => `b${i}`);
    assert.equal(bench.outbox.tellFirst(ids.map(draft)), undefined);
    const most = ids.slice(1);
    const { seq } = await db.writeNow((sql) => {
      const told = bench.outbox.tellFirst(most.map(draft))!;
      bench.outbox.addTold(sql, told);
      return told;
    });
    await bench.outbox.delivered(seq);
    assert.deepEqual(idsOf(bench.taken), ['a', ...most]);
    await bench.close();
  });

  it('lets nothing else be added until it is written', async () => {
    const bench = await openQuiet();
    const db = bench.db as SqliteDatabase;
    let told: Told | undefined;
    const lost = db.writeNow((sql) => {
      told = bench.outbox.tellFirst([draft('b')])!;
      bench.outbox.addTold(sql, told);
      throw new Error('on purpose');
    });
    await assert.rejects(lost, /on purpose/);
    await bench.outbox.delivered(told!.seq);
    await assert.rejects(bench.add('c'), { code: 'storage_full' });
    await db.writeNow((sql) => bench.outbox.addTold(sql, told!));
    await bench.outbox.delivered(await bench.add('c'));
    assert.deepEqual(idsOf(bench.taken), ['a', 'b', 'c']);
    await bench.close();
  });
});
