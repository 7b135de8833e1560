// The programs are changed under a runtime that runs from them, as a new build does it: a daemon
// that dies then is not started again in another version than the rest, and that is said.
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { readRuntimeInfo } from '../../src/platform/state-dir.ts';
import { daemonPids } from '../support/kills.ts';
import { eventually, freshDir, ROOT, startRuntime, type TestRuntime } from '../support/runtime.ts';

describe('programs that were changed', () => {
  const home = freshDir();
  const build = join(home, 'build');
  const program = join(build, 'daemon.mjs');
  let runtime: TestRuntime;
  before(async () => {
    chmodSync(home, 0o755);
    // Without what another test is just compiling: it has the number of a process in its name.
    const filter = (file: string) => !/\.\d+$/.test(file);
    cpSync(join(ROOT, 'build'), build, { recursive: true, filter });
    runtime = await startRuntime({ mode: 'split', build });
  });
  after(async () => {
    await runtime.remove();
    rmSync(home, { recursive: true, force: true });
  });

  const outdated = () => readRuntimeInfo(runtime.stateDir)?.outdated ?? [];
  const modeld = () => daemonPids(runtime.runtimePid).get('modeld');
  const killModeld = () => {
    const pid = modeld();
    assert.ok(pid !== undefined);
    process.kill(pid, 'SIGKILL');
    return pid;
  };
  const back = (before: number) =>
    eventually('modeld is back', async () => {
      const models = await runtime.modeld.listModels({}).catch(() => undefined);
      return models !== undefined && modeld() !== before ? true : undefined;
    });

  it('a daemon that dies is started again while they are the same', async () => {
    await back(killModeld());
    assert.deepEqual(outdated(), []);
  });

  it('and not when they were changed, until they are as they were', async () => {
    const text = readFileSync(program);
    appendFileSync(program, '\n// of another version\n');
    const before = killModeld();
    await eventually('it is written down', async () => (outdated().length > 0 ? true : undefined));
    assert.deepEqual(outdated(), ['modeld']);
    assert.equal(modeld(), undefined);
    await assert.rejects(runtime.modeld.listModels({}));
    assert.equal((await runtime.agentd.status({})).mode, 'split', 'the others work on');
    writeFileSync(program, text);
    await back(before);
    await eventually('it is taken back', async () => (outdated().length === 0 ? true : undefined));
  });
});
