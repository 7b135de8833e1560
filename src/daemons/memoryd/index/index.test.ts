// The recall index in a database: what it finds and in which order, what scopes learn of each
// other, and what remains after removals.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import fc from 'fast-check';
import { openSqlite, type SqliteDatabase } from '../../../platform/sql/sqlite.ts';
import {
  addToIndex,
  type Hit,
  INDEX_TABLES,
  type IndexedRecord,
  removeFromIndex,
  type SearchOptions,
  search,
} from './index.ts';
import { decode } from './postings.ts';
import { recordTerms } from './record-terms.ts';

const dir = mkdtempSync(join(tmpdir(), 'agentd-mi-'));
after(() => rmSync(dir, { recursive: true, force: true }));
let made = 0;
const NOW = Date.parse('2024-03-13T12:00:00Z');
const DAY_MS = 86_400_000;

const open = () => openSqlite({ file: join(dir, `${made++}.sqlite`), migrations: [INDEX_TABLES] });
const record = (
  number: number,
  text: string,
  more: Partial<IndexedRecord> = {},
): IndexedRecord => ({
  number,
  scope: 'team',
  text,
  recordedAtMs: NOW - 1_000 * DAY_MS,
  ...more,
});
const add = (db: SqliteDatabase, ...records: IndexedRecord[]) =>
  db.write((sql) => addToIndex(sql, records));
const remove = (db: SqliteDatabase, ...numbers: number[]) =>
  db.write((sql) => removeFromIndex(sql, numbers));
const find = (
  db: SqliteDatabase,
  query: string,
  more: Partial<SearchOptions> = {},
): Promise<Hit[]> =>
  db.read((sql) => search(sql, { scopes: ['team'], query, limit: 10, nowMs: NOW, ...more }));
const numbers = (hits: Hit[]): number[] => hits.map(({ number }) => number);

describe('memory index: finding', () => {
  it('finds records by stemmed words of text and caption, the best match first', async () => {
    const db = open();
    await add(
      db,
      record(1, 'We adopted a puppy from the shelter.'),
      record(2, 'Look at this!', { caption: 'a photo of puppies on a couch' }),
      record(3, 'The deploy failed because the disk was full.'),
    );
    assert.deepEqual(numbers(await find(db, 'Which puppy was adopted?')), [1, 2]);
    assert.deepEqual(numbers(await find(db, 'why do deploys fail')), [3]);
    assert.deepEqual(await find(db, 'quantum'), []);
    assert.deepEqual(await find(db, 'puppy', { scopes: ['other'] }), []);
    assert.deepEqual([...(await find(db, '')), ...(await find(db, '…'))], []);
    await db.close();
  });

  it('finds records in other scripts', async () => {
    const db = open();
    const texts = {
      東京: '去年、東京都に引っ越しました',
      서울: '서울에서 친구를 만났다',
      المدرسة: 'ذَهَبَ إلى المَدرَسَة',
      '🎸': 'new hobby: 🎸',
      Ångström: 'ångström units',
      กิน: 'ฉันชอบกินข้าวผัด',
      москве: 'Мы были в Москве',
    };
    await add(db, ...Object.values(texts).map((text, i) => record(i + 1, text)));
    let i = 1;
    for (const query of Object.keys(texts))
      assert.deepEqual(numbers(await find(db, query)), [i++], query);
    await db.close();
  });

  it('finds the answer behind the question that was asked', async () => {
    const db = open();
    await add(
      db,
      record(1, 'What instrument do you play?', { thread: 't', speaker: 'Ann' }),
      record(2, 'The cello, since I was nine.', { thread: 't', speaker: 'Bo' }),
      record(3, 'Nice weather today.', { thread: 'u', speaker: 'Bo' }),
    );
    const [first] = await find(db, 'What instrument does Bo play?');
    assert.equal(first?.number, 2);
    assert.ok(first.reasons.neighbours! > 0 && first.reasons.speaker! > 1);
    assert.deepEqual(first.words, []);
    await db.close();
  });

  it('prefers the speaker that is named, the day that is asked for, and what is important', async () => {
    const db = open();
    const at = (day: string) => Date.parse(`${day}T10:00:00Z`);
    await add(
      db,
      record(1, 'I went hiking', { speaker: 'Ann Lee', occurredAtMs: at('2023-05-07') }),
      record(2, 'I went hiking again', { speaker: 'Bo', occurredAtMs: at('2023-08-02') }),
      record(3, 'I went hiking too', {
        speaker: 'Cy',
        importance: 1,
        occurredAtMs: at('2023-01-02'),
      }),
    );
    assert.equal((await find(db, 'when did Bo go hiking?'))[0]?.number, 2);
    assert.equal((await find(db, "Lee's hiking"))[0]?.number, 1);
    assert.equal((await find(db, 'who went hiking in May 2023?'))[0]?.number, 1);
    assert.equal((await find(db, 'hiking'))[0]?.number, 3);
    await db.close();
  });

  it('answers questions that only name a speaker or a day', async () => {
    const db = open();
    await add(
      db,
      record(1, 'First', { speaker: 'Ann', occurredAtMs: NOW - 40 * DAY_MS }),
      record(2, 'Second', { speaker: 'Bo', occurredAtMs: NOW - DAY_MS }),
    );
    assert.equal((await find(db, 'What did Ann say?'))[0]?.number, 1);
    assert.equal((await find(db, 'what was yesterday'))[0]?.number, 2);
    await db.close();
  });

  it('takes a whole text as a question, and looks for its rarest words', async () => {
    const db = open();
    const words = (prefix: string) =>
      Array.from({ length: 60 }, (_, i) => `${prefix}${i}`).join(' ');
    await add(
      db,
      ...Array.from({ length: 40 }, (_, i) => record(i + 1, words('common'))),
      record(41, 'the needle'),
    );
    const query = `${words('common')} ${words('unknown')} needle ${words('more').repeat(20)}`;
    assert.equal((await find(db, query))[0]?.number, 41);
    await db.close();
  });

  it('returns one of several records that say the same', async () => {
    const db = open();
    await add(
      db,
      record(1, 'The build is green'),
      record(2, 'the build is GREEN.'),
      record(3, 'red build'),
    );
    assert.deepEqual(numbers(await find(db, 'green build')), [2, 3]);
    await db.close();
  });

  it('orders threads by seq, also when records come late', async () => {
    const db = open();
    // A seq may be a time; these are on both sides of a multiple of 2 ** 32.
    const turn = (number: number, after: number, text: string) =>
      record(number, text, { thread: 't', seq: 1_700 * 2 ** 30 + after });
    await add(db, turn(1, 20, 'Goodbye'), turn(2, 0, 'A cello.'), turn(3, 10, 'I see.'));
    await add(db, turn(4, -10, 'Which instrument is it?'));
    const by = new Map(
      (await find(db, 'instrument')).map((hit) => [hit.number, hit.reasons.neighbours]),
    );
    assert.ok(by.get(2)! > by.get(3)!, 'the one after the question is the nearest');
    assert.ok(!by.has(1) || by.get(1) === 0);
    await db.close();
  });
});

