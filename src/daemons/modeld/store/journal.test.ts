// The journal: entries that arrive together share one transaction, keep their order, and survive a
// disk that refuses them.
import assert from 'node:assert/strict';
import { fdatasync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Database } from '../../../platform/sql/database.ts';
import type { NewEvent } from '../../../wire/events.ts';
import { rejects, until } from '../testing/harness.ts';
import { intent, openJournal, outcome } from '../testing/journal.ts';

const statuses = async (db: Database): Promise<string[]> => {
  const rows = await db.read((sql) =>
    sql.all<{ status: string }>('SELECT status FROM model_calls ORDER BY seq'),
  );
  return rows.map(({ status }) => status);
};

const spentTokens = async (db: Database): Promise<number> => {
  const row = await db.read((sql) => sql.one<{ tokens: number }>('SELECT * FROM budget_spent'));
  return row?.tokens ?? 0;
};

const idsOf = (events: readonly NewEvent[]): string[] => events.map(({ id }) => id);

const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('groups', () => {
  test('entries that arrive together share a transaction, and outcomes join the next one', async () => {
    const { journal, state, events, db, close } = await openJournal();
    const before = state.transactions;
    const written = await Promise.all([1, 2, 3, 4, 5].map((n) => journal.intent(intent(n))));
    assert.equal(state.transactions, before + 1);
    await Promise.all(written.map(({ recorded }) => recorded()));
    assert.equal(events.length, 5);
    for (const { seq } of written) journal.deferOutcome(outcome(seq));
    assert.equal(journal.isPending('call_1'), true);
    const sixth = await journal.intent(intent(6));
    assert.equal(state.transactions, before + 2);
    assert.deepEqual(await statuses(db), [...Array(5).fill('completed'), 'running']);
    assert.equal(await spentTokens(db), 15);
    await sixth.recorded();
    assert.deepEqual(idsOf(events).slice(5), [
      ...[1, 2, 3, 4, 5].map((n) => `call_${n}.ended.1`),
      'call_6.attempted.1',
    ]);
    await until(() => journal.isIdle(), 'the outcomes on the disk');
    await close();
  });

  test('a part that calls of one group share is written once, with the labels of all', async () => {
    const { journal, db, close } = await openJournal();
    const part = { hash: 'a'.repeat(64), body: '"text"', source: 'own' };
    const withLabels = (n: number, labels: number) => ({
      ...intent(n),
      parts: [{ ...part, labels }],
    });
    await Promise.all([1, 2, 4].map((labels, i) => journal.intent(withLabels(i + 1, labels))));
    const rows = await db.read((sql) => sql.all('SELECT body, labels, source FROM parts'));
    assert.deepEqual(
      rows.map((row) => ({ ...row })),
      [{ body: '"text"', labels: 7, source: 'own' }],
    );
    await close();
  });

  test('an outcome that no caller waits for is written after a delay', async (t) => {
    const { journal, db, events, close } = await openJournal();
    const { seq } = await journal.intent(intent(1));
    t.mock.timers.enable({ apis: ['setTimeout'] });
    journal.deferOutcome(outcome(seq));
    t.mock.timers.tick(19);
    for (let n = 0; n < 5; n++) await nextTurn();
    assert.deepEqual(await statuses(db), ['running']);
    t.mock.timers.tick(1);
    t.mock.timers.reset();
    await until(() => journal.isIdle(), 'the outcome on the disk');
    assert.deepEqual(await statuses(db), ['completed']);
    await until(() => events.length === 2, 'its event in the audit log');
    await close();
  });

  test('a flush makes every outcome durable', async () => {
    const { journal, state, db, close } = await openJournal();
    const { seq } = await journal.intent(intent(1));
    journal.deferOutcome(outcome(seq));
    await journal.flush();
    assert.equal(journal.isIdle(), true);
    assert.deepEqual(await statuses(db), ['completed']);
    const before = state.transactions;
    await journal.flush();
    assert.equal(state.transactions, before, 'nothing is left to write');
    await close();
  });

  test('more entries than one transaction fits are written in several, in order', async () => {
    const { journal, state, events, close } = await openJournal();
    const before = state.transactions;
    const numbers = Array.from({ length: 600 }, (_, n) => n + 1);
    const written = await Promise.all(numbers.map((n) => journal.intent(intent(n))));
    assert.equal(state.transactions, before + 3);
    await written.at(-1)!.recorded();
    assert.deepEqual(
      idsOf(events),
      numbers.map((n) => `call_${n}.attempted.1`),
    );
    await close();
  });

  test('an intent waits for the audit log alone, and its file is synced soon after', async () => {
    let syncs = 0;
    const { journal, state, events, close } = await openJournal({
      sync: (fd, done) => {
        syncs++;
        fdatasync(fd, done);
      },
    });
    const log = Promise.withResolvers<void>();
    state.logWaits = log.promise;
    const before = syncs;
    const { recorded } = await journal.intent(intent(1));
    let isRecorded = false;
    const waiting = recorded().then(() => {
      isRecorded = true;
    });
    await until(() => syncs > before, 'a sync');
    assert.equal(isRecorded, false);
    log.resolve();
    await waiting;
    assert.equal(events.length, 1);
    await close();
  });

  test('commits while the disk is busy share the next sync', async () => {
    const waiting: (() => void)[] = [];
    let isBusy = false;
    const { journal, close } = await openJournal({
      sync: (_fd, done) => {
        if (isBusy) waiting.push(() => done(null));
        else setImmediate(() => done(null));
      },
    });
    const seqs: number[] = [];
    for (const n of [1, 2, 3]) seqs.push((await journal.intent(intent(n))).seq);
    await journal.outcome(outcome(seqs[0]!));
    isBusy = true;
    const next = async () => {
      await until(() => waiting.length > 0, 'a sync');
      waiting.shift()!();
    };
    const first = journal.raise(seqs[1]!, { tokens: 1, costMicrousd: 1 });
    await until(() => waiting.length === 1, 'a sync');
    const rest = Promise.all(seqs.slice(1).map((seq) => journal.outcome(outcome(seq))));
    await next();
    await first;
    await next();
    await rest;
    assert.equal(waiting.length, 0);
    await close();
  });
});

