// The journal: what is appended is read back, a failed append leaves nothing, and torn or damaged
// lines are recognized.
import assert from 'node:assert/strict';
import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { deriveId } from '../../../platform/ids.ts';
import { silentLog } from '../../../platform/log.ts';
import type { MemoryId } from '../../../wire/memoryd/records.ts';
import { decodeEntry, encodeEntry, type JournalEntry } from './entry.ts';
import type { JournalLine } from './files.ts';
import { type Journal, type JournalOptions, openJournal } from './journal.ts';

let dir: string;
let journal: Journal;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'memory-journal-'));
  journal = open();
});
afterEach(() => {
  journal.close();
  rmSync(dir, { recursive: true });
});

const open = (more: Partial<JournalOptions> = {}) => openJournal({ dir, log: silentLog, ...more });
const reopen = (more: Partial<JournalOptions> = {}): void => {
  journal.close();
  journal = open(more);
};
const entry = (n: number, day = '2026-06-29', text = 'x'): JournalEntry => ({
  v: 1,
  n,
  at: `${day}T18:00:00.000Z`,
  op: 'remember',
  by: 'person:alice',
  changes: [
    {
      do: 'add',
      id: deriveId<MemoryId>('memory', n),
      class: 'semantic',
      scope: 'team',
      status: 'active',
      content: { text, size: text.length, about: {}, labels: ['person'] },
    },
  ],
});
async function readAll(fromDay?: string): Promise<JournalLine[]> {
  const lines: JournalLine[] = [];
  for await (const line of journal.read(fromDay)) lines.push(line);
  return lines;
}
const numbers = async (fromDay?: string) =>
  (await readAll(fromDay)).map((line) => line.entry?.n ?? null);
const fileOf = (day: string): string => join(dir, `${day}.jsonl`);

test('an entry survives its line, whatever its text is', () => {
  for (const text of ['', 'a\nb\r\n"c"\\', '東京 서울 مرحبا 🦀', ',"sum":"0123456789abcdef"}']) {
    const one = entry(1, undefined, text);
    const line = encodeEntry(one);
    assert.equal(line.indexOf('\n'), line.length - 1);
    assert.deepEqual(decodeEntry(line.slice(0, -1)), one);
    for (const at of [0, 10, line.length >> 1, line.length - 3]) {
      const other = String.fromCharCode(line.charCodeAt(at) ^ 1);
      assert.equal(decodeEntry(line.slice(0, at) + other + line.slice(at + 1, -1)), undefined);
    }
  }
});

test('[R63] entries are read back in order, by day, also by the next process', async () => {
  journal.append([entry(1), entry(2)]);
  journal.append([entry(3, '2026-06-30')]);
  assert.deepEqual(await numbers(), [1, 2, 3]);
  reopen();
  assert.deepEqual(await numbers('2026-06-30'), [3]);
  assert.equal(journal.lastDay(), '2026-06-30');
  journal.append([entry(4, '2026-06-28')]);
  assert.deepEqual(await numbers('2026-06-30'), [3, 4], 'a clock that was set back opens no file');
});

test('a torn last line is cut off at the next start', async () => {
  journal.append([entry(1), entry(2)]);
  appendFileSync(fileOf('2026-06-29'), encodeEntry(entry(3)).slice(0, 40));
  reopen();
  assert.deepEqual(await numbers(), [1, 2]);
  journal.append([entry(3)]);
  reopen();
  assert.deepEqual(await numbers(), [1, 2, 3]);
});

test('a damaged line is reported with its place, and the others are read', async () => {
  journal.append([entry(1), entry(2), entry(3)]);
  const file = fileOf('2026-06-29');
  const lines = readFileSync(file, 'utf8').split('\n');
  lines[1] = lines[1]!.replace('person:alice', 'person:mallo');
  writeFileSync(file, lines.join('\n'));
  const read = await readAll();
  assert.deepEqual(
    read.map(({ line, entry }) => [line, entry?.n]),
    [
      [1, 1],
      [2, undefined],
      [3, 3],
    ],
  );
});

test('an append that fails leaves no part of it', async () => {
  journal.append([entry(1)]);
  const full = Object.assign(new Error('full'), { code: 'ENOSPC' });
  let left = 60;
  reopen({
    write(_fd, bytes) {
      if (left === 0) throw full;
      const count = Math.min(left, bytes.length);
      left -= count;
      appendFileSync(fileOf('2026-06-29'), bytes.subarray(0, count));
      return count;
    },
  });
  assert.throws(() => journal.append([entry(2)]), { code: 'storage_full' });
  reopen();
  assert.deepEqual(await numbers(), [1]);
  journal.append([entry(2)]);
  assert.deepEqual(await numbers(), [1, 2]);
});

test('an append is taken back as a whole', async () => {
  journal.append([entry(1)]);
  journal.append([entry(2), entry(3)]);
  journal.takeBack();
  assert.deepEqual(await numbers(), [1]);
  journal.append([entry(2)]);
  reopen();
  assert.deepEqual(await numbers(), [1, 2]);
});

test('a rewrite replaces some entries, keeps damaged lines, and can be appended to', async () => {
  journal.append([entry(1), entry(2), entry(3)]);
  const file = fileOf('2026-06-29');
  writeFileSync(file, readFileSync(file, 'utf8').replace('"n":3', '"n":7'));
  const strip = (one: JournalEntry): JournalEntry => ({ ...one, changes: [] });
  await journal.rewrite('2026-06-29', (one) => (one.n === 2 ? strip(one) : undefined));
  journal.append([entry(4)]);
  const read = await readAll();
  assert.deepEqual(
    read.map((line) => [line.entry?.n, line.entry?.changes.length]),
    [
      [1, 1],
      [2, 0],
      [undefined, undefined],
      [4, 1],
    ],
  );
});
