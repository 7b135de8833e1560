// The kill switch: one command, or one file if nothing responds, ends every agent process; nothing
// starts until it is lifted, and then everything continues.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  eventually,
  pauses,
  startRuntime,
  type TestRuntime,
  taskEnded,
} from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import {
  create,
  refusedWith,
  runnerPids,
  scriptedModels,
  TEAM,
  taskNow,
} from '../support/scripted-world.ts';

const WITHIN_MS = 2_000;

describe('the kill switch', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: TEAM,
      config: JSON.stringify({ modeld: scriptedModels(model.url) }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });

  const pids = () =>
    readdirSync(join(runtime.stateDir, 'runners')).map((name) => Number(name.split('-')[0]));
  const haltFile = () => join(runtime.stateDir, 'HALT');
  const noProcess = async (before: number[]) => {
    const gone = eventually('every runner to end', async () =>
      before.every((pid) => !existsSync(`/proc/${pid}`)) && pids().length === 0 ? true : undefined,
    );
    const late = pauses(WITHIN_MS).then(() => 'too late');
    assert.equal(await Promise.race([gone, late]), true);
  };
  /** Starts three tasks; the runner of one ignores SIGTERM. */
  const atWork = async (goal: string) => {
    let isLifted = false;
    model.on(goal, () => (isLifted ? finishes(`${goal}: went on`) : { hang: true }));
    const tasks = await Promise.all(
      ['planner', 'coder', 'researcher'].map((agent) => create(runtime, goal, { agent })),
    );
    await eventually('all at work', async () =>
      model.scenesFor(goal).length === 3 ? true : undefined,
    );
    const runners = await runnerPids(runtime.stateDir, 3);
    process.kill(runners[0]!, 'SIGSTOP');
    return {
      runners,
      goOn: async () => {
        for (const { id } of tasks) {
          const ended = await taskEnded(runtime, id);
          assert.equal(ended.result, `${goal}: went on`);
          const { runs } = await runtime.agentd.listRuns({ query: { task_id: id } });
          assert.deepEqual(
            runs.map(({ activations, crashes }) => [activations, crashes]),
            [[2, 0]],
          );
        }
      },
      lifted: () => {
        isLifted = true;
      },
    };
  };

  it('[K30] [K97] [R407] halt ends every runner within two seconds; nothing starts; after unhalt all continue', async () => {
    const work = await atWork('Work until halted');
    const { stopped_runs } = await runtime.agentd.halt({ body: { reason: 'smoke in the room' } });
    assert.equal(stopped_runs, 3);
    await noProcess(work.runners);
    const status = await runtime.agentd.status({});
    assert.equal(status.halted, true);
    assert.equal(status.halt_reason, 'smoke in the room');
    assert.match(readFileSync(haltFile(), 'utf8'), /smoke in the room/);
    await refusedWith('halted', create(runtime, 'Start anyway', { agent: 'coder' }));
    work.lifted();
    await runtime.agentd.resumeAgent({ params: { name: 'coder' } });
    assert.equal((await runtime.agentd.status({})).runs.live, 0);
    assert.equal(model.scenesFor('Work until halted').length, 3, 'no model was called meanwhile');
    await runtime.agentd.unhalt({});
    assert.ok(!existsSync(haltFile()));
    await work.goOn();
  });

  it('[K97] creating and removing the HALT file has the same effect as the commands', async () => {
    const work = await atWork('Work until the file');
    // In one write: a file that is seen before its content has no reason to report.
    writeFileSync(`${haltFile()}.new`, 'by hand\n');
    renameSync(`${haltFile()}.new`, haltFile());
    await noProcess(work.runners);
    const status = await eventually('it to be recorded', async () => {
      const now = await runtime.agentd.status({});
      return now.halted ? now : undefined;
    });
    assert.equal(status.halt_reason, 'by hand');
    work.lifted();
    rmSync(haltFile());
    await eventually('the task to continue', async () =>
      (await runtime.agentd.status({})).halted ? undefined : true,
    );
    await work.goOn();
  });

  it('[K97] a halt survives a restart, and a HALT file created meanwhile applies from the start', async () => {
    model.on('Outlast', { hang: true });
    await runtime.agentd.halt({ body: {} });
    await runtime.stop();
    runtime = await runtime.restart();
    assert.equal((await runtime.agentd.status({})).halted, true);
    await refusedWith('halted', create(runtime, 'Outlast'));
    await runtime.agentd.unhalt({});
    const task = await create(runtime, 'Outlast', { agent: 'coder' });
    await runtime.stop();
    writeFileSync(haltFile(), '');
    runtime = await runtime.restart();
    assert.equal((await runtime.agentd.status({})).halted, true);
    assert.equal((await taskNow(runtime, task.id)).status, 'ready');
    assert.deepEqual(pids(), []);
    model.on('Outlast', finishes('outlasted'));
    rmSync(haltFile());
    assert.equal((await taskEnded(runtime, task.id)).result, 'outlasted');
  });
});
