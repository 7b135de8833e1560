// SIGKILL of sandboxd while it disarms a directory that agents change in place, and of agentd while
// it starts a person's program: what was begun is finished at the next start, or has failed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { agentctl } from '../../src/clients/agentctl/testing/run-agentctl.ts';
import { GIT_ENV } from '../support/git-env.ts';
import { killRequested } from '../support/kills.ts';
import { LAYER_MODES, type LayerWorld, startLayerWorld } from '../support/layers.ts';
import { allEvents } from '../support/reconcile.ts';
import { eventually, startRuntime, type TestRuntime } from '../support/runtime.ts';

const SPLIT = { mode: 'split', faults: true } as const;

describe('sandboxd killed while it disarms a directory', { timeout: 120_000 }, () => {
  let world: LayerWorld;
  before(async () => {
    world = await startLayerWorld(LAYER_MODES[0], SPLIT);
    setInterval(() => killRequested(world.runtime), 5).unref();
  });
  after(() => world?.stop());

  it('the rest is disarmed at its next start, and recorded', async () => {
    const failpoint = 'sandboxd.after-disarm';
    const { repo } = world.directory('live', { a: 'a\n' });
    const box = await world.open('live', repo, { workspace_mode: 'live' });
    const crashFile = join(world.runtime.stateDir, 'crash-at');
    writeFileSync(crashFile, failpoint);
    const names = ['one', 'two'];
    const script = names
      .map((name) => `git init -q ${name} && git -C ${name} config core.fsmonitor ./evil`)
      .join(' && ');
    await assert.rejects(box.exec(script));
    assert.equal(existsSync(crashFile), false, 'it was reached');
    const isDisarmed = (): true | undefined =>
      names.every((name) => !existsSync(join(repo, name, '.git/config'))) || undefined;
    await eventually('both to be disarmed', async () => isDisarmed(), 60_000);
    const query = { root_task_id: world.treeId('live') };
    const { disarmed } = await eventually('the record', async () => {
      const listed = await world.runtime.sandboxd.listDisarmed({ query }).catch(() => undefined);
      return listed?.disarmed.length === names.length ? listed : undefined;
    });
    assert.deepEqual(
      disarmed.map(({ path }) => path).toSorted(),
      names.map((name) => `${name}/.git/config`),
    );
    await eventually('the events', async () => {
      const events = await allEvents(world.runtime).catch(() => []);
      const own = events.filter(({ event }) => event === 'workspace.disarmed');
      return own.length === names.length ? own : undefined;
    });
    mkdirSync(join(repo, 'control'));
    const options = { cwd: join(repo, 'control'), env: GIT_ENV };
    execFileSync('git', ['init', '-q'], options);
    assert.ok(existsSync(join(repo, 'control/.git/config')), 'control: what a person makes stays');
  });
});

describe('agentd killed while it starts a program', { timeout: 120_000 }, () => {
  let runtime: TestRuntime;
  before(async () => {
    runtime = await startRuntime(SPLIT);
    setInterval(() => killRequested(runtime), 5).unref();
  });
  after(() => runtime?.remove());

  it('its task has failed at the next start, and another program starts', async () => {
    const at = { state: runtime.stateDir, env: runtime.env };
    const run = () => agentctl(['box', 'run', '--', 'true'], at);
    const crashFile = join(runtime.stateDir, 'crash-at');
    writeFileSync(crashFile, 'agentd.after-program-claim');
    assert.notEqual((await run()).code, 0);
    assert.equal(existsSync(crashFile), false, 'it was reached');
    const task = await eventually('its task to end', async () => {
      const listed = await runtime.agentd.listTasks({ query: { limit: 1 } }).catch(() => undefined);
      return listed?.tasks[0]?.ended_at == null ? undefined : listed.tasks[0];
    });
    assert.equal(task.status, 'failed');
    assert.match(task.error?.message ?? '', /program/);
    assert.deepEqual(await run(), { code: 0, stdout: '', stderr: '' });
  });
});
