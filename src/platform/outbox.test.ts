// The outbox sends events in order, retries after a failure, and reports when an event is recorded.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { EventDraft, NewEvent } from '../wire/events.ts';
import { manualClock } from './clock.ts';
import { silentLog } from './log.ts';
import { OUTBOX_TABLES, openOutbox } from './outbox.ts';
import type { Database } from './sql/database.ts';
import { openSqlite, type SqliteDatabase } from './sql/sqlite.ts';
import { listIds, newFile, openBench } from './testing/outbox.ts';

describe('outbox', () => {
  it('more events than it keeps in memory are read back, in order and once each', async () => {
    const bench = await openBench();
    await bench.outbox.delivered(await bench.add('first'));
    bench.down.is = true;
    const many = (n: number, from: number) =>
      bench.db.write(async (sql) => {
        let seq = 0;
        for (let i = 0; i < n; i++)
          seq = await bench.outbox.add(sql, { id: `e${from + i}`, event: 'task.created' });
        return seq;
      });
    await many(3_000, 0);
    await many(3_000, 3_000);
    bench.outbox.wake();
    bench.down.is = false;
    await bench.outbox.delivered(await many(10, 6_000), 20_000);
    await bench.outbox.delivered(await bench.add('last'));
    const wanted = Array.from({ length: 6_010 }, (_, i) => `e${i}`);
    assert.deepEqual(listIds(bench.taken), ['first', ...wanted, 'last']);
    await bench.close();
  });

  it('delivers events in order, once each, with source, store and a growing number', async () => {
    const bench = await openBench();
    const seqs = await Promise.all(['a', 'b', 'c'].map((name) => bench.add(name)));
    await bench.outbox.delivered(Math.max(...seqs));
    assert.deepEqual(listIds(bench.taken), ['a', 'b', 'c']);
    assert.deepEqual(
      bench.taken.map((event) => [event.source, event.source_seq]),
      [
        ['toold', 1],
        ['toold', 2],
        ['toold', 3],
      ],
    );
    assert.equal(new Set(bench.taken.map((event) => event.source_store)).size, 1);
    assert.equal(bench.taken[0]!.ts, '2027-01-15T08:00:00.000Z');
    await bench.close();
  });

  it('wakeSoon: sends an event with the next one, or alone after a delay', async () => {
    const bench = await openBench();
    await bench.outbox.delivered(await bench.add('first'));
    await bench.add('end of one');
    const since = performance.now();
    bench.outbox.wakeSoon();
    const seq = await bench.add('begin of next');
    const sent = listIds(bench.taken);
    // On a slow machine the delay may already be over.
    if (performance.now() - since < 15) assert.deepEqual(sent, ['first'], 'it waits');
    await bench.outbox.delivered(seq);
    assert.deepEqual(listIds(bench.taken), ['first', 'end of one', 'begin of next']);
    await bench.add('last');
    bench.outbox.wakeSoon();
    while (bench.taken.length < 4) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(bench.taken[3]!.id, 'last');
    await bench.close();
  });

  it('a rolled back event is never delivered, and does not delay the rest', async () => {
    const bench = await openBench();
    await bench.add('a');
    await assert.rejects(bench.add('gone', true));
    await bench.outbox.delivered(await bench.add('b'));
    assert.deepEqual(listIds(bench.taken), ['a', 'b']);
    await assert.rejects(bench.add('gone', true));
    assert.equal(await bench.outbox.drain(20_000), true, 'nothing is queued');
    await bench.close();
  });

  it('resends rejected events, in the same order', async () => {
    const bench = await openBench(undefined, { is: true });
    await bench.add('a');
    const last = await bench.add('b');
    bench.outbox.wake();
    assert.equal(await bench.outbox.drain(30), false);
    assert.deepEqual(bench.taken, []);
    bench.down.is = false;
    await bench.outbox.delivered(last);
    assert.deepEqual(listIds(bench.taken), ['a', 'b']);
    await bench.close();
  });

  it('delivered: resolves only when the log has it, and otherwise reports that nothing was done', async () => {
    const bench = await openBench(undefined, { is: true });
    const seq = await bench.add('a');
    await assert.rejects(bench.outbox.delivered(seq, 20), { code: 'audit_unavailable' });
    let isDelivered = false;
    const waiting = bench.outbox.delivered(seq).then(() => {
      isDelivered = true;
      assert.deepEqual(listIds(bench.taken), ['a']);
    });
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(isDelivered, false);
    bench.down.is = false;
    await waiting;
    await bench.outbox.delivered(seq, 0);
    await bench.close();
  });

  it('assertAuditAccepting: no new work after the log has been down for two seconds, until it is back', async () => {
    const bench = await openBench(undefined, { is: true });
    bench.outbox.assertAuditAccepting();
    const began = performance.now();
    await bench.add('a');
    bench.outbox.wake();
    let refused: unknown;
    while (refused === undefined && performance.now() - began < 10_000) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      try {
        bench.outbox.assertAuditAccepting();
      } catch (error) {
        refused = error;
      }
    }
    assert.equal((refused as { code: string }).code, 'audit_unavailable');
    assert.ok(performance.now() - began >= 2_000, 'a short outage stops no work');
    bench.down.is = false;
    assert.equal(await bench.outbox.drain(20_000), true);
    bench.outbox.assertAuditAccepting();
    await bench.close();
  });

  it('after a restart resends what may not have arrived, and numbers continue', async () => {
    const file = newFile();
    const before = await openBench(file, { is: true });
    await before.add('a');
    await before.add('b');
    await before.close();
    const bench = await openBench(file);
    const seq = await bench.add('c');
    // Beyond what a power failure could have removed here after the log had it.
    assert.equal(seq, 2 + 100_000 + 1);
    await bench.outbox.delivered(seq);
    assert.deepEqual(listIds(bench.taken), ['a', 'b', 'c']);
    await bench.close();
    const again = await openBench(file);
    assert.ok((await again.add('d')) > seq, 'also when everything had been delivered');
    await again.outbox.drain(20_000);
    assert.equal(listIds(again.taken).at(-1), 'd');
    assert.equal(again.taken[0]!.source_store, bench.taken[0]!.source_store);
    await again.close();
  });

  it('never reuses a number that a power failure removed from a store that had none before', async () => {
    const file = newFile();
    const before = await openBench(file);
    await before.outbox.delivered(await before.add('a'));
    await before.db.write((sql) => sql.run('DELETE FROM outbox'));
    await before.close();
    const bench = await openBench(file);
    assert.equal(await bench.add('b'), 100_000 + 1);
    await bench.close();
  });

  it('deletes delivered events and still never reuses a number', async () => {
    const file = newFile();
    const bench = await openBench(file);
    const count = () =>
      bench.db.read((sql) => sql.one<{ c: number }>('SELECT COUNT(*) AS c FROM outbox'));
    let last = 0;
    for (let i = 0; i < 25; i++) {
      await Promise.all(Array.from({ length: 200 }, (_, j) => bench.add(`${i}.${j}`)));
      last = await bench.add(`${i}`);
      await bench.outbox.delivered(last);
    }
    assert.ok((await count())!.c < 5_000, 'the table is bounded');
    await bench.outbox.drain(20_000);
    await bench.close();
    const again = await openBench(file);
    assert.ok((await again.add('next')) > last);
    await again.close();
  });

  it('sends several at once, and resends those that the log rejected', async () => {
    const file = newFile();
    const down = { is: false };
    const bench = await openBench(file, down);
    const db = bench.db as SqliteDatabase;
    const drafts = (...names: string[]) =>
      names.map((id): EventDraft => ({ id, event: 'task.created' }));
    await bench.outbox.delivered(await bench.add('a'));
    const last = await db.writeNow((sql) => bench.outbox.addAll(sql, drafts('b', 'c', 'd')));
    assert.equal(last, 4);
    await bench.outbox.delivered(3);
    down.is = true;
    await db.writeNow((sql) => bench.outbox.addAll(sql, drafts('e', 'f')));
    const failed = db.writeNow((sql) => {
      bench.outbox.addAll(sql, drafts('never'));
      throw new Error('on purpose');
    });
    await assert.rejects(failed, /on purpose/);
    await bench.add('g');
    await bench.close();
    assert.deepEqual(listIds(bench.taken), ['a', 'b', 'c', 'd']);
    const again = await openBench(file);
    await again.outbox.drain(20_000);
    assert.deepEqual(listIds(again.taken).slice(-3), ['e', 'f', 'g']);
    const numbers = again.taken.map(({ source_seq }) => source_seq);
    assert.deepEqual(numbers.slice(-3), [5, 6, 8]);
    assert.deepEqual(
      numbers,
      [...numbers].sort((x, y) => x - y),
    );
    await again.close();
  });

  it('continues when it cannot delete delivered events', async () => {
    const inner = openSqlite({ file: newFile(), migrations: [OUTBOX_TABLES] });
    let removals = 0;
    const db: Database = {
      read: (work) => inner.read(work),
      close: () => inner.close(),
      write: (work) =>
        inner.write((sql) =>
          work({
            all: (text, ...values) => sql.all(text, ...values),
            one: (text, ...values) => sql.one(text, ...values),
            run(text, ...values) {
              if (text.startsWith('DELETE') && ++removals === 1) throw new Error('disk is full');
              return sql.run(text, ...values);
            },
          }),
        ),
    };
    let isSlow = false;
    const outbox = await openOutbox({
      db,
      source: 'toold',
      clock: manualClock(0),
      append: async () => undefined,
      log: { ...silentLog, warn: (message) => (isSlow ||= /audit log failed/.test(message)) },
    });
    const add = (n: number) =>
      db.write(async (sql) => {
        let seq = 0;
        for (let i = 0; i < n; i++)
          seq = await outbox.add(sql, { id: `e${i}`, event: 'task.created' });
        return seq;
      });
    await outbox.delivered(await add(2_000));
    await outbox.drain(20_000);
    assert.equal(removals, 1);
    assert.equal(isSlow, false, 'the log took everything');
    await outbox.delivered(await add(1));
    await outbox.drain(20_000);
    assert.equal(removals, 2, 'it is tried again with the next batch');
    outbox.stop();
    await db.close();
  });

  it('refuses an invalid event, with the change it belongs to', async () => {
    const bench = await openBench();
    const refused = (more: object) =>
      assert.rejects(
        bench.db.write(async (sql) => {
          await sql.run("INSERT INTO outbox_store (id) VALUES ('change')");
          return bench.outbox.add(sql, { id: 'x', event: 'task.created', ...more } as never);
        }),
        { code: 'internal', message: /cannot be recorded/ },
      );
    await refused({ id: '' });
    await refused({ id: 'x'.repeat(129) });
    await refused({ tool: 'x'.repeat(257) });
    await refused({ event: 'task.unheard' });
    await refused({ data: { text: 'x'.repeat(1_025) } });
    await refused({ data: { list: [1] } });
    await refused({ more: 1 });
    const left = await bench.db.read((sql) =>
      sql.all("SELECT id FROM outbox_store WHERE id = 'change'"),
    );
    assert.deepEqual(left, []);
    await bench.outbox.delivered(
      await bench.db.write((sql) =>
        bench.outbox.add(sql, { id: 'ok', event: 'task.created', data: { a: undefined } as never }),
      ),
    );
    assert.deepEqual(listIds(bench.taken), ['ok']);
    await bench.close();
  });

  it('ends waiters with stopping when it is stopped', async () => {
    const bench = await openBench(undefined, { is: true });
    const waiting = bench.outbox.delivered(await bench.add('a'));
    bench.outbox.stop();
    await assert.rejects(waiting, { code: 'stopping' });
    await bench.close();
  });

  it('property: whatever fails, what was committed arrives in order and nothing else does', async () => {
    const steps = fc.array(
      fc.oneof(
        fc.record({ add: fc.nat(3), fails: fc.boolean() }),
        fc.constant({ turn: 'log' as const }),
        fc.constant({ turn: 'restart' as const }),
      ),
      { maxLength: 25 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (plan) => {
        const file = newFile();
        let bench = await openBench(file);
        const all: NewEvent[] = [];
        const committed: string[] = [];
        let n = 0;
        for (const step of plan) {
          if ('turn' in step && step.turn === 'log') bench.down.is = !bench.down.is;
          else if ('turn' in step) {
            await bench.close();
            all.push(...bench.taken);
            bench = await openBench(file, bench.down);
          } else {
            for (let i = 0; i <= step.add; i++) {
              const name = `e${n++}`;
              await bench.add(name, step.fails).then(
                () => committed.push(name),
                () => undefined,
              );
            }
            bench.outbox.wake();
          }
        }
        bench.down.is = false;
        assert.equal(await bench.outbox.drain(20_000), true);
        all.push(...bench.taken);
        await bench.close();
        // As the log sees it: a number it has is a repeat.
        let highest = 0;
        const kept = all.filter(({ source_seq }) => {
          const isNew = source_seq > highest;
          highest = Math.max(highest, source_seq);
          return isNew;
        });
        assert.deepEqual(listIds(kept), committed);
      }),
      { numRuns: 25 },
    );
  });
});
