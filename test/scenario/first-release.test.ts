// A state directory of the first release: it is backed up and migrated, its content is complete,
// waiting tasks continue, and interrupted calls are not made twice.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { verifyLog } from '../../src/daemons/auditd-ai/log/verify.ts';
import type { ArtifactId, TaskId, WaitId } from '../../src/wire/primitives.ts';
import { OLD, writeFirstRelease } from '../support/first-release.ts';
import { assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  ROOT,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';

const run = promisify(execFile);

for (const mode of ['embedded', 'split'] as const)
  describe(`a state directory of the first release, ${mode}`, () => {
    const base = freshDir();
    const stateDir = join(base, 'state');
    let runtime: TestRuntime;
    let checkpoint: string;
    before(async () => {
      ({ checkpoint } = await writeFirstRelease(stateDir));
      runtime = await startRuntime({ base, mode });
    });
    after(() => runtime.remove());
    const taskOf = async (id: string) =>
      (await runtime.agentd.getTask({ params: { id: id as TaskId } })).task;
    const agentctl = async (...words: string[]): Promise<string> => {
      const argv = [...words, '--state', stateDir];
      return (await run(join(ROOT, 'bin', 'agentctl'), argv, { env: runtime.env })).stdout;
    };

    const copiesOf = (name: string) =>
      readdirSync(stateDir).filter(
        (file) => /\.before-[\d.]+$/.test(file) && file.startsWith(name),
      );

    it('each database was backed up before it was migrated', () => {
      for (const name of ['agentd', 'toold', 'modeld']) {
        const copy = join(stateDir, `${name}.sqlite.before-1`);
        const db = new DatabaseSync(copy, { readOnly: true });
        assert.equal(db.prepare('PRAGMA user_version').get()?.user_version, 1);
        assert.ok(Number(db.prepare('SELECT COUNT(*) AS n FROM outbox').get()?.n) > 0);
        db.close();
      }
      assert.deepEqual(copiesOf('approvald'), [], 'a new database needs no backup');
    });

    it('an ended task has its timeline, its artifact and its replay', async () => {
      const task = await taskOf(OLD.hello);
      assert.equal(task.status, 'completed');
      assert.match(task.result ?? '', /sketch\.md \(Hello\)/);
      assert.equal(task.workspace, null);
      const id = OLD.artifact as ArtifactId;
      assert.equal(
        (await runtime.agentd.getArtifact({ params: { id }, query: {} })).text,
        OLD.sketch,
      );
      const story = await agentctl('task', 'explain', OLD.hello);
      assert.match(story, /person:ann asked coder for "Hello"/);
      assert.match(story, /coder called the model default \(rehearsal\)/);
      assert.match(story, /coder stored sketch\.md — allowed by toold:granted, done/);
      const { events } = await runtime.audit.task({
        params: { task_id: OLD.hello as TaskId },
        query: {},
      });
      assert.ok(events.some(({ event }) => event === 'task.ended'));
      const { replay } = await runtime.agentd.replayTask({ params: { id: OLD.hello as TaskId } });
      assert.equal(replay.same, true, JSON.stringify(replay));
    });

    it('an interrupted task continues, and its subtask is not created twice', async () => {
      const ended = await taskEnded(runtime, OLD.plan);
      assert.equal(ended.status, 'completed', ended.reason ?? '');
      const { tree } = await runtime.agentd.getTree({ params: { id: OLD.plan as TaskId } });
      const agents = tree.children.map(({ task }) => task.assigned_to);
      assert.deepEqual(agents.sort(), ['coder', 'researcher']);
      assert.ok(tree.children.some(({ task }) => task.id === OLD.child));
    });

    it('the question of an old run can be answered, and its task completes', async () => {
      assert.equal((await taskOf(OLD.asks)).status, 'waiting');
      const params = { id: OLD.question as WaitId };
      await runtime.agentd.answerWait({ params, body: { answer: 'blue' } });
      const ended = await taskEnded(runtime, OLD.asks);
      assert.equal(ended.status, 'completed', ended.reason ?? '');
      assert.match(ended.result ?? '', /The person said: blue/);
      assert.match(await agentctl('task', 'explain', OLD.asks), /answered after .*: "blue"/);
      const { replay } = await runtime.agentd.replayTask({ params: { id: OLD.asks as TaskId } });
      assert.equal(replay.same, true, JSON.stringify(replay));
    });

    it('journal and log agree, and the log verifies against an earlier checkpoint', async () => {
      await eventually('journals and log to agree', () => assertReconciled(runtime));
      await runtime.stop();
      const report = await verifyLog({ dir: join(stateDir, 'audit'), from: [checkpoint] });
      assert.deepEqual([report.ok, report.problems], [true, []]);
      assert.ok(report.size > 35);
    });

    it('starts again without another backup', async () => {
      runtime = await runtime.restart();
      assert.equal((await taskOf(OLD.asks)).status, 'completed');
      for (const name of ['agentd', 'toold', 'modeld'])
        assert.deepEqual(copiesOf(name), [`${name}.sqlite.before-1`]);
    });
  });
