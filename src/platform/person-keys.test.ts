// Personal keys: each authenticates its person, and reserves that name.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Fault } from '../wire/errors.ts';
import { authenticateByKey } from './authenticate.ts';
import { openPersonKeys } from './person-keys.ts';

const OPERATOR = 'o'.repeat(43);
const ALICE = 'a'.repeat(43);

function setUp(t: { after(fn: () => void): void }): string {
  const dir = mkdtempSync(join(tmpdir(), 'people-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  mkdirSync(join(dir, 'people'), { mode: 0o700 });
  writeFileSync(join(dir, 'people', 'alice.key'), `${ALICE}\n`, { mode: 0o600 });
  return join(dir, 'people');
}

function asking(dir: string) {
  const authenticate = authenticateByKey(OPERATOR, openPersonKeys(dir));
  return (key: string, name?: string) =>
    authenticate({
      headers: {
        authorization: `Bearer ${key}`,
        ...(name === undefined ? {} : { 'agentd-person': name }),
      },
    } as unknown as IncomingMessage);
}
const refused = (error: unknown) => error instanceof Fault && error.code === 'unauthenticated';

test('a personal key authenticates its person', (t) => {
  const ask = asking(setUp(t));
  const alice = { kind: 'operator', principal: 'person:alice', key: 'people/alice' };
  assert.deepEqual(ask(ALICE), alice);
  assert.deepEqual(ask(ALICE, 'alice'), alice);
  assert.throws(() => ask(ALICE, 'bob'), refused);
  assert.throws(() => ask('x'.repeat(43)), refused);
});

test("the operator's key cannot claim a name that has a personal key", (t) => {
  const ask = asking(setUp(t));
  assert.deepEqual(ask(OPERATOR, 'bob'), { kind: 'operator', principal: 'person:bob' });
  assert.throws(() => ask(OPERATOR, 'alice'), refused);
});

test('a key that others can read is not accepted, and its name stays reserved', (t) => {
  const dir = setUp(t);
  chmodSync(join(dir, 'alice.key'), 0o644);
  const ask = asking(dir);
  assert.throws(() => ask(ALICE), refused);
  assert.throws(() => ask(OPERATOR, 'alice'), refused);
});

test('names stay reserved while the keys cannot be listed', (t) => {
  const dir = setUp(t);
  rmSync(dir, { recursive: true });
  writeFileSync(dir, 'no directory');
  const ask = asking(dir);
  assert.throws(() => ask(OPERATOR, 'alice'), { code: 'ENOTDIR' });
});

test('a file that is too short is not a key', (t) => {
  const dir = setUp(t);
  writeFileSync(join(dir, 'carol.key'), 'short\n', { mode: 0o600 });
  writeFileSync(join(dir, 'dave.key'), '', { mode: 0o600 });
  const ask = asking(dir);
  assert.throws(() => ask('short'), refused);
  assert.throws(() => ask(''), refused);
});

test('a removed key stops working within a second', async (t) => {
  const dir = setUp(t);
  const ask = asking(dir);
  ask(ALICE);
  rmSync(join(dir, 'alice.key'));
  await new Promise((resolve) => setTimeout(resolve, 600));
  assert.throws(() => ask(ALICE), refused);
});

test('a second line limits the role; a damaged one leaves no key, and reserves the name', (t) => {
  const dir = setUp(t);
  const write = (name: string, key: string, rest: string) =>
    writeFileSync(join(dir, `${name}.key`), `${key.repeat(43)}${rest}`, { mode: 0o600 });
  write('reader', 'r', '\nrole: reader\n');
  write('approver', 'p', '\nrole: approver');
  write('operator', 'q', '\nrole: operator\n');
  for (const [i, rest] of [
    '\nrole: admin',
    '\nreader',
    '\nrole: reader\nx',
    '\n\n\nrole:',
  ].entries())
    write(`bad${i}`, String(i), rest);
  const people = openPersonKeys(dir);
  const roleOf = (key: string) => people.find(key.repeat(43))?.role;
  assert.deepEqual(['r', 'p', 'q', 'a'].map(roleOf), [
    'reader',
    'approver',
    'operator',
    'operator',
  ]);
  for (const i of [0, 1, 2, 3]) {
    assert.equal(roleOf(String(i)), undefined);
    assert.ok(people.has(`bad${i}`));
  }
  const ask = asking(dir);
  const caller = ask('r'.repeat(43));
  assert.equal(caller.kind === 'operator' && caller.role, 'reader');
  assert.throws(() => ask(`${'r'.repeat(43)}\nrole: reader`), refused);
});
