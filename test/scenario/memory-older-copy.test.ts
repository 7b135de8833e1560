// An older copy of STATE/memory is put back by hand. What was forgotten since is forgotten again by
// what the audit log has, before memoryd answers, and no byte of it stays.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { MemoryView } from '../../src/wire/memoryd/records.ts';
import { findFiles } from '../support/find-files.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

/** A word that nothing else has. */
const WORD = 'zyxquorv';
const TABLES = ['memoryd.sqlite', 'memoryd.sqlite-wal', 'memoryd.sqlite-shm'];

for (const mode of ['embedded', 'split'] as const)
  describe(`an older copy of the memories, ${mode}`, { timeout: 120_000 }, () => {
    const base = freshDir();
    const copy = join(base, 'copy');
    let runtime: TestRuntime;
    let memory: MemoryView;
    before(async () => {
      runtime = await startRuntime({ base, mode });
    });
    after(async () => {
      await runtime.remove();
      rmSync(base, { recursive: true, force: true });
    });

    const remember = async (text: string): Promise<MemoryView> => {
      const body = { class: 'semantic' as const, scope: 'team', text };
      return (await runtime.memoryd.remember({ body })).memory;
    };
    const recall = async (query: string): Promise<string[]> =>
      (await runtime.memoryd.recall({ body: { query } })).memories.map(({ text }) => text);
    const get = async (id: MemoryView['id']): Promise<MemoryView> =>
      (await runtime.memoryd.getMemory({ params: { id } })).memory;
    const isErased = (id: MemoryView['id']): Promise<unknown> =>
      eventually('its copies to be removed', async () =>
        (await get(id)).erasure?.status === 'done' ? true : undefined,
      );
    const copyState = (from: string, to: string): void => {
      rmSync(to, { recursive: true, force: true });
      execFileSync('cp', ['-a', from, to]);
    };
    const removeTables = (): void => {
      for (const name of TABLES) rmSync(join(runtime.stateDir, name), { force: true });
    };

    it('control: the copy has the text, and forgetting removes it from the state', async () => {
      memory = await remember(`The ${WORD} sleeps in the boathouse.`);
      await remember(`${'Very long. '.repeat(500)} Otters live by the boathouse.`);
      await runtime.stop();
      copyState(runtime.stateDir, copy);
      runtime = await runtime.restart();
      await runtime.memoryd.forget({ body: { ids: [memory.id] } });
      await isErased(memory.id);
      assert.deepEqual(findFiles(runtime.stateDir, WORD), []);
      assert.ok(findFiles(copy, WORD).some((name) => name.startsWith('memory/journals/')));
    });

    it('an older memory/ does not bring it back', async () => {
      await runtime.stop();
      copyState(join(copy, 'memory'), join(runtime.stateDir, 'memory'));
      runtime = await runtime.restart();
      assert.deepEqual(findFiles(runtime.stateDir, WORD), []);
      assert.equal((await recall('boathouse')).length, 1);
      await runtime.memoryd.rebuildMemory({});
      assert.equal((await get(memory.id)).status, 'forgotten');
      assert.equal((await recall('boathouse')).length, 1, 'the other is still there');
    });

    it('neither does one without the tables that were made of it', async () => {
      await runtime.stop();
      removeTables();
      copyState(join(copy, 'memory'), join(runtime.stateDir, 'memory'));
      runtime = await runtime.restart();
      assert.equal((await get(memory.id)).status, 'forgotten');
      assert.equal((await recall('boathouse')).length, 1);
      await isErased(memory.id);
      assert.deepEqual(findFiles(runtime.stateDir, WORD), []);
      const events = (await allEvents(runtime)).filter(({ event }) => event === 'memory.forgotten');
      assert.deepEqual(
        events.map(({ principal, data }) => [principal, data?.memory_id]),
        [
          ['person:tester', memory.id],
          ['service:auditd-ai', memory.id],
          ['service:auditd-ai', memory.id],
        ],
      );
    });

    it('control: a copy of everything, with the log of its time, brings it back', async () => {
      await runtime.stop();
      copyState(copy, runtime.stateDir);
      runtime = await runtime.restart();
      assert.equal((await get(memory.id)).status, 'active');
      assert.equal((await recall('boathouse')).length, 2);
      await eventually('journal and log to agree', () => assertReconciled(runtime));
    });
  });
