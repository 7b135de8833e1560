// Processes die while a backup is made: the runtime goes on or comes back, no hold stays, earlier
// backups are whole, and what was left unfinished is known as that.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { listBackups } from '../../src/clients/agentctl/backup/backup-dir.ts';
import {
  type BackupDocument,
  ctl,
  ctlJson,
  finished,
  startCtl,
  type VerifyDocument,
} from '../support/backups.ts';
import { daemonPids } from '../support/kills.ts';
import { assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
  writableFile,
} from '../support/runtime.ts';

const ROUNDS = process.env.FUZZ === 'long' ? 60 : 8;
const worker = `apiVersion: agentd/v1
kind: Agent
metadata: { name: worker, description: Counts. }
spec: { replicas: 8, tools: { allow: [test.tools] } }
`;
const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

for (const mode of ['embedded', 'split'] as const)
  describe(`kills during a backup, ${mode}`, () => {
    let runtime: TestRuntime;
    let dir: string;
    let tasks = 0;
    before(async () => {
      const base = freshDir();
      dir = join(base, 'backup');
      const effects = writableFile(join(base, 'effects'));
      runtime = await startRuntime({
        base,
        mode,
        agents: { worker },
        config: `agentd: { crashes_max: 100000 }\ntoold: { test_tools: true, test_effect_file: ${effects} }\n`,
      });
    });
    after(() => runtime.remove());

    /** Needs writes at every daemon, and appends: a hold that stayed would stop it. */
    const work = async (): Promise<void> => {
      const goal = `count the effect 2 times with key w${tasks++}`;
      const { task } = await eventually('a task to be taken', () =>
        runtime.agentd.createTask({ body: { goal, agent: 'worker' } }),
      );
      // People are asked about what a kill cut off.
      await eventually(
        'its end',
        async () => {
          const query = { status: 'open', kind: 'question' } as const;
          for (const wait of (await runtime.agentd.listWaits({ query })).waits)
            await runtime.agentd.answerWait({
              params: { id: wait.id },
              body: { answer: wait.choices[0]! },
            });
          const now = await runtime.agentd.getTask({ params: { id: task.id } });
          return now.task.ended_at === null ? undefined : true;
        },
        60_000,
      );
    };
    const make = () => ctlJson<BackupDocument>(runtime, ['backup', dir]);
    const assertWhole = async (): Promise<void> => {
      const { backups } = await ctlJson<VerifyDocument>(runtime, ['backup', 'verify', dir]);
      assert.ok(backups.length > 0 && backups.every(({ ok }) => ok), JSON.stringify(backups));
    };

    it('agentctl: the earlier backups are whole, and the next one is made', async () => {
      await work();
      await make();
      for (let round = 0; round < ROUNDS; round++) {
        const child = startCtl(runtime, ['backup', dir]);
        const ended = finished(child);
        // It starts in some 150 ms, and is done in some 400.
        await sleep(100 + (round * 400) / ROUNDS);
        child.kill('SIGKILL');
        await Promise.all([ended, work()]);
        const unfinished = listBackups(dir).filter(({ isFinished }) => !isFinished);
        assert.ok(unfinished.length <= 1);
        await assertWhole();
      }
      await make();
      assert.ok(listBackups(dir).every(({ isFinished }) => isFinished));
    });

    it('auditd-ai: the backup is made or fails, and the runtime goes on', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const ended = ctl(runtime, ['backup', dir]);
        await sleep(100 + (round * 300) / ROUNDS);
        const pid = daemonPids(runtime.runtimePid).get('auditd-ai');
        if (pid !== undefined) process.kill(pid, 'SIGKILL');
        const { code, stderr } = await ended;
        assert.ok(
          code === 0 || /\((runtime_down|unavailable|audit_unavailable|deadline)\)/.test(stderr),
          stderr,
        );
        await work();
      }
      await eventually('the next one', make);
      await assertWhole();
    });

    it('the whole runtime: it starts again, and so does the backup', async () => {
      for (let round = 0; round < 3; round++) {
        const ended = ctl(runtime, ['backup', dir]);
        await sleep(150 + round * 100);
        await runtime.kill();
        await ended;
        runtime = await runtime.restart();
        await work();
      }
      await make();
      await assertWhole();
      await eventually('journals and log to agree', () => assertReconciled(runtime));
    });

    it('a disk that is full: it says so, and what was there stays', async (t) => {
      const small = join(runtime.stateDir, '..', 'small');
      mkdirSync(small, { mode: 0o700 });
      try {
        const options = ['-t', 'tmpfs', '-o', 'size=1200k,mode=0700', 'tmpfs', small];
        execFileSync('mount', options, { stdio: 'ignore' });
      } catch {
        return t.skip('needs root to mount a small tmpfs');
      }
      try {
        const results: string[] = [];
        for (let n = 0; n < 4; n++) {
          const { code, stderr } = await ctl(runtime, ['backup', small]);
          results.push(code === 0 ? 'made' : /\(storage_full\)/.exec(stderr)![0]);
          await work();
        }
        assert.ok(results.includes('(storage_full)'), results.join());
        const ran = await ctl(runtime, ['backup', 'verify', small, '--json']);
        if (results.includes('made')) assert.equal(ran.code, 0, ran.stdout);
        const { tasks: all } = await runtime.agentd.listTasks({ query: { limit: 1 } });
        assert.equal((await taskEnded(runtime, all[0]!.id)).status, 'completed');
      } finally {
        execFileSync('umount', ['-l', small]);
      }
    });
  });
