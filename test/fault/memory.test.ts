// SIGKILL of memoryd at each point of an operation in turn. After each: what was acknowledged is
// there, what was repeated with its key is there once, and a rebuild from the journal is equal.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { dumpTables, withoutIndex } from '../../src/daemons/memoryd/testing/tables.ts';
import type { NewMemory } from '../../src/wire/memoryd/records.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const COMMIT = ['memoryd.before-append', 'memoryd.after-append', 'memoryd.after-commit'];
const ADDITIONS = ['memory.remembered', 'memory.merged', 'memory.proposed'];
const isAddition = ({ event }: { event: string }): boolean => ADDITIONS.includes(event);
const MORE: Record<string, readonly string[]> = {
  forget: ['memoryd.before-erase', 'memoryd.after-erase'],
  'forget a procedure': ['memoryd.before-procedures', 'memoryd.after-procedures'],
};

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
  /** For what may be done twice. */
  const repeat = <T>(work: () => Promise<T>): Promise<T> => eventually('the operation', work);
  const remembered = async () => {
    const body = memory();
    return (await persist((once) => runtime.memoryd.remember({ body }, once))).memory;
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
    async edit() {
      const { id, text } = await remembered();
      const params = { id };
      const body = { text: `${text} Edited.` };
      await repeat(() => runtime.memoryd.editMemory({ params, body }));
      known.push(body.text);
    },
    async merge() {
      const ids = [(await remembered()).id, (await remembered()).id];
      const body = { ids, text: `Fact ${n} of kestrels, merged.` };
      await persist((once) => runtime.memoryd.merge({ body }, once));
      known.push(body.text);
    },
    async forget() {
      const { id } = await remembered();
      await repeat(() => runtime.memoryd.forget({ body: { ids: [id] } }));
    },
    async 'forget a procedure'() {
      const body = memory({ class: 'procedural', text: `Procedure ${n} of oystercatchers.` });
      const { memory: made } = await persist((once) => runtime.memoryd.remember({ body }, once));
      await repeat(() => runtime.memoryd.forget({ body: { ids: [made.id] } }));
      await repeat(async () => {
        assert.equal(existsSync(crashFile), false, 'the kill');
        assert.equal(existsSync(join(runtime.stateDir, 'memory', 'procedures')), false);
        return true;
      });
    },
    async expire() {
      const { id } = await remembered();
      const done = async () => {
        const { memory } = await runtime.memoryd.getMemory({ params: { id }, query: {} });
        if (memory.status === 'active') await runtime.memoryd.expire({ body: { ids: [id] } });
        return memory;
      };
      await repeat(done);
    },
    async 'propose and approve'() {
      const body = memory();
      const { memory: proposal } = await persist((once) =>
        runtime.memoryd.proposeMemory({ body }, once),
      );
      const params = { id: proposal.id };
      await repeat(async () => {
        const { memory: now } = await runtime.memoryd.getMemory({ params, query: {} });
        return now.status === 'active' ? now : runtime.memoryd.approveMemory({ params });
      });
      known.push(body.text);
    },
    async 'snapshot and rollback'() {
      const scope = `project:app/${n++}`;
      const body = memory({ scope });
      await persist((once) => runtime.memoryd.remember({ body }, once));
      const { snapshot } = await persist((once) =>
        runtime.memoryd.takeMemorySnapshot({ body: { scope } }, once),
      );
      const more = memory({ scope, text: `Fact ${n} about kestrels, to be undone.` });
      await persist((once) => runtime.memoryd.remember({ body: more }, once));
      await repeat(() => runtime.memoryd.rollBackMemory({ body: { snapshot_id: snapshot.id } }));
      known.push(body.text);
    },
  };

  for (const [name, operate] of Object.entries(OPERATIONS))
    for (const failpoint of [...COMMIT, ...(MORE[name] ?? [])])
      it(`${failpoint}: ${name}`, async () => {
        writeFileSync(crashFile, failpoint);
        await operate();
        assert.equal(existsSync(crashFile), false, `${failpoint} was reached`);
        const found = (await listKnown()).filter((text) => text.startsWith('Fact'));
        assert.deepEqual(found, known.toSorted());
      });

  it('a rebuild from the journal is equal', async () => {
    await eventually('nothing left to erase', async () =>
      dumpTables(runtime.stateDir).erasures!.length === 0 ? true : undefined,
    );
    const tables = withoutIndex(dumpTables(runtime.stateDir));
    const { problems } = await runtime.memoryd.rebuildMemory({});
    assert.deepEqual(problems, []);
    assert.deepEqual(withoutIndex(dumpTables(runtime.stateDir)), tables);
  });

  it('every change is in the log once', async () => {
    const count = dumpTables(runtime.stateDir).memories!.length;
    const events = await eventually('the log to be whole', async () => {
      const all = (await allEvents(runtime)).filter(({ event }) => event.startsWith('memory.'));
      return all.filter(isAddition).length >= count ? all : undefined;
    });
    assert.equal(new Set(events.map(({ id }) => id)).size, events.length, 'no event twice');
    assert.equal(events.filter(isAddition).length, count);
  });
});
