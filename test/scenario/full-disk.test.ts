// The disk of the whole state directory is full: no new work is accepted, nothing is done that
// cannot be recorded, and once there is space again everything continues.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import type { TaskId } from '../../src/wire/primitives.ts';
import { assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
  writableFile,
} from '../support/runtime.ts';

const worker = `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Counts. }
spec: { replicas: 8, tools: { allow: [test.tools] } }
`;
const base = freshDir();
const stateDir = join(base, 'state');
const effectFile = writableFile(join(base, 'effects'));
const filler = join(stateDir, 'filler');

function mounted(): boolean {
  mkdirSync(stateDir, { mode: 0o700 });
  if (process.getuid?.() !== 0) return false;
  try {
    const options = ['-t', 'tmpfs', '-o', 'size=64m,mode=0700', 'tmpfs', stateDir];
    execFileSync('mount', options, { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}
const isMounted = mounted();
after(() => {
  if (isMounted) execFileSync('umount', ['-l', stateDir]);
  rmSync(base, { recursive: true, force: true });
});

/** Uses every free byte. */
function fillDisk(): void {
  const fd = openSync(filler, 'a');
  for (let size = 1_000_000; size >= 1; ) {
    try {
      if (writeSync(fd, Buffer.alloc(size)) < size) size = Math.floor(size / 2);
    } catch (error) {
      assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      size = Math.floor(size / 2);
    }
  }
  closeSync(fd);
}

const skip = isMounted ? false : 'needs root to mount a small tmpfs';
describe('a full disk', { skip }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime({
      base,
      agents: { worker },
      config: `agentd: { crashes_max: 100000 }
toold: { test_tools: true, test_effect_file: ${effectFile} }\n`,
    });
  });
  after(() => runtime.stop());

  const count = async (times: number, key: string): Promise<TaskId> => {
    const goal = `count the effect ${times} times with key ${key}`;
    return (await runtime.agentd.createTask({ body: { goal, agent: 'worker' } })).task.id;
  };
  const effects = (): string[] =>
    existsSync(effectFile)
      ? readFileSync(effectFile, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
      : [];
  const ended: TaskId[] = [];

  it('works while there is space', async () => {
    ended.push(await count(3, 'before'));
    assert.equal((await taskEnded(runtime, ended[0]!)).status, 'completed');
    assert.deepEqual(effects(), ['before-1', 'before-2', 'before-3']);
  });

  it('accepts no new work when it is full, and says why', async () => {
    ended.push(await count(30, 'during'));
    await eventually('some effects', async () => (effects().length >= 6 ? true : undefined));
    fillDisk();
    const codes = new Set<string>();
    for (let i = 0; i < 20; i++) {
      await count(1, `refused-${i}`).then(
        (id) => ended.push(id),
        (error: Fault) => {
          codes.add(error.code);
          assert.equal(error.retry, true, 'a retry can succeed later');
        },
      );
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    for (const code of codes)
      assert.ok(['storage_full', 'audit_unavailable'].includes(code), [...codes].join(' '));
    assert.ok(codes.size > 0, 'it refuses in the end');
    // Work that ends meanwhile frees a little space.
    await eventually('new work to be refused', async () => {
      fillDisk();
      return count(1, `last-${ended.length}`).then(
        (id) => void ended.push(id),
        (error: Fault) => error.retry || undefined,
      );
    });
  });

  it('still serves reads, and does nothing that it cannot record', async () => {
    await runtime.agentd.status({});
    await runtime.agentd.listTasks({ query: {} });
    await runtime.audit.events({ query: { limit: 5 } });
    fillDisk();
    // Calls recorded before the disk was full may still happen.
    await new Promise((resolve) => setTimeout(resolve, 500));
    const was = effects().length;
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    assert.equal(effects().length, was, 'no effect while nothing can be written');
  });

  it('continues when there is space again: every task ends, every effect happened once', async () => {
    rmSync(filler);
    const late = await eventually('work to be taken', async () => count(1, 'after'), 30_000);
    ended.push(late);
    for (const id of ended) {
      const done = await eventually(
        `the end of ${id}`,
        async () => {
          // Answer each question about an unknown outcome truthfully.
          const query = { status: 'open' as const, kind: 'question' as const };
          for (const wait of (await runtime.agentd.listWaits({ query })).waits) {
            const { call } = await runtime.toold.getCall({ params: { id: wait.call_id! } });
            const happened = effects().includes(String(call.arguments.key));
            const answer = wait.choices[happened ? 0 : 1]!;
            await runtime.agentd.answerWait({ params: { id: wait.id }, body: { answer } });
          }
          const { task } = await runtime.agentd.getTask({ params: { id } });
          return task.ended_at === null ? undefined : task;
        },
        60_000,
      );
      assert.equal(done.status, 'completed', JSON.stringify(done.error));
    }
    const all = effects();
    assert.equal(new Set(all).size, all.length, 'nothing happened twice');
    for (let i = 1; i <= 30; i++) assert.ok(all.includes(`during-${i}`), `during-${i} happened`);
  });

  it('journal and audit agree', async () => {
    await eventually('the outboxes to be empty', async () => {
      await assertReconciled(runtime);
      return true;
    });
  });

  it('shuts down cleanly when it is full: no socket and no runtime.json is left', async () => {
    fillDisk();
    await runtime.stop();
    assert.equal(existsSync(runtime.runtimeDir), false);
    assert.equal(existsSync(join(stateDir, 'runtime.json')), false);
  });

  it('does not start while it is full, and says why', async () => {
    fillDisk(); // The shutdown has freed log space.
    const why = await runtime.restart().then(
      (started) => started.stop().then(() => assert.fail('it started')),
      (error: Fault) => error,
    );
    assert.equal(why.code, 'storage_full', why.message);
    assert.match(why.hint, /free space/i);
    rmSync(filler);
    runtime = await runtime.restart();
    await runtime.agentd.status({});
  });
});