describe('memory index: isolation', () => {
  it('gives the same scores whatever other scopes contain', async () => {
    const alone = open();
    const beside = open();
    const texts = ['a red car', 'a blue car in the red garage', 'the car and the bike', 'a bike'];
    for (const [i, text] of texts.entries()) {
      await add(alone, record(i + 1, text, { thread: 't' }));
      await add(beside, record(i + 1, text, { thread: 't' }));
      await add(
        beside,
        record(i + 101, `red red car ${text} and more words`, {
          scope: 'other',
          thread: 't',
          speaker: 'Car',
        }),
      );
    }
    for (const query of ['red car', 'the bike', 'blue garage'])
      assert.deepEqual(await find(beside, query), await find(alone, query));
    // Control: a record in the scope itself does change them.
    await add(beside, record(200, 'a red fence'));
    assert.notDeepEqual(
      (await find(beside, 'red car')).map(({ score }) => score),
      (await find(alone, 'red car')).map(({ score }) => score),
    );
    await Promise.all([alone.close(), beside.close()]);
  });

  it('keeps what the caller may not see out of hits and of what surrounds them', async () => {
    const db = open();
    const turn = (number: number, text: string) => record(number, text, { thread: 't' });
    await add(
      db,
      turn(1, 'Which instrument is it?'),
      turn(2, 'A cello.'),
      turn(3, 'An instrument.'),
    );
    const open3 = await find(db, 'instrument');
    const isVisible = async (all: readonly number[]) => new Set(all.filter((one) => one !== 1));
    const hits = await find(db, 'instrument', { isVisible });
    assert.deepEqual(numbers(hits).sort(), [2, 3]);
    const ofTwo = (list: Hit[]) => list.find(({ number }) => number === 2)!.reasons;
    assert.ok(ofTwo(hits).neighbours! < ofTwo(open3).neighbours!);
    assert.ok(ofTwo(hits).conversation! < ofTwo(open3).conversation!);
    await db.close();
  });
});

type Row = { scope: string; term: string; part: number; postings: Uint8Array };

