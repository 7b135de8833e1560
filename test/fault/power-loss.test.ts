// A power loss, as modeld sees it: its database has lost the last writes, and the audit log, which
// was synced first, has them.
import assert from 'node:assert/strict';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';

const FILES = ['modeld.sqlite', 'modeld.sqlite-wal'];

describe('a power loss', () => {
  const disk = mkdtempSync(join(tmpdir(), 'agentd-p-'));
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime();
  });
  after(async () => {
    await runtime?.remove();
    rmSync(disk, { recursive: true, force: true });
  });

  const generate = (text: string) =>
    runtime.modeld.generate({
      body: { model: 'default', messages: [{ role: 'user', parts: [{ type: 'text', text }] }] },
    });
  const calls = async () => (await runtime.modeld.listCalls({ query: { limit: 200 } })).calls;
  const spent = async () => {
    const { budgets } = await runtime.modeld.listBudgets({});
    return budgets.find(({ subject }) => subject === 'site')!.tokens_spent;
  };

  it('[R19] loses no call from the journal and no charge from the budgets', async () => {
    for (const n of [1, 2, 3]) await generate(`before ${n}`);
    assert.equal((await calls()).length, 3);
    for (const name of FILES) copyFileSync(join(runtime.stateDir, name), join(disk, name));
    for (const n of [1, 2, 3]) await generate(`one by one ${n}`);
    await Promise.all(Array.from({ length: 30 }, (_, n) => generate(`together ${n}`)));
    const wanted = { ids: (await calls()).map(({ call_id }) => call_id), spent: await spent() };
    await eventually('every end in the log', async () => {
      const ended = (await allEvents(runtime)).filter(({ event }) => event === 'model.call.ended');
      return ended.length === wanted.ids.length ? true : undefined;
    });

    await runtime.kill();
    for (const name of FILES) copyFileSync(join(disk, name), join(runtime.stateDir, name));
    rmSync(join(runtime.stateDir, 'modeld.sqlite-shm'), { force: true });
    runtime = await runtime.restart();

    const found = await calls();
    assert.deepEqual(found.map(({ call_id }) => call_id).toSorted(), wanted.ids.toSorted());
    const statuses = Map.groupBy(found, ({ status }) => status);
    assert.deepEqual(
      [statuses.get('completed')?.length, statuses.get('unknown')?.length],
      [3, 33],
      'the responses of the lost calls are gone',
    );
    assert.equal(await spent(), wanted.spent);
    await generate('after');
    await eventually('journal and log to agree', () => assertReconciled(runtime));
  });
});
