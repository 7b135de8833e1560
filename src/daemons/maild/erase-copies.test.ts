// Forgotten texts in mailboxes: every mail of a mailbox in the state, and in a person's own Maildir
// only what maild delivered there.
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { makeSeal } from '../../platform/copies/seal.ts';
import { deriveId } from '../../platform/ids.ts';
import { silentLog } from '../../platform/log.ts';
import { openSqlite } from '../../platform/sql/sqlite.ts';
import { toForgottenMemory } from '../../wire/copies.ts';
import { makeEraseCopies } from './erase-copies.ts';
import { openMaildirs, toFileName } from './maildir.ts';
import { MAIL_BYTES_MAX } from './rules/raw-message.ts';
import { MIGRATIONS } from './store/schema.ts';

const dir = mkdtempSync(join(tmpdir(), 'maild-erase-'));
after(() => rmSync(dir, { recursive: true }));

const TEXT = 'The key of the boathouse lies under the third stone.';
const letter = (padding = ''): string => `Subject: Keys\n\nListen: ${TEXT}\n${padding}`;
const [state, own] = ['mail', 'home'].map((name) => join(dir, name)) as [string, string];
const put = (home: string, name: string, content = letter()): string => {
  for (const part of ['tmp', 'new', 'cur']) mkdirSync(join(home, part), { recursive: true });
  const path = join(home, name);
  writeFileSync(path, content);
  return path;
};
const delivered = toFileName({ id: 'mail_1.to-ann', at_ms: 1_700_000_000_000 });

test('all mails of the state are reached, and those of a person that maild delivered', async () => {
  const reached = [
    put(join(state, 'ann'), `new/${delivered}`),
    put(join(state, 'bob'), 'cur/1700000000.M1.example:2,S'),
    put(own, `new/${delivered}`),
    put(own, `cur/${delivered.replace('.to-', '.to-x-')},S=123:2,RS`),
  ];
  const left = [
    put(own, 'new/1700000000.M2P3.example'),
    put(own, 'cur/1700000001.agentd-fan.example:2,S'),
    put(join(state, 'ann'), 'cur/large', letter('x'.repeat(MAIL_BYTES_MAX + 100_000))),
  ];
  const before = left.map((path) => readFileSync(path, 'utf8'));
  const db = openSqlite({ file: join(dir, 'maild.sqlite'), migrations: MIGRATIONS });
  const maildirs = openMaildirs(state, { own: new Map([['ann', own]]) });
  const seal = makeSeal({ db, log: silentLog });
  const erase = makeEraseCopies({ db, maildirs, seal, failpoint: () => {} });
  const forgotten = [toForgottenMemory(deriveId('memory', 'mail'), [TEXT])];
  const { found, cursor } = await erase({ forgotten });
  assert.deepEqual([found, cursor], [reached.length, null]);
  for (const path of reached)
    assert.equal(readFileSync(path, 'utf8'), 'Subject: Keys\n\nListen: [forgotten]\n', path);
  assert.deepEqual(
    left.map((path) => readFileSync(path, 'utf8')),
    before,
  );
  assert.equal((await erase({ forgotten })).found, 0);
  await db.close();
});
