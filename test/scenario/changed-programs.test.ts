// The program files change under a running runtime, as a new build does: a daemon that dies is not
// restarted in another version than the rest, and this is reported.
import assert from 'node:assert/strict';
import { appendFileSync, chmodSync, cpSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { readRuntimeInfo } from '../../src/platform/state-dir.ts';
import { daemonPids } from '../support/kills.ts';
import { eventually, freshDir, ROOT, startRuntime, type TestRuntime } from '../support/runtime.ts';

describe('changed programs', () => {
  const home = freshDir();
  const build = join(home, 'build');
  const program = join(build, 'daemon.mjs');
  let runtime: TestRuntime;
  before(async () => {
    chmodSync(home, 0o755);
    // Except files that another test is compiling: those have a process id in their name.
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

  it('a daemon that dies is restarted while the programs are unchanged', async () => {
    await back(killModeld());
    assert.deepEqual(outdated(), []);
  });

  it('a daemon is not restarted with changed programs, until they are restored', async () => {
    const text = readFileSync(program);
    appendFileSync(program, '\n// of another version\n');
    const before = killModeld();
    await eventually('it is written down', async () => (outdated().length > 0 ? true : undefined));
    assert.deepEqual(outdated(), ['modeld']);
    assert.equal(modeld(), undefined);
    await assert.rejects(runtime.modeld.listModels({}));
    assert.equal((await runtime.agentd.status({})).mode, 'split', 'the others still work');
    writeFileSync(program, text);
    await back(before);
    await eventually('it is taken back', async () => (outdated().length === 0 ? true : undefined));
  });
});
