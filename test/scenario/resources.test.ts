// The kernel gives the box of an agent's tools the resources that the manifest states.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startRuntime, type TestRuntime, taskEnded } from '../support/runtime.ts';
import {
  call,
  finishes,
  type ScriptedModel,
  type ScriptedText,
  says,
  startScriptedModel,
} from '../support/scripted-model.ts';
import { create, manifestOf, scriptedModels } from '../support/scripted-world.ts';

const SHELL = 'tools: { allow: [shell.exec, file.write_workspace] }';
/** Starts this many processes at the same time; each prints a line. */
const PROCESSES = 'for i in $(seq 40); do (sleep 3; echo up) & done; wait';
const MEMORY = 'head -c 200000000 /dev/zero | tail -c 200000000 | wc -c';

describe('resources of a manifest', () => {
  let runtime: TestRuntime;
  let model: ScriptedModel;
  before(async () => {
    model = await startScriptedModel();
    runtime = await startRuntime({
      agents: {
        slow: manifestOf('slow', `{ ${SHELL}, resources: { cpu: 0.2 } }`),
        small: manifestOf('small', `{ ${SHELL}, resources: { memory: 64M, pids: 16 } }`),
        large: manifestOf('large', `{ ${SHELL}, resources: { memory: 1G, pids: 256 } }`),
      },
      config: JSON.stringify({ modeld: scriptedModels(model.url) }),
    });
  });
  after(async () => {
    await runtime.remove();
    await model.close();
  });
  const joinResults = ({ results }: { results: string[] }): ScriptedText =>
    finishes(results.join('\n'));
  const run = async (agent: string, command: string) => {
    const goal = `${agent} runs ${command}`;
    model.on(goal, says(call('shell.exec', { command })), joinResults);
    const task = await create(runtime, goal, { agent });
    return (await taskEnded(runtime, task.id)).result ?? '';
  };

  it('[R206] the process limit is enforced', async () => {
    const ups = (text: string) => text.match(/up/g)?.length ?? 0;
    const [small, large] = [await run('small', PROCESSES), await run('large', PROCESSES)];
    assert.match(await run('small', 'echo fine'), /fine/, 'control');
    assert.ok(ups(small) < 16, small);
    assert.equal(ups(large), 40, large);
  });
  it('[R204] the CPU limit is enforced', async () => {
    // Ended by the clock or by two seconds of CPU time: a fifth of a CPU gets less than two in six.
    const spin = (wall: number) =>
      `(ulimit -t 2; timeout ${wall} sh -c 'while :; do :; done'); echo ended with $?`;
    const { features } = await runtime.sandboxd.features({});
    const isHeld = features.find(({ name }) => name === 'quota')!.works;
    assert.match(await run('slow', spin(isHeld ? 6 : 60)), isHeld ? /with 124/ : /with 1[35]\d/);
    assert.match(await run('large', spin(60)), /with 1[35]\d/, 'control');
  });
  it('[R205] the memory limit is enforced', async () => {
    const [small, large] = [await run('small', MEMORY), await run('large', MEMORY)];
    assert.doesNotMatch(small, /200000000/);
    assert.match(large, /200000000/);
  });
});
