// SIGKILL of memoryd while vectors are made, and of modeld: what was remembered has its vector in
// the end, once, and is found by words meanwhile.
import assert from 'node:assert/strict';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import type { NewMemory } from '../../src/wire/memoryd/records.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const config = 'memoryd: { embedding_model: rehearsal-embed }\n';

describe('killed while vectors of memories are made, in split mode', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  let n = 0;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true, config });
  });
  after(async () => {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  });

  const remember = async (): Promise<string> => {
    const body: NewMemory = { class: 'semantic', scope: 'project:app', text: `Heron number ${n}.` };
    const once = { idempotencyKey: `vector-${n++}` };
    return eventually('the memory', async () =>
      runtime.memoryd.remember({ body }, once).then(({ memory }) => memory.id),
    );
  };
  const countVectors = (id: string): number => {
    const file = join(runtime.stateDir, 'memoryd.sqlite');
    const db = new DatabaseSync(file, { readOnly: true });
    try {
      const text =
        'SELECT COUNT(*) AS n FROM vectors x JOIN versions v ON v.number = x.number WHERE v.memory_id = ?';
      return Number((db.prepare(text).get(id) as { n: number }).n);
    } finally {
      db.close();
    }
  };
  const recall = (text: string) =>
    eventually('an answer', () => runtime.memoryd.recall({ body: { query: text } }));

  for (const failpoint of [
    'memoryd.before-append',
    'memoryd.after-append',
    'memoryd.after-commit',
    'memoryd.before-embed',
    'memoryd.after-embed',
    'modeld.before-intent',
    'modeld.after-upstream',
  ])
    it(`${failpoint}: it has its vector in the end`, async () => {
      writeFileSync(crashFile, failpoint);
      const id = await remember();
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      await eventually('its vector', async () => countVectors(id) === 1 || undefined);
      const { memories, words_only, rehearsal } = await recall(`heron number ${n - 1}`);
      assert.ok(memories.some((memory) => memory.id === id));
      assert.deepEqual([words_only, rehearsal], [undefined, true]);
    });

  it('a rebuild after all of it is equal', async () => {
    const before = await recall('heron number');
    await runtime.memoryd.rebuildMemory({}, { deadlineMs: 60_000 });
    const after = await recall('heron number');
    assert.deepEqual(
      after.memories.map(({ id }) => id),
      before.memories.map(({ id }) => id),
    );
  });
});
