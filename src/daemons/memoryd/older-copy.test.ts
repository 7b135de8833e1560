// An older copy of memoryd's files is put back: what was forgotten since is forgotten again at the
// start, from every file, and nothing else is.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { findFiles } from '../../../test/support/find-files.ts';
import {
  findTexts,
  getMemory,
  hasCode,
  host,
  restart,
  setUpEachTest,
  world,
} from './testing/each-test.ts';

setUpEachTest();

const JOURNAL = ['memory'];
const TABLES = ['memoryd.sqlite'];
const TABLE_FILES = [...TABLES, 'memoryd.sqlite-wal', 'memoryd.sqlite-shm'];
const LONG = `The okapi ${'walks and '.repeat(600)}`;

let copy: string;
beforeEach(() => {
  copy = join(world.dir, 'copy');
});
afterEach(() => rmSync(copy, { recursive: true, force: true }));

/** While memoryd is stopped. */
const copyState = (to = copy): void => void execFileSync('cp', ['-a', world.stateDir, to]);
function putBack(names: readonly string[], from = copy): void {
  for (const name of names) {
    rmSync(join(world.stateDir, name), { recursive: true, force: true });
    execFileSync('cp', ['-a', join(from, name), world.stateDir]);
  }
}
const OLDER: Record<string, () => void> = {
  'the journal alone': () => putBack(JOURNAL),
  'the journal and the tables': () => {
    removeTables();
    putBack([...JOURNAL, ...TABLES]);
  },
  'the journal, without tables': () => {
    removeTables();
    putBack(JOURNAL);
  },
};
function removeTables(): void {
  for (const name of TABLE_FILES) rmSync(join(world.stateDir, name), { force: true });
}
const listForgotten = () => world.events.filter(({ event }) => event === 'memory.forgotten');

/** Until agentd has the texts, memoryd keeps them for it. */
async function isGone(): Promise<void> {
  for (let tries = 0; findFiles(world.stateDir, 'okapi').length > 0 && tries < 200; tries++)
    await new Promise((resolve) => setTimeout(resolve, 10));
  assert.deepEqual(findFiles(world.stateDir, 'okapi'), []);
}

/** Remembers, copies, forgets, remembers more, and puts the copy back. */
async function forgetAfterCopy(putOlder: () => void) {
  const short = await host.remember('The okapi sleeps.', { caption: 'an okapi' });
  const long = await host.remember(LONG);
  const procedure = await host.remember('Feed the okapi.', { class: 'procedural' });
  const kept = await host.remember('The horse is awake.');
  const before = await host.remember('The okapi was forgotten before.');
  await host.alice.forget({ body: { ids: [before.id] } });
  await restart(() => copyState());
  const ids = [short.id, long.id, procedure.id];
  for (const id of ids) await host.alice.forget({ body: { ids: [id] } });
  await isGone();
  await restart(putOlder);
  return { ids, kept };
}

for (const [name, putOlder] of Object.entries(OLDER))
  test(`of ${name}: what was forgotten since is gone from every file`, async () => {
    const { ids, kept } = await forgetAfterCopy(putOlder);
    assert.ok(findFiles(copy, 'okapi').length > 0, 'control: the copy has it');
    await isGone();
    assert.deepEqual(await findTexts('okapi'), []);
    assert.deepEqual(await findTexts('horse'), ['The horse is awake.']);
    for (const id of ids) assert.equal((await getMemory(id)).status, 'forgotten');
    assert.equal((await getMemory(kept.id)).status, 'active');
    await host.alice.rebuildMemory({});
    assert.deepEqual(await findTexts('okapi'), []);
    assert.deepEqual(await findTexts('horse'), ['The horse is awake.']);
    // The journal has it, too.
    await host.remember('The horse sleeps.');
    const events = listForgotten().length;
    await restart(removeTables);
    assert.deepEqual(await findTexts('horse'), ['The horse is awake.', 'The horse sleeps.']);
    await isGone();
    assert.equal(listForgotten().length, events, 'it is forgotten again once');
  });

test('control: without these events in the log, the texts are back', async () => {
  await forgetAfterCopy(() => {
    OLDER['the journal and the tables']!();
    world.events.splice(0);
  });
  assert.ok(findFiles(world.stateDir, 'okapi').length > 0);
  assert.equal((await findTexts('okapi')).length, 3);
});

test('agentd has the copies removed again, since these may be back as well', async () => {
  const { ids } = await forgetAfterCopy(OLDER['the journal and the tables']!);
  const orders = world.erasures.filter(({ memory_id }) => memory_id === ids[0]);
  assert.deepEqual(
    orders.map(({ texts }) => texts[0]!.text),
    ['The okapi sleeps.', 'The okapi sleeps.'],
  );
});

test('while the log does not answer, memoryd does not start', async () => {
  await host.remember('The okapi sleeps.');
  const leave = (): void => {
    world.isAuditAway = true;
  };
  await assert.rejects(restart(leave), hasCode('unavailable'));
  world.isAuditAway = false;
  await restart();
  assert.deepEqual(await findTexts('okapi'), ['The okapi sleeps.'], 'control');
});

for (const name of ['before-append', 'after-append', 'after-commit', 'before-erase', 'after-erase'])
  test(`a start that fails at ${name} is made good by the next`, async () => {
    let failures = 0;
    const failOnce = (point: string): void => {
      if (point === `memoryd.${name}` && failures++ === 0) throw new Error('a crash');
    };
    const putOlder = OLDER['the journal and the tables']!;
    const started = forgetAfterCopy(() => {
      putOlder();
      world.failpoint = failOnce;
    });
    // It starts before files are rewritten.
    const mayStart = name.endsWith('erase');
    if (mayStart) await started;
    else await assert.rejects(started, /a crash/);
    assert.equal(failures, 1, 'control');
    await restart();
    await isGone();
    assert.deepEqual(await findTexts('okapi'), []);
    assert.deepEqual(await findTexts('horse'), ['The horse is awake.']);
  });

test('a newer copy that follows an older one lacks only what was forgotten after it', async () => {
  const one = await host.remember('The okapi sleeps.');
  const two = await host.remember('The okapi runs.');
  const newer = join(world.dir, 'newer');
  await restart(() => copyState());
  await host.alice.forget({ body: { ids: [one.id] } });
  await restart(() => copyState(newer));
  await host.alice.forget({ body: { ids: [two.id] } });
  await restart(OLDER['the journal and the tables']!);
  const between = await host.remember('The tapir came between.');
  await restart(() => {
    removeTables();
    putBack([...JOURNAL, ...TABLES], newer);
  });
  await isGone();
  await assert.rejects(getMemory(between.id), hasCode('not_found'));
  const ids = listForgotten().map(({ id }) => id);
  assert.equal(new Set(ids).size, ids.length, 'no event has the id of another');
});