/** Every term of the index with the numbers of its records, by scope. */
async function contents(db: SqliteDatabase): Promise<Record<string, number[]>> {
  const rows = await db.read((sql) =>
    sql.all<Row>(
      `SELECT scope, term, part, postings FROM memory_index_postings
       JOIN memory_index_scopes ON id = scope_id ORDER BY scope, term, part`,
    ),
  );
  const records = await db.read((sql) =>
    sql.all<{ number: number; scope: string; ordinal: number }>(
      `SELECT number, scope, ordinal FROM memory_index_records
       JOIN memory_index_scopes ON id = scope_id`,
    ),
  );
  const byPlace = new Map(records.map((one) => [`${one.scope} ${one.ordinal}`, one.number]));
  const found: Record<string, number[]> = {};
  for (const { scope, term, part, postings } of rows) {
    found[`${scope} ${term}`] ??= [];
    const list = found[`${scope} ${term}`]!;
    for (const { ordinal } of decode(postings, part))
      list.push(byPlace.get(`${scope} ${ordinal}`)!);
  }
  for (const list of Object.values(found)) list.sort((a, b) => a - b);
  return found;
}

function naive(records: Iterable<IndexedRecord>): Record<string, number[]> {
  const found: Record<string, number[]> = {};
  for (const one of records)
    for (const term of recordTerms(one).weights.keys()) {
      found[`${one.scope} ${term}`] ??= [];
      found[`${one.scope} ${term}`]!.push(one.number);
    }
  for (const list of Object.values(found)) list.sort((a, b) => a - b);
  return found;
}

describe('memory index: contents', () => {
  it('equal those of a naive index after any additions and removals', async () => {
    const word = fc.constantFrom('red', 'blue', 'green', 'car', 'bike', 'boat');
    const added = fc.record({
      scope: fc.constantFrom('a', 'b'),
      words: fc.array(word, { maxLength: 5 }),
      thread: fc.constantFrom(undefined, 't', 'u'),
      seq: fc.option(fc.nat(20), { nil: undefined }),
      speaker: fc.constantFrom(undefined, 'Ann'),
    });
    const step = fc.oneof(fc.array(added, { maxLength: 6 }), fc.nat(30));
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 15 }), async (steps) => {
        const db = open();
        const kept = new Map<number, IndexedRecord>();
        let number = 1;
        for (const one of steps) {
          if (typeof one === 'number') {
            await remove(db, one);
            kept.delete(one);
            continue;
          }
          const records = one.map(({ words, scope, ...rest }) => {
            const given = Object.entries(rest).filter(([, value]) => value !== undefined);
            return record(number++, words.join(' '), { scope, ...Object.fromEntries(given) });
          });
          await add(db, ...records);
          for (const each of records) kept.set(each.number, each);
        }
        assert.deepEqual(await contents(db), naive(kept.values()));
        await remove(db, ...kept.keys());
        for (const table of INDEX_TABLES.match(/memory_index_\w+/g)!)
          assert.deepEqual(await db.read((sql) => sql.all(`SELECT * FROM ${table}`)), [], table);
        await db.close();
      }),
      { numRuns: 60 },
    );
  });

  it('hold thousands of postings of a term in parts, of which any can be removed', async () => {
    const db = open();
    const all = Array.from({ length: 2_000 }, (_, i) => record(i + 1, `common word${i % 7}`));
    for (let i = 0; i < all.length; i += 300) await add(db, ...all.slice(i, i + 300));
    const gone = new Set(all.filter((_, i) => i % 3 === 0 || i > 1_500).map((one) => one.number));
    await remove(db, ...gone);
    assert.deepEqual(await contents(db), naive(all.filter((one) => !gone.has(one.number))));
    await add(db, record(5_000, 'common sense'));
    assert.equal((await find(db, 'sense'))[0]?.number, 5_000);
    await db.close();
  });

  it('keep nothing of a removed record that no other has', async () => {
    const file = join(dir, 'gone.sqlite');
    const db = openSqlite({ file, migrations: [`PRAGMA secure_delete = ON; ${INDEX_TABLES}`] });
    await add(
      db,
      record(1, 'The password is xylophonequartz', {
        thread: 'zanzibarthread',
        speaker: 'Quasimodo',
      }),
      record(2, 'The password is something else'),
    );
    await remove(db, 1);
    assert.deepEqual(await find(db, 'xylophonequartz'), []);
    assert.deepEqual(numbers(await find(db, 'password')), [2]);
    await db.close();
    const bytes = readFileSync(file);
    for (const text of ['xylophonequartz', 'zanzibarthread', 'quasimodo'])
      assert.equal(bytes.includes(text), false, text);
    assert.ok(bytes.includes('password'));
  });
});
