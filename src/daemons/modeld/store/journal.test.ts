// The journal when the disk does not take what it is given, and that calls at the same time share
// one transaction.
import assert from 'node:assert/strict';
import { fdatasync } from 'node:fs';
import { describe, test } from 'node:test';
import type { Database } from '../../../platform/sql/database.ts';
import { rejects, until } from '../testing/harness.ts';
import { intent, openJournal, outcome } from '../testing/journal.ts';

const statuses = async (db: Database): Promise<string[]> => {
  const rows = await db.read((sql) =>
    sql.all<{ status: string }>('SELECT status FROM model_calls ORDER BY seq'),
  );
  return rows.map(({ status }) => status);
};

const aTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('the journal', () => {
  test('what comes at once goes in one transaction, and its outcomes with the next', async () => {
    const { journal, state, events, db, close } = await openJournal();
    const before = state.transactions;
    const written = await Promise.all([1, 2, 3, 4, 5].map((n) => journal.intent(intent(n))));
    assert.equal(state.transactions, before + 1);
    await Promise.all(written.map(({ recorded }) => recorded));
    assert.equal(events.length, 5);
    for (const { seq } of written) journal.outcomeSoon(outcome(seq));
    assert.equal(journal.awaits('call_1'), true);
    assert.deepEqual(journal.freed, { tokens: 35, costMicrousd: 30 });
    const { recorded } = await journal.intent(intent(6, { needsOutcomes: true }));
    assert.equal(state.transactions, before + 2);
    assert.deepEqual(journal.freed, { tokens: 0, costMicrousd: 0 });
    await recorded;
    await until(() => !journal.awaits('call_1'), 'the outcomes on the disk');
    const rows = await statuses(db);
    assert.equal(rows.filter((status) => status === 'completed').length, 5);
    const spent = await db.read((sql) => sql.one<{ tokens: number }>('SELECT * FROM budget_spent'));
    assert.equal(spent?.tokens, 15);
    await close();
  });

  test('a lone intent that needs no outcome does not wait for one', async (t) => {
    const { journal, db, events, close } = await openJournal();
    const first = await journal.intent(intent(1));
    t.mock.timers.enable({ apis: ['setTimeout'] });
    journal.outcomeSoon(outcome(first.seq));
    const second = await journal.intent(intent(2));
    await second.recorded;
    assert.deepEqual(await statuses(db), ['running', 'running']);
    assert.equal(journal.awaits('call_1'), true);
    t.mock.timers.tick(20);
    t.mock.timers.reset();
    await until(() => journal.isIdle(), 'the outcome on the disk');
    assert.deepEqual(await statuses(db), ['completed', 'running']);
    await until(() => events.length === 3, 'its event in the audit log');
    await close();
  });

  test('an outcome nobody waits for is written soon', async () => {
    const { journal, db, close } = await openJournal();
    const { seq } = await journal.intent(intent(1));
    journal.outcomeSoon(outcome(seq));
    await until(() => !journal.awaits('call_1'), 'the outcome on the disk');
    assert.deepEqual(await statuses(db), ['completed']);
    await close();
  });

  test('a full disk refuses intents, keeps outcomes, and writes them when it can', async () => {
    const { journal, state, db, close } = await openJournal();
    const first = await journal.intent(intent(1));
    const second = await journal.intent(intent(2));
    state.isFull = true;
    await rejects(journal.intent(intent(3)), 'storage_full');
    await rejects(journal.outcome(outcome(first.seq)), 'storage_full');
    journal.outcomeSoon(outcome(second.seq));
    await rejects(journal.flush(), 'storage_full');
    assert.equal(journal.awaits('call_1'), true);
    state.isFull = false;
    await until(() => journal.isIdle(), 'both outcomes on the disk');
    assert.deepEqual(await statuses(db), ['completed', 'completed']);
    await close();
  });

  test('an intent waits for the audit log alone, and what it committed is synced soon', async () => {
    let syncs = 0;
    const { journal, events, close } = await openJournal({
      sync: (fd, done) => {
        syncs++;
        fdatasync(fd, done);
      },
    });
    const before = syncs;
    const { recorded } = await journal.intent(intent(1));
    await recorded;
    assert.equal(events.length, 1);
    await until(() => syncs > before, 'a sync');
    await close();
  });

  const outboxRows = async (db: Database): Promise<number[]> => {
    const rows = await db.read((sql) => sql.all<{ seq: number }>('SELECT seq FROM outbox'));
    return rows.map(({ seq }) => seq);
  };

  test('intents are told before they are committed, one or several, with the outcomes they take along', async () => {
    const { journal, state, db, events, close } = await openJournal();
    await aTurn(); // The outbox has seen that nothing was left in its table.
    const first = await journal.intent(intent(1));
    assert.deepEqual(state.moments, ['modeld.after-told']);
    await first.recorded;
    await aTurn();
    journal.outcomeSoon(outcome(first.seq));
    const more = [2, 3].map((n) => intent(n, { needsOutcomes: true }));
    const rest = await Promise.all(more.map((one) => journal.intent(one)));
    assert.equal(state.moments.length, 2);
    assert.deepEqual(await statuses(db), ['completed', 'running', 'running']);
    await Promise.all(rest.map(({ recorded }) => recorded));
    assert.deepEqual(
      events.map(({ id }) => id),
      ['call_1.attempted.1', 'call_1.ended.1', 'call_2.attempted.1', 'call_3.attempted.1'],
    );
    assert.deepEqual(await outboxRows(db), [1, 4]);
    await close();
  });

  test('whoever waits for an outcome is not told of one that may be lost', async () => {
    const { journal, state, events, close } = await openJournal();
    await (await journal.intent(intent(1))).recorded;
    await aTurn();
    const told = state.moments.length;
    const [second] = await Promise.all([journal.intent(intent(2)), journal.outcome(outcome(1))]);
    await second.recorded;
    assert.equal(state.moments.length, told);
    assert.equal(events.length, 3);
    await close();
  });

  test('what was told and could not be committed is written when there is room, with its end', async () => {
    const { journal, state, db, events, close } = await openJournal();
    await (await journal.intent(intent(1))).recorded;
    await aTurn();
    state.isFull = 'at the end';
    const { seq, recorded } = await journal.intent(intent(2));
    await rejects(recorded, 'storage_full');
    assert.equal(journal.isIdle(), false);
    journal.outcomeSoon(outcome(seq));
    await rejects(journal.flush(), 'storage_full');
    await rejects(journal.intent(intent(3)), 'storage_full');
    assert.deepEqual(await statuses(db), ['running']);
    state.isFull = false;
    await until(() => journal.isIdle(), 'attempt and end on the disk');
    assert.deepEqual(await statuses(db), ['running', 'completed']);
    await (await journal.intent(intent(4))).recorded;
    assert.deepEqual(
      events.map(({ id }) => id),
      ['call_1.attempted.1', 'call_2.attempted.1', 'call_2.ended.1', 'call_4.attempted.1'],
    );
    await close();
  });

  test('a group that was told and could not be committed is written whole when there is room, nothing twice', async () => {
    const { journal, state, db, events, close } = await openJournal();
    await (await journal.intent(intent(1))).recorded;
    await aTurn();
    journal.outcomeSoon(outcome(1));
    state.isFull = 'at the end';
    const needing = [2, 3].map((n) => intent(n, { needsOutcomes: true }));
    const group = await Promise.all(needing.map((one) => journal.intent(one)));
    for (const { recorded } of group) await rejects(recorded, 'storage_full');
    assert.deepEqual(journal.freed, { tokens: 7, costMicrousd: 6 });
    assert.equal(journal.awaits('call_1'), true);
    for (const { seq } of group) journal.outcomeSoon(outcome(seq));
    await rejects(journal.flush(), 'storage_full');
    await rejects(journal.intent(intent(4)), 'storage_full');
    assert.deepEqual(await statuses(db), ['running']);
    state.isFull = false;
    // Alone and without need of an outcome, it takes along what is owed all the same.
    await (await journal.intent(intent(5))).recorded;
    assert.deepEqual(await statuses(db), ['completed', 'completed', 'completed', 'running']);
    await until(() => journal.isIdle(), 'all of it on the disk');
    assert.deepEqual(journal.freed, { tokens: 0, costMicrousd: 0 });
    assert.deepEqual(
      events.map(({ id }) => id),
      [
        ...['call_1.attempted.1', 'call_1.ended.1', 'call_2.attempted.1', 'call_3.attempted.1'],
        ...['call_2.ended.1', 'call_3.ended.1', 'call_5.attempted.1'],
      ],
    );
    assert.deepEqual((await outboxRows(db)).slice(0, -1), [1, 4]);
    await close();
  });

  test('what the disk did not sync is told to whoever waits, and nothing is written after it', async () => {
    let isGood = true;
    const { journal, db, close } = await openJournal({
      sync: (fd, done) => {
        if (isGood) fdatasync(fd, done);
        else setImmediate(() => done(new Error('EIO')));
      },
    });
    const first = await journal.intent(intent(1));
    await first.recorded;
    isGood = false;
    await rejects(journal.outcome(outcome(first.seq)), 'storage_full');
    await rejects(journal.intent(intent(2)), 'storage_full');
    await rejects(journal.outcome(outcome(first.seq)), 'storage_full');
    assert.deepEqual(await statuses(db), ['completed']);
    assert.equal(journal.awaits('call_1'), true);
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

  test('a row that cannot be written does not take its neighbours along', async () => {
    const { journal, db, close } = await openJournal();
    const results = await Promise.allSettled([
      journal.intent(intent(1)),
      journal.intent(intent(1)),
      journal.intent(intent(2)),
    ]);
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'fulfilled'],
    );
    assert.equal((await statuses(db)).length, 2);
    await close();
  });

  test('not when the log was told before either, and the others wait for the log', async () => {
    const { journal, state, db, events, close } = await openJournal();
    await (await journal.intent(intent(1))).recorded;
    await aTurn();
    const log = Promise.withResolvers<void>();
    state.logWaits = log.promise;
    const [second, broken] = await Promise.all([
      journal.intent(intent(2)),
      journal.intent(intent(1)),
    ]);
    let isRecorded = false;
    const recorded = second.recorded.then(() => {
      isRecorded = true;
    });
    await aTurn();
    assert.equal(isRecorded, false);
    log.resolve();
    await recorded;
    await assert.rejects(broken.recorded, /UNIQUE/);
    await (await journal.intent(intent(3))).recorded;
    await until(() => journal.isIdle(), 'an end of it');
    assert.deepEqual(await statuses(db), ['running', 'running', 'running']);
    assert.equal(events.length, 4);
    assert.deepEqual(await outboxRows(db), [1, 3, 4]);
    await close();
  });
});
