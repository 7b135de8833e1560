// Only the disk of the audit log is full: no new work is accepted, no effect happens without its
// attempt in the log, and once there is space again everything continues. Needs root, to mount a
// small disk for the log.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { Fault } from '../../src/wire/errors.ts';
import { allEvents, assertReconciled } from '../support/reconcile.ts';
import {
  eventually,
  freshDir,
  startRuntime,
  type TestRuntime,
  taskEnded,
  writableFile,
} from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, doTask, refusedWith, scriptedModels, TEAM } from '../support/scripted-world.ts';

const SIZE_KIB = 2_048;
const STEPS = 30;

function mountSmallDisk(dir: string): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can give the log a small disk';
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_KIB}k,mode=0700`, 'tmpfs', dir], {
      stdio: 'pipe',
    });
    return undefined;
  } catch {
    return 'a tmpfs cannot be mounted on this machine';
  }
}

const base = freshDir();
const auditDir = join(base, 'state', 'audit');
mkdirSync(auditDir, { recursive: true, mode: 0o700 });
const unable = mountSmallDisk(auditDir);
after(() => {
  if (unable === undefined) execFileSync('umount', [auditDir]);
  rmSync(base, { recursive: true, force: true });
});

describe('a full disk under the audit log', { skip: unable }, () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  const effectFile = writableFile(join(base, 'effects'));
  const ballast = join(auditDir, 'ballast');
  const effects = () =>
    existsSync(effectFile)
      ? readFileSync(effectFile, 'utf8').trim().split('\n').filter(Boolean)
      : [];
  const fill = () => {
    for (let kib = SIZE_KIB; kib >= 1; kib = Math.floor(kib / 2)) {
      try {
        for (;;) writeFileSync(ballast, Buffer.alloc(kib * 1_024), { flag: 'a' });
      } catch (error) {
        assert.equal((error as NodeJS.ErrnoException).code, 'ENOSPC');
      }
    }
  };
  const attempts = async () =>
    (await allEvents(runtime)).filter(
      ({ event, tool }) => event === 'tool.call.attempted' && tool === 'test.count_effect',
    ).length;

  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      base,
      mode: 'split',
      agents: TEAM,
      config: JSON.stringify({
        modeld: scriptedModels(model.url),
        toold: { test_tools: true, test_effect_file: effectFile },
        agentd: { crashes_max: 1_000 },
      }),
    });
  });
  after(async () => {
    await runtime.stop();
    await model.close();
  });

  it('[R415] no effect happens without its attempt in the log, no new work is accepted, and it recovers', async () => {
    model.on('Act once', says(call('test.count_effect', { key: 'first' })), finishes('acted'));
    assert.equal((await doTask(runtime, 'Act once', { agent: 'coder' })).status, 'completed');
    assert.deepEqual(effects(), ['first']);
    assert.equal(await attempts(), 1);

    // The last page of the log has space for a few more events, so a few effects still happen.
    let isFull = false;
    model.on('Act on and on', ({ step }) => {
      if (step === 3 && !isFull) {
        fill();
        isFull = true;
      }
      return step === STEPS
        ? finishes('acted')
        : says(call('test.count_effect', { key: `k${step}` }));
    });
    const task = await create(runtime, 'Act on and on', { agent: 'coder' });
    await eventually('the disk to be full', async () => (isFull ? true : undefined));
    const refused = await eventually('new work to be refused', () =>
      create(runtime, 'Act on nothing', { agent: 'researcher' }).then(
        () => undefined,
        (reason: unknown) => reason as Fault,
      ),
    );
    assert.equal(refused.code, 'audit_unavailable', refused.message);
    const done = effects();
    assert.ok(done.length < STEPS, 'it was stopped halfway');
    assert.ok(done.length <= (await attempts()), 'every effect was recorded before');
    await refusedWith(
      'audit_unavailable',
      runtime.modeld.generate({
        body: {
          model: 'default',
          messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
        },
      }),
    );
    assert.deepEqual(model.scenesFor('hi'), [], 'no model was called');
    // The effect of the last attempt that fit may have happened since.
    const since = effects();
    assert.ok(
      since.length < STEPS && since.length <= (await attempts()),
      'every effect since was recorded too',
    );

    rmSync(ballast);
    const ended = await taskEnded(runtime, task.id, 90_000);
    assert.equal(ended.result, 'acted', JSON.stringify(ended));
    assert.deepEqual(effects(), ['first', ...Array.from({ length: STEPS }, (_, i) => `k${i}`)]);
    const again = await eventually('new work to be taken', () =>
      create(runtime, 'Act once', { agent: 'researcher' }),
    );
    model.on('Act once', finishes('nothing to do'));
    await taskEnded(runtime, again.id);
    await eventually('journals and log to agree', () => assertReconciled(runtime));
    assert.ok((await attempts()) >= effects().length);
  });

  it('the log verifies after it was full', async () => {
    await runtime.stop();
    const main = join(import.meta.dirname, '../../src/daemons/auditd-ai/verify-main.ts');
    execFileSync(process.execPath, [main, '--json', auditDir], { stdio: 'pipe' });
    runtime = await runtime.restart();
    assert.equal((await runtime.agentd.status({})).halted, false);
  });
});
