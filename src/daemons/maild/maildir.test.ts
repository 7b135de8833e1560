// Maildirs that may belong to people: mail arrives once, wherever it can, and nothing that is not a
// file in them is read or written.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { isNoMail, type Maildirs, openMaildirs } from './maildir.ts';

let base: string;
let state: string;
let own: string;
let failed: string[];
let maildirs: Maildirs;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'maildir-'));
  [state, own] = [join(base, 'state'), join(base, 'own')];
  mkdirSync(state);
  failed = [];
  maildirs = openMaildirs(state, {
    own: new Map([['ann', own]]),
    onOwnFailed: (box) => failed.push(box),
  });
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const mail = (name: string, isRepeat = false) => ({
  name,
  content: Buffer.from(`Subject: ${name}\n\nHello.\n`),
  isRepeat,
});
const names = async (box: string) => (await maildirs.list(box)).map(({ name }) => name);

test('mail goes into the directory of the person, and of others into the state', async () => {
  await maildirs.deliver('ann', [mail('1.a')]);
  await maildirs.deliver('bob', [mail('2.b')]);
  assert.deepEqual(readdirSync(join(own, 'new')), ['1.a']);
  assert.deepEqual(readdirSync(join(state, 'bob', 'new')), ['2.b']);
  assert.ok(!existsSync(join(state, 'ann')));
  assert.deepEqual((await maildirs.listBoxes()).sort(), ['ann', 'bob']);
});

test('what it does not take goes into the state, once, and both are listed', async () => {
  writeFileSync(own, 'no directory');
  await maildirs.deliver('ann', [mail('1.a')]);
  assert.deepEqual(failed, ['ann']);
  rmSync(own);
  await maildirs.deliver('ann', [mail('1.a', true), mail('2.a')]);
  assert.deepEqual(await names('ann'), ['1.a', '2.a']);
  assert.deepEqual(readdirSync(join(own, 'new')), ['2.a']);
});

test('a repeat is known wherever its reader has it', async () => {
  await maildirs.deliver('ann', [mail('1.a')]);
  renameSync(join(own, 'new', '1.a'), join(own, 'cur', '1.a:2,S'));
  await maildirs.deliver('ann', [mail('1.a', true)]);
  assert.deepEqual(await names('ann'), ['1.a:2,S']);
});

test('a file that waits in tmp is replaced, and a link there is not followed', async () => {
  await maildirs.deliver('ann', [mail('1.a')]);
  const victim = join(base, 'victim');
  writeFileSync(victim, 'untouched');
  symlinkSync(victim, join(own, 'tmp', '2.a'));
  writeFileSync(join(own, 'tmp', '3.a'), 'half');
  await maildirs.deliver('ann', [mail('2.a'), mail('3.a')]);
  assert.equal(readFileSync(victim, 'utf8'), 'untouched');
  for (const name of ['2.a', '3.a'])
    assert.match(readFileSync(join(own, 'new', name), 'utf8'), /Hello/);
});

test('links, pipes and directories are no mail, and keep nobody waiting', async () => {
  await maildirs.deliver('ann', [mail('4.a')]);
  const cur = join(own, 'cur');
  writeFileSync(join(base, 'secret'), 'of others');
  symlinkSync(join(base, 'secret'), join(cur, '1.link'));
  assert.equal(spawnSync('mkfifo', [join(cur, '2.pipe')]).status, 0);
  mkdirSync(join(cur, '3.dir'));
  const read: string[] = [];
  for (const entry of await maildirs.list('ann'))
    await maildirs.read(entry, 100).then(
      () => read.push(entry.name),
      (error: unknown) => assert.ok(isNoMail(error), entry.name),
    );
  assert.deepEqual(read, ['4.a']);
});

test('a mail is replaced and marked where it is', async () => {
  await maildirs.deliver('ann', [mail('1.a')]);
  const [entry] = await maildirs.list('ann');
  await maildirs.replace(entry!, Buffer.from('[forgotten]\n'));
  assert.equal(readFileSync(join(own, 'new', '1.a'), 'utf8'), '[forgotten]\n');
  await maildirs.markRead(entry!);
  assert.deepEqual(await names('ann'), ['1.a:2,S']);
  await maildirs.replace(entry!, Buffer.from('again'));
  assert.deepEqual(await names('ann'), ['1.a:2,S'], 'moved meanwhile: not made anew');
});
