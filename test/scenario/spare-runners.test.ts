// A runner that waits in its box before a run needs it: the next run of the agent gets it, with its
// own sockets; it serves one run, and is gone when idle or halted.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { assertNothingLeft } from '../support/leftovers.ts';
import { eventually, startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import { finishes, type ScriptedModel, startScriptedModel } from '../support/scripted-model.ts';
import { create, scriptedModels, TEAM } from '../support/scripted-world.ts';

describe('spare runners', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    const sandboxd = { runner_spares: 1, runner_spare_idle_ms: 1_500 };
    runtime = await startRuntime({
      agents: TEAM,
      config: JSON.stringify({ modeld: scriptedModels(model.url), sandboxd }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });

  const spareBoxes = (): string[] =>
    readdirSync(join(runtime.runtimeDir, 'agentd'))
      .filter((name) => name.startsWith('spare_'))
      .map((name) => name.slice('spare_'.length));
  const oneSpare = () =>
    eventually('a spare', async () => (spareBoxes().length === 1 ? spareBoxes()[0]! : undefined));
  const noSpare = () =>
    eventually('no spare', async () => (spareBoxes().length === 0 ? true : undefined));
  const runTask = async (goal: string, agent: string): Promise<string> => {
    model.on(goal, () => finishes(`${goal}: done`));
    const { id } = await create(runtime, goal, { agent });
    const task = await taskEnded(runtime, id);
    assert.equal(task.status, 'completed');
    return id;
  };
  const runnerBox = async (taskId: string): Promise<string> => {
    const opened = await eventually('the event of the box', async () => {
      const { events } = await runtime.audit.events({ query: { root_task_id: taskId } });
      return events.find((row) => row.event === 'sandbox.opened' && row.data?.kind === 'runner');
    });
    return String(opened.data?.box_id);
  };

  it('a run gets the spare of its agent, and the spare serves no second run', async () => {
    const first = await runTask('first', 'coder');
    const spare = await oneSpare();
    assert.notEqual(await runnerBox(first), spare);
    const second = await runTask('second', 'coder');
    assert.equal(await runnerBox(second), spare);
    const next = await oneSpare();
    assert.notEqual(next, spare);
    const other = await runTask('third', 'planner');
    assert.notEqual(await runnerBox(other), next, 'it is not given to another agent');
  });

  it('it is ended when idle, and by a halt', async () => {
    await runTask('fourth', 'coder');
    await oneSpare();
    await noSpare();
    await runTask('fifth', 'coder');
    await oneSpare();
    await runtime.agentd.halt({ body: { reason: 'a test' } });
    await noSpare();
    await runtime.agentd.unhalt({});
    await runTask('sixth', 'coder');
    await assertNothingLeft(runtime);
  });
});
