// SIGKILL of memoryd at each point of an operation in turn. After each: what was acknowledged is
// there, what was repeated with its key is there once, and a rebuild from the journal is equal.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { dumpTables } from '../../src/daemons/memoryd/testing/tables.ts';
import type { NewMemory } from '../../src/wire/memoryd/records.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const FAILPOINTS = ['memoryd.before-append', 'memoryd.after-append', 'memoryd.after-commit'];

describe('killed at every failpoint of memoryd, in split mode', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  const known: string[] = [];
  let n = 0;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true });
  });
  after(() => runtime.remove());

  const memory = (more: Partial<NewMemory> = {}): NewMemory => ({
    class: 'semantic',
    scope: 'project:app',
    text: `Fact ${n} about kestrels.`,
    ...more,
  });
  /** Repeats a request until it is answered. */
  const persist = async <T>(work: (once: { idempotencyKey: string }) => Promise<T>): Promise<T> => {
    const once = { idempotencyKey: `memory-${n++}` };
    return eventually('the operation', () => work(once));
  };
  const listKnown = async () => {
    const body = { query: 'kestrels', scope: 'project:app', limit: 100 };
    const { memories } = await eventually('a recall', () => runtime.memoryd.recall({ body }));
    return memories.map(({ text }) => text).toSorted();
  };

  const OPERATIONS: Record<string, () => Promise<void>> = {
    async remember() {
      const body = memory();
      const { memories } = await persist((once) => runtime.memoryd.remember({ body }, once));
      assert.equal(memories.length, 1);
      known.push(body.text);
    },
    async 'remember a batch that replaces another memory'() {
      const old = memory();
      const first = await persist((once) => runtime.memoryd.remember({ body: old }, once));
      const supersedes = [first.memories[0]!.id];
      const next = [
        memory({ supersedes }),
        memory({ text: `A long one. ${'kestrels '.repeat(600)}` }),
      ];
      const body = { memories: next };
      await persist((once) => runtime.memoryd.remember({ body }, once));
      known.push(next[0]!.text);
    },
  };

  for (const [name, operate] of Object.entries(OPERATIONS))
    for (const failpoint of FAILPOINTS)
      it(`${failpoint}: ${name}`, async () => {
        writeFileSync(crashFile, failpoint);
        await operate();
        assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
        const found = (await listKnown()).filter((text) => text.startsWith('Fact'));
        assert.deepEqual(found, known.toSorted());
      });

  it('a rebuild from the journal is equal', async () => {
    const tables = dumpTables(runtime.stateDir);
    const { problems } = await runtime.memoryd.rebuildMemory({});
    assert.deepEqual(problems, []);
    assert.deepEqual(dumpTables(runtime.stateDir), tables);
  });

  it('every change is in the log once', async () => {
    const count = dumpTables(runtime.stateDir).memories!.length;
    const events = await eventually('the log to be whole', async () => {
      const all = (await allEvents(runtime)).filter(({ event }) => event.startsWith('memory.'));
      return all.filter(({ event }) => event === 'memory.remembered').length >= count
        ? all
        : undefined;
    });
    assert.equal(new Set(events.map(({ id }) => id)).size, events.length, 'no event twice');
    assert.equal(events.filter(({ event }) => event === 'memory.remembered').length, count);
  });
});
