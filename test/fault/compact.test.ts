// SIGKILL of memoryd while the journal of a past day is compacted. Afterwards the next pass
// finishes, the texts of the pruned episodes are nowhere, and a rebuild is equal.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { encodeEntry, type JournalEntry } from '../../src/daemons/memoryd/journal/entry.ts';
import { dumpTables, withoutIndex } from '../../src/daemons/memoryd/testing/tables.ts';
import { deriveId } from '../../src/platform/ids.ts';
import type { MemoryId } from '../../src/wire/memoryd/records.ts';
import type { RunId, TaskId } from '../../src/wire/primitives.ts';
import { findKind, prune } from '../support/prune.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const DAYS = ['2026-01-01', '2026-01-02'];
const KIND = { kinds: ['memories' as const] };

/** An episode, and a fact beside it. */
const entryOf = (day: string, n: number, by: string): JournalEntry => {
  const task = deriveId<TaskId>('task', day);
  const isEpisode = by === 'service:agentd';
  const text = isEpisode ? `Episode of ${day}` : `Fact of ${day}`;
  return {
    v: 1,
    n,
    at: `${day}T12:00:00.000Z`,
    op: 'remember',
    by,
    ...(isEpisode
      ? { run: { run_id: deriveId<RunId>('run', day), task_id: task, root_task_id: task } }
      : {}),
    changes: [
      {
        do: 'add',
        // In the order of creation, as ids are.
        id: `memory_${String(n).padStart(26, '0')}` as MemoryId,
        class: 'episodic',
        scope: 'team',
        status: 'active',
        content: { text, size: text.length, about: {}, labels: ['own'] },
      },
    ],
  };
};

describe('killed while the journal is compacted', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  const journals = join(base, 'state', 'memory', 'journals');
  const fileOf = (day: string) => join(journals, `${day}.jsonl`);
  let runtime: TestRuntime;
  before(async () => {
    mkdirSync(journals, { recursive: true, mode: 0o700 });
    let n = 1;
    for (const day of DAYS)
      writeFileSync(
        fileOf(day),
        ['service:agentd', 'person:alice'].map((by) => encodeEntry(entryOf(day, n++, by))).join(''),
        { mode: 0o600 },
      );
    runtime = await startRuntime({ base, mode: 'split', faults: true });
    const body = { class: 'semantic', scope: 'team', text: 'Of today.' } as const;
    await runtime.memoryd.remember({ body });
  });
  after(() => runtime.remove());

  for (const [i, failpoint] of ['memoryd.before-compact', 'memoryd.after-compact'].entries())
    it(failpoint, async () => {
      const day = DAYS[i]!;
      assert.match(readFileSync(fileOf(day), 'utf8'), /Episode of/);
      writeFileSync(crashFile, failpoint);
      const olderThanMs = Date.now() - Date.parse(`${day}T13:00:00Z`);
      const body = { ...KIND, older_than_s: Math.floor(olderThanMs / 1_000) };
      await eventually('the crash', async () => {
        await prune(runtime, body).catch(() => undefined);
        return existsSync(crashFile) ? undefined : true;
      });
      await eventually('the rest', async () => {
        const report = await prune(runtime, body);
        return report.status === 'completed' && !/Episode/.test(readFileSync(fileOf(day), 'utf8'))
          ? true
          : undefined;
      });
      assert.match(readFileSync(fileOf(day), 'utf8'), /Fact of/);
      const dry = await prune(runtime, { ...body, dry_run: true });
      assert.equal(findKind(dry, 'memories').pruned, 0);
    });

  it('a rebuild from the journal is equal', async () => {
    const tables = withoutIndex(dumpTables(runtime.stateDir));
    assert.equal(tables.memories!.length, 3);
    const { problems } = await runtime.memoryd.rebuildMemory({});
    assert.deepEqual(problems, []);
    assert.deepEqual(withoutIndex(dumpTables(runtime.stateDir)), tables);
  });
});
