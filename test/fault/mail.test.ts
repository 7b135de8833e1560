// SIGKILL of agentd and of maild between the end of a task and the mail about it, at each step: the
// mail arrives, once.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { killRequested } from '../support/kills.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, freshDir, startRuntime, type TestRuntime } from '../support/runtime.ts';

const FAILPOINTS = [
  'agentd.before-notices',
  'agentd.after-notices',
  'maild.before-file',
  'maild.after-file',
  'maild.after-row',
];

describe('killed while a notice is delivered', () => {
  const base = freshDir();
  const crashFile = join(base, 'state', 'crash-at');
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime({ base, mode: 'split', faults: true });
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(async () => {
    await runtime.remove();
    rmSync(base, { recursive: true, force: true });
  });

  const filesOf = (id: string): string[] =>
    ['new', 'cur'].flatMap((part) => {
      const dir = join(runtime.stateDir, 'mail', 'tester', part);
      return existsSync(dir) ? readdirSync(dir).filter((name) => name.includes(id)) : [];
    });

  for (const failpoint of FAILPOINTS)
    it(`${failpoint}: the mail arrives once`, async () => {
      const create = (goal: string) =>
        eventually('a task', () => runtime.agentd.createTask({ body: { goal, agent: 'coder' } }));
      writeFileSync(crashFile, failpoint);
      const { task } = await create(`Look at ${failpoint}`);
      await eventually('the kill', async () => !existsSync(crashFile) || undefined);
      await eventually('the mail', async () => filesOf(task.id).length > 0 || undefined);
      const next = await create('Look again');
      await eventually('the next mail', async () => filesOf(next.task.id).length > 0 || undefined);
      assert.deepEqual([filesOf(task.id).length, filesOf(next.task.id).length], [1, 1]);
      const delivered = await eventually('the event', async () => {
        const events = await allEvents(runtime);
        const found = events.filter(({ id }) => id === `${task.id}.result.mailed`);
        return found.length > 0 ? found : undefined;
      });
      assert.equal(delivered.length, 1);
    });
});