describe('a disk that rejects writes', () => {
  for (const isFull of [true, 'at the end'] as const)
    test(`intents are refused, outcomes kept and written later, none twice (${isFull})`, async () => {
      const { journal, state, db, events, close } = await openJournal();
      const first = await journal.intent(intent(1));
      const second = await journal.intent(intent(2));
      state.isFull = isFull;
      await rejects(journal.intent(intent(3)), 'storage_full');
      await rejects(journal.outcome(outcome(first.seq)), 'storage_full');
      journal.deferOutcome(outcome(second.seq));
      await rejects(journal.flush(), 'storage_full');
      assert.equal(journal.isPending('call_1'), true);
      assert.deepEqual(await statuses(db), ['running', 'running']);
      state.isFull = false;
      await until(() => journal.isIdle(), 'both outcomes on the disk');
      assert.deepEqual(await statuses(db), ['completed', 'completed']);
      assert.equal(await spentTokens(db), 6);
      await (await journal.intent(intent(4))).recorded();
      assert.deepEqual(idsOf(events), [
        'call_1.attempted.1',
        'call_2.attempted.1',
        'call_1.ended.1',
        'call_2.ended.1',
        'call_4.attempted.1',
      ]);
      await close();
    });

  test('no intent overtakes an earlier outcome, even in different groups', async () => {
    const { journal, state, db, close } = await openJournal();
    const numbers = Array.from({ length: 300 }, (_, n) => n + 1);
    const open = await Promise.all(numbers.map((n) => journal.intent(intent(n))));
    for (const { seq } of open) journal.deferOutcome(outcome(seq));
    state.refuseAfter = 0;
    await rejects(journal.intent(intent(301)), 'storage_full');
    assert.deepEqual([...new Set(await statuses(db))], ['running']);
    // Control: with free space all are written.
    await journal.intent(intent(302));
    const found = await statuses(db);
    assert.deepEqual([found.length, found.indexOf('running')], [301, 300]);
    await close();
  });
});

test('after a failed sync nothing is written, and no outcome is recorded again', async () => {
  let isGood = true;
  const { journal, db, events, close } = await openJournal({
    sync: (fd, done) => {
      if (isGood) fdatasync(fd, done);
      else setImmediate(() => done(new Error('EIO')));
    },
  });
  const { seq } = await journal.intent(intent(1));
  isGood = false;
  await rejects(journal.outcome(outcome(seq)), 'storage_broken');
  await rejects(journal.intent(intent(2)), 'storage_broken');
  await rejects(journal.flush(), 'storage_broken');
  assert.equal(journal.isPending('call_1'), true);
  assert.deepEqual(await statuses(db), ['completed']);
  await until(() => events.length === 2, 'the event of the outcome, once');
  await close();
});

describe('an entry that cannot be written', () => {
  test('an intent is refused alone, and others in its group wait for the audit log', async () => {
    const { journal, state, db, events, close } = await openJournal();
    const log = Promise.withResolvers<void>();
    state.logWaits = log.promise;
    const [first, broken, second] = await Promise.allSettled([
      journal.intent(intent(1)),
      journal.intent(intent(1)),
      journal.intent(intent(2)),
    ]);
    assert.ok(first.status === 'fulfilled' && second.status === 'fulfilled');
    assert.match(String((broken as PromiseRejectedResult).reason), /UNIQUE/);
    let isRecorded = false;
    const recorded = second.value.recorded().then(() => {
      isRecorded = true;
    });
    await nextTurn();
    assert.equal(isRecorded, false);
    log.resolve();
    await recorded;
    assert.deepEqual(idsOf(events), ['call_1.attempted.1', 'call_2.attempted.1']);
    assert.equal((await statuses(db)).length, 2);
    await close();
  });

  test('an outcome is dropped and logged, and does not delay those after it', async () => {
    const { journal, db, logged, close } = await openJournal();
    const [first, second] = await Promise.all([1, 2].map((n) => journal.intent(intent(n))));
    const event = { id: '', event: 'model.call.ended' } as const;
    journal.deferOutcome({ ...outcome(first!.seq), event });
    await journal.outcome(outcome(second!.seq));
    assert.equal(journal.isIdle(), true);
    assert.deepEqual(await statuses(db), ['running', 'completed']);
    assert.match(logged.join(), /outcome of a model call was lost.*call_1/);
    await close();
  });

  test('when the disk rejects one of its group, those behind are refused too', async () => {
    const { journal, state, db, close } = await openJournal();
    const { seq } = await journal.intent(intent(1));
    journal.deferOutcome(outcome(seq));
    state.refuseAfter = 1;
    const [broken, behind] = await Promise.allSettled([
      journal.intent(intent(1)),
      journal.intent(intent(2)),
    ]);
    for (const { reason } of [broken, behind] as PromiseRejectedResult[])
      assert.equal(reason.code, 'storage_full');
    await until(() => journal.isIdle(), 'the outcome on the disk');
    assert.deepEqual(await statuses(db), ['completed']);
    await close();
  });
});
